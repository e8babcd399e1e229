//! The networks and queues of a token, as rows of `tokens` have them.
//!
//! A list that this version cannot read is an error: with a word left out it could become empty, which
//! would mean that nothing is limited.

use semel_model::{Label, Networks};
use tokio_postgres::Row;

use crate::cell::ReadError;

/// Reads a column of networks, which the statement returns as texts.
pub(crate) fn read_networks(row: &Row, column: usize) -> Result<Networks, ReadError> {
    let words: Vec<&str> = row.get(column);
    let networks = Networks::of_words(words);
    networks.map_err(|_| ReadError::Unreadable("the networks of a token".to_owned()))
}

/// Reads a column of queues.
pub(crate) fn read_queues(row: &Row, column: usize) -> Result<Vec<Label>, ReadError> {
    let words: Vec<&str> = row.get(column);
    let queues: Result<Vec<Label>, _> = words.into_iter().map(str::parse).collect();
    queues.map_err(|_| ReadError::Unreadable("the queues of a token".to_owned()))
}

/// Queues as a statement takes them.
pub(crate) fn queue_words(queues: &[Label]) -> Vec<&str> {
    queues.iter().map(Label::as_str).collect()
}
