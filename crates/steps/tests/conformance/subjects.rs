//! The executors of the table, each with a real server.

pub(crate) mod db;
pub(crate) mod http;
pub(crate) mod llm;
pub(crate) mod notify;
pub(crate) mod ssh;
