//! Callbacks: requests to the address of a wait. The first one completes it; a repeat gets the
//! recorded answer.

use std::sync::Arc;

use semel_model::wait::WaitState;
use semel_model::{Fingerprint, RunId, WaitId, json};
use semel_store::duplicates::{DuplicateVerdict, StoppedRepeat, Subject};
use semel_store::waits::{Callback, CallbackResult};
use semel_store::{runs, waits};
use serde_json::Value;

use crate::address::{Domain, read_token};
use crate::runtime::Runtime;
use crate::unavailable::unavailable_from_store;

/// The outcome of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// The run that continues.
    pub run: RunId,
    /// The wait that it completed.
    pub wait: WaitId,
    /// Whether another was first.
    pub replayed: bool,
}

/// Why a callback was refused.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// There is no such wait, it has timed out, or its run has ended. The answer does not say
    /// which.
    #[error("there is nothing waiting here")]
    Unknown,
    /// What it brings is not JSON.
    #[error("the payload cannot be read: {0}")]
    NotJson(String),
    /// The database did not answer in time: sending again is safe.
    #[error("the callback could not be stored: {0}")]
    Unavailable(String),
}

impl CallbackError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "callback-not-found",
            Self::NotJson(_) => "body-not-json",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

unavailable_from_store!(CallbackError);

impl Runtime {
    /// Accepts a request to a callback's address.
    pub async fn call_back(
        self: &Arc<Self>,
        token: &str,
        body: &[u8],
    ) -> Result<Called, CallbackError> {
        let named = read_token(&self.options.secret, Domain::Callback, token);
        let (run, wait, begins_in) = match named.as_deref() {
            Some([run, wait]) => (run, wait, None),
            Some([run, wait, begins_in]) => (run, wait, Some(RunId::from_uuid(*begins_in))),
            _ => return Err(CallbackError::Unknown),
        };
        let (payload, text) = read_payload(body)?;
        let callback = Callback {
            wait: WaitId::from_uuid(*wait),
            run: RunId::from_uuid(*run),
            begins_in,
            payload: text,
            act: None,
        };
        self.answer(None, callback, payload).await
    }

    /// Answers a wait, or the same wait of the run that has taken the place of its run.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        namespace_id: Option<i32>,
        callback: Callback,
        payload: Value,
    ) -> Result<Called, CallbackError> {
        let asked = callback.clone();
        let answered = self.answer_wait(namespace_id, callback, &payload).await;
        let Err(CallbackError::Unknown) = answered else {
            return answered;
        };
        match self.successor(&asked).await? {
            Some(run) => {
                let begins_in = None;
                let callback = Callback {
                    run,
                    begins_in,
                    ..asked
                };
                self.answer_wait(namespace_id, callback, &payload).await
            }
            None => answered,
        }
    }

    /// The run that stands, or will stand, at the wait of a run whose key has a newer run.
    async fn successor(self: &Arc<Self>, asked: &Callback) -> Result<Option<RunId>, CallbackError> {
        let holder = waits::find_run(self.cell.of(asked.wait), asked.wait).await?;
        match holder.filter(|holder| *holder != asked.run) {
            Some(holder) => Ok(Some(holder)),
            None => Ok(runs::find_successor(self.cell.of(asked.run), asked.run).await?),
        }
    }

    async fn answer_wait(
        self: &Arc<Self>,
        namespace_id: Option<i32>,
        callback: Callback,
        payload: &Value,
    ) -> Result<Called, CallbackError> {
        let (run, wait) = (callback.run, callback.wait);
        let known = callback.begins_in.unwrap_or(run);
        let reply = self.writers.waits.write(callback).await;
        match reply? {
            CallbackResult::First => {
                self.metrics.callbacks.add_one();
                self.signals.wake.notify_one();
                Ok(Called {
                    run,
                    wait,
                    replayed: false,
                })
            }
            CallbackResult::Recorded {
                state: WaitState::Answered,
                ..
            } => {
                self.metrics.callback_repeats.add_one();
                let namespace_id = match namespace_id {
                    Some(namespace_id) => namespace_id,
                    None => self.namespace_of(known).await,
                };
                self.writers.duplicates.add(StoppedRepeat {
                    subject: Subject::Wait(wait),
                    namespace_id,
                    run,
                    fingerprint: Fingerprint::of(payload),
                    kind: DuplicateVerdict::Repeat,
                    payload: None,
                    arrival: None,
                    at: self.clock.now(),
                });
                Ok(Called {
                    run,
                    wait,
                    replayed: true,
                })
            }
            CallbackResult::Recorded {
                state: WaitState::Open | WaitState::Elapsed | WaitState::Cancelled,
                ..
            }
            | CallbackResult::Unknown => Err(CallbackError::Unknown),
            CallbackResult::NotTried => {
                let why = "another callback of the wait was judged instead";
                Err(CallbackError::Unavailable(why.to_owned()))
            }
        }
    }

    async fn namespace_of(self: &Arc<Self>, run: RunId) -> i32 {
        semel_store::runs::find_namespace(self.cell.of(run), run)
            .await
            .ok()
            .flatten()
            .unwrap_or(0)
    }
}

fn read_payload(body: &[u8]) -> Result<(Value, String), CallbackError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok((Value::Null, "null".to_owned()));
    }
    let not_json = |reason: String| CallbackError::NotJson(reason);
    let payload = json::parse_strict(body).map_err(|error| not_json(error.to_string()))?;
    let text = std::str::from_utf8(body).map_err(|error| not_json(error.to_string()))?;
    Ok((payload, text.to_owned()))
}
