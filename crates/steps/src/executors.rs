//! One door for the engine: a call goes to the executor of its kind.

use std::sync::Arc;

use semel_model::request::Call;
use semel_model::{EffectId, Fault, Guard, Outcome};

use crate::destination::Destination;
use crate::egress::Egress;
use crate::gate::SendGate;
use crate::http::{HttpCaller, Pooling, Route, SetupError, Tokens};
use crate::limits::Limits;
use crate::llm::LlmCaller;
use crate::resources::{NoResources, ResourceStore};

/// What all sessions of a process share. By default: public addresses, and no resources.
#[derive(Clone)]
pub struct Reach {
    /// Which addresses may be spoken to.
    pub egress: Arc<Egress>,
    /// How much each destination may be asked.
    pub limits: Arc<Limits>,
    /// Tokens that were fetched to sign in with.
    pub tokens: Arc<Tokens>,
    /// Where large bodies come from and go to.
    pub resources: Arc<dyn ResourceStore>,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            egress: Arc::default(),
            limits: Arc::default(),
            tokens: Arc::default(),
            resources: Arc::new(NoResources),
        }
    }
}

impl Reach {
    /// Public addresses, and those special ranges that the operator opened.
    #[must_use]
    pub fn new(egress: Egress) -> Self {
        Self {
            egress: Arc::new(egress),
            ..Self::default()
        }
    }

    /// Every address there is: for tests and rehearsals, whose destinations are on this machine.
    #[must_use]
    pub fn open() -> Self {
        Self::new(Egress::open())
    }
}

/// One executor per kind of call, for as long as a session's gate is open.
#[derive(Clone)]
pub struct Executors {
    http: HttpCaller,
    limits: Arc<Limits>,
    llm: LlmCaller,
}

/// One attempt at an effect.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// Whose it is.
    pub namespace_id: i32,
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
        let http = HttpCaller::new(gate, reach)?;
        Ok(Self {
            llm: LlmCaller::new(http.clone()),
            limits: reach.limits.clone(),
            http,
        })
    }

    /// Makes one attempt at an effect, as far as its destination has room for it.
    pub async fn perform(&self, attempt: Attempt<'_>) -> Outcome {
        self.within_limits(attempt.to, self.send(attempt)).await
    }

    async fn send(&self, attempt: Attempt<'_>) -> Outcome {
        let pooling = match attempt.guard {
            Guard::Review | Guard::Probe => Pooling::Fresh,
            Guard::Transaction | Guard::Key | Guard::Natural | Guard::Repeat => Pooling::Shared,
        };
        match attempt.call {
            Call::Http(request) => {
                let route = Route {
                    namespace_id: attempt.namespace_id,
                    to: attempt.to,
                };
                let key = Some(attempt.key);
                self.http.perform(request, route, key, pooling).await
            }
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

    /// Asks for the marker that a command left where it ran.
    pub async fn find_marker(&self, route: Route<'_>, call: &Call, key: EffectId) -> Outcome {
        self.within_limits(route.to, self.ask_marker(route, call, key)).await
    }

    async fn ask_marker(&self, _route: Route<'_>, call: &Call, _key: EffectId) -> Outcome {
        Outcome::Failed(no_executor(call))
    }

    /// Makes a call that changes nothing, and may be made again, as far as its destination has
    /// room for it.
    pub async fn read(&self, route: Route<'_>, call: &Call) -> Outcome {
        self.within_limits(route.to, self.ask(route, call)).await
    }

    async fn ask(&self, route: Route<'_>, call: &Call) -> Outcome {
        match call {
            Call::Http(request) => {
                let pooling = Pooling::Shared;
                self.http.perform(request, route, None, pooling).await
            }
            Call::Kv(_)
            | Call::Db(_)
            | Call::Ssh(_)
            | Call::Notify(_)
            | Call::Llm(_)
            | Call::Persist(_)
            | Call::Emit(_) => Outcome::Failed(no_executor(call)),
        }
    }

    /// Makes an exchange where the destination has room, and tells its breaker how it went.
    async fn within_limits(
        &self,
        to: Option<&Destination>,
        exchange: impl Future<Output = Outcome>,
    ) -> Outcome {
        let Some(to) = to else {
            return exchange.await;
        };
        match self.limits.enter(to).await {
            Ok(permit) => {
                let outcome = exchange.await;
                permit.outcome(&outcome);
                outcome
            }
            Err(fault) => Outcome::Failed(fault),
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
