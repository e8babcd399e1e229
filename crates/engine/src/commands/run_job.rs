//! Cancelling and resuming many runs: a plan shows which and has a digest, a job carries it out.

use std::sync::Arc;

use jiff::Timestamp;
use semel_model::id::digest;
use semel_model::run::RunState;
use semel_model::{FlowName, RunJobId};
use semel_store::audit::{self, AuditEntry, ReasonError};
use semel_store::run_jobs::{
    self, JOB_RUNS_MAX, JobItem, JobOutcome, JobRange, JobVerb, NewJob, PlannedRun, TakenJob,
};
use semel_store::runs::RunView;
use semel_store::{ReadError, flows, journal, runs};

use super::cancel::{CancelError, cancel_act};
use super::job_maker::JobMaker;
use super::resume::{ResumeError, Wish, resume_act};
use crate::runtime::Runtime;
use crate::unavailable::unavailable_from_store;

/// How often a run of a job is tried that the database or a worker is in the way of.
const ATTEMPTS_MAX: i32 = 20;

/// The states that runs are cancelled in.
const CANCELLABLE: &[RunState] = &[
    RunState::Active,
    RunState::InDoubt,
    RunState::NeedsReview,
    RunState::Quarantined,
];

/// The states that runs are resumed in.
const RESUMABLE: &[RunState] = &[
    RunState::NeedsReview,
    RunState::Quarantined,
    RunState::Failed,
];

/// Which runs are cancelled or resumed together.
#[derive(Clone, Debug)]
pub struct RunJobWish {
    /// What is done to them.
    pub verb: JobVerb,
    /// The flow.
    pub flow: FlowName,
    /// Their state. Without it: every state to cancel from, and to resume from those in which an operator
    /// is needed.
    pub state: Option<RunState>,
    /// Accepted at this time or later.
    pub after: Option<Timestamp>,
    /// Accepted before this time.
    pub before: Option<Timestamp>,
}

/// The runs that a job would be about.
#[derive(Clone, Debug)]
pub struct RunJobPlan {
    /// The runs with their states, in the order of their identities.
    pub runs: Vec<PlannedRun>,
    /// The digest of what is done to which runs.
    pub digest: String,
}

/// Why no job is planned or made.
#[derive(Debug, thiserror::Error)]
pub enum RunJobError {
    /// There is no such flow.
    #[error("there is no such flow")]
    NoFlow,
    /// No run fits.
    #[error("no run of the flow fits: there is nothing to do")]
    Empty,
    /// More runs fit than one job may have.
    #[error("more than {JOB_RUNS_MAX} runs fit: name a shorter time with --after and --before")]
    TooMany,
    /// More runs were accepted in that time than are looked at for those that fit.
    #[error(
        "too many runs were accepted in that time to look at each: name a shorter one with --after and --before"
    )]
    TooWide,
    /// Runs in this state are not cancelled or resumed.
    #[error("runs that are {0} are in no state for this")]
    State(RunState),
    /// Other runs fit than those of the plan.
    #[error("other runs fit by now than those that the plan showed: look at the plan again")]
    Changed,
    /// The reason cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// The database did not answer in time.
    #[error("the job could not be stored: {0}")]
    Unavailable(String),
}

unavailable_from_store!(RunJobError);

impl Runtime {
    /// The runs that would be cancelled or resumed. Changes nothing.
    pub async fn plan_run_job(
        &self,
        namespace_id: i32,
        wish: &RunJobWish,
    ) -> Result<RunJobPlan, RunJobError> {
        let fits = match wish.verb {
            JobVerb::Cancel => CANCELLABLE,
            JobVerb::Resume => RESUMABLE,
        };
        let states: Vec<&str> = match (wish.state, wish.verb) {
            (Some(state), _) if fits.contains(&state) => vec![state.as_str()],
            (Some(state), _) => return Err(RunJobError::State(state)),
            (None, JobVerb::Cancel) => fits.iter().map(|state| state.as_str()).collect(),
            // A run that failed has ended: it is resumed where the operator says so.
            (None, JobVerb::Resume) => vec![
                RunState::NeedsReview.as_str(),
                RunState::Quarantined.as_str(),
            ],
        };
        let flow = wish.flow.as_str();
        let known = flows::find(self.cell.home(), namespace_id, flow).await?;
        if known.is_none() {
            return Err(RunJobError::NoFlow);
        }
        let range = JobRange {
            flow,
            states,
            after: wish.after,
            before: wish.before,
        };
        let found = run_jobs::list_candidates(self.cell.every(), namespace_id, &range).await?;
        if found.is_cut {
            return Err(RunJobError::TooWide);
        }
        let runs = found.runs;
        if runs.is_empty() {
            return Err(RunJobError::Empty);
        }
        if runs.len() as i64 > JOB_RUNS_MAX {
            return Err(RunJobError::TooMany);
        }
        let digest = digest_of(wish, &runs);
        Ok(RunJobPlan { runs, digest })
    }

    /// Makes a job of the runs that a plan showed. Refused where other runs fit by now.
    pub async fn make_run_job(
        self: &Arc<Self>,
        namespace_id: i32,
        wish: &RunJobWish,
        (digest, reason): (&str, &str),
        by: JobMaker<'_>,
    ) -> Result<RunJobId, RunJobError> {
        let JobMaker { actor, token } = by;
        let id = RunJobId::generate();
        let action = match wish.verb {
            JobVerb::Cancel => "run.cancel-many",
            JobVerb::Resume => "run.resume-many",
        };
        let act = AuditEntry::new(namespace_id, actor, action, &id.to_string()).because(reason)?;
        let plan = match self.plan_run_job(namespace_id, wish).await {
            // Every run of the plan is in another state by now.
            Err(RunJobError::Empty) => return Err(RunJobError::Changed),
            plan => plan?,
        };
        if plan.digest != digest {
            return Err(RunJobError::Changed);
        }
        let job = NewJob {
            id,
            namespace_id,
            flow: wish.flow.as_str(),
            verb: wish.verb,
            digest,
            actor,
            token,
            reason,
        };
        run_jobs::create(self.cell.home(), &job, &plan.runs, &act).await?;
        self.signals.job_made.notify_one();
        Ok(id)
    }

    /// Stops a job: no further run of it is cancelled or resumed. False where it does not run any more.
    pub async fn stop_run_job(
        &self,
        namespace_id: i32,
        job: RunJobId,
        reason: &str,
        actor: &str,
    ) -> Result<bool, RunJobError> {
        let act = AuditEntry::new(namespace_id, actor, "run.stop-many", &job.to_string());
        let act = act.because(reason)?;
        Ok(run_jobs::stop(self.cell.home(), namespace_id, job, &act).await?)
    }

    /// Cancels or resumes one run of a job, if it is in the state that the operator was shown.
    pub(crate) async fn carry_out_item(
        self: &Arc<Self>,
        job: &TakenJob,
        item: &JobItem,
    ) -> JobOutcome {
        let (run, attempts) = (item.run, item.attempts);
        let postponed = || match attempts < ATTEMPTS_MAX {
            true => JobOutcome::Postponed,
            false => refused(
                "database-unavailable",
                "the database did not answer".to_owned(),
            ),
        };
        let act = match job.verb {
            JobVerb::Cancel => cancel_act(job.namespace_id, run, &job.actor),
            JobVerb::Resume => resume_act(job.namespace_id, run, &job.actor),
        };
        let act = match job.token {
            Some(token) => act.by_token(token),
            None => act,
        };
        let act = match act.within(job.id).because(&job.reason) {
            Ok(act) => act,
            Err(error) => return refused(error.code(), error.to_string()),
        };
        // A server may have done it and died before it noted that, whatever became of the run since.
        match audit::is_done(self.cell.of(run), &act).await {
            Ok(true) => return JobOutcome::Done,
            Ok(false) => {}
            Err(_) => return postponed(),
        }
        match runs::find(self.cell.of(run), job.namespace_id, run).await {
            Ok(Some(found)) if found.state.as_str() == item.planned_state => {
                match self.has_moved(job.verb, &found, item).await {
                    Ok(false) => {}
                    Ok(true) => return moved(),
                    Err(_) => return postponed(),
                }
            }
            Ok(Some(found)) => return differs(job.verb, found.state, &item.planned_state),
            Ok(None) => return refused("run-not-found", "there is no such run".to_owned()),
            Err(_) => return postponed(),
        }
        let (code, note, passes) = match job.verb {
            JobVerb::Cancel => match self.cancel_by(job.namespace_id, run, &act).await {
                Ok(()) => return JobOutcome::Done,
                Err(error) => (
                    error.code(),
                    error.to_string(),
                    matches!(error, CancelError::Unavailable(_)),
                ),
            },
            JobVerb::Resume => {
                let wish = Wish {
                    reason: &job.reason,
                    ask_again: false,
                };
                match self.resume_by(job.namespace_id, run, wish, act).await {
                    Ok(()) => return JobOutcome::Done,
                    Err(error) => (
                        error.code(),
                        error.to_string(),
                        matches!(error, ResumeError::Unavailable(_) | ResumeError::Busy),
                    ),
                }
            }
        };
        match passes && attempts < ATTEMPTS_MAX {
            true => JobOutcome::Postponed,
            false => refused(code, note),
        }
    }

    /// Whether a run that is to be resumed went on since the operator was shown it.
    async fn has_moved(
        &self,
        verb: JobVerb,
        found: &RunView,
        item: &JobItem,
    ) -> Result<bool, ReadError> {
        match verb {
            JobVerb::Cancel => Ok(false),
            JobVerb::Resume => {
                let (cell, run) = (self.cell.of(item.run), item.run);
                let seq = journal::latest_seq(cell, found.partition_date, run).await?;
                Ok(seq != item.planned_seq)
            }
        }
    }
}

/// What becomes of a run that was resumed since, and came to the same state again.
fn moved() -> JobOutcome {
    refused(
        "run-changed",
        "the run went on since this was planned: plan it again".to_owned(),
    )
}

/// What becomes of a run that is in another state than the operator was shown: nothing is left to do
/// where somebody else did what the job wants.
fn differs(verb: JobVerb, state: RunState, planned: &str) -> JobOutcome {
    let wanted: &[RunState] = match verb {
        JobVerb::Cancel => &[RunState::Cancelled],
        JobVerb::Resume => &[RunState::Active, RunState::Succeeded],
    };
    match wanted.contains(&state) {
        true => JobOutcome::Done,
        false => refused(
            "run-changed",
            format!("the run was {planned} when this was planned, and is {state}: plan it again"),
        ),
    }
}

fn refused(code: &str, note: String) -> JobOutcome {
    JobOutcome::Refused {
        code: code.to_owned(),
        note,
    }
}

/// The digest of what is done to which runs, and of the states that they are in.
fn digest_of(wish: &RunJobWish, runs: &[PlannedRun]) -> String {
    let verb = wish.verb.as_str().as_bytes().to_vec();
    let mut all = vec![verb, wish.flow.as_str().as_bytes().to_vec()];
    for PlannedRun { run, state, seq } in runs {
        all.push(run.as_uuid().as_bytes().to_vec());
        all.push(state.as_bytes().to_vec());
        // A run that is cancelled may move meanwhile; one that failed again has to be looked at again.
        if wish.verb == JobVerb::Resume {
            all.push(seq.to_be_bytes().to_vec());
        }
    }
    let parts: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    let bytes = digest("semel.run-job.3", &parts);
    bytes[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
