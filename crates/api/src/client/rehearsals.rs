//! Rehearsals.

use reqwest::Method;
use semel_model::FlowName;

use super::transfer::read;
use super::{Client, ClientError};
use crate::types::{AskRehearsal, Page, Rehearsal, RehearsalFilter};

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

    /// Lists the rehearsals of a flow, the newest first, without their reports.
    pub async fn list_rehearsals(
        &self,
        flow: &FlowName,
        filter: &RehearsalFilter,
    ) -> Result<Page<Rehearsal>, ClientError> {
        let request = self.get(&["v1", "flows", flow.as_str(), "rehearsals"]);
        read(request.query(filter)).await
    }
}
