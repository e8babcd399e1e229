//! The `db` executor on a real PostgreSQL, with wires that break.

mod perform;
mod refusals;
mod tls;
mod values;
mod wires;
pub(crate) mod world;
