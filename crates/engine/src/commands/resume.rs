//! Resuming: a run that failed or needs review continues from its ledger.
//!
//! An effect that is done is not done again; one that is known not to have happened is tried again
//! under the same key, or under the next one where the destination keeps its refusal. A doubt is not
//! resumed but settled; one that an operator had failed is in doubt again. A rejection stands, unless
//! the operator wants people to be asked again.

use std::sync::Arc;

use semel_flow::Action;
use semel_flow::release::OnError;
use semel_model::event::Event;
use semel_model::run::RunState;
use semel_model::{FaultKind, RunId, Span};
use semel_store::ReadError;
use semel_store::audit::{self, AuditEntry, ReasonError};
use semel_store::child_runs;
use semel_store::runs::{self, ReopenResult, RunView};
use serde::Deserialize;

use crate::call::CallAgain;
use crate::runtime::Runtime;
use crate::state::FoldError;
use crate::turn::command::CommandError;
use crate::unavailable::unavailable_from_store;

/// Why a run is not resumed.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// There is no such run.
    #[error("there is no such run")]
    Unknown,
    /// Its state is none to resume from.
    #[error("the run is {state}: {hint}")]
    Unfit {
        /// What it is.
        state: RunState,
        /// What to do instead.
        hint: String,
    },
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

impl ResumeError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "run-not-found",
            Self::Unfit { .. } => "not-resumable",
            Self::Reason(error) => error.code(),
            Self::Busy => "run-busy",
            Self::Inconsistent(_) => "journal-inconsistent",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

impl From<CommandError> for ResumeError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Busy => Self::Busy,
            CommandError::Inconsistent(error) => Self::Inconsistent(error),
            CommandError::Unavailable(reason) => Self::Unavailable(reason),
        }
    }
}

unavailable_from_store!(ResumeError);

/// How a run is resumed.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Why, in the operator's words.
    pub reason: &'a str,
    /// Whether people who rejected are asked again.
    pub ask_again: bool,
}

impl<'a> From<&'a str> for Wish<'a> {
    /// A wish that leaves rejections as they are.
    fn from(reason: &'a str) -> Self {
        Self {
            reason,
            ask_again: false,
        }
    }
}

impl Runtime {
    /// Resumes a run in an operator's name. When this returns, the decision is committed.
    pub async fn resume<'a>(
        self: &Arc<Self>,
        namespace_id: i32,
        run: RunId,
        wish: impl Into<Wish<'a>>,
        actor: &str,
    ) -> Result<(), ResumeError> {
        let wish = wish.into();
        let act = resume_act(namespace_id, run, actor).because(wish.reason)?;
        self.resume_by(namespace_id, run, wish, act).await
    }

    /// The same, recorded as this act. A job's act that was done before is not done again: the run
    /// is busy then, though it may have stopped since.
    pub(super) async fn resume_by(
        self: &Arc<Self>,
        namespace_id: i32,
        run: RunId,
        wish: Wish<'_>,
        act: AuditEntry,
    ) -> Result<(), ResumeError> {
        let view = runs::find(self.cell.of(run), namespace_id, run).await?;
        let view = view.ok_or(ResumeError::Unknown)?;
        let unfit = |hint: &str| ResumeError::Unfit {
            state: view.state,
            hint: hint.to_owned(),
        };
        let resumed = Event::Resumed {
            reason: wish.reason.trim().to_owned(),
            by: Some(act.actor().to_owned()),
            asks_again: wish.ask_again,
        };
        match (view.state, view.parent) {
            (RunState::Failed, Some(parent)) => {
                match self.stands_alone(namespace_id, run, parent).await? {
                    true => self.reopen_item((namespace_id, run), &resumed, &act).await,
                    false => Err(unfit(&format!("resume its parent run, {parent}"))),
                }
            }
            (RunState::Failed, None) if !wish.ask_again && is_rejection(view.fault.as_deref()) => {
                Err(unfit(&format!(
                    "an approval was rejected, and the rejection stands; to ask again: \
                     semel run resume {run} --ask-again --reason '…'"
                )))
            }
            (RunState::Failed, None) => {
                let keep = self.keep_of(namespace_id, run).await?;
                match self.reopen(run, &[resumed], Some(&act), keep).await? {
                    ReopenResult::Reopened => Ok(()),
                    ReopenResult::NotFailed => Err(ResumeError::Busy),
                    ReopenResult::KeyTaken => Err(unfit("another run answers for its key now")),
                    ReopenResult::HistoryGone => Err(unfit(
                        "its history has been deleted or its payloads erased; \
                         start another one",
                    )),
                }
            }
            (RunState::NeedsReview | RunState::Quarantined, _) => {
                self.resume_stopped((namespace_id, run), resumed, act).await
            }
            (RunState::InDoubt, _) => Err(unfit("settle the doubt first, semel doubt list")),
            (RunState::Active, _) => Err(unfit("it continues by itself")),
            (RunState::Succeeded, _) => Err(unfit(
                "there is nothing left to do; items of a list that failed are resumed one by \
                 one, semel run items --state failed",
            )),
            (RunState::Cancelled, _) => Err(unfit("an operator ended it; start another one")),
            (RunState::Superseded, _) => Err(unfit("another run of its object took its place")),
        }
    }

    /// Resumes a run that failed; says why not where it did not fail, has continued already, or
    /// another run has its key.
    async fn reopen(
        self: &Arc<Self>,
        run: RunId,
        events: &[Event],
        act: Option<&AuditEntry>,
        keep: Span,
    ) -> Result<ReopenResult, ReadError> {
        let reopening = runs::reopen(self.cell.of(run), run, events, act, keep).await?;
        if reopening == ReopenResult::Reopened {
            self.signals.wake.notify_one();
        }
        Ok(reopening)
    }

    /// Resumes a run that failed, because its delivery or request came again. A sender's repeat
    /// does not ask people again about what they rejected, a doubt that an operator failed stays
    /// failed, and a run whose history is deleted or whose key is another's stays as it ended.
    /// Returns whether the run continues.
    pub(crate) async fn resume_for_repeat(
        self: &Arc<Self>,
        run: RunId,
        fault: Option<&str>,
        keep: Span,
    ) -> Result<bool, ReadError> {
        if is_rejection(fault) || is_given_up(fault) {
            return Ok(false);
        }
        let resumed = [Event::Resumed {
            reason: "its delivery came again".to_owned(),
            by: None,
            asks_again: false,
        }];
        let reopening = self.reopen(run, &resumed, None, keep).await?;
        Ok(matches!(
            reopening,
            ReopenResult::Reopened | ReopenResult::NotFailed
        ))
    }

    /// Resumes a called run that failed, because its caller was resumed. What people rejected and a
    /// doubt that was given up are treated as if the called run was resumed in the same way. Says
    /// whether the run continues.
    pub(crate) async fn resume_for_caller(
        self: &Arc<Self>,
        (namespace_id, caller): (i32, RunId),
        called: &RunView,
        again: &CallAgain,
    ) -> Result<bool, ResumeError> {
        let fault = called.fault.as_deref();
        let is_rejected = is_rejection(fault) && !again.asks_again;
        if is_rejected || (is_given_up(fault) && again.by.is_none()) {
            return Ok(false);
        }
        let resumed = [Event::Resumed {
            reason: format!("{caller}, which called it, was resumed"),
            by: again.by.clone(),
            asks_again: again.asks_again,
        }];
        let keep = match self.keep_of(namespace_id, called.id).await {
            // Its release is gone: it cannot be resumed.
            Err(ResumeError::Unknown) => return Ok(false),
            keep => keep?,
        };
        let reopening = self.reopen(called.id, &resumed, None, keep).await?;
        Ok(matches!(
            reopening,
            ReopenResult::Reopened | ReopenResult::NotFailed
        ))
    }

    /// How long the key of a run is kept, by the release that the run is on.
    async fn keep_of(self: &Arc<Self>, namespace_id: i32, run: RunId) -> Result<Span, ResumeError> {
        let found = runs::find_release(self.cell.of(run), namespace_id, run).await?;
        let (release, _) = found.ok_or(ResumeError::Unknown)?;
        let release = self.catalogue.get(release).await?;
        let unreadable = || ResumeError::Unavailable("its release cannot be read".to_owned());
        Ok(release.ok_or_else(unreadable)?.flow.keep)
    }

    /// Whether a child run can continue without its parent: an item of a list whose run succeeded
    /// all the same, by `on_error: continue`. The parent's result stays as it was.
    async fn stands_alone(
        self: &Arc<Self>,
        namespace_id: i32,
        child: RunId,
        parent: RunId,
    ) -> Result<bool, ReadError> {
        let cell = &self.cell;
        let parent = runs::find(cell.of(parent), namespace_id, parent).await?;
        if parent.is_none_or(|parent| parent.state != RunState::Succeeded) {
            return Ok(false);
        }
        let release = runs::find_release(cell.of(child), namespace_id, child).await?;
        let release = match release {
            Some((release, _)) => self.catalogue.get(release).await?,
            None => None,
        };
        let step = child_runs::find_step(cell.of(child), child).await?;
        let (Some(release), Some(step)) = (release, step) else {
            return Ok(false);
        };
        let step = release.flow.find_step(&step);
        Ok(step.is_some_and(|step| {
            matches!(&step.action, Action::Foreach(each) if each.on_error == OnError::Continue)
        }))
    }

    async fn reopen_item(
        self: &Arc<Self>,
        (namespace_id, item): (i32, RunId),
        resumed: &Event,
        act: &AuditEntry,
    ) -> Result<(), ResumeError> {
        let root = self.root_of(namespace_id, item).await?;
        if !child_runs::reopen_one(self.cell.of(item), item, root, resumed, act).await? {
            return Err(ResumeError::Busy);
        }
        self.signals.wake.notify_one();
        Ok(())
    }

    /// The outermost run of a child run.
    async fn root_of(
        self: &Arc<Self>,
        namespace_id: i32,
        child: RunId,
    ) -> Result<RunId, ResumeError> {
        let mut run = child;
        loop {
            let view = runs::find(self.cell.of(run), namespace_id, run).await?;
            match view.and_then(|view| view.parent) {
                Some(parent) => run = parent,
                None => return Ok(run),
            }
        }
    }

    async fn resume_stopped(
        self: &Arc<Self>,
        (namespace_id, run): (i32, RunId),
        resumed: Event,
        act: AuditEntry,
    ) -> Result<(), ResumeError> {
        let mut turn = self.take(run).await?;
        // Another operator may have been first, and the run may have continued since.
        let view = runs::find(self.cell.of(run), namespace_id, run).await;
        let state = view.map(|view| view.map(|view| view.state));
        let state = match audit::is_done(self.cell.of(run), &act).await {
            // The job of this act resumed it before, and it has stopped again.
            Ok(true) => Ok(None),
            Ok(false) => state,
            Err(error) => Err(error),
        };
        if !matches!(
            state,
            Ok(Some(RunState::NeedsReview | RunState::Quarantined))
        ) {
            turn.go_on();
            return state.map_or_else(|error| Err(error.into()), |_| Err(ResumeError::Busy));
        }
        turn.forgive();
        Ok(turn.carry_out(vec![resumed], act).await?)
    }
}

/// The act of resuming a run.
pub(super) fn resume_act(namespace_id: i32, run: RunId, actor: &str) -> AuditEntry {
    AuditEntry::new(namespace_id, actor, "run.resume", &run.to_string()).about(run)
}

/// Whether a run failed because an operator failed an effect in doubt, which may have happened.
pub(super) fn is_given_up(fault: Option<&str>) -> bool {
    kind_of(fault) == FaultKind::GivenUp
}

/// Whether a run failed because an approval was rejected, or was not given in time.
pub(super) fn is_rejection(fault: Option<&str>) -> bool {
    kind_of(fault) == FaultKind::Rejected
}

/// The kind of a recorded fault.
fn kind_of(fault: Option<&str>) -> FaultKind {
    /// The kind alone: what else a fault says may be of a later version.
    #[derive(Default, Deserialize)]
    struct Recorded {
        #[serde(default)]
        kind: FaultKind,
    }
    let recorded = fault.and_then(|text| serde_json::from_str::<Recorded>(text).ok());
    recorded.unwrap_or_default().kind
}

#[cfg(test)]
mod tests {
    use semel_model::Fault;

    use super::*;

    fn recorded(fault: &Fault) -> String {
        serde_json::to_string(&fault.for_record()).unwrap()
    }

    #[test]
    fn an_author_s_own_code_is_no_rejection_and_no_failed_doubt() {
        for code in ["approval-rejected", "failed-by-person"] {
            let fault = recorded(&Fault::permanent(code, "the author's word"));

            assert!(!is_rejection(Some(&fault)) && !is_given_up(Some(&fault)));
        }
    }

    #[test]
    fn the_stored_fault_shows_a_rejection_or_a_failed_doubt() {
        let of = |kind| recorded(&Fault::permanent("any", "word").of(kind));

        assert!(is_rejection(Some(&of(FaultKind::Rejected))));
        assert!(is_given_up(Some(&of(FaultKind::GivenUp))));
        assert!(!of(FaultKind::Http(404)).contains("kind"));
        assert_eq!(
            kind_of(Some(r#"{"kind":"of a later day"}"#)),
            FaultKind::Other
        );
        assert_eq!(kind_of(None), FaultKind::Other);
    }
}
