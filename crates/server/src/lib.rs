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
//!   `connections`, `secrets` and `subscriptions` are the API's nouns.
//! - `error` is every error response.

mod access;
mod answer;
mod app;
mod approvals;
pub mod auth;
mod body;
mod body_budget;
mod callbacks;
mod child_runs;
mod commands;
mod connections;
mod crowd;
mod cursor;
mod duplicates;
mod effects;
mod entries;
mod error;
mod find;
mod flows;
mod health;
mod hooks;
mod intake;
mod keys;
mod links;
mod metrics;
mod once;
mod options;
mod payloads;
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
mod runs;
mod schedules;
mod secrets;
mod serve;
mod starts;
mod subscriptions;
mod tasks;
mod tokens;
mod waits;

pub use access::{Access, DeclaredRoute};
pub use body_budget::BodyBudget;
pub use options::ServerOptions;
pub use routes::list_routes;
pub use serve::{ServeError, serve, serve_with_admin};
