//! Waits: callback addresses, and what comes to them.
//!
//! An address is derived from run and step before the wait begins, so that an earlier step can hand
//! it out. It carries the run (and so the slot), the wait, and a code that only the holder of the
//! installation's secret can make: nothing about it is kept. The address of a wait in a branch that
//! may not have begun carries the run in which it begins, too: until then that one vouches for it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use semel_model::wait::State;
use semel_model::{Fingerprint, RunId, WaitId, json};
use semel_store::audit::Act;
use semel_store::duplicates::{DuplicateVerdict, Stopped, Subject};
use semel_store::waits::{self, Callback, Reply};
use serde_json::Value;
use sha2::Sha256;
use uuid::Uuid;

use crate::engine::{Engine, Inner, Secret};

/// How many bytes of an address are its code.
const CODE_LEN: usize = 32;

/// What a callback came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// The run that goes on.
    pub run: RunId,
    /// The wait that it answered.
    pub wait: WaitId,
    /// Whether another was first.
    pub replayed: bool,
}

/// Why a callback came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum CallbackError {
    /// There is no such wait, it has run out, or its run has ended. Nobody is told which.
    #[error("there is nothing waiting here")]
    Unknown,
    /// What it brings is not JSON.
    #[error("the payload cannot be read: {0}")]
    NotJson(String),
    /// The database did not answer in time: sending again is safe.
    #[error("the callback could not be written down: {0}")]
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

impl Engine {
    /// Takes in a call to a callback's address.
    pub async fn call_back(&self, token: &str, body: &[u8]) -> Result<Called, CallbackError> {
        let named = read_token(&self.inner.options.secret, Domain::Callback, token);
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

    /// Answers a wait in a person's name.
    pub async fn complete_wait(
        &self,
        namespace_id: i32,
        wait: WaitId,
        payload: Value,
        actor: &str,
    ) -> Result<Called, CallbackError> {
        let unavailable =
            |error: semel_store::ReadError| CallbackError::Unavailable(error.to_string());
        let cell = &self.inner.cell;
        let view = waits::find(cell, namespace_id, wait)
            .await
            .map_err(unavailable)?;
        let view = view.ok_or(CallbackError::Unknown)?;
        let act = Act::new(namespace_id, actor, "wait.complete", &wait.to_string());
        let callback = Callback {
            act: Some(act.about(view.run)),
            ..Callback::of(view.run, wait, payload.to_string())
        };
        self.answer(Some(namespace_id), callback, payload).await
    }

    pub(crate) async fn answer(
        &self,
        namespace_id: Option<i32>,
        callback: Callback,
        payload: Value,
    ) -> Result<Called, CallbackError> {
        let inner = &self.inner;
        let (run, wait) = (callback.run, callback.wait);
        let known = callback.begins_in.unwrap_or(run);
        let reply = inner.answering.write(callback).await;
        match reply.map_err(|error| CallbackError::Unavailable(error.to_string()))? {
            Reply::First => {
                inner.metrics.callbacks.add_one();
                inner.wake.notify_one();
                Ok(Called {
                    run,
                    wait,
                    replayed: false,
                })
            }
            Reply::Recorded {
                state: State::Answered,
                ..
            } => {
                inner.metrics.callback_repeats.add_one();
                let namespace_id = match namespace_id {
                    Some(namespace_id) => namespace_id,
                    None => self.namespace_of(known).await,
                };
                inner.tally.add(Stopped {
                    subject: Subject::Wait(wait),
                    namespace_id,
                    run,
                    fingerprint: Fingerprint::of(&payload),
                    kind: DuplicateVerdict::Repeat,
                    payload: None,
                    at: inner.clock.now(),
                });
                Ok(Called {
                    run,
                    wait,
                    replayed: true,
                })
            }
            Reply::Recorded {
                state: State::Open | State::Elapsed | State::Cancelled,
                ..
            }
            | Reply::Unknown => Err(CallbackError::Unknown),
        }
    }

    async fn namespace_of(&self, run: RunId) -> i32 {
        semel_store::runs::find_namespace(&self.inner.cell, run)
            .await
            .ok()
            .flatten()
            .unwrap_or(0)
    }
}

/// Whoever comes to a step that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comer {
    /// The run that does.
    pub(crate) run: RunId,
    /// The run in which that one begins, where it is a branch that may not have begun.
    pub(crate) begins_in: Option<RunId>,
}

/// The address that answers a wait.
pub(crate) fn address(inner: &Inner, comer: Comer, step: &str) -> String {
    let wait = WaitId::derive(comer.run, step);
    let mut named = vec![*comer.run.as_uuid(), *wait.as_uuid()];
    named.extend(comer.begins_in.map(|run| *run.as_uuid()));
    let token = make_token(&inner.options.secret, Domain::Callback, &named);
    format!(
        "{}/callbacks/{token}",
        inner.options.public_url.trim_end_matches('/')
    )
}

/// What an address opens. One of a kind opens nothing of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// A wait for a callback.
    Callback,
    /// An approval.
    Approval,
}

impl Domain {
    const fn tag(self) -> &'static [u8] {
        match self {
            Self::Callback => b"semel.callback.1",
            Self::Approval => b"semel.approval.1",
        }
    }
}

/// What names so many identities in an address.
pub(crate) fn make_token(secret: &Secret, domain: Domain, named: &[Uuid]) -> String {
    let mut bytes: Vec<u8> = named.iter().flat_map(|id| *id.as_bytes()).collect();
    let code = code(secret, domain, &bytes).finalize().into_bytes();
    bytes.extend(code);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The identities that an address names; nothing where it was not made here.
pub(crate) fn read_token(secret: &Secret, domain: Domain, token: &str) -> Option<Vec<Uuid>> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (named, given) = bytes.split_at_checked(bytes.len().checked_sub(CODE_LEN)?)?;
    // Compared in constant time.
    match semel_model::SeededBug::CallbackCodeCutShort.is_seeded() {
        true => code(secret, domain, named).verify_truncated_left(&given[..CODE_LEN / 2]),
        false => code(secret, domain, named).verify_slice(given),
    }
    .ok()?;
    let ids = named.chunks(16).map(Uuid::from_slice);
    ids.collect::<Result<_, _>>().ok()
}

fn code(secret: &Secret, domain: Domain, identities: &[u8]) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes());
    let Ok(mut mac) = mac else {
        unreachable!("any key length makes an HMAC")
    };
    mac.update(domain.tag());
    if !semel_model::SeededBug::CallbackCodeNotBound.is_seeded() {
        mac.update(identities);
    }
    mac
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
