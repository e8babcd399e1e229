//! Promoting a release: new runs start on it.

use std::sync::Arc;

use semel_model::FlowName;
use semel_store::audit::AuditEntry;
use semel_store::flows::{self, AskedProof, Promotion};

use super::publish::FlowError;
use crate::runtime::Runtime;

impl Runtime {
    /// Makes a release the one that new runs start on.
    pub async fn promote_flow(
        self: &Arc<Self>,
        namespace_id: i32,
        flow: &FlowName,
        number: i32,
        actor: &str,
    ) -> Result<(), FlowError> {
        let cell = &self.cell;
        self.assert_promotable(namespace_id, flow, number).await?;
        let act = promotion((namespace_id, flow, number), actor);
        if !flows::promote(cell.home(), namespace_id, flow, number, &act).await? {
            return Err(FlowError::UnknownRelease);
        }
        self.promoted().await
    }

    /// Makes a release live whatever its rehearsal showed; the reason is recorded.
    ///
    /// # Errors
    ///
    /// Where there is no such release, its hook is taken, or the reason cannot be recorded.
    pub async fn promote_unproven(
        self: &Arc<Self>,
        (namespace_id, flow, number): (i32, &FlowName, i32),
        actor: &str,
        reason: &str,
    ) -> Result<(), FlowError> {
        let cell = &self.cell;
        self.assert_promotable(namespace_id, flow, number).await?;
        let act = promotion((namespace_id, flow, number), actor);
        let act = act.because(reason).map_err(|_| FlowError::Reason)?;
        if !flows::promote(cell.home(), namespace_id, flow, number, &act).await? {
            return Err(FlowError::UnknownRelease);
        }
        self.promoted().await
    }

    /// Makes a release live that a rehearsal has proven, or that was live before. False where the
    /// configuration has changed since the proof was read.
    ///
    /// # Errors
    ///
    /// Where there is no such release, its hook is taken, or no rehearsal has proven it.
    pub async fn promote_proven(
        self: &Arc<Self>,
        (namespace_id, flow, number): (i32, &FlowName, i32),
        asked: &AskedProof<'_>,
        actor: &str,
    ) -> Result<bool, FlowError> {
        self.assert_promotable(namespace_id, flow, number).await?;
        let which = (namespace_id, flow, number);
        let act = promotion(which, actor);
        match flows::promote_proven(self.cell.home(), which, asked, &act).await? {
            Promotion::Done => self.promoted().await.map(|()| true),
            Promotion::Changed => Ok(false),
            Promotion::Unknown => Err(FlowError::UnknownRelease),
            Promotion::NotProven => Err(FlowError::NotRehearsed),
        }
    }

    async fn assert_promotable(
        self: &Arc<Self>,
        namespace_id: i32,
        flow: &FlowName,
        number: i32,
    ) -> Result<(), FlowError> {
        let releases = flows::list_releases(self.cell.home(), namespace_id, flow.as_str()).await?;
        let release = releases.iter().find(|release| release.number == number);
        let release = release.ok_or(FlowError::UnknownRelease)?;
        self.assert_hook_free(namespace_id, flow, &release.source)
    }

    async fn promoted(self: &Arc<Self>) -> Result<(), FlowError> {
        self.catalogue.refresh().await?;
        self.signals.scheduled.notify_one();
        Ok(())
    }

    fn assert_hook_free(
        self: &Arc<Self>,
        namespace_id: i32,
        flow: &FlowName,
        source: &str,
    ) -> Result<(), FlowError> {
        let hook = semel_flow::load(source)
            .and_then(|flow| flow.trigger.webhook)
            .map(|webhook| webhook.path);
        match hook.and_then(|path| self.catalogue.find_hook_of(namespace_id, &path)) {
            Some(owner) if owner.flow.name != *flow => Err(FlowError::HookTaken {
                flow: owner.flow.name.to_string(),
            }),
            Some(_) | None => Ok(()),
        }
    }
}

/// The record of a promotion.
fn promotion((namespace_id, flow, number): (i32, &FlowName, i32), actor: &str) -> AuditEntry {
    let subject = format!("{flow} r{number}");
    AuditEntry::new(namespace_id, actor, "flow.promote", &subject)
}
