//! Commands: what people and programs ask of flows, runs and keys. Each may be asked twice.

use semel_flow::{Checked, Severity};
use semel_model::{FlowName, Key, NamespaceName, RunId};
use semel_steps::fault;
use semel_store::audit::{Act, ReasonError};
use semel_store::{ReadError, claims, flows, queue, runs};

use crate::engine::Engine;

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
    /// Another live flow has this hook.
    #[error("the hook is taken by the flow {flow}")]
    HookTaken {
        /// The flow that has it.
        flow: String,
    },
    /// The database did not answer in time.
    #[error("the flow could not be written down: {0}")]
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
            Self::HookTaken { .. } => "hook-taken",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

impl From<ReadError> for FlowError {
    fn from(error: ReadError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// Why a run is not cancelled.
#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    /// There is no such run.
    #[error("there is no such run")]
    Unknown,
    /// It has ended already.
    #[error("the run has ended")]
    Ended,
    /// Why it shall end cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// The database did not answer in time.
    #[error("the wish could not be written down: {0}")]
    Unavailable(String),
}

impl CancelError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "run-not-found",
            Self::Ended => "run-ended",
            Self::Reason(error) => error.code(),
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

impl From<ReadError> for CancelError {
    fn from(error: ReadError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// Why a key is not dropped.
#[derive(Debug, thiserror::Error)]
pub enum DropError {
    /// Nobody holds this key.
    #[error("nobody holds this key")]
    Unknown,
    /// Its run has not ended: dropping its key would let a second run beside it.
    #[error("{run} has not ended")]
    RunNotEnded {
        /// The run.
        run: RunId,
    },
    /// Why it shall be dropped cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// The database did not answer in time.
    #[error("the key could not be dropped: {0}")]
    Unavailable(String),
}

impl DropError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "key-not-found",
            Self::RunNotEnded { .. } => "run-not-ended",
            Self::Reason(error) => error.code(),
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

impl From<ReadError> for DropError {
    fn from(error: ReadError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl Engine {
    /// Keeps a text as its flow's working copy.
    pub async fn push_flow(&self, namespace_id: i32, source: &str) -> Result<FlowName, FlowError> {
        let facts = self.facts(namespace_id, Severity::Warning).await?;
        let checked = semel_flow::check_with("draft", source, &facts);
        let Some(flow) = &checked.flow else {
            return Err(FlowError::Invalid(Box::new(checked)));
        };
        flows::push_draft(&self.inner.cell, namespace_id, &flow.name, source).await?;
        Ok(flow.name.clone())
    }

    /// Freezes a flow's working copy.
    pub async fn publish_flow(
        &self,
        namespace_id: i32,
        flow: &FlowName,
        actor: &str,
    ) -> Result<Published, FlowError> {
        let cell = &self.inner.cell;
        let views = flows::list(cell, namespace_id, Some(flow.as_str())).await?;
        let view = views.into_iter().next().ok_or(FlowError::UnknownFlow)?;
        let source = view.draft.ok_or(FlowError::NoDraft)?;
        let facts = self.facts(namespace_id, Severity::Error).await?;
        let checked = semel_flow::check_with(&format!("{flow}.flow.yaml"), &source, &facts);
        let Some(sound) = &checked.flow else {
            return Err(FlowError::Invalid(Box::new(checked)));
        };
        let digest = sound.digest().to_string();
        let act = Act::new(namespace_id, actor, "flow.publish", flow.as_str());
        let (number, first) = flows::publish(cell, namespace_id, flow, &digest, &source, &act)
            .await?
            .ok_or(FlowError::UnknownFlow)?;
        Ok(Published {
            number,
            digest,
            first,
        })
    }

    /// Makes a release the one that new runs start on.
    pub async fn promote_flow(
        &self,
        namespace_id: i32,
        flow: &FlowName,
        number: i32,
        actor: &str,
    ) -> Result<(), FlowError> {
        let cell = &self.inner.cell;
        let releases = flows::list_releases(cell, namespace_id, flow.as_str()).await?;
        let release = releases.iter().find(|release| release.number == number);
        let Some(release) = release else {
            return Err(FlowError::UnknownRelease);
        };
        self.assert_hook_free(namespace_id, flow, &release.source)?;
        let subject = format!("{flow} r{number}");
        let act = Act::new(namespace_id, actor, "flow.promote", &subject);
        if !flows::promote(cell, namespace_id, flow, number, &act).await? {
            return Err(FlowError::UnknownRelease);
        }
        self.inner.catalogue.refresh().await?;
        self.inner.scheduled.notify_one();
        Ok(())
    }

    fn assert_hook_free(
        &self,
        namespace_id: i32,
        flow: &FlowName,
        source: &str,
    ) -> Result<(), FlowError> {
        let hook = semel_flow::load(source)
            .and_then(|flow| flow.trigger.webhook)
            .map(|webhook| webhook.path);
        match hook.and_then(|path| self.inner.catalogue.find_hook_of(namespace_id, &path)) {
            Some(owner) if owner.flow.name != *flow => Err(FlowError::HookTaken {
                flow: owner.flow.name.to_string(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Asks for a run's end. It ends at its next step: an effect that is under way is not cut off,
    /// and a doubt is settled first.
    pub async fn cancel(
        &self,
        namespace_id: i32,
        run: RunId,
        reason: &str,
        actor: &str,
    ) -> Result<(), CancelError> {
        let cell = &self.inner.cell;
        let act = Act::new(namespace_id, actor, "run.cancel", &run.to_string());
        let act = act.about(run).because(reason)?;
        if !queue::ask_cancel_by(cell, namespace_id, run, &act).await? {
            let known = runs::find(cell, namespace_id, run).await?;
            return Err(known.map_or(CancelError::Unknown, |_| CancelError::Ended));
        }
        self.inner.wake.notify_one();
        Ok(())
    }

    /// Frees a key whose run has ended, so that its next delivery makes a new run.
    pub async fn drop_key(
        &self,
        namespace_id: i32,
        namespace: &NamespaceName,
        flow: &FlowName,
        key: &Key,
        reason: &str,
        actor: &str,
    ) -> Result<RunId, DropError> {
        let cell = &self.inner.cell;
        let act = Act::new(namespace_id, actor, "key.drop", &format!("{flow} {key}"));
        let act = act.because(reason)?;
        let held = claims::find_by_key(cell, namespace, flow, key).await?;
        let view = held.ok_or(DropError::Unknown)?;
        let run = runs::find(cell, namespace_id, view.run).await?;
        if run.is_some_and(|run| !run.state.is_ended()) {
            return Err(DropError::RunNotEnded { run: view.run });
        }
        fault::point("drop.judged", &key.text()).await;
        if claims::drop_claim(cell, view.id, view.run, &act.about(view.run)).await? {
            return Ok(view.run);
        }
        // Somebody was faster: the run was resumed, or the key is free or another run's.
        match claims::find(cell, view.id).await? {
            Some(held) => Err(DropError::RunNotEnded { run: held.run }),
            None => Err(DropError::Unknown),
        }
    }
}
