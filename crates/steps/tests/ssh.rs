//! The `ssh` executor on a real OpenSSH server, with wires that break.

mod detached;
mod marked;
mod plain;
mod refusals;
pub(crate) mod world;
