//! Each public function of the store, and the schema itself, on a real PostgreSQL.

mod accept;
mod connections;
mod deferrals;
mod duplicates;
mod duties;
mod effects;
mod expiry;
mod fair;
mod journal;
mod migrations;
mod named_effects;
mod outbox;
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
mod wakes;
mod webhook_deliveries;
mod world;
