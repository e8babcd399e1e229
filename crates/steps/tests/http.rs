//! `http` against real servers in processes of their own.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod answers;
mod bodies;
mod limits;
mod papers;
mod requests;
mod sign_in;
mod ssrf;
mod stage;
