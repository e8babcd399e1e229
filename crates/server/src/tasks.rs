//! Tasks: claim, renew, answer, list and show.
//!
//! The token of a claim is what makes a repeat safe here: the same answer under the same token is
//! the same answer. A claim under an `Idempotency-Key` gets what the first one claimed, for as long
//! as that is held. All of it holds for one API token: another one's claims are not the caller's.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use semel_api::Code;
use semel_api::types::{
    AnsweredTask, ClaimTasks, ClaimedTask, ClaimedTasks, CompleteTask, FailTask, RenewTask,
    RenewedTask, Task, TaskFilter,
};
use semel_engine::commands::answer_task::{ANSWER_REFUSED, ClaimError, TaskAnswer, TaskError};
use semel_engine::memory::Portion;
use semel_model::{EffectId, Span};
use semel_store::tasks::{self, TaskClaim, TaskHold, TaskView};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::{Payload, overloaded};
use crate::commands::{KEY_HEADER, identify_own};
use crate::cursor;
use crate::error::ApiError;
use crate::list_memory::{ListMemory, OneByOne};
use crate::payloads;
use crate::query::{Named, Params, page_size, patience, read_key};

/// The longest that a worker may wait for work in one request.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// How many claims of one token wait for tasks at once, on one server.
pub(crate) const WAITING_EACH: usize = 64;

/// The shortest and the longest lease that a worker may ask for, in seconds.
const LEASE_SECS: std::ops::RangeInclusive<u64> = 1..=86_400;

/// The longest name of a worker or a queue.
const NAME_BYTES_MAX: usize = 200;

/// `POST /v1/tasks/claim`.
pub(crate) async fn claim(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (asked, _) = payload.read::<ClaimTasks>()?;
    let name = match headers.get(KEY_HEADER) {
        Some(key) => {
            let key = read_key(key.as_bytes())?;
            Some(identify_own(&caller, "task.claim", key.as_bytes()))
        }
        None => None,
    };
    let queue = named("queue", asked.queue)?;
    if !caller.may_work_on(&queue) {
        return Err(caller.lacks_queue(&queue));
    }
    let wait = patience(asked.wait, WAIT_MAX);
    let claim = TaskClaim {
        namespace_id: caller.namespace_id,
        caller: caller.id,
        queue,
        most: asked.max.unwrap_or(1),
        worker: asked.worker.map(|it| named("worker", it)).transpose()?,
        name,
        lease: asked.lease.map(read_lease).transpose()?,
    };
    let (claimed, portion) = claim_or_wait(&app, &claim, wait).await?;
    let Some(portion) = portion else {
        return answer::ok_to_worker(&ClaimedTasks { tasks: Vec::new() });
    };
    // Each task is made when it is written. A worker gets links that decide approvals as they are.
    #[derive(Serialize)]
    #[serde(bound = "")]
    struct Written<I: Iterator<Item = ClaimedTask>> {
        tasks: OneByOne<I>,
    }
    let tasks = OneByOne::new(claimed.into_iter().map(view_claimed));
    let text = serde_json::to_string(&Written { tasks });
    let text = text.map_err(|_| ApiError::internal("an answer that is not JSON"))?;
    Ok(ListMemory::of_portion(portion).answer(text))
}

/// Waits for tasks where the caller has a place to wait in: idle workers must not keep the server busy.
async fn claim_or_wait(
    app: &App,
    claim: &TaskClaim,
    wait: Duration,
) -> Result<(Vec<tasks::ClaimedTask>, Option<Portion>), ApiError> {
    let place = (!wait.is_zero()).then(|| app.waiting_claims.take(claim.caller));
    let is_refused = matches!(place, Some(None));
    let wait = if is_refused { Duration::ZERO } else { wait };
    let memory = ListMemory::of_claim(app);
    let claimed = app.engine.claim_tasks_within(claim, wait, &memory).await?;
    if is_refused && claimed.0.is_empty() {
        let detail = format!("{WAITING_EACH} claims of this token wait for tasks already");
        let hint = "Claim more tasks in one request, or give each machine a token of its own.";
        let refusal = ApiError::new(Code::TooManyRequests, detail).with_hint(hint.to_owned());
        return Err(refusal.retry_in(Span::from_secs(1)));
    }
    Ok(claimed)
}

/// `POST /v1/tasks/{task}/heartbeat`.
pub(crate) async fn renew(
    State(app): State<App>,
    caller: Caller,
    task: Named,
    payload: Payload,
) -> Answered {
    let task: EffectId = task.read(Code::TaskNotFound)?;
    let (RenewTask { token, lease }, _) = payload.read()?;
    let lease = lease.map(read_lease).transpose()?;
    check_queue(&app, &caller, task).await?;
    let hold = hold(&caller, task, token);
    let renewed = app.engine.renew_task(hold, lease).await?;
    answer::ok(&RenewedTask {
        task,
        lease_until: renewed.lease_until,
        cancel: renewed.cancel,
    })
}

/// `POST /v1/tasks/{task}/complete`.
pub(crate) async fn complete(
    State(app): State<App>,
    caller: Caller,
    task: Named,
    payload: Payload,
) -> Answered {
    let refusal = match payload.read::<CompleteTask>() {
        Ok((CompleteTask { token, result }, _)) => {
            return answer(app, caller, task, token, TaskAnswer::Done(result)).await;
        }
        Err(refusal) => refusal,
    };
    // The worker says that it is done, with a result that cannot be stored. Without this answer it
    // would count as lost, and another worker would do the work and end the same way. A body that
    // is invalid otherwise says nothing of the result: the worker corrects it and sends it again.
    let unread = refusal.problem().code() == Some(Code::BodyNotJson);
    if let Some(token) = token_of(&payload).filter(|_| unread) {
        let message = refusal.problem().detail.clone();
        let word = TaskAnswer::Unstorable { message };
        answer(app, caller, task, token, word).await?;
    }
    Err(refusal)
}

/// The token in a body that is valid except for its result, which cannot be stored.
fn token_of(payload: &Payload) -> Option<i64> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Token {
        token: i64,
        #[serde(rename = "result", default)]
        _result: IgnoredAny,
    }
    let read: Token = serde_json::from_slice(&payload.0).ok()?;
    Some(read.token)
}

/// `POST /v1/tasks/{task}/fail`.
pub(crate) async fn fail(
    State(app): State<App>,
    caller: Caller,
    task: Named,
    payload: Payload,
) -> Answered {
    let (said, _) = payload.read::<FailTask>()?;
    let word = match (said.in_doubt, said.code.as_deref()) {
        (true, Some(ANSWER_REFUSED)) => TaskAnswer::Unstorable {
            message: said.message,
        },
        (true, _) => TaskAnswer::InDoubt {
            message: said.message,
        },
        (false, _) => TaskAnswer::Failed {
            code: said.code.unwrap_or_else(|| "failed".to_owned()),
            message: said.message,
            retryable: said.retryable,
            retry_after: said.retry_after,
        },
    };
    answer(app, caller, task, said.token, word).await
}

/// The work is a task of its own: a worker that hangs up does not stop it half way.
async fn answer(app: App, caller: Caller, task: Named, token: i64, word: TaskAnswer) -> Answered {
    let task: EffectId = task.read(Code::TaskNotFound)?;
    check_queue(&app, &caller, task).await?;
    let (engine, hold) = (app.engine.clone(), hold(&caller, task, token));
    let written = tokio::spawn(async move { engine.answer_task(hold, word).await });
    let Ok(answered) = written.await else {
        return Err(ApiError::internal("an answer panicked"));
    };
    let answered = answered?;
    let mut response = answer::ok(&AnsweredTask {
        task,
        run: answered.run,
        accepted: true,
    })?;
    if answered.replayed {
        answer::mark_replayed(&mut response);
    }
    Ok(response)
}

/// A task of a queue that the token is not for looks like one that is not there: a worker learns nothing of
/// the tasks of others by trying ids.
async fn check_queue(app: &App, caller: &Caller, task: EffectId) -> Result<(), ApiError> {
    if caller.queues.is_empty() {
        return Ok(());
    }
    let cell = app.engine.cell().of(task);
    let queue = tasks::find_queue(cell, caller.namespace_id, task).await?;
    match queue.is_some_and(|queue| caller.may_work_on(&queue)) {
        true => Ok(()),
        false => Err(ApiError::plain(Code::TaskNotFound)),
    }
}

/// `GET /v1/tasks`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(asked): Params<TaskFilter>,
) -> Answered {
    let limit = page_size(asked.limit);
    let filter = tasks::TaskFilter {
        queue: asked.queue,
        run: asked.run,
        state: asked.state,
        all: asked.all,
        before: cursor::read(asked.cursor.as_deref())?,
    };
    let memory = ListMemory::take(&app, caller.namespace_id).await?;
    let found = tasks::list(app.cell().every(), caller.namespace_id, &filter, limit).await?;
    let next = found.next.map(cursor::write_position);
    payloads::page(&caller, memory, found.items, view, next)
}

/// `GET /v1/tasks/{task}`.
pub(crate) async fn show(State(app): State<App>, caller: Caller, task: Named) -> Answered {
    let task: EffectId = task.read(Code::TaskNotFound)?;
    let found = tasks::find(app.cell().of(task), caller.namespace_id, task).await?;
    let found = found.ok_or_else(|| ApiError::plain(Code::TaskNotFound))?;
    payloads::ok(&caller, view(found))
}

fn hold(caller: &Caller, task: EffectId, token: i64) -> TaskHold {
    TaskHold {
        namespace_id: caller.namespace_id,
        task,
        token,
        caller: caller.id,
    }
}

fn named(field: &str, name: String) -> Result<String, ApiError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        let detail = format!("`{field}` has 1 to {NAME_BYTES_MAX} bytes of text");
        return Err(ApiError::new(Code::BodyInvalid, detail));
    }
    Ok(name)
}

fn read_lease(lease: Span) -> Result<Span, ApiError> {
    if LEASE_SECS.contains(&(lease.as_millis() / 1_000)) {
        return Ok(lease);
    }
    let detail = "`lease` lies between 1s and 1d";
    Err(ApiError::new(Code::BodyInvalid, detail))
}

fn view_claimed(task: tasks::ClaimedTask) -> ClaimedTask {
    ClaimedTask {
        task: task.task,
        key: task.task,
        run: task.run,
        step: task.step,
        queue: task.queue,
        attempt: task.attempt,
        token: task.token,
        lease: task.lease,
        lease_until: task.lease_until,
        until: task.until,
        input: read(&task.input),
    }
}

fn view(task: TaskView) -> Task {
    Task {
        task: task.task,
        run: task.run,
        queue: task.queue,
        step: task.step,
        state: task.state,
        attempt: task.attempt,
        worker: task.worker,
        opened_at: task.opened_at,
        lease_until: task.lease_until,
        until: task.until,
        ended_at: task.ended_at,
        input: read(&task.input),
        answer: task.answer.as_deref().map(read),
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

impl From<ClaimError> for ApiError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::NoMemory => overloaded(),
            ClaimError::Unavailable(cause) => cause.into(),
        }
    }
}

impl From<TaskError> for ApiError {
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Unknown => Self::plain(Code::TaskNotFound),
            TaskError::NotHeld { state, kept } => {
                let kept = match kept {
                    true => "; the answer is recorded as a late response",
                    false => "",
                };
                let detail = format!("the task is {state}, and not held under this token{kept}");
                Self::new(Code::TaskNotHeld, detail)
            }
            TaskError::Answered {
                recorded: Some(recorded),
            } => {
                let detail = format!("the recorded answer is {recorded}");
                Self::new(Code::TaskAnswered, detail)
            }
            TaskError::Answered { recorded: None } => {
                Self::new(Code::TaskAnswered, "another worker answered it")
            }
            TaskError::Withdrawn => Self::plain(Code::TaskWithdrawn),
            TaskError::Invalid(detail) => Self::new(Code::BodyInvalid, detail),
            TaskError::Unavailable(cause) => Self::database(&cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_body_that_is_right_but_for_its_result_has_a_token() {
        let token = |body: &'static [u8]| token_of(&Payload::of(body));

        assert_eq!(token(br#"{"token":7,"result":9007199254740993}"#), Some(7));
        assert_eq!(token(br#"{"token":7,"result":{"a":1,"a":2}}"#), Some(7));
        assert_eq!(token(br#"{"token":7,"reslt":9007199254740993}"#), None);
        assert_eq!(token(br#"{"token":7,"result":1,"result":2}"#), None);
        assert_eq!(token(b"nothing"), None);
    }
}
