//! `http` against real servers in processes of their own.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod answers;
mod auth;
mod bodies;
mod limits;
pub(crate) mod papers;
mod proxy;
mod requests;
mod rooms;
mod ssrf;
pub(crate) mod stage;
mod versions;
