//! What the engine does with deliveries, told with real peers and a real PostgreSQL.

mod approvals;
mod control;
mod deliveries;
mod destinations;
mod doubts;
mod effects;
mod events;
mod keys;
mod locks;
mod parts;
mod questions;
mod resources;
mod tasks;
mod told;
mod waits;
mod world;
