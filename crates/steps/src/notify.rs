//! Messages to people: by mail, to Slack, or to an address that takes signed deliveries.
//!
//! None of the three can be asked later whether a message came: what was not answered is in doubt.
//! Each message carries the effect's key where its kind has a place for it (`Message-ID`,
//! `client_msg_id`, `webhook-id`), so that a receiver can recognise a repeat.

use std::sync::Arc;

use hyper::header::HeaderName;
use semel_model::connection::Target;
use semel_model::request::{HttpRequest, Message};
use semel_model::{EffectId, Fault, Outcome, SecretText, Span};

use crate::destination::Destination;
use crate::executor::{Attempt, Executor, Route, Setup, not_offered};
use crate::gate::SendGate;
use crate::http::{HttpExecutor, Pooling};
use crate::reach::Reach;

mod mail;
mod slack;
mod webhook;

use self::mail::Mailer;

/// Sends messages.
#[derive(Clone)]
pub struct NotifyExecutor {
    mail: Mailer,
    http: HttpExecutor,
}

/// What is delivered to a webhook as it is.
#[derive(Clone, Copy, Debug)]
pub struct WebhookPayload<'a> {
    /// The body.
    pub body: &'a str,
    /// Its media type.
    pub content_type: &'a str,
    /// How long the exchange may take.
    pub timeout: Span,
}

impl Executor for NotifyExecutor {
    const KIND: &'static str = "notify";
    type Request = Message;

    fn set_up(setup: &Setup) -> Self {
        Self::new(setup.gate.clone(), &setup.reach, setup.http.clone())
    }

    async fn perform(&self, attempt: Attempt<'_, Message>) -> Outcome {
        match attempt.route.destination(&attempt.request.connection) {
            Ok(to) => self.send(attempt.request, to, attempt.key).await,
            Err(fault) => Outcome::Failed(fault),
        }
    }

    /// A message is always an effect.
    async fn read(&self, _: Route<'_>, _: &Message) -> Outcome {
        not_offered(Self::KIND)
    }

    async fn find_marker(&self, _: Route<'_>, _: &Message, _: EffectId) -> Outcome {
        not_offered(Self::KIND)
    }
}

impl NotifyExecutor {
    /// A notifier that sends only while the gate is open, to addresses within reach. What goes over
    /// HTTP goes through `http`.
    #[must_use]
    pub fn new(gate: Arc<dyn SendGate>, reach: &Reach, http: HttpExecutor) -> Self {
        Self {
            mail: Mailer::new(gate, reach.egress.clone()),
            http,
        }
    }

    /// Sends the message once.
    pub async fn send(&self, message: &Message, to: &Destination, key: EffectId) -> Outcome {
        match &to.connection.to {
            Target::Smtp(target) => self.mail.send(message, to, target, key).await,
            Target::Slack(target) => match slack::request(message, to, target, key) {
                Ok((request, signed)) => slack::read(self.post(&request, to, &signed, key).await),
                Err(fault) => Outcome::Failed(fault),
            },
            Target::Webhook(target) => match webhook::request(message, to, target, key) {
                Ok((request, signed)) => self.post(&request, to, &signed, key).await,
                Err(fault) => Outcome::Failed(fault),
            },
            Target::Http(_) | Target::Postgres(_) | Target::Ssh(_) | Target::Llm(_) => {
                Outcome::Failed(to.unfit("notify"))
            }
        }
    }

    /// Delivers bytes to a webhook as they are, signed, under a key that is the same on every try.
    pub async fn deliver(
        &self,
        payload: WebhookPayload<'_>,
        to: &Destination,
        key: EffectId,
    ) -> Outcome {
        let Target::Webhook(target) = &to.connection.to else {
            return Outcome::Failed(to.unfit("a subscription"));
        };
        match webhook::payload_request(payload, to, target, key) {
            Ok((request, signed)) => self.post(&request, to, &signed, key).await,
            Err(fault) => Outcome::Failed(fault),
        }
    }

    /// Greets the mail server, authenticates, and tells who answered, in one line.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached or refuses us. What goes over HTTP cannot be tried
    /// without sending a message.
    pub async fn test(&self, to: &Destination) -> Result<String, Fault> {
        match &to.connection.to {
            Target::Smtp(target) => self.mail.test(to, target).await,
            Target::Slack(_) | Target::Webhook(_) => {
                to.connection
                    .secrets()
                    .into_iter()
                    .try_for_each(|name| to.secret(name).map(drop))?;
                Ok("its secret is set; nothing was sent".to_owned())
            }
            Target::Http(_) | Target::Postgres(_) | Target::Ssh(_) | Target::Llm(_) => {
                Err(to.unfit("notify"))
            }
        }
    }

    /// Sends a request under headers that hold secrets, over a connection of its own: one that
    /// closes at the wrong moment would leave a doubt.
    async fn post(
        &self,
        request: &HttpRequest,
        to: &Destination,
        signed: &[(&'static str, SecretText)],
        key: EffectId,
    ) -> Outcome {
        let signed: Vec<(HeaderName, SecretText)> = signed
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.clone()))
            .collect();
        let pooling = Pooling::Fresh;
        self.http
            .send_signed(request, to, &signed, Some(key), pooling)
            .await
    }
}

/// A request, and the header that proves who sends it: a secret, and no part of what is pinned.
type Signed = (HttpRequest, [(&'static str, SecretText); 1]);

/// A message that cannot be sent as it is.
fn unfit(message: impl Into<String>) -> Fault {
    Fault::permanent("message-unfit", message)
}
