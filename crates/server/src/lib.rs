//! HTTP: hooks, API routes, callbacks, health and metrics.
//!
//! Reads go through the store, writes through the engine; nothing is decided here. A request is
//! answered 2xx only after what it asked for is committed. In reading order:
//!
//! - `serve` accepts connections and `routes` sends each request to its module; each route names the
//!   right that it needs, and `access` checks it.
//! - `hooks`, `starts` and `callbacks` take requests from outside; `rate_limit` says how many.
//! - `auth` authenticates callers by [`auth::token_format`]; `commands` makes a repeated command happen
//!   once.
//! - `payloads` leaves out what a token without the right `payload` may not see.
//! - `tokens`, `runs`, `effects`, `duplicates`, `keys`, `waits`, `tasks`, `approvals`, `flows`,
//!   `connections`, `secrets`, `subscriptions`, `events`, `servers` and `alerts` are the API's nouns.
//! - `console` is the pages for people, on the API's own routes; `sign_ins` makes the codes that open it,
//!   and [`oidc`] lets an identity provider open it; `members` says for whom. `live` says when a page has
//!   changed.
//! - `error` is every error response.
//! - `operation` is what a route takes and returns, and `openapi` makes the API's document of it.

mod access;
mod alerts;
mod answer;
mod app;
mod approvals;
mod archive;
mod audit;
pub mod auth;
mod body;
mod body_budget;
mod body_shares;
mod callbacks;
mod child_run_view;
mod child_runs;
mod commands;
mod connections;
mod console;
mod crowd;
mod cursor;
mod duplicates;
mod effects;
mod entries;
mod error;
mod events;
mod find;
mod flows;
mod forwarded;
mod health;
mod heavy;
mod hooks;
mod inspect;
mod intake;
mod journal_memory;
mod key_story;
mod key_verdict;
mod keys;
mod links;
mod list_memory;
mod live;
mod members;
mod metrics;
mod namespaces;
pub mod oidc;
mod once;
mod openapi;
mod operation;
mod options;
mod pauses;
mod payloads;
mod places;
mod pulse;
mod query;
mod rate_limit;
mod reconcile;
mod refusals;
mod rehearsals;
mod replay_plans;
mod replays;
mod resources;
mod respond;
mod routes;
mod run_jobs;
mod runs;
mod schedules;
mod searches;
mod secrets;
mod serve;
mod servers;
mod sign_ins;
mod starts;
mod subscriptions;
mod tallies;
mod tasks;
mod tokens;
mod waits;
mod written;

pub use access::{Access, DeclaredRoute};
pub use body_budget::BodyBudget;
pub use inspect::{Inspector, SeenResponse};
pub use options::ServerOptions;
pub use routes::{list_routes, openapi_document};
pub use runs::RunFiles;
pub use serve::{ServeError, serve, serve_with_admin};
