//! The tests of the executors, in one binary: one module per kind of step.

mod db;
mod http;
mod llm;
mod notify;
mod resources;
mod ssh;
