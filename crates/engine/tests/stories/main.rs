//! What the engine does with deliveries, told with real peers and a real PostgreSQL.

mod deliveries;
mod destinations;
mod doubts;
mod effects;
mod events;
mod keys;
mod locks;
mod questions;
mod resources;
mod schedules;
mod waits;
mod world;
