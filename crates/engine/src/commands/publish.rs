//! Pushing and publishing a flow: the working copy, and the releases frozen from it.

use std::sync::Arc;

use semel_flow::{Checked, Severity};
use semel_model::FlowName;
use semel_store::audit::AuditEntry;
use semel_store::flows;

use crate::runtime::Runtime;
use crate::unavailable::unavailable_from_store;

/// A release that was frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its number within the flow.
    pub number: i32,
    /// The digest of its canonical form.
    pub digest: String,
    /// False when the same digest had been published before.
    pub first: bool,
}

/// Why a flow was not changed.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The text is no sound flow.
    #[error("the flow has mistakes")]
    Invalid(Box<Checked>),
    /// There is no flow of this name.
    #[error("there is no flow of this name")]
    UnknownFlow,
    /// The flow has no working copy.
    #[error("the flow has no draft to publish")]
    NoDraft,
    /// The flow has no release of this number.
    #[error("the flow has no release of this number")]
    UnknownRelease,
    /// No rehearsal has proven the release with the connections as they are.
    #[error("the release has no passing rehearsal with the connections as they are")]
    NotRehearsed,
    /// The reason cannot be recorded.
    #[error("the reason has no characters, too many, or a zero byte")]
    Reason,
    /// Another live flow has this hook.
    #[error("the hook is taken by the flow {flow}")]
    HookTaken {
        /// The flow that has it.
        flow: String,
    },
    /// The database did not answer in time.
    #[error("the flow could not be stored: {0}")]
    Unavailable(String),
}

impl FlowError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "flow-invalid",
            Self::UnknownFlow => "flow-not-found",
            Self::NoDraft => "draft-missing",
            Self::UnknownRelease => "release-not-found",
            Self::NotRehearsed => "flow-not-rehearsed",
            Self::Reason => "reason-invalid",
            Self::HookTaken { .. } => "hook-taken",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

unavailable_from_store!(FlowError);

impl Runtime {
    /// Keeps a text as its flow's working copy.
    pub async fn push_flow(
        self: &Arc<Self>,
        namespace_id: i32,
        source: &str,
    ) -> Result<FlowName, FlowError> {
        let facts = self.facts(namespace_id, Severity::Warning).await?;
        let checked = semel_flow::check_with("draft", source, &facts);
        let Some(flow) = &checked.flow else {
            return Err(FlowError::Invalid(Box::new(checked)));
        };
        flows::push_draft(self.cell.home(), namespace_id, &flow.name, source).await?;
        Ok(flow.name.clone())
    }

    /// Freezes a flow's working copy.
    pub async fn publish_flow(
        self: &Arc<Self>,
        namespace_id: i32,
        flow: &FlowName,
        actor: &str,
    ) -> Result<Published, FlowError> {
        let cell = &self.cell;
        let found = flows::find(cell.home(), namespace_id, flow.as_str()).await?;
        let view = found.ok_or(FlowError::UnknownFlow)?;
        let source = view.draft.ok_or(FlowError::NoDraft)?;
        let facts = self.facts(namespace_id, Severity::Error).await?;
        let checked = semel_flow::check_with(&format!("{flow}.flow.yaml"), &source, &facts);
        let Some(sound) = &checked.flow else {
            return Err(FlowError::Invalid(Box::new(checked)));
        };
        let digest = sound.digest().to_string();
        let act = AuditEntry::new(namespace_id, actor, "flow.publish", flow.as_str());
        let (number, first) =
            flows::publish(cell.home(), namespace_id, flow, &digest, &source, &act)
                .await?
                .ok_or(FlowError::UnknownFlow)?;
        Ok(Published {
            number,
            digest,
            first,
        })
    }
}
