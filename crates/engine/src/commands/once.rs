//! Named effects of scripts: begin, heartbeat, done, fail, settle, redo.
//!
//! A script begins under a nonce of its own, performs, and reports under the token that it got. Every
//! command may be repeated: a begin finds the script's own hold, a report what it recorded itself.
//!
//! Commit points, each between its two failpoints: `once.begin`, `once.report`, `once.settle`.

use std::sync::Arc;

use jiff::Timestamp;
use semel_model::named_effect::OnDoubt;
use semel_model::storable::{NotAName, excerpt};
use semel_model::{
    EffectId, EffectName, Fingerprint, HolderId, NamedEffectId, NamedEffectState, NamespaceName,
    RunId, Span, TokenId,
};
use semel_steps::failpoint::failpoint;
use semel_store::audit::{AuditEntry, ReasonError};
use semel_store::named_effects::{
    self, EffectAction, HolderView, NamedBegin, NamedBegun, NamedEffectView, NamedHold,
    NamedHolder, NamedReport, NamedResult, NamedSettlement, ReportedHold, Reporter,
};
use serde_json::json;

use crate::runtime::Runtime;
use crate::settle::span_between;
use crate::turn::notice;
use crate::unavailable::unavailable_from_store;

mod free;
mod limits;

pub(super) use limits::check_result;
use limits::{check_begin, read_code};

/// The kind of every effect of a script.
const KIND: &str = "command";

/// The most characters of what a script says about a failure.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// The effect that a command is about.
#[derive(Clone, Debug)]
pub struct OnceSubject {
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The namespace's name.
    pub namespace: NamespaceName,
    /// The API token that the command came with.
    pub caller: TokenId,
    /// Its name: of scope `shared` or `once/NAME`.
    pub name: EffectName,
}

impl OnceSubject {
    /// The identity of the effect.
    #[must_use]
    pub fn id(&self) -> NamedEffectId {
        NamedEffectId::derive(&self.namespace, &self.name)
    }

    /// The hold that a script reports on.
    fn hold(&self, token: i64) -> ReportedHold {
        ReportedHold {
            namespace_id: self.namespace_id,
            id: self.id(),
            token,
            by: Reporter::Script(self.caller),
        }
    }
}

/// Which intent an operator saw and lets be performed again.
#[derive(Clone, Copy, Debug)]
pub enum SeenIntent {
    /// The token of the process that performed it.
    Token(i64),
    /// The key that its destination was sent.
    Key(EffectId),
}

/// A script that wants to perform an effect.
#[derive(Clone, Debug)]
pub struct OnceBegin {
    /// The nonce of its process.
    pub holder: HolderId,
    /// Host and process, for people.
    pub holder_name: String,
    /// Of its request or command line.
    pub fingerprint: Fingerprint,
    /// How long it may be silent.
    pub lease: Span,
    /// What it agrees to if it is lost.
    pub on_doubt: OnDoubt,
    /// How long the effect is remembered once it is done or failed.
    pub keep: Span,
}

/// What a script finds.
#[derive(Clone, Debug)]
pub enum OnceBegun {
    /// It is the script's to perform.
    First(NamedHold),
    /// It is done, held or in doubt, or this script itself reported that it failed: the state says
    /// which.
    Found(Box<NamedEffectView>),
}

/// A report of a script that did not perform the effect, or cannot tell.
#[derive(Clone, Debug)]
pub struct OnceFailure {
    /// A stable word for the kind of failure.
    pub code: String,
    /// What happened, for people.
    pub message: String,
    /// Whether it may have happened.
    pub in_doubt: bool,
}

/// Why a command about a named effect was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum OnceError {
    /// There is no such effect.
    #[error("there is no effect of this name")]
    Unknown,
    /// The key was begun with another request.
    #[error("the key was used with another request")]
    Mismatch {
        /// What is there.
        found: Box<NamedEffectView>,
    },
    /// The token is not the latest or not the caller's, or its lease is over.
    #[error("the effect is {state}, and not held under this token")]
    NotHeld {
        /// The state of the effect.
        state: NamedEffectState,
    },
    /// There is no doubt to settle.
    #[error("the effect is {state}")]
    NotInDoubt {
        /// The state of the effect.
        state: NamedEffectState,
    },
    /// There is nothing to redo.
    #[error("the effect is {state}")]
    NotDone {
        /// The state of the effect.
        state: NamedEffectState,
    },
    /// A run holds it, and is to be settled itself.
    #[error("{run} holds the effect")]
    HeldByRun {
        /// The run.
        run: RunId,
    },
    /// A process holds it, and keeps it until its lease is over.
    #[error(
        "a process holds the key: once its lease is over the key is in doubt, and `semel once settle` settles it"
    )]
    HeldByScript,
    /// The process that was lost may still run.
    #[error("the process that held the key may still run: say so again in {retry_in}")]
    TooSoon {
        /// How long until it may be said.
        retry_in: Span,
    },
    /// What was sent cannot be stored.
    #[error("{0}")]
    Invalid(String),
    /// The reason cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// The database did not answer in time: sending again is safe.
    #[error("the database did not answer: {0}")]
    Unavailable(String),
}

unavailable_from_store!(OnceError);

impl From<NotAName> for OnceError {
    fn from(error: NotAName) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl Runtime {
    /// Begins the effect of a script, or says what is there.
    pub async fn begin_once(
        self: &Arc<Self>,
        of: &OnceSubject,
        asked: OnceBegin,
    ) -> Result<OnceBegun, OnceError> {
        check_begin(of, &asked)?;
        let (id, fingerprint) = (of.id(), asked.fingerprint);
        let begin = NamedBegin {
            id,
            namespace_id: of.namespace_id,
            name: of.name.clone(),
            action: EffectAction {
                kind: KIND.to_owned(),
                destination: String::new(),
                method: String::new(),
            },
            fingerprint,
            holder: NamedHolder::Script {
                nonce: asked.holder,
                caller: of.caller,
                name: asked.holder_name,
                lease: asked.lease,
                on_doubt: asked.on_doubt,
            },
            keep: asked.keep,
            accepts_other: false,
            seq: None,
            renews: false,
            // The program that is given the key may keep what it likes.
            endless: true,
        };
        let mark = of.name.key().text();
        failpoint("once.begin.before", &mark).await;
        let begun = named_effects::begin(self.cell.of(id), &begin).await;
        failpoint("once.begin.after", &mark).await;
        match begun? {
            NamedBegun::First(hold) => {
                self.metrics.once_begun.add_one();
                Ok(OnceBegun::First(hold))
            }
            NamedBegun::Other(found) => Err(OnceError::Mismatch { found }),
            NamedBegun::Done(found)
            | NamedBegun::Held(found)
            | NamedBegun::InDoubt(found)
            | NamedBegun::Over(found) => {
                if found.fingerprint != Some(fingerprint) {
                    return Err(OnceError::Mismatch { found });
                }
                if found.state == NamedEffectState::Done {
                    self.metrics.once_repeats.add_one();
                }
                Ok(OnceBegun::Found(found))
            }
        }
    }

    /// Renews the lease of a script, and says until when it holds the effect.
    pub async fn heartbeat_once(
        self: &Arc<Self>,
        of: &OnceSubject,
        token: i64,
    ) -> Result<Timestamp, OnceError> {
        let beat = named_effects::heartbeat(self.cell.of(of.id()), of.hold(token)).await?;
        match beat {
            Some(until) => Ok(until),
            None => Err(refusal(&self.get_once(of).await?, not_held)),
        }
    }

    /// Records that the effect of a script happened. Says whether it was recorded before.
    pub async fn finish_once(
        self: &Arc<Self>,
        of: &OnceSubject,
        token: i64,
        happened: &NamedResult,
    ) -> Result<bool, OnceError> {
        check_result(happened)?;
        let (id, mark) = (of.id(), of.name.key().text());
        failpoint("once.report.before", &mark).await;
        let report = named_effects::done(self.cell.of(id), of.hold(token), happened).await;
        failpoint("once.report.after", &mark).await;
        self.conclude(id, report?, not_held).await
    }

    /// Records that the effect of a script did not happen, or may have. Says whether it was recorded
    /// before.
    pub async fn fail_once(
        self: &Arc<Self>,
        of: &OnceSubject,
        token: i64,
        failure: &OnceFailure,
    ) -> Result<bool, OnceError> {
        let fault = json!({
            "code": read_code(&failure.code)?,
            "message": excerpt(&failure.message, MESSAGE_CHARS_MAX),
        });
        let (id, mark) = (of.id(), of.name.key().text());
        let cell = self.cell.of(id);
        failpoint("once.report.before", &mark).await;
        let report = match failure.in_doubt {
            true => named_effects::doubt(cell, of.hold(token), &fault).await,
            false => named_effects::fail(cell, of.hold(token), &fault).await,
        };
        failpoint("once.report.after", &mark).await;
        self.conclude(id, report?, not_held).await
    }

    /// The effect of a name.
    pub async fn get_once(
        self: &Arc<Self>,
        of: &OnceSubject,
    ) -> Result<NamedEffectView, OnceError> {
        let id = of.id();
        let found = named_effects::find(self.cell.of(id), of.namespace_id, id).await?;
        found.ok_or(OnceError::Unknown)
    }

    /// Settles the doubt of a script for an operator. Says whether it was settled so before.
    pub async fn settle_once(
        self: &Arc<Self>,
        of: &OnceSubject,
        token: i64,
        settlement: &NamedSettlement,
        reason: &str,
        actor: &str,
    ) -> Result<bool, OnceError> {
        if let NamedSettlement::Happened(result) = settlement {
            check_result(result)?;
        }
        let act = audit(of, "once.settle", reason, actor)?;
        let view = self.get_once(of).await?;
        // The journal of a run says what its effect came to, so the run comes first.
        if let HolderView::Run { run, .. } = view.holder {
            return Err(OnceError::HeldByRun { run });
        }
        if *settlement == NamedSettlement::DidNotHappen
            && let Some(retry_in) = self.may_still_run(&view)
        {
            return Err(OnceError::TooSoon { retry_in });
        }
        let (id, cell, mark) = (of.id(), &self.cell, of.name.key().text());
        failpoint("once.settle.before", &mark).await;
        let report =
            named_effects::settle(cell.of(id), of.namespace_id, id, token, settlement, &act).await;
        failpoint("once.settle.after", &mark).await;
        self.conclude(id, report?, |state| OnceError::NotInDoubt { state })
            .await
    }

    /// Lets a done effect be performed again, under a new key. Says whether that was asked before.
    pub async fn redo_once(
        self: &Arc<Self>,
        of: &OnceSubject,
        seen: SeenIntent,
        reason: &str,
        actor: &str,
    ) -> Result<bool, OnceError> {
        let act = audit(of, "once.redo", reason, actor)?;
        let (id, cell) = (of.id(), &self.cell);
        let token = match seen {
            SeenIntent::Token(token) => token,
            SeenIntent::Key(key) => match self.get_once(of).await? {
                view if view.key() == key => view.token,
                view => return Err(OnceError::NotDone { state: view.state }),
            },
        };
        let report = named_effects::redo(cell.of(id), of.namespace_id, id, token, &act).await?;
        self.conclude(id, report, |state| OnceError::NotDone { state })
            .await
    }

    /// How long a script that was lost without a word may still run; nothing where it cannot.
    pub(super) fn may_still_run(&self, view: &NamedEffectView) -> Option<Span> {
        let left = span_between(self.clock.now(), view.lost_until()?);
        (left.as_millis() > 0).then_some(left)
    }

    async fn conclude(
        self: &Arc<Self>,
        id: NamedEffectId,
        report: NamedReport,
        late: impl FnOnce(NamedEffectState) -> OnceError,
    ) -> Result<bool, OnceError> {
        let (waiters, repeated) = match report {
            NamedReport::Recorded(waiters) => (waiters, false),
            NamedReport::Repeated(waiters) => (waiters, true),
            NamedReport::Late(view) => return Err(refusal(&view, late)),
            NamedReport::Unknown => return Err(OnceError::Unknown),
        };
        // What is recorded is recorded: a run that is not woken now is woken by the repair.
        if let Err(error) = notice::wake(self, id, waiters).await {
            tracing::warn!(%error, "failed to wake the runs behind a named effect");
        }
        Ok(repeated)
    }
}

const fn not_held(state: NamedEffectState) -> OnceError {
    OnceError::NotHeld { state }
}

/// Why a command about an effect changes nothing: a run has it, or its state does not fit.
fn refusal(view: &NamedEffectView, late: impl FnOnce(NamedEffectState) -> OnceError) -> OnceError {
    match (&view.holder, view.state) {
        (
            HolderView::Run { run, .. },
            NamedEffectState::Pending | NamedEffectState::InDoubt | NamedEffectState::Undoing,
        ) => OnceError::HeldByRun { run: *run },
        (HolderView::Run { .. } | HolderView::Script { .. }, state) => late(state),
    }
}

fn audit(
    of: &OnceSubject,
    action: &'static str,
    reason: &str,
    actor: &str,
) -> Result<AuditEntry, OnceError> {
    let act = AuditEntry::new(of.namespace_id, actor, action, &of.name.to_string());
    Ok(act.because(reason)?)
}
