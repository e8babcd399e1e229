//! The test world: databases, peers, faults, time. Never shipped.
//!
//! Everything here is real: a PostgreSQL started from the machine's own binaries, an HTTP peer in
//! a process of its own, a TCP proxy that cuts wires, the product's binary under real signals.
//! Nothing outlives the tests that asked for it, not even when they are killed.

pub mod client;
pub mod cluster;
pub mod database;
pub mod peer;
pub mod program;
pub mod proxy;
mod watchdog;

pub use client::Client;
pub use cluster::{Cluster, Options, Server};
pub use database::Database;
pub use peer::Peer;
pub use program::{Process, Program};
pub use proxy::{Cut, Proxy};
