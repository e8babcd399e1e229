//! The executors: one line per kind of request, and one door for the engine.
//!
//! Whatever the kind: the destination's limits are asked first and informed afterwards, and no
//! secret of the destination leaves with its answer. A kind of request without a line here does not
//! compile.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use semel_model::request::ExternalRequest;
use semel_model::{EffectId, Fault, Outcome};

use crate::db::DbExecutor;
use crate::destination::Destination;
use crate::egress::Egress;
use crate::executor::{Attempt, Executor, Route, Setup, not_offered};
use crate::gate::SendGate;
use crate::http::{HttpExecutor, SetupError};
use crate::limits::{Asker, DestinationLimits, Room, host_of};
use crate::llm::LlmExecutor;
use crate::notify::{NotifyExecutor, WebhookPayload};
use crate::reach::Reach;
use crate::ssh::SshExecutor;
use crate::stage::DestinationStage;

/// The most characters that are kept of the code of a failure or a doubt: a database sends its own.
const CODE_CHARS_MAX: usize = 64;

/// The most characters that are kept of what a destination said of a failure or a doubt. Each attempt
/// has one in the journal.
const MESSAGE_CHARS_MAX: usize = 4_000;

/// Makes the registry from one line per kind: the request, and what carries it out.
macro_rules! executors {
    ($($kind:ident => $field:ident: $executor:ty;)+) => {
        /// One executor per kind of request, for as long as a session's gate is open.
        #[derive(Clone)]
        pub struct Executors {
            pub(crate) egress: Arc<Egress>,
            limits: Arc<DestinationLimits>,
            stage: Option<Arc<dyn DestinationStage>>,
            $(pub(crate) $field: $executor,)+
        }

        impl Executors {
            /// The kinds of steps whose requests are carried out here.
            pub const KINDS: &[&str] = &[$(<$executor as Executor>::KIND,)+];

            fn set_up(setup: &Setup) -> Self {
                Self {
                    egress: setup.reach.egress.clone(),
                    limits: setup.reach.limits.clone(),
                    stage: setup.reach.stage.clone(),
                    $($field: <$executor as Executor>::set_up(setup),)+
                }
            }

            async fn send(&self, attempt: Attempt<'_>) -> Outcome {
                let Attempt { request, route, key, guard } = attempt;
                match request {
                    $(ExternalRequest::$kind(request) => {
                        self.$field.perform(Attempt { request, route, key, guard }).await
                    })+
                }
            }

            async fn ask(&self, route: Route<'_>, request: &ExternalRequest) -> Outcome {
                match request {
                    $(ExternalRequest::$kind(request) => self.$field.read(route, request).await,)+
                }
            }

            async fn ask_marker(
                &self,
                route: Route<'_>,
                request: &ExternalRequest,
                key: EffectId,
            ) -> Outcome {
                match request {
                    $(ExternalRequest::$kind(request) => {
                        self.$field.find_marker(route, request, key).await
                    })+
                }
            }
        }
    };
}

executors! {
    Http => http: HttpExecutor;
    Db => db: DbExecutor;
    Ssh => ssh: SshExecutor;
    Notify => notify: NotifyExecutor;
    Llm => llm: LlmExecutor;
}

impl Executors {
    /// Executors that send only while the gate is open.
    ///
    /// # Errors
    ///
    /// If the system's TLS cannot be set up.
    pub fn new(gate: Arc<dyn SendGate>, reach: &Reach) -> Result<Self, SetupError> {
        let http = HttpExecutor::new(gate.clone(), reach)?;
        let reach = reach.clone();
        Ok(Self::set_up(&Setup { gate, reach, http }))
    }

    /// Makes one attempt at an effect, as far as its destination has room for it.
    ///
    /// Boxed in a function that is no coroutine: so the code of all executors is compiled once, in
    /// this crate, and not again in every crate that awaits it.
    pub fn perform<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Outcome> {
        if let Some(stage) = &self.stage {
            return stage.perform(attempt);
        }
        let whose = Whose::of(attempt.route, attempt.request);
        Box::pin(self.within_limits(whose, self.send(attempt)))
    }

    /// Finds room for an attempt before its intent is written, without waiting; nothing where no
    /// limits count.
    ///
    /// # Errors
    ///
    /// Where there is none: the fault says when to come back. Nothing was sent.
    pub fn find_room(
        &self,
        route: Route<'_>,
        request: &ExternalRequest,
        asker: Asker,
    ) -> Result<Option<Room>, Fault> {
        if self.stage.is_some() {
            return Ok(None);
        }
        self.room_of(Whose::of(route, request), asker)
    }

    /// Makes one attempt at an effect in room that was found for it.
    pub fn perform_in<'a>(&'a self, room: Room, attempt: Attempt<'a>) -> BoxFuture<'a, Outcome> {
        let to = attempt.route.to;
        Box::pin(within(room, to, self.send(attempt)))
    }

    /// Makes a request that changes nothing, and may be made again, as far as its destination has
    /// room for it.
    pub fn read<'a>(
        &'a self,
        route: Route<'a>,
        request: &'a ExternalRequest,
    ) -> BoxFuture<'a, Outcome> {
        if let Some(stage) = &self.stage {
            return stage.read(route, request);
        }
        let whose = Whose::of(route, request);
        Box::pin(self.within_limits(whose, self.ask(route, request)))
    }

    /// Asks for the marker that an effect left at its destination. Changes nothing.
    pub fn find_marker<'a>(
        &'a self,
        route: Route<'a>,
        request: &'a ExternalRequest,
        key: EffectId,
    ) -> BoxFuture<'a, Outcome> {
        if let Some(stage) = &self.stage {
            return stage.find_marker(route, request, key);
        }
        let asking = self.ask_marker(route, request, key);
        Box::pin(self.within_limits(Whose::of(route, request), asking))
    }

    /// Delivers bytes to a webhook as they are, signed, under a key that is the same on every try.
    pub fn deliver<'a>(
        &'a self,
        payload: WebhookPayload<'a>,
        to: &'a Destination,
        key: EffectId,
    ) -> BoxFuture<'a, Outcome> {
        if self.stage.is_some() {
            return Box::pin(std::future::ready(not_offered("webhook")));
        }
        let delivery = self.notify.deliver(payload, to, key);
        Box::pin(self.within_limits(Whose::Connection(to), delivery))
    }

    /// Makes an exchange where the destination has room, and tells its breaker how it went.
    async fn within_limits(
        &self,
        whose: Whose<'_>,
        exchange: impl Future<Output = Outcome> + Send,
    ) -> Outcome {
        let to = match &whose {
            Whose::Connection(to) => Some(*to),
            Whose::Host(..) | Whose::Nobody => None,
        };
        match self.room_of(whose, Asker::Again) {
            Ok(Some(room)) => within(room, to, exchange).await,
            Ok(None) => exchange.await,
            Err(fault) => Outcome::Failed(fault),
        }
    }

    fn room_of(&self, whose: Whose<'_>, asker: Asker) -> Result<Option<Room>, Fault> {
        match whose {
            Whose::Connection(to) => self.limits.find(to, asker).map(Some),
            Whose::Host(namespace_id, host) => {
                let room = self.limits.find_host(namespace_id, host, asker);
                room.map(Some)
            }
            Whose::Nobody => Ok(None),
        }
    }
}

/// Makes an exchange in room that was found for it, and tells the destination's breaker how it went.
async fn within(
    room: Room,
    to: Option<&Destination>,
    exchange: impl Future<Output = Outcome> + Send,
) -> Outcome {
    let outcome = match room.enter().await {
        Ok(permit) => {
            let outcome = exchange.await;
            permit.outcome(&outcome);
            outcome
        }
        Err(fault) => return Outcome::Failed(fault),
    };
    bounded(match to {
        Some(to) => to.redactor().redact(outcome),
        None => outcome,
    })
}

/// Cuts what was said too long about a failure or a doubt. Behind the redaction: a secret may lie
/// across the cut.
fn bounded(mut outcome: Outcome) -> Outcome {
    let (code, message) = match &mut outcome {
        Outcome::Done(_) => return outcome,
        Outcome::Failed(fault) => (&mut fault.code, &mut fault.message),
        Outcome::InDoubt(doubt) => (&mut doubt.code, &mut doubt.message),
    };
    cut(code, CODE_CHARS_MAX);
    cut(message, MESSAGE_CHARS_MAX);
    outcome
}

fn cut(text: &mut String, chars_max: usize) {
    if let Some((end, _)) = text.char_indices().nth(chars_max) {
        text.truncate(end);
    }
}

/// Whose limits an exchange counts against.
enum Whose<'a> {
    /// Those of a connection.
    Connection(&'a Destination),
    /// Those that a namespace has for a host and port that is called without a connection.
    Host(i32, String),
    /// Of no destination: nothing is sent.
    Nobody,
}

impl<'a> Whose<'a> {
    fn of(route: Route<'a>, request: &ExternalRequest) -> Self {
        let host = || request.address().and_then(host_of);
        match route.to {
            Some(to) => Self::Connection(to),
            None => host().map_or(Self::Nobody, |host| Self::Host(route.namespace_id, host)),
        }
    }
}

#[cfg(test)]
mod tests {
    use semel_model::Doubt;

    use super::*;

    #[test]
    fn what_is_said_too_long_about_a_failure_or_a_doubt_is_cut() {
        let (code, message) = ("x".repeat(100), "é".repeat(10_000));
        let failed = bounded(Outcome::Failed(Fault::passing(&code, &message)));
        let in_doubt = bounded(Outcome::InDoubt(Doubt::new(&code, &message)));

        let (Outcome::Failed(fault), Outcome::InDoubt(doubt)) = (failed, in_doubt) else {
            panic!("another outcome");
        };
        for (code, message) in [(fault.code, fault.message), (doubt.code, doubt.message)] {
            assert_eq!(code.len(), CODE_CHARS_MAX);
            assert_eq!(message.chars().count(), MESSAGE_CHARS_MAX);
        }
        let short = Outcome::Failed(Fault::permanent("sql-23505", "no"));
        assert_eq!(bounded(short.clone()), short);
    }
}
