//! HTTP: hooks, API routes, callbacks, health and metrics.
//!
//! Reads go through the store, writes through the engine; nothing is decided here. A request is
//! answered 2xx only after what it asked for is committed. In reading order:
//!
//! - `serve` accepts connections and `routes` sends each request to its module.
//! - `hooks`, `starts` and `callbacks` are where the outside comes in; `edge` says how much.
//! - `access` tells who asks, by [`token`]; `commands` makes a command asked twice happen once.
//! - `runs`, `effects`, `duplicates`, `keys`, `waits`, `tasks`, `approvals`, `flows`,
//!   `connections`, `secrets` and `subscriptions` are the API's nouns.
//! - `refusal` is every answer that is no.

mod access;
mod answer;
mod app;
mod approvals;
mod body;
mod callbacks;
mod commands;
mod connections;
mod crowd;
mod cursor;
mod duplicates;
mod edge;
mod effects;
mod flows;
mod health;
mod hooks;
mod intake;
mod keys;
mod links;
mod meters;
mod parts;
mod pulse;
mod query;
mod refusal;
mod resources;
mod routes;
mod runs;
mod schedules;
mod secrets;
mod serve;
mod starts;
mod subscriptions;
mod tasks;
mod waits;

pub mod token;

pub use body::BodyBudget;
pub use serve::{ServeError, ServerOptions, serve, serve_with_admin};
