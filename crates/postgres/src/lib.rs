//! A private PostgreSQL, started from the programs that this machine has.
//!
//! [`Programs`] finds them and runs them as a user that PostgreSQL accepts. A [`ClusterDirectory`]
//! holds the data, the log and the socket of one cluster. A [`PrivateCluster`] is what `semel dev`
//! keeps in its folder. Tests start and kill servers in cluster directories of their own.

mod account;
mod cluster;
mod directory;
mod programs;

pub use cluster::{ClusterError, PrivateCluster};
pub use directory::{ClusterDirectory, InitError, PostmasterNote};
pub use programs::{FindError, Programs};
