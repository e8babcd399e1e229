//! What came from outside for the step that a run stands at: a worker's answer, a decision.
//!
//! Only a run that stands at a task or an approval costs the look.

use semel_model::approval::Decision;
use semel_model::effect::Entry;
use semel_model::request::Call;
use semel_store::approvals::{self, Deciding};
use semel_store::tasks::{self, Seen, Settling};
use semel_store::wake_source::WakeSource;
use semel_store::writer::Writer;
use semel_store::{Cell, ReadError};
use tokio::sync::Notify;

use crate::engine::Inner;
use crate::fold::{Current, RunState};

/// Where what comes from outside goes in.
pub(crate) struct Desks {
    /// Answers of workers.
    pub(crate) settling: Writer<Settling>,
    /// Decisions of people.
    pub(crate) deciding: Writer<Deciding>,
    /// Told when a run of this process has opened a task.
    pub(crate) opened: Notify,
}

impl Desks {
    pub(crate) fn start(cell: &Cell) -> Self {
        Self {
            settling: tasks::start_settling(cell),
            deciding: approvals::start_deciding(cell),
            opened: Notify::new(),
        }
    }
}

/// What came from outside.
#[derive(Clone, Debug, Default)]
pub enum Outside {
    /// Nothing.
    #[default]
    Nothing,
    /// Something became of a task.
    Task(Seen),
    /// Somebody decided.
    Decision(Decision),
}

impl Outside {
    /// What became of this attempt at a task.
    pub(crate) fn task(&self, attempt: u32) -> Option<&Seen> {
        match self {
            Self::Task(seen) => (u32::try_from(seen.attempt) == Ok(attempt)).then_some(seen),
            Self::Nothing | Self::Decision(_) => None,
        }
    }

    /// What was decided.
    pub(crate) fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Decision(decision) => Some(decision),
            Self::Nothing | Self::Task(_) => None,
        }
    }
}

impl Inner {
    /// Looks at what came for a run that was just taken.
    pub(crate) async fn look_outside(&self, state: &RunState) -> Result<Outside, ReadError> {
        Ok(match hears(state) {
            // Late answers are loaded with the run.
            WakeSource::Nothing | WakeSource::Evidence(..) => Outside::Nothing,
            WakeSource::Task(task) => {
                let seen = tasks::look(&self.cell, task).await?;
                seen.map_or(Outside::Nothing, Outside::Task)
            }
            WakeSource::Approval(wait) => {
                let decision = approvals::look(&self.cell, wait).await?;
                decision.map_or(Outside::Nothing, Outside::Decision)
            }
        })
    }
}

/// Whom a run listens to.
pub(crate) fn hears(state: &RunState) -> WakeSource {
    match &state.current {
        Current::Effect(pending) => match (&pending.entry, &pending.call) {
            (Entry::Pending(effect), Call::Task(_)) => WakeSource::Task(effect.id()),
            (Entry::InDoubt(effect), _) => WakeSource::Evidence(state.run, effect.id()),
            _ => WakeSource::Nothing,
        },
        Current::Approving(approving) => WakeSource::Approval(approving.wait),
        Current::Fresh
        | Current::Reading(_)
        | Current::Waiting { .. }
        | Current::Fan(_)
        | Current::Broken(_) => WakeSource::Nothing,
    }
}
