//! Doubts: an operator checks the destination and settles an effect in doubt.
//!
//! An operator may say at any time that an effect happened: that sends nothing. An operator may say
//! that it did *not* happen only once its last attempt can no longer land ([`crate::landing`]).
//!
//! An effect is named by its id, or by the key that was sent for a step with a business key.

use std::sync::Arc;

use jiff::Timestamp;
use semel_model::effect::{EffectState, LedgerEntry};
use semel_model::event::Event;
use semel_model::{EffectId, Fault, FaultKind, SeededBug, Span};
use semel_store::audit::{AuditEntry, ReasonError};
use semel_store::effects::{self, EffectView};
use serde_json::Value;

use super::operator_result::{ResultNeeded, done_by_operator, done_to_be_undone};
use crate::commands::connection::Actor;
use crate::runtime::Runtime;
use crate::settle::span_between;
use crate::state::{Current, FoldError, PendingEffect};
use crate::turn::Turn;
use crate::turn::command::CommandError;
use crate::unavailable::unavailable_from_store;

mod group;
mod named;

pub use group::{DoubtGroup, GroupDoubt, GroupPlan};

/// An operator's answer about an effect in doubt.
#[derive(Clone, Debug)]
pub enum Settlement {
    /// It happened.
    Happened {
        /// The destination's identity for what was made.
        external_id: Option<String>,
        /// The step's result. Needed where something later reads it; null where the operator says
        /// so.
        result: Option<Value>,
        /// Why, for the audit log.
        reason: String,
    },
    /// It happened and must not stand: the run fails, and undoes what it did.
    Undo {
        /// The destination's identity for what was made.
        external_id: Option<String>,
        /// The step's result. Needed where its `undo` reads it.
        result: Option<Value>,
        /// Why, for the audit log.
        reason: String,
    },
    /// It did not happen, and must be performed.
    DidNotHappen {
        /// Why, for the audit log.
        reason: String,
    },
    /// The run fails, and whether the effect happened stays unknown.
    Fail {
        /// Why, for the audit log.
        reason: String,
    },
}

/// Why a doubt is not settled.
#[derive(Debug, thiserror::Error)]
pub enum SettleError {
    /// There is no such effect.
    #[error("there is no such effect")]
    Unknown,
    /// Another attempt was made while the decision was on its way.
    #[error("it was tried again in the meantime: look at it again")]
    TriedAgain,
    /// It is not in doubt.
    #[error("the effect is {state}, not in doubt")]
    NotInDoubt {
        /// What it is.
        state: EffectState,
    },
    /// Its last attempt could still arrive.
    #[error("its last attempt could still arrive: say so again in {retry_in}")]
    TooSoon {
        /// How long until it may be said.
        retry_in: Span,
    },
    /// Something later reads what the operator did not give.
    #[error("{0}")]
    ResultNeeded(String),
    /// What the effect gave cannot be corrected.
    #[error("{0}")]
    NotAmendable(String),
    /// The doubts are no longer those that the operator looked at.
    #[error("the effects in doubt have changed: nothing was settled")]
    Changed,
    /// What was said does not fit the effect, or cannot be stored.
    #[error("{0}")]
    Invalid(String),
    /// The reason cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// A worker holds the run at this moment.
    #[error("a worker is at this run right now")]
    Busy,
    /// The run is quarantined: its journal, or the decision behind it, does not fit.
    #[error("the run is quarantined: {0}")]
    Inconsistent(FoldError),
    /// The database did not answer in time.
    #[error("the decision could not be stored: {0}")]
    Unavailable(String),
}

impl SettleError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "effect-not-found",
            Self::NotInDoubt { .. } | Self::TriedAgain => "not-in-doubt",
            Self::TooSoon { .. } => "settle-too-soon",
            Self::ResultNeeded(_) => "result-needed",
            Self::NotAmendable(_) => "not-amendable",
            Self::Changed => "doubts-changed",
            Self::Invalid(_) => "body-invalid",
            Self::Reason(error) => error.code(),
            Self::Busy => "run-busy",
            Self::Inconsistent(_) => "journal-inconsistent",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

unavailable_from_store!(SettleError);

impl From<ResultNeeded> for SettleError {
    fn from(ResultNeeded(why): ResultNeeded) -> Self {
        Self::ResultNeeded(why)
    }
}

impl From<CommandError> for SettleError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Busy => Self::Busy,
            CommandError::Inconsistent(error) => Self::Inconsistent(error),
            CommandError::Unavailable(reason) => Self::Unavailable(reason),
        }
    }
}

impl Settlement {
    /// The act, ready to be recorded.
    fn act(&self, by: Actor<'_>, effect: EffectId) -> Result<AuditEntry, ReasonError> {
        let (action, reason) = match self {
            Self::Happened { reason, .. } => ("doubt.settle happened", reason),
            Self::Undo { reason, .. } => ("doubt.settle undo", reason),
            Self::DidNotHappen { reason } => ("doubt.settle did-not-happen", reason),
            Self::Fail { reason } => ("doubt.settle fail", reason),
        };
        by.act(action, &effect.to_string()).because(reason)
    }
}

impl Runtime {
    /// Settles a doubt in an operator's name. When this returns, the decision is committed and the
    /// run continues.
    pub async fn settle(
        self: &Arc<Self>,
        namespace_id: i32,
        effect: EffectId,
        settlement: Settlement,
        actor: &str,
    ) -> Result<(), SettleError> {
        let subject = (effect, None);
        self.settle_attempt(namespace_id, subject, settlement, actor)
            .await
    }

    /// Settles a doubt about the attempt that the operator looked at: where another was made since,
    /// nothing is settled.
    pub async fn settle_attempt(
        self: &Arc<Self>,
        namespace_id: i32,
        (effect, looked_at): (EffectId, Option<i32>),
        settlement: Settlement,
        actor: &str,
    ) -> Result<(), SettleError> {
        let found = effects::find(self.cell.of(effect), namespace_id, effect).await?;
        let by = Actor {
            namespace_id,
            actor,
        };
        let Some(view) = found else {
            let subject = (effect, looked_at);
            return Box::pin(self.settle_name(by, subject, settlement)).await;
        };
        if view.state != EffectState::InDoubt {
            return Err(SettleError::NotInDoubt { state: view.state });
        }
        if looked_at.is_some_and(|attempt| attempt != view.attempt) {
            return Err(SettleError::TriedAgain);
        }
        let act = settlement.act(by, view.id)?.about(view.run);
        let turn = self.take(view.run).await?;
        let events = match self.judge(&turn, &view, &settlement) {
            Ok(events) => events,
            Err(error) => {
                // Nothing was decided: the run continues as its plan says, or stays stopped.
                turn.go_on();
                return Err(error);
            }
        };
        Ok(turn.carry_out(events, act).await?)
    }

    /// The events that a decision is, where it may be taken now.
    fn judge(
        self: &Arc<Self>,
        turn: &Turn,
        view: &EffectView,
        settlement: &Settlement,
    ) -> Result<Vec<Event>, SettleError> {
        let Current::Effect(pending) = &turn.state().current else {
            return Err(SettleError::NotInDoubt { state: view.state });
        };
        let LedgerEntry::InDoubt(effect) = &pending.entry else {
            return Err(SettleError::NotInDoubt {
                state: pending.entry.state(),
            });
        };
        if effect.id() != view.id {
            return Err(SettleError::Unknown);
        }
        // The operator looked up the attempt that was in doubt then.
        if i64::from(effect.attempt()) != i64::from(view.attempt) {
            return Err(SettleError::TriedAgain);
        }
        let step = view.step.clone();
        let event = match settlement {
            Settlement::Undo {
                external_id,
                result,
                reason,
            } => {
                let given = (external_id.as_deref(), result.as_ref());
                return undo(turn, &step, given, reason);
            }
            Settlement::Happened {
                external_id,
                result,
                ..
            } => done_by_operator(turn.flow(), &step, external_id.as_deref(), result.as_ref())?,
            Settlement::DidNotHappen { reason } => {
                self.landing_over(turn, view, pending)?;
                Event::Licensed {
                    step,
                    reason: reason.clone(),
                }
            }
            Settlement::Fail { reason } => Event::Failed {
                step,
                fault: Fault::permanent("failed-by-person", reason.clone()).of(FaultKind::GivenUp),
                retry_at: None,
            },
        };
        Ok(vec![event])
    }

    fn landing_over(
        self: &Arc<Self>,
        turn: &Turn,
        view: &EffectView,
        pending: &PendingEffect,
    ) -> Result<(), SettleError> {
        let destinations = turn.destinations();
        let name = pending.request.connection();
        let connection = name.and_then(|name| destinations.connection(name));
        // A task may have been claimed just before the doubt.
        let claimed_by = view.settled_at.unwrap_or(pending.intended_at);
        let times = (pending.intended_at, claimed_by);
        let landing = self.landing();
        self.may_deny_from(landing.after(&pending.request, connection, times))
    }

    /// Refuses to say before a time that an effect did not happen.
    fn may_deny_from(self: &Arc<Self>, over: Timestamp) -> Result<(), SettleError> {
        match span_between(self.clock.now(), over) {
            left if left.as_millis() > 0 && !SeededBug::SettledTooSoon.is_seeded() => {
                Err(SettleError::TooSoon { retry_in: left })
            }
            _ => Ok(()),
        }
    }
}

/// It happened, and the run fails behind it: so it is the first that the run undoes.
fn undo(
    turn: &Turn,
    step: &str,
    (external_id, result): (Option<&str>, Option<&Value>),
    reason: &str,
) -> Result<Vec<Event>, SettleError> {
    let (flow, state) = (turn.flow(), turn.state());
    let invalid = |message: String| Err(SettleError::Invalid(message));
    let Some(place) = state.cursor else {
        return Err(SettleError::Unknown);
    };
    if state.undoing.is_some() || state.operator_step.is_some() {
        return invalid(format!("`{step}` is not a step forward of its run"));
    }
    if flow.steps[place].undo.is_none() {
        let help = "record whether it happened, or let the run fail";
        return invalid(format!("`{step}` declares no `undo`: {help}"));
    }
    let fault = Fault::permanent("undone-by-person", reason).of(FaultKind::GivenUp);
    let next = flow
        .after(place)
        .map(|next| flow.steps[next].id.to_string());
    Ok(vec![
        done_to_be_undone(flow, step, external_id, result)?,
        Event::Broken {
            step: next,
            fault: fault.clone(),
        },
        Event::Undoing { fault },
    ])
}
