//! What an executor is: one kind of request, carried out in the outside world.

use std::sync::Arc;

use semel_model::request::ExternalRequest;
use semel_model::{EffectId, Fault, Guard, Outcome, RunId};

use crate::destination::Destination;
use crate::gate::SendGate;
use crate::http::HttpExecutor;
use crate::reach::Reach;

/// Carries out one kind of request in the outside world.
///
/// The engine commits the intent before it calls `perform` and the outcome after. An executor
/// therefore never retries, never reads the store, and never returns an error: whatever happened
/// is one of three facts. An exchange that the kind does not have is refused with
/// [`not_offered`]; no method has a default, so that each kind says what it does.
pub trait Executor: Clone + Send + Sync {
    /// The kind of step, as a flow writes it.
    const KIND: &'static str;

    /// What a step of the kind sends, rendered and pinned with its intent.
    type Request: Sync;

    /// An executor that sends only while the session's gate is open.
    fn set_up(setup: &Setup) -> Self;

    /// Performs the effect once, within the request's timeout.
    fn perform(&self, attempt: Attempt<'_, Self::Request>) -> impl Future<Output = Outcome> + Send;

    /// Makes a request that changes nothing, and may be made again.
    fn read(
        &self,
        route: Route<'_>,
        request: &Self::Request,
    ) -> impl Future<Output = Outcome> + Send;

    /// Asks for the marker that an effect left at its destination. Changes nothing.
    fn find_marker(
        &self,
        route: Route<'_>,
        request: &Self::Request,
        key: EffectId,
    ) -> impl Future<Output = Outcome> + Send;
}

/// What executors are set up with.
pub struct Setup {
    /// Whether this session may still send.
    pub gate: Arc<dyn SendGate>,
    /// What all sessions of the process share.
    pub reach: Reach,
    /// What goes over HTTP goes through this: one set of connections for all kinds.
    pub http: HttpExecutor,
}

/// Whose request it is, and which connection it goes over.
#[derive(Clone, Copy)]
pub struct Route<'a> {
    /// Whose it is: resources are theirs.
    pub namespace_id: i32,
    /// Where it goes, where the request names a connection.
    pub to: Option<&'a Destination>,
    /// Which step of which run makes it, where one does.
    pub origin: Option<Origin<'a>>,
}

/// The step that makes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin<'a> {
    /// Its run.
    pub run: RunId,
    /// The step.
    pub step: &'a str,
}

impl<'a> Route<'a> {
    /// The destination of a request that cannot do without this connection.
    ///
    /// # Errors
    ///
    /// Where there is no such connection. Nothing was sent.
    pub fn destination(self, name: &str) -> Result<&'a Destination, Fault> {
        self.to.ok_or_else(|| {
            let message =
                format!("there is no connection `{name}`: semel connection create {name}");
            Fault::passing("connection-missing", message)
        })
    }
}

/// One attempt at an effect.
pub struct Attempt<'a, Request = ExternalRequest> {
    /// What is sent.
    pub request: &'a Request,
    /// Whose it is, and where it goes.
    pub route: Route<'a>,
    /// The effect's key.
    pub key: EffectId,
    /// How the effect is made safe.
    pub guard: Guard,
}

/// The outcome of an exchange that a kind of request does not have. Nothing was sent.
#[must_use]
pub fn not_offered(kind: &str) -> Outcome {
    let message = format!("`{kind}` is not performed here");
    Outcome::Failed(Fault::permanent("no-executor", message))
}
