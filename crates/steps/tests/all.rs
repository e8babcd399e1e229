//! The tests of the executors, in one binary: one suite for all of them, and one module per kind of
//! step.

mod conformance;
mod db;
mod enough_time;
mod http;
mod llm;
mod notify;
mod resources;
mod ssh;
