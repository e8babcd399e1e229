//! Mail over SMTP, command by command.
//!
//! A server takes a message over with its answer to the end of the data, and not before: whatever
//! breaks earlier leaves nothing behind. Once the data is sent and no answer comes, the outcome is
//! unknown. A refusal (4xx, 5xx) is an answer at any point. A server that sends without an end is cut
//! off, which counts as any other break.

use std::sync::Arc;
use std::time::Duration;

use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use semel_model::connection::{SmtpTarget, Tls};
use semel_model::request::Message;
use semel_model::{Doubt, EffectId, Fault, FaultKind, Outcome, Receipt};
use serde_json::json;
use tokio::time::{Instant, timeout, timeout_at};

use self::letter::Letter;
use crate::destination::Destination;
use crate::egress::Egress;
use crate::failpoint::failpoint;
use crate::gate::SendGate;

mod connect;
mod letter;

/// How long a connection may take to stand.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// How long the answer to the data is awaited, even where the message's time is nearly up: giving up
/// on it makes a doubt.
const ANSWER_PATIENCE_MIN: Duration = Duration::from_secs(1);

/// How long a server may take over our good-bye.
const QUIT_PATIENCE: Duration = Duration::from_millis(500);

/// Sends mail.
#[derive(Clone)]
pub(super) struct Mailer {
    gate: Arc<dyn SendGate>,
    egress: Arc<Egress>,
}

impl Mailer {
    pub(super) fn new(gate: Arc<dyn SendGate>, egress: Arc<Egress>) -> Self {
        Self { gate, egress }
    }

    /// Sends a message as one mail.
    pub(super) async fn send(
        &self,
        message: &Message,
        to: &Destination,
        target: &SmtpTarget,
        key: EffectId,
    ) -> Outcome {
        let deadline = Instant::now() + message.timeout.to_duration();
        let opening = async {
            let letter = Letter::write(message, &target.from, key)?;
            let mut server = self.greet(to, target).await?;
            announce(&mut server, &letter).await?;
            failpoint("mail.announced", &key.to_string()).await;
            self.ask_gate()?;
            server.command(Data).await.map_err(refused)?;
            self.ask_gate()?;
            Ok((letter, server))
        };
        let opened = timeout_at(deadline, opening).await;
        let (letter, mut server) = match opened.unwrap_or_else(|_| Err(too_slow())) {
            Ok(opened) => opened,
            Err(fault) => return Outcome::Failed(fault),
        };
        let patience = deadline.max(Instant::now() + ANSWER_PATIENCE_MIN);
        let answer = timeout_at(patience, server.message(&letter.bytes)).await;
        failpoint("mail.answered", &key.to_string()).await;
        match answer {
            Ok(Ok(response)) => {
                timeout(QUIT_PATIENCE, server.quit()).await.ok();
                let reply = response.message().collect::<Vec<_>>().join(" ");
                let receipt = json!({ "message_id": letter.id, "reply": reply });
                Outcome::Done(Receipt::new(receipt, None))
            }
            Ok(Err(error)) if error.status().is_some() => Outcome::Failed(refused(error)),
            Ok(Err(error)) => no_answer(&describe(&error)),
            Err(_) => no_answer("timed out"),
        }
    }

    /// Greets, authenticates and asks for nothing.
    pub(super) async fn test(
        &self,
        to: &Destination,
        target: &SmtpTarget,
    ) -> Result<String, Fault> {
        let testing = async {
            let mut server = self.greet(to, target).await?;
            if !server.test_connected().await {
                let message = "the server greets and does not answer after that";
                return Err(Fault::passing("no-connection", message));
            }
            let name = server.server_info().name().to_owned();
            timeout(QUIT_PATIENCE, server.quit()).await.ok();
            Ok(format!("{name} accepts mail from {}", target.from))
        };
        let tested = timeout(CONNECT_PATIENCE, testing).await;
        tested.unwrap_or_else(|_| Err(too_slow()))
    }

    /// A connection to a checked address: greeted, encrypted as the owner says, authenticated.
    async fn greet(
        &self,
        to: &Destination,
        target: &SmtpTarget,
    ) -> Result<AsyncSmtpConnection, Fault> {
        self.ask_gate()?;
        let addresses = self
            .egress
            .resolve(to.namespace_id, &target.host, target.port)
            .await?;
        let us = ClientId::default();
        let encrypted_for = match target.tls {
            Tls::Required => Some(target.host.as_str()),
            Tls::Starttls | Tls::Off => None,
        };
        let mut server = connect::connect(&addresses, encrypted_for, &us).await?;
        if target.tls == Tls::Starttls {
            if !server.can_starttls() {
                let message = format!("{} does not offer STARTTLS: nothing was sent", target.host);
                return Err(Fault::permanent("tls-missing", message));
            }
            let tls = TlsParameters::new(target.host.clone()).map_err(refused)?;
            server.starttls(tls, &us).await.map_err(refused)?;
        }
        if let (Some(user), Some(secret)) = (&target.user, &target.secret) {
            let password = to.secret(secret)?.reveal().to_owned();
            let credentials = Credentials::new(user.clone(), password);
            let signed = server
                .auth(&[Mechanism::Plain, Mechanism::Login], &credentials)
                .await;
            signed.map_err(sign_in_refused)?;
        }
        Ok(server)
    }

    fn ask_gate(&self) -> Result<(), Fault> {
        if self.gate.is_open() || semel_model::SeededBug::SendGateIgnored.is_seeded() {
            Ok(())
        } else {
            Err(
                Fault::passing("lease-lost", "the lease ran out before the mail was sent")
                    .of(FaultKind::Ours),
            )
        }
    }
}

/// Says whom the mail is from and whom it goes to. One recipient that is refused stops it for all.
async fn announce(server: &mut AsyncSmtpConnection, letter: &Letter) -> Result<(), Fault> {
    let mut parameters = Vec::new();
    if letter.has_foreign_address() {
        if !server
            .server_info()
            .supports_feature(Extension::SmtpUtfEight)
        {
            return Err(super::unfit("the server accepts only ASCII addresses"));
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    let from = Mail::new(letter.envelope.from().cloned(), parameters);
    server.command(from).await.map_err(refused)?;
    for recipient in letter.envelope.to() {
        let recipient = Rcpt::new(recipient.clone(), Vec::new());
        server.command(recipient).await.map_err(refused)?;
    }
    Ok(())
}

/// An error from before the data was sent, or a refusal: no mail was taken over.
fn refused(error: Error) -> Fault {
    match error.status().map(u16::from) {
        Some(code) if error.is_permanent() => {
            Fault::permanent(format!("smtp-{code}"), describe(&error))
        }
        Some(code) => Fault::passing(format!("smtp-{code}"), describe(&error)),
        None => Fault::passing("no-connection", describe(&error)),
    }
}

fn sign_in_refused(error: Error) -> Fault {
    match error.status().is_some() && error.is_permanent() {
        true => Fault::permanent("sign-in-refused", describe(&error)),
        false => refused(error),
    }
}

fn describe(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn no_answer(seen: &str) -> Outcome {
    let message = format!("the mail was sent, and the server did not confirm it: {seen}");
    Outcome::InDoubt(Doubt::new("no-answer", message))
}

fn too_slow() -> Fault {
    Fault::passing("timeout", "timed out before the mail was sent")
}
