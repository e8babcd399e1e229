//! What the engine does with deliveries, told with real peers and a real PostgreSQL.

mod approvals;
mod broadcasts;
mod control;
mod deliveries;
mod destinations;
mod doubts;
mod effects;
mod events;
mod hostile;
mod hostile_destinations;
mod keys;
mod leases;
mod limits;
mod locks;
mod order;
mod outages;
mod overlap;
mod parts;
mod questions;
mod resources;
mod schedules;
mod stuck;
mod tasks;
mod told;
mod waits;
mod world;
