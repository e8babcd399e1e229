//! Each public function of the store, and the schema itself, on a real PostgreSQL.

mod accept;
mod connections;
mod deferrals;
mod duplicates;
mod effects;
mod expiry;
mod fair;
mod journal;
mod migrations;
mod named_effects;
mod partitions;
mod plans;
mod queue;
mod reconcile_passes;
mod retention;
mod schedules;
mod schema;
mod sessions;
mod tallies;
mod tokens;
mod webhook_deliveries;
mod world;
