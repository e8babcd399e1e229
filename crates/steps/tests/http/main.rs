//! `http` against real servers in processes of their own.

mod answers;
mod bodies;
mod limits;
mod requests;
mod sign_in;
mod ssrf;
mod stage;
