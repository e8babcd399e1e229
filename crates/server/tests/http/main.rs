//! What callers see, over real HTTP, with the real engine on a real database.

mod acts;
mod approvals;
mod auth;
mod authentic;
mod business_keys;
mod callbacks;
mod commands;
mod connections;
mod doubts;
mod hooks;
mod key_audit;
mod limits;
mod once;
mod outages;
mod rate_limit;
mod records;
mod replays;
mod resources;
mod rights;
mod secrets;
mod signing;
mod starts;
mod subscriptions;
mod tasks;
mod tokens;
mod world;
