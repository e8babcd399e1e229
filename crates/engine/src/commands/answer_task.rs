//! Tasks: work that outside programs claim, renew and answer.
//!
//! A task is an effect whose intent is committed before a worker can claim it. A worker answers
//! under the token of its claim, which is one conditional write that also wakes the run. An answer
//! under an older token changes nothing: that the work was done is recorded as a late response,
//! which may turn a doubt into done. Only the API token that made a claim answers under it, in time
//! or late, and sees the answer that it gave.

use std::sync::Arc;

use std::time::Duration;

use semel_model::storable::excerpt;
use semel_model::task::TaskState;
use semel_model::{Doubt, EffectId, Fault, FaultKind, Looked, RunId, Span};
use semel_steps::failpoint::failpoint;
use semel_store::ReadError;
use semel_store::late_responses::{self, LateResponse};
use semel_store::tasks::{
    self, ClaimedTask, Renewed, SubmittedAnswer, TaskAnswerResult, TaskClaim, TaskHold,
};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::memory::{Budget, Portion};
use crate::runtime::Runtime;
use crate::unavailable::unavailable_from_store;

/// The most characters of what a worker says about a failure.
const MESSAGE_CHARS_MAX: usize = 2_000;

/// The most characters of a failure's code.
const CODE_CHARS_MAX: usize = 64;

/// The code of a worker whose work is done and whose result cannot be sent.
pub const ANSWER_REFUSED: &str = "answer-refused";

/// A worker's answer to a task.
#[derive(Clone, Debug)]
pub enum TaskAnswer {
    /// It is done.
    Done(Value),
    /// It did not happen.
    Failed {
        /// A stable word for the kind of failure.
        code: String,
        /// What happened, for people.
        message: String,
        /// Whether another attempt may help.
        retryable: bool,
        /// How long to wait before that.
        retry_after: Option<Span>,
    },
    /// The worker cannot say whether it happened.
    InDoubt {
        /// What it saw.
        message: String,
    },
    /// It is done, and its result cannot be stored: doing it again would end the same way.
    Unstorable {
        /// Why.
        message: String,
    },
}

/// Why a worker's answer was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// There is no such task.
    #[error("there is no such task")]
    Unknown,
    /// The claim is not the latest or not the caller's, or its lease is over.
    #[error("the task is {state}, and not held under this token")]
    NotHeld {
        /// The state of the task.
        state: TaskState,
        /// Whether the worker's answer was recorded as a late response.
        kept: bool,
    },
    /// The task has another answer.
    #[error("the task was answered otherwise")]
    Answered {
        /// The recorded answer, where the caller gave it.
        recorded: Option<Value>,
    },
    /// The run no longer wants it.
    #[error("the task was withdrawn")]
    Withdrawn,
    /// The worker's answer cannot be stored.
    #[error("{0}")]
    Invalid(String),
    /// The database did not answer in time: sending again is safe.
    #[error("the answer could not be stored: {0}")]
    Unavailable(String),
}

impl TaskError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "task-not-found",
            Self::NotHeld { .. } => "task-not-held",
            Self::Answered { .. } => "task-answered",
            Self::Withdrawn => "task-withdrawn",
            Self::Invalid(_) => "body-invalid",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

unavailable_from_store!(TaskError);

/// An answer that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskAnswered {
    /// The run that continues.
    pub run: RunId,
    /// Whether it was recorded before.
    pub replayed: bool,
}

/// Memory for what a claim gives out.
#[derive(Clone, Copy, Debug)]
pub struct ClaimMemory<'a> {
    /// From where.
    pub budget: &'a Budget,
    /// How much.
    pub bytes: usize,
    /// How long a claim waits for it.
    pub patience: Duration,
}

impl ClaimMemory<'_> {
    async fn take(&self) -> Result<Portion, ClaimError> {
        let portion = self.budget.take_within(self.bytes, self.patience);
        portion.await.ok_or(ClaimError::NoMemory)
    }
}

/// Why nothing was claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// There is no memory for what would be given out: the claim may be made again.
    #[error("there is no memory for tasks")]
    NoMemory,
    /// The database did not answer: tasks may have been claimed all the same.
    #[error("tasks cannot be claimed")]
    Unavailable(#[from] ReadError),
}

/// Whether a claim got as much as one may have, so that there may be more for others.
fn is_full(claim: &TaskClaim, claimed: &[ClaimedTask]) -> bool {
    let bytes: usize = claimed.iter().map(|task| task.input.len()).sum();
    claimed.len() >= usize::from(claim.most.min(tasks::CLAIM_MAX))
        || bytes >= tasks::CLAIM_BYTES_MAX
}

impl Runtime {
    /// Claims tasks, and waits for some to be opened where there are none.
    pub async fn claim_tasks(
        self: &Arc<Self>,
        claim: &TaskClaim,
        patience: Duration,
    ) -> Result<Vec<ClaimedTask>, ReadError> {
        match self.claim(claim, patience, None).await {
            Ok((claimed, _)) => Ok(claimed),
            Err(ClaimError::NoMemory) => Ok(Vec::new()),
            Err(ClaimError::Unavailable(cause)) => Err(cause),
        }
    }

    /// The same within memory that is taken before tasks are claimed: what is claimed must be given out.
    pub async fn claim_tasks_within(
        self: &Arc<Self>,
        claim: &TaskClaim,
        patience: Duration,
        memory: &ClaimMemory<'_>,
    ) -> Result<(Vec<ClaimedTask>, Option<Portion>), ClaimError> {
        self.claim(claim, patience, Some(memory)).await
    }

    async fn claim(
        self: &Arc<Self>,
        claim: &TaskClaim,
        patience: Duration,
        memory: Option<&ClaimMemory<'_>>,
    ) -> Result<(Vec<ClaimedTask>, Option<Portion>), ClaimError> {
        let deadline = Instant::now() + patience;
        let queue = self
            .signals
            .waiting_claims
            .join(claim.namespace_id, &claim.queue);
        loop {
            // Before the read, so that a task that opens in between is not missed.
            let opened = queue.opened.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            let portion = match memory {
                Some(memory) => Some(memory.take().await?),
                None => None,
            };
            let claimed = tasks::claim(self.cell.every(), claim).await?;
            if !claimed.is_empty() {
                failpoint("claim.after", &claim.queue).await;
                if is_full(claim, &claimed) {
                    queue.opened.notify_one();
                }
                return Ok((claimed, portion));
            }
            // A claim that waits holds no memory.
            drop(portion);
            loop {
                if Instant::now() >= deadline || self.shutdown.requested.is_cancelled() {
                    return Ok((claimed, None));
                }
                tokio::select! {
                    () = opened.as_mut() => break,
                    () = sleep_until(deadline.min(queue.next_look())) => {}
                    () = self.shutdown.requested.cancelled() => {}
                }
                // Tasks that another server's runs opened are looked for by one claim for all.
                let now = Instant::now();
                if now >= deadline || queue.take_look(now) {
                    break;
                }
            }
        }
    }

    /// Renews a worker's lease.
    pub async fn renew_task(
        self: &Arc<Self>,
        hold: TaskHold,
        lease: Option<Span>,
    ) -> Result<Renewed, TaskError> {
        let cell = self.cell.of(hold.task);
        if let Some(renewed) = tasks::renew(cell, &hold, lease).await? {
            return Ok(renewed);
        }
        let view = tasks::find(cell, hold.namespace_id, hold.task).await;
        match view?.map(|view| view.state) {
            None => Err(TaskError::Unknown),
            Some(TaskState::Withdrawn) => Err(TaskError::Withdrawn),
            Some(state) => Err(TaskError::NotHeld { state, kept: false }),
        }
    }

    /// Records a worker's answer.
    pub async fn answer_task(
        self: &Arc<Self>,
        hold: TaskHold,
        said: TaskAnswer,
    ) -> Result<TaskAnswered, TaskError> {
        let (state, body) = to_record(said)?;
        let TaskHold { task, token, .. } = hold;
        let run = tasks::find_run(self.cell.of(task), hold.namespace_id, task).await;
        let run = run?.ok_or(TaskError::Unknown)?;
        let answer = SubmittedAnswer {
            task,
            run,
            token,
            caller: hold.caller,
            state,
            answer: body.to_string(),
        };
        failpoint("answer.before", &task.to_string()).await;
        let reply = self.writers.tasks.write(answer).await;
        failpoint("answer.after", &task.to_string()).await;
        match reply? {
            TaskAnswerResult::First => {
                self.signals.wake.notify_one();
                Ok(TaskAnswered {
                    run,
                    replayed: false,
                })
            }
            TaskAnswerResult::Unknown => Err(TaskError::Unknown),
            // Who did not make this claim learns that it is not theirs, and nothing else.
            TaskAnswerResult::Recorded {
                state,
                claimed: false,
                ..
            } => Err(TaskError::NotHeld { state, kept: false }),
            TaskAnswerResult::Recorded {
                state: stands,
                claimed: true,
                answered,
                answered_token,
                answer,
                ..
            } => {
                let same = answer.as_ref() == Some(&body);
                // A worker that could not send its result may send one that can be stored: it says
                // the same of the work, and counts as a late response.
                let mended = body.get("result").is_some() && is_unstorable(answer.as_ref());
                let own = answered_token == Some(token) && !mended;
                match (stands, own, same) {
                    (_, true, true) | (TaskState::Done, false, true) => Ok(TaskAnswered {
                        run,
                        replayed: true,
                    }),
                    (_, true, false) | (TaskState::Done, false, false) => {
                        Err(TaskError::Answered {
                            recorded: answer.filter(|_| answered),
                        })
                    }
                    (TaskState::Withdrawn, false, _) => Err(TaskError::Withdrawn),
                    (
                        TaskState::Open | TaskState::Held | TaskState::Failed | TaskState::Lost,
                        false,
                        _,
                    ) => {
                        let kept = self.record_late_response(run, task, token, &body).await?;
                        Err(TaskError::NotHeld {
                            state: stands,
                            kept,
                        })
                    }
                }
            }
        }
    }

    /// A late worker's answer that the task is done may turn a doubt into done, and nothing else.
    async fn record_late_response(
        self: &Arc<Self>,
        run: RunId,
        task: EffectId,
        token: i64,
        body: &Value,
    ) -> Result<bool, TaskError> {
        let Some(result) = body.get("result") else {
            return Ok(false);
        };
        let late = LateResponse {
            effect: task,
            attempt: i32::try_from(token).unwrap_or(i32::MAX),
            response: result.clone(),
        };
        late_responses::record_late_response(self.cell.of(run), run, 0, &late).await?;
        self.signals.wake.notify_one();
        Ok(true)
    }
}

/// An answer as the record keeps it.
fn to_record(said: TaskAnswer) -> Result<(TaskState, Value), TaskError> {
    Ok(match said {
        TaskAnswer::Done(result) => (TaskState::Done, json!({ "result": result })),
        TaskAnswer::Failed {
            code,
            message,
            retryable,
            retry_after,
        } => {
            let fault = Fault {
                code: format!("task-{}", read_code(&code)?),
                kind: FaultKind::Other,
                message: bounded(&message),
                retryable,
                retry_after,
                looked: Looked::AtNothing,
            };
            (TaskState::Failed, json!({ "fault": fault }))
        }
        TaskAnswer::InDoubt { message } => {
            let doubt = Doubt::new("worker-unsure", bounded(&message));
            (TaskState::Lost, json!({ "doubt": doubt }))
        }
        TaskAnswer::Unstorable { message } => {
            let message = format!("it is done, and its answer cannot be stored: {message}");
            let doubt = Doubt::for_operator(ANSWER_REFUSED, bounded(&message));
            let doubt = doubt.of(FaultKind::Unstorable);
            (TaskState::Lost, json!({ "doubt": doubt }))
        }
    })
}

/// Whether the recorded answer says that the work is done and its result cannot be stored.
fn is_unstorable(recorded: Option<&Value>) -> bool {
    let doubt = recorded.and_then(|answer| Doubt::deserialize(answer.get("doubt")?).ok());
    doubt.is_some_and(|doubt| doubt.kind == FaultKind::Unstorable)
}

fn read_code(code: &str) -> Result<&str, TaskError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if code.is_empty() || code.len() > CODE_CHARS_MAX || !code.chars().all(plain) {
        let message =
            format!("`code` has 1 to {CODE_CHARS_MAX} lower-case letters, digits and hyphens");
        return Err(TaskError::Invalid(message));
    }
    Ok(code)
}

fn bounded(message: &str) -> String {
    excerpt(message, MESSAGE_CHARS_MAX)
}
