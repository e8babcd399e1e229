//! Reconcile passes.

use jiff::Timestamp;
use reqwest::Method;
use semel_model::FlowName;

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{
    AskReconcile, AskedReconcile, Page, PassFilter, ReconcilePass, ReconcilePassDetail,
};

impl Client {
    /// Asks for a pass that starts now.
    pub async fn ask_reconcile(
        &self,
        flow: &FlowName,
        ask: &AskReconcile,
        key: Option<&str>,
    ) -> Result<Answer<AskedReconcile>, ClientError> {
        let path = ["v1", "reconcile", flow.as_str()];
        carry_out(self.ask_under(Method::POST, &path, key).json(ask)).await
    }

    /// Lists the passes of a flow, the latest first.
    pub async fn list_passes(
        &self,
        flow: &FlowName,
        filter: &PassFilter,
    ) -> Result<Page<ReconcilePass>, ClientError> {
        let path = ["v1", "reconcile", flow.as_str()];
        read(self.get(&path).query(filter)).await
    }

    /// A pass, with the items that are more than known.
    pub async fn get_pass(
        &self,
        flow: &FlowName,
        nominal: Timestamp,
        filter: &PassFilter,
    ) -> Result<ReconcilePassDetail, ClientError> {
        let nominal = nominal.to_string();
        let path = ["v1", "reconcile", flow.as_str(), &nominal];
        read(self.get(&path).query(filter)).await
    }
}
