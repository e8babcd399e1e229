//! What the engine does with deliveries, told with real peers and a real PostgreSQL.

mod deliveries;
mod destinations;
mod doubts;
mod effects;
mod events;
mod keys;
mod limits;
mod locks;
mod order;
mod overlap;
mod questions;
mod resources;
mod waits;
mod world;
