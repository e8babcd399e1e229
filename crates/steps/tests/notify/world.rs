//! Destinations of messages, and a notifier that may reach them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use semel_model::connection::{SlackTarget, SmtpTarget, Target, Tls, WebhookTarget};
use semel_model::request::Message;
use semel_model::{Connection, Doubt, EffectId, Fault, Outcome, RunId, SecretText, Span};
use semel_steps::{Destination, Egress, HttpExecutor, NotifyExecutor, Reach, SendGate};
use serde_json::Value;

/// Whom the mail of these tests is from.
pub(crate) const FROM: &str = "Semel <bot@semel.example>";

/// The secret of every destination here.
pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A lease that a test can end.
pub(crate) struct Gate(AtomicBool);

impl Gate {
    pub(crate) fn close(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl SendGate for Gate {
    fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A notifier that may reach loopback, and its gate.
pub(crate) fn notifier() -> Result<(NotifyExecutor, Arc<Gate>)> {
    let loopback = ["127.0.0.0/8", "::1/128"];
    let allowed = loopback.iter().flat_map(|net| net.parse()).collect();
    notifier_within(Egress::new(allowed))
}

/// A notifier that may reach the given addresses.
pub(crate) fn notifier_within(egress: Egress) -> Result<(NotifyExecutor, Arc<Gate>)> {
    let gate = Arc::new(Gate(AtomicBool::new(true)));
    let reach = Reach {
        egress: Arc::new(egress),
        ..Reach::default()
    };
    let http = HttpExecutor::new(gate.clone(), &reach)?;
    Ok((NotifyExecutor::new(gate.clone(), &reach, http), gate))
}

pub(crate) fn smtp(address: SocketAddr) -> SmtpTarget {
    SmtpTarget {
        host: address.ip().to_string(),
        port: address.port(),
        tls: Tls::Off,
        user: None,
        secret: None,
        from: FROM.to_owned(),
    }
}

pub(crate) fn mail_to(target: SmtpTarget) -> Destination {
    destination(Target::Smtp(target))
}

pub(crate) fn slack(base_url: String) -> Destination {
    destination(Target::Slack(SlackTarget {
        base_url,
        secret: "s".to_owned(),
    }))
}

pub(crate) fn webhook(url: String) -> Destination {
    destination(Target::Webhook(WebhookTarget {
        url,
        secret: "s".to_owned(),
    }))
}

fn destination(target: Target) -> Destination {
    let secrets = BTreeMap::from([("s".to_owned(), SecretText::new(SECRET.to_owned()))]);
    Destination::new("people".to_owned(), 1, 1, Connection::to(target), secrets)
}

pub(crate) fn message(to: &[&str]) -> Message {
    Message {
        connection: "people".to_owned(),
        to: to.iter().map(|to| (*to).to_owned()).collect(),
        subject: Some("Invoice 7".to_owned()),
        text: "Thank you.".to_owned(),
        html: None,
        timeout: Span::from_const_secs(100),
    }
}

pub(crate) fn key(name: &str) -> EffectId {
    let run = RunId::from_uuid(uuid::Uuid::from_u128(7));
    EffectId::derive(run, name, "", 0)
}

/// The `Message-ID` of a key's mail.
pub(crate) fn message_id(name: &str) -> String {
    format!("<{}@semel.example>", key(name))
}

#[track_caller]
pub(crate) fn done(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Done(receipt) => receipt.response,
        Outcome::Failed(_) | Outcome::InDoubt(_) => panic!("not done: {outcome:?}"),
    }
}

#[track_caller]
pub(crate) fn failed(outcome: Outcome) -> Fault {
    match outcome {
        Outcome::Failed(fault) => fault,
        Outcome::Done(_) | Outcome::InDoubt(_) => panic!("not failed: {outcome:?}"),
    }
}

#[track_caller]
pub(crate) fn in_doubt(outcome: Outcome) -> Doubt {
    match outcome {
        Outcome::InDoubt(doubt) => doubt,
        Outcome::Done(_) | Outcome::Failed(_) => panic!("not in doubt: {outcome:?}"),
    }
}
