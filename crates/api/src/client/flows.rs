//! Flows, drafts and releases.

use reqwest::Method;
use semel_model::FlowName;
use serde_json::json;

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{
    DiffFilter, Draft, Flow, FlowDetail, FlowDiff, Page, Promote, Promoted, Published, PushFlow,
    Release, ReleaseFilter,
};

impl Client {
    /// Lists the flows of the namespace, by name.
    pub async fn list_flows(&self) -> Result<Page<Flow>, ClientError> {
        read(self.get(&["v1", "flows"])).await
    }

    /// A flow with its draft and its releases.
    pub async fn get_flow(&self, flow: &FlowName) -> Result<FlowDetail, ClientError> {
        read(self.get(&["v1", "flows", flow.as_str()])).await
    }

    /// What one release of a flow means that another does not.
    pub async fn compare_releases(
        &self,
        flow: &FlowName,
        filter: &DiffFilter,
    ) -> Result<FlowDiff, ClientError> {
        let request = self.get(&["v1", "flows", flow.as_str(), "diff"]);
        read(request.query(filter)).await
    }

    /// Replaces a flow's working copy. Putting the same text twice is the same as once.
    pub async fn push_flow(&self, flow: &FlowName, push: &PushFlow) -> Result<Draft, ClientError> {
        let request = self.ask(Method::PUT, &["v1", "flows", flow.as_str(), "draft"]);
        read(request.json(push)).await
    }

    /// Freezes the working copy as the next release.
    pub async fn publish_flow(
        &self,
        flow: &FlowName,
        key: &str,
    ) -> Result<Answer<Published>, ClientError> {
        let request = self.post(&["v1", "flows", flow.as_str(), "publish"], key);
        carry_out(request.json(&json!({}))).await
    }

    /// Makes a release the one that new runs start on.
    pub async fn promote_flow(
        &self,
        flow: &FlowName,
        promote: &Promote,
        key: &str,
    ) -> Result<Answer<Promoted>, ClientError> {
        let request = self.post(&["v1", "flows", flow.as_str(), "promote"], key);
        carry_out(request.json(promote)).await
    }

    /// Lists releases of a flow, newest first.
    pub async fn list_releases(
        &self,
        flow: &FlowName,
        filter: &ReleaseFilter,
    ) -> Result<Page<Release>, ClientError> {
        read(
            self.get(&["v1", "flows", flow.as_str(), "releases"])
                .query(filter),
        )
        .await
    }
}
