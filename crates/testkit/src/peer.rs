//! The outside world that flows act on: an HTTP server that counts what it was made to do.
//!
//! It runs in a process of its own (`semel-peer`), so that it remembers what happened while the
//! product under test is killed around it. A path says how the peer behaves there:
//!
//! ```text
//! /keyed/…            honours Idempotency-Key: the first answer again, 422 for another body
//! /strict/…           the same, and 402 for an `amount` of 0: that answer is kept under the key too
//! /plain/…            ignores keys: every request is a new effect
//! /put/…              PUT and DELETE by path: an effect only when the state changes
//! /list/N             gives a list of N items, each with its number as `id`
//! /shop/N/OLD/SECOND  lists N recent orders and OLD old ones, in pages (?page=P&size=S)
//! /endless/N          lists no orders in pages without end (?page=P); N > 0: a circle of N pages
//! /items?field=value  lists effects by a field of their body; `key` also matches the header
//!
//! /slow/MS/…          answers so much later
//! /busy/MS/…          works for so long before it looks at the key and acts, whether or not anyone waits
//! /late/MS/…          closes at once, and acts so much later
//! /drip/MS/…          acts, and answers byte by byte with so much between them
//! /long-id/N/…        answers with an `id` of N characters that do not compress
//! /hang/…             acts, and does not answer until let go
//! /hold/…             does not act until let go
//! /status/CODE/…      acts and answers CODE; with ?refuse it does not act
//! /fail-first/N/…     answers 429 with Retry-After the first N times (?after=SECONDS)
//! ```
//!
//! The lower ones stand before the upper ones and may be stacked: `/slow/50/status/503/keyed/pay`.
//! What no path can say, a [`Rule`] says for the next requests.

mod control;
mod handle;
mod paced;
mod respond;
mod route;
mod server;
mod shared;
mod wire;
mod world;

pub use self::handle::Peer;
pub use self::server::serve;
pub use self::wire::{Behaviour, Count, Effect, Held, Rule, Totals};
