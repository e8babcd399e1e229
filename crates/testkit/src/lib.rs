//! The test world: databases, peers, faults, time. Never shipped.
//!
//! Everything here is real: a PostgreSQL started from the machine's own binaries, an HTTP peer in
//! a process of its own, a TCP proxy that cuts wires, the product's binary under real signals.
//! Nothing outlives the tests that asked for it, not even when they are killed.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use semel_testkit::{Database, Peer, Program, peer::Behaviour};
//! # async fn story() -> anyhow::Result<()> {
//! let database = Database::new(async |_url| Ok(/* migrate it */ ())).await?;
//! let bank = Peer::start().await?;
//! let mut semel = Program::semel()?.arg("serve").env("DATABASE_URL", database.url()).start()?;
//! semel.until_line("listening", Duration::from_secs(10)).await?;
//!
//! bank.next("/keyed/", Behaviour::HoldBeforeAnswer).await?;
//! // … deliver something that makes the product call bank.url("/keyed/charge") …
//! bank.until_held(1, Duration::from_secs(10)).await?;
//! semel.sigkill()?;
//!
//! assert_eq!(bank.count("/keyed/").await?.effects, 1);
//! # Ok(())
//! # }
//! ```

pub mod build;
pub mod chance;
pub mod client;
pub mod cluster;
pub mod database;
mod gate;
pub mod model;
pub mod oidc;
pub mod orders;
pub mod patience;
pub mod peer;
pub mod port;
pub mod program;
pub mod proxy;
pub mod s3;
pub mod semel;
pub mod smtp;
pub mod sshd;
pub mod stopwatch;
mod tally;
pub mod waiting;
mod watchdog;

pub use build::Build;
pub use chance::Chance;
pub use client::Client;
pub use cluster::{Cluster, Connection, Options, Server};
pub use database::Database;
pub use model::Model;
pub use oidc::{ForeignProvider, OidcProvider};
pub use orders::{Command, Orders, Scene, SeenOrders, Stage};
pub use patience::patience;
pub use peer::Peer;
pub use port::free_address;
pub use program::{Process, Program};
pub use proxy::{Cut, Proxy};
pub use s3::S3;
pub use smtp::Smtp;
pub use sshd::Sshd;
pub use stopwatch::Stopwatch;
pub use waiting::{let_pass, pace, until, until_some};
