//! The read that a run stands at.

use jiff::Timestamp;
use semel_model::Fault;

/// A read that did not succeed yet.
#[derive(Clone, Debug)]
pub struct Reading {
    /// How many attempts were made.
    pub attempts: u32,
    /// When the first one was made.
    pub since: Timestamp,
    /// When it is tried again; never, when absent.
    pub retry_at: Option<Timestamp>,
    /// Why it did not succeed.
    pub fault: Fault,
}
