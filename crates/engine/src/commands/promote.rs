//! Promoting a release: new runs start on it.

use std::sync::Arc;

use semel_model::FlowName;
use semel_store::audit::AuditEntry;
use semel_store::flows;

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
        let releases = flows::list_releases(cell.home(), namespace_id, flow.as_str()).await?;
        let release = releases.iter().find(|release| release.number == number);
        let Some(release) = release else {
            return Err(FlowError::UnknownRelease);
        };
        self.assert_hook_free(namespace_id, flow, &release.source)?;
        let subject = format!("{flow} r{number}");
        let act = AuditEntry::new(namespace_id, actor, "flow.promote", &subject);
        if !flows::promote(cell.home(), namespace_id, flow, number, &act).await? {
            return Err(FlowError::UnknownRelease);
        }
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
