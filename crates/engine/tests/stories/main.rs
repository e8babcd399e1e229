//! What the engine does with deliveries, told with real peers and a real PostgreSQL.

mod doubts;
mod effects;
mod keys;
mod questions;
mod resources;
mod waits;
mod world;
