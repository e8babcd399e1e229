//! Keys that a run holds which nothing moves any more: quarantined, because it made no progress or cannot
//! be read.
//!
//! The key becomes a doubt, which is settled by the key that was sent. A run that is resumed all the same
//! begins its key anew before its next attempt, and finds what became of it.

use std::sync::Arc;

use semel_model::run::RunState;
use semel_model::{EffectId, NamedEffectState};
use semel_store::audit::AuditEntry;
use semel_store::named_effects::{self, HOLDER_QUARANTINED, HolderView};
use semel_store::runs;

use super::OnceError;
use crate::commands::connection::Actor;
use crate::runtime::Runtime;

impl Runtime {
    /// Makes a key a doubt that a quarantined run holds. Says whether that was done before.
    pub async fn free_once(
        self: &Arc<Self>,
        by: Actor<'_>,
        key: EffectId,
        reason: &str,
    ) -> Result<bool, OnceError> {
        let act = AuditEntry::new(by.namespace_id, by.actor, "once.free", &key.to_string());
        let act = act.because(reason)?;
        let cell = self.cell.of(key);
        let found = named_effects::find_by_key(cell, by.namespace_id, key).await?;
        let view = found.filter(|view| view.key() == key);
        let view = view.ok_or(OnceError::Unknown)?;
        let HolderView::Run { run, .. } = view.holder else {
            return Err(match view.state {
                NamedEffectState::Pending | NamedEffectState::Undoing => OnceError::HeldByScript,
                state @ (NamedEffectState::InDoubt
                | NamedEffectState::Done
                | NamedEffectState::Failed) => OnceError::NotHeld { state },
            });
        };
        let is_held = match view.state {
            NamedEffectState::Pending | NamedEffectState::Undoing => true,
            NamedEffectState::InDoubt => false,
            state @ (NamedEffectState::Done | NamedEffectState::Failed) => {
                return Err(OnceError::NotHeld { state });
            }
        };
        if !is_held {
            let code = view.fault.as_ref().map(|fault| &fault["code"]);
            return match code.is_some_and(|code| code == HOLDER_QUARANTINED) {
                true => Ok(true),
                false => Err(OnceError::NotHeld { state: view.state }),
            };
        }
        let holder = runs::find(self.cell.of(run), by.namespace_id, run).await?;
        if holder.is_some_and(|it| it.state != RunState::Quarantined) {
            return Err(OnceError::HeldByRun { run });
        }
        let (cell, id) = (self.cell.of(view.id), view.id);
        let report = named_effects::doubt_held(cell, by.namespace_id, id, view.token, &act).await?;
        self.conclude(id, report, |state| OnceError::NotHeld { state })
            .await
    }
}
