//! One door for the engine: a call goes to the executor of its kind.

use std::sync::Arc;

use semel_model::request::Call;
use semel_model::{EffectId, Fault, Guard, Outcome};

use crate::destination::Destination;
use crate::egress::Egress;
use crate::gate::SendGate;
use crate::http::{HttpCaller, Pooling, SetupError};

/// What all sessions of a process share.
#[derive(Clone, Default)]
pub struct Reach {
    /// Which addresses may be spoken to.
    pub egress: Arc<Egress>,
}

/// One executor per kind of call, for as long as a session's gate is open.
#[derive(Clone)]
pub struct Executors {
    reach: Reach,
    http: HttpCaller,
}

/// One attempt at an effect.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// What is sent.
    pub call: &'a Call,
    /// Where it goes, where the call names a connection.
    pub to: Option<&'a Destination>,
    /// The effect's key.
    pub key: EffectId,
    /// How the effect is made safe.
    pub guard: Guard,
}

impl Executors {
    /// Executors that send only while the gate is open.
    ///
    /// # Errors
    ///
    /// Where the system's TLS cannot be set up.
    pub fn new(gate: Arc<dyn SendGate>, reach: &Reach) -> Result<Self, SetupError> {
        Ok(Self {
            reach: reach.clone(),
            http: HttpCaller::new(gate)?,
        })
    }

    /// What all sessions of the process share.
    pub(crate) const fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Makes one attempt at an effect. Secrets that come back are taken out.
    pub async fn perform(&self, attempt: Attempt<'_>) -> Outcome {
        let outcome = self.send(attempt).await;
        redacted(outcome, attempt.to)
    }

    /// Makes a call that changes nothing, and may be made again. Secrets that come back are taken
    /// out.
    pub async fn read(&self, call: &Call, to: Option<&Destination>) -> Outcome {
        redacted(self.ask(call, to).await, to)
    }

    async fn send(&self, attempt: Attempt<'_>) -> Outcome {
        let pooling = match attempt.guard {
            Guard::Review | Guard::Probe => Pooling::Fresh,
            Guard::Transaction | Guard::Key | Guard::Natural | Guard::Repeat => Pooling::Shared,
        };
        match attempt.call {
            Call::Http(request) => self.http.perform(request, Some(attempt.key), pooling).await,
            Call::Kv(_)
            | Call::Db(_)
            | Call::Ssh(_)
            | Call::Notify(_)
            | Call::Llm(_)
            | Call::Persist(_)
            | Call::Emit(_) => Outcome::Failed(no_executor(attempt.call)),
        }
    }

    async fn ask(&self, call: &Call, _to: Option<&Destination>) -> Outcome {
        match call {
            Call::Http(request) => self.http.perform(request, None, Pooling::Shared).await,
            Call::Kv(_)
            | Call::Db(_)
            | Call::Ssh(_)
            | Call::Notify(_)
            | Call::Llm(_)
            | Call::Persist(_)
            | Call::Emit(_) => Outcome::Failed(no_executor(call)),
        }
    }
}

fn redacted(outcome: Outcome, to: Option<&Destination>) -> Outcome {
    match to {
        Some(to) => to.redactor().redact(outcome),
        None => outcome,
    }
}

fn no_executor(call: &Call) -> Fault {
    let message = format!("this build cannot perform `{}`", call.kind());
    Fault::permanent("not-in-this-build", message)
}
