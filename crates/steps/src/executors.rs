//! One door for the engine: a call goes to the executor of its kind.

use std::sync::Arc;

use semel_model::request::Call;
use semel_model::{EffectId, Fault, Guard, Outcome};

use crate::db::DbCaller;
use crate::destination::Destination;
use crate::egress::Egress;
use crate::gate::SendGate;
use crate::http::{HttpCaller, Pooling, SetupError};
use crate::notify::Notifier;
use crate::ssh::SshCaller;

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
    db: DbCaller,
    ssh: SshCaller,
    notifier: Notifier,
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
        let http = HttpCaller::new(gate.clone())?;
        Ok(Self {
            db: DbCaller::new(gate.clone(), reach),
            ssh: SshCaller::new(gate.clone(), reach),
            notifier: Notifier::new(gate, reach, http.clone()),
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
            Call::Db(request) => match named(attempt.to) {
                Ok(to) => self.db.perform(request, to, attempt.key).await,
                Err(fault) => Outcome::Failed(fault),
            },
            Call::Ssh(request) => match named(attempt.to) {
                Ok(to) => self.ssh.perform(request, to, attempt.key).await,
                Err(fault) => Outcome::Failed(fault),
            },
            Call::Notify(message) => match named(attempt.to) {
                Ok(to) => self.notifier.perform(message, to, attempt.key).await,
                Err(fault) => Outcome::Failed(fault),
            },
            Call::Kv(_) | Call::Llm(_) | Call::Persist(_) | Call::Emit(_) => {
                Outcome::Failed(no_executor(attempt.call))
            }
        }
    }

    /// Asks the destination's own marker what became of an effect. Changes nothing.
    pub async fn probe(&self, attempt: Attempt<'_>) -> Outcome {
        match attempt.call {
            Call::Ssh(request) => match named(attempt.to) {
                Ok(to) => self.ssh.probe(request, to, attempt.key).await,
                Err(fault) => Outcome::Failed(fault),
            },
            Call::Http(_)
            | Call::Kv(_)
            | Call::Db(_)
            | Call::Notify(_)
            | Call::Llm(_)
            | Call::Persist(_)
            | Call::Emit(_) => Outcome::Failed(no_executor(attempt.call)),
        }
    }

    /// Makes a call that changes nothing, and may be made again.
    pub async fn read(&self, call: &Call, to: Option<&Destination>) -> Outcome {
        match call {
            Call::Http(request) => self.http.perform(request, None, Pooling::Shared).await,
            Call::Db(request) => match named(to) {
                Ok(to) => self.db.read(request, to).await,
                Err(fault) => Outcome::Failed(fault),
            },
            Call::Kv(_)
            | Call::Ssh(_)
            | Call::Notify(_)
            | Call::Llm(_)
            | Call::Persist(_)
            | Call::Emit(_) => Outcome::Failed(no_executor(call)),
        }
    }
}

/// The destination of a call that cannot do without one.
fn named(to: Option<&Destination>) -> Result<&Destination, Fault> {
    to.ok_or_else(|| Fault::permanent("connection-missing", "the call names no connection"))
}

fn no_executor(call: &Call) -> Fault {
    let message = format!("this build cannot perform `{}`", call.kind());
    Fault::permanent("not-in-this-build", message)
}
