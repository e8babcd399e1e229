//! Rehearsals.

use reqwest::Method;

use super::transfer::read;
use super::{Client, ClientError};
use crate::types::{AskRehearsal, Rehearsal};

impl Client {
    /// Begins a rehearsal under an id of the caller. Safe to repeat: one id, one rehearsal.
    pub async fn ask_rehearsal(
        &self,
        id: &str,
        ask: &AskRehearsal,
    ) -> Result<Rehearsal, ClientError> {
        let path = ["v1", "rehearsals", id];
        read(self.ask(Method::PUT, &path).json(ask)).await
    }

    /// A rehearsal, and how far it is.
    pub async fn get_rehearsal(&self, id: &str) -> Result<Rehearsal, ClientError> {
        read(self.get(&["v1", "rehearsals", id])).await
    }
}
