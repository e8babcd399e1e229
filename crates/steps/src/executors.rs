//! One door for the engine: a call goes to the executor of its kind.

use std::sync::Arc;

use semel_model::request::Call;
use semel_model::{EffectId, Fault, Guard, Outcome};

use crate::destination::Destination;
use crate::egress::Egress;
use crate::gate::SendGate;
use crate::http::{HttpCaller, Pooling, SetupError};
use crate::llm::LlmCaller;

/// What all sessions of a process share.
#[derive(Clone, Default)]
pub struct Reach {
    /// Which addresses may be spoken to.
    pub egress: Arc<Egress>,
}

/// One executor per kind of call, for as long as a session's gate is open.
#[derive(Clone)]
pub struct Executors {
    http: HttpCaller,
    llm: LlmCaller,
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
    pub fn new(gate: Arc<dyn SendGate>, _reach: &Reach) -> Result<Self, SetupError> {
        let http = HttpCaller::new(gate)?;
        Ok(Self {
            llm: LlmCaller::new(http.clone()),
            http,
        })
    }

    /// Makes one attempt at an effect.
    pub async fn perform(&self, attempt: Attempt<'_>) -> Outcome {
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
            | Call::Persist(_)
            | Call::Emit(_) => Outcome::Failed(no_executor(attempt.call)),
            Call::Llm(request) => match attempt.to {
                Some(to) => self.llm.ask(request, to).await,
                None => Outcome::Failed(no_destination(attempt.call)),
            },
        }
    }

    /// Makes a call that changes nothing, and may be made again.
    pub async fn read(&self, call: &Call, _to: Option<&Destination>) -> Outcome {
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

fn no_executor(call: &Call) -> Fault {
    let message = format!("this build cannot perform `{}`", call.kind());
    Fault::permanent("not-in-this-build", message)
}

fn no_destination(call: &Call) -> Fault {
    let name = call.connection().unwrap_or_default();
    let message = format!("there is no connection `{name}`: semel connection set {name}");
    Fault::passing("connection-missing", message)
}
