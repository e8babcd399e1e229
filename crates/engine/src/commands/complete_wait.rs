//! Completing a wait in an operator's name.

use std::sync::Arc;

use semel_model::WaitId;
use semel_store::audit::AuditEntry;
use semel_store::waits::{self, Callback};
use serde_json::Value;

use crate::ingest::callback::{CallbackError, Called};
use crate::runtime::Runtime;

impl Runtime {
    /// Completes a wait in an operator's name.
    pub async fn complete_wait(
        self: &Arc<Self>,
        namespace_id: i32,
        wait: WaitId,
        payload: Value,
        actor: &str,
    ) -> Result<Called, CallbackError> {
        let cell = &self.cell;
        let view = waits::find(cell.of(wait), namespace_id, wait).await?;
        let view = view.ok_or(CallbackError::Unknown)?;
        let act = AuditEntry::new(namespace_id, actor, "wait.complete", &wait.to_string());
        let callback = Callback {
            act: Some(act.about(view.run)),
            ..Callback::of(view.run, wait, payload.to_string())
        };
        self.answer(Some(namespace_id), callback, payload).await
    }
}
