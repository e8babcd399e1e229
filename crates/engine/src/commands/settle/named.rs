//! Doubts of named effects, by the key that was sent.
//!
//! A doubt of a run that stands at it is settled in the run: its journal says what the effect came to,
//! and the named effect follows. A run that has ended, or that is stopped for another reason, cannot be
//! asked: then the named effect is settled itself, and the runs that wait for its key continue.

use std::sync::Arc;

use jiff::Timestamp;
use semel_model::effect::EffectState;
use semel_model::run::RunState;
use semel_model::{EffectId, NamedEffectState, RunId};
use semel_store::effects::{self, EffectView};
use semel_store::named_effects::{
    self, HolderView, NamedEffectView, NamedReport, NamedResult, NamedSettlement,
};
use semel_store::runs::{self, RunView};

use super::{SettleError, Settlement};
use crate::commands::connection::Actor;
use crate::commands::once::check_result;
use crate::runtime::Runtime;
use crate::state::UNDO;
use crate::turn::{notice, sent};

/// What can be done about the doubt of a run.
enum RunDoubt {
    /// The run stands at it: its own effect is settled.
    Asked(EffectId),
    /// The run does something else at this moment.
    Busy,
    /// The run is over with it; its effect, where it is still known.
    Over(Option<Box<EffectView>>),
}

impl Runtime {
    /// Settles the named effect that was sent under a key.
    pub(super) async fn settle_name(
        self: &Arc<Self>,
        by: Actor<'_>,
        (key, looked_at): (EffectId, Option<i32>),
        settlement: Settlement,
    ) -> Result<(), SettleError> {
        let found = named_effects::find_by_key(self.cell.of(key), by.namespace_id, key).await?;
        let view = found.ok_or(SettleError::Unknown)?;
        if view.key() != key {
            return Err(SettleError::TriedAgain);
        }
        let HolderView::Run { run, step, .. } = &view.holder else {
            return self.settle_itself(by, &view, &settlement, None).await;
        };
        match self.doubt_of(by.namespace_id, *run, step).await? {
            RunDoubt::Asked(own) => {
                let (subject, actor) = ((own, looked_at), by.actor);
                self.settle_attempt(by.namespace_id, subject, settlement, actor)
                    .await
            }
            RunDoubt::Busy => Err(SettleError::Busy),
            RunDoubt::Over(own) => {
                let other = |own: &EffectView| looked_at.is_some_and(|it| it != own.attempt);
                if own.as_deref().is_some_and(other) {
                    return Err(SettleError::TriedAgain);
                }
                // What the run said last comes first.
                notice::deliver(self, *run, view.id, "").await?;
                self.settle_itself(by, &view, &settlement, own.as_deref())
                    .await
            }
        }
    }

    async fn doubt_of(
        self: &Arc<Self>,
        namespace_id: i32,
        run: RunId,
        step: &str,
    ) -> Result<RunDoubt, SettleError> {
        let cell = self.cell.of(run);
        let Some(found) = runs::find(cell, namespace_id, run).await? else {
            return Ok(RunDoubt::Over(None));
        };
        let own = self.find_effect(&found, namespace_id, step).await?;
        Ok(match (found.state, own) {
            (RunState::Active, _) => RunDoubt::Busy,
            (RunState::InDoubt, Some(own)) if own.state == EffectState::InDoubt => {
                RunDoubt::Asked(own.id)
            }
            (
                RunState::InDoubt
                | RunState::NeedsReview
                | RunState::Quarantined
                | RunState::Succeeded
                | RunState::Failed
                | RunState::Cancelled
                | RunState::Superseded,
                own,
            ) => RunDoubt::Over(own.map(Box::new)),
        })
    }

    /// Settles a named effect whose holder cannot be asked. A repeat finds what it settled.
    async fn settle_itself(
        self: &Arc<Self>,
        by: Actor<'_>,
        view: &NamedEffectView,
        settlement: &Settlement,
        own: Option<&EffectView>,
    ) -> Result<(), SettleError> {
        let act = settlement.act(by, view.key())?;
        let named = read(view, settlement)?;
        match (&named, view.undo) {
            (NamedSettlement::DidNotHappen, _) => {
                self.may_deny(by.namespace_id, view, own).await?;
            }
            (NamedSettlement::Happened(_), Some(run)) => {
                self.may_deny_undo(by.namespace_id, view, run).await?;
            }
            (NamedSettlement::Happened(_), None) => {}
        }
        let (cell, id) = (self.cell.of(view.id), view.id);
        let report =
            named_effects::settle(cell, by.namespace_id, id, view.token, &named, &act).await?;
        let waiters = match report {
            NamedReport::Recorded(waiters) | NamedReport::Repeated(waiters) => waiters,
            NamedReport::Late(view) => {
                let state = state_of(view.state);
                return Err(SettleError::NotInDoubt { state });
            }
            NamedReport::Unknown => return Err(SettleError::Unknown),
        };
        // What is recorded is recorded: a run that is not woken now is woken by the repair.
        if let Err(error) = notice::wake(self, id, waiters).await {
            tracing::warn!(%error, "failed to wake the runs behind a named effect");
        }
        Ok(())
    }

    /// Whether it may be said now that the effect did not happen.
    async fn may_deny(
        self: &Arc<Self>,
        namespace_id: i32,
        view: &NamedEffectView,
        own: Option<&EffectView>,
    ) -> Result<(), SettleError> {
        if let Some(retry_in) = self.may_still_run(view) {
            return Err(SettleError::TooSoon { retry_in });
        }
        match own {
            Some(own) => self.must_have_landed(namespace_id, own).await,
            None => Ok(()),
        }
    }

    /// Whether it may be said now that the effect stands: its undo, which is in doubt, did not happen then.
    async fn may_deny_undo(
        self: &Arc<Self>,
        namespace_id: i32,
        view: &NamedEffectView,
        run: RunId,
    ) -> Result<(), SettleError> {
        let HolderView::Run { step, .. } = &view.holder else {
            return Ok(());
        };
        let undo = format!("{step}{UNDO}");
        let found = runs::find(self.cell.of(run), namespace_id, run).await?;
        let undo = match found {
            Some(found) => self.find_effect(&found, namespace_id, &undo).await?,
            None => None,
        };
        match undo {
            Some(undo) => self.must_have_landed(namespace_id, &undo).await,
            None => Ok(()),
        }
    }

    /// The latest effect of a run at a step.
    async fn find_effect(
        self: &Arc<Self>,
        run: &RunView,
        namespace_id: i32,
        step: &str,
    ) -> Result<Option<EffectView>, SettleError> {
        let (cell, date) = (self.cell.of(run.id), run.partition_date);
        let all = effects::list_of_run(cell, namespace_id, date, run.id).await?;
        Ok(all.into_iter().rfind(|effect| effect.step == step))
    }

    /// Refuses to deny an effect whose last attempt could still arrive.
    async fn must_have_landed(
        self: &Arc<Self>,
        namespace_id: i32,
        own: &EffectView,
    ) -> Result<(), SettleError> {
        let landing = self.landing();
        let request = sent::request_of(self, namespace_id, own.run, &own.step).await?;
        let over = match request {
            Some(request) => {
                let destinations = self.vault.destinations(namespace_id);
                let name = request.connection();
                let connection = name.and_then(|name| destinations.connection(name));
                let claimed_by = own.settled_at.unwrap_or(own.intended_at);
                landing.after(&request, connection, (own.intended_at, claimed_by))
            }
            // Erased with its run, which waits until it has landed, or gone with its run's history.
            None => {
                let span = landing.external_send_window().to_duration()
                    + landing.acts_within.to_duration();
                own.intended_at.checked_add(span).unwrap_or(Timestamp::MAX)
            }
        };
        self.may_deny_from(over)
    }
}

/// What an operator says, where it fits the effect.
fn read(view: &NamedEffectView, settlement: &Settlement) -> Result<NamedSettlement, SettleError> {
    let (external_id, result) = match settlement {
        Settlement::DidNotHappen { .. } => return Ok(NamedSettlement::DidNotHappen),
        Settlement::Undo { .. } => {
            let message = "there is no run to undo it: record whether it happened";
            return Err(SettleError::Invalid(message.to_owned()));
        }
        Settlement::Fail { .. } => {
            let message = "there is no run to fail: record whether it happened";
            return Err(SettleError::Invalid(message.to_owned()));
        }
        Settlement::Happened {
            external_id,
            result,
            ..
        } => (external_id.clone(), result.clone()),
    };
    if result.is_none() && matches!(view.holder, HolderView::Run { .. }) {
        let message = "other runs read the result of this key: give it with --result, or --result \
                       null where there is none";
        return Err(SettleError::ResultNeeded(message.to_owned()));
    }
    let happened = NamedResult {
        result,
        external_id,
    };
    check_result(&happened).map_err(|error| SettleError::Invalid(error.to_string()))?;
    Ok(NamedSettlement::Happened(happened))
}

const fn state_of(state: NamedEffectState) -> EffectState {
    match state {
        // Its run undoes it: nobody else says what became of it.
        NamedEffectState::Pending | NamedEffectState::Undoing => EffectState::Pending,
        NamedEffectState::Done => EffectState::Done,
        NamedEffectState::Failed => EffectState::Failed,
        NamedEffectState::InDoubt => EffectState::InDoubt,
    }
}
