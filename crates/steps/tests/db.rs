//! The `db` executor on a real PostgreSQL, with wires that break.

mod floods;
mod perform;
mod refusals;
mod sockets;
mod tls;
mod values;
mod wires;
pub(crate) mod world;
