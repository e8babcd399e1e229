//! A mail as bytes.
//!
//! The same message under the same key gives the same bytes, the `Date` aside: a mail must have
//! one, and it is when the mail was sent. `Message-ID` is the effect's key at the sender's domain.

use lettre::address::Envelope;
use lettre::message::{Mailbox, MultiPart, SinglePart, header::ContentType};
use semel_model::request::Message;
use semel_model::{EffectId, Fault};

use crate::notify::unfit;

/// The most recipients of one mail.
const RECIPIENTS_MAX: usize = 100;

/// A mail, ready to be handed over.
pub(super) struct Letter {
    pub(super) id: String,
    pub(super) envelope: Envelope,
    pub(super) bytes: Vec<u8>,
}

impl Letter {
    /// Writes a message as a mail.
    pub(super) fn write(message: &Message, from: &str, key: EffectId) -> Result<Self, Fault> {
        let from = read_mailbox(from)?;
        let id = format!("<{key}@{}>", from.email.domain());
        let mut mail = lettre::Message::builder()
            .from(from)
            .message_id(Some(id.clone()));
        if message.to.is_empty() || message.to.len() > RECIPIENTS_MAX {
            return Err(unfit(format!(
                "a mail goes to 1 to {RECIPIENTS_MAX} recipients"
            )));
        }
        for to in &message.to {
            mail = mail.to(read_mailbox(to)?);
        }
        if let Some(subject) = &message.subject {
            mail = mail.subject(one_line(subject)?);
        }
        let text = message.text.clone();
        let built = match &message.html {
            None => mail.singlepart(SinglePart::plain(text)),
            Some(html) => mail.multipart(
                MultiPart::alternative()
                    .boundary(key.to_string())
                    .singlepart(SinglePart::plain(text))
                    .singlepart(
                        SinglePart::builder()
                            .header(ContentType::TEXT_HTML)
                            .body(html.clone()),
                    ),
            ),
        };
        let mail = built.map_err(|error| unfit(error.to_string()))?;
        Ok(Self {
            id,
            envelope: mail.envelope().clone(),
            bytes: mail.formatted(),
        })
    }
}

impl Letter {
    /// Whether an address is beyond ASCII, which a server must say that it takes.
    pub(super) fn has_foreign_address(&self) -> bool {
        let mut addresses = self.envelope.from().into_iter().chain(self.envelope.to());
        addresses.any(|address| !address.to_string().is_ascii())
    }
}

fn read_mailbox(text: &str) -> Result<Mailbox, Fault> {
    one_line(text)?
        .parse()
        .map_err(|error| unfit(format!("{text:?} is not an address: {error}")))
}

/// A header is one line: text that could begin another is refused, not corrected.
fn one_line(text: &str) -> Result<&str, Fault> {
    match text.chars().any(char::is_control) {
        true => Err(unfit(format!("{text:?} holds a control character"))),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use semel_model::{RunId, Span};

    use super::*;

    fn message(html: Option<&str>) -> Message {
        Message {
            connection: "mail".to_owned(),
            to: vec!["Ada <ada@books.example>".to_owned()],
            subject: Some("Rechnung für Ä".to_owned()),
            text: ".\r\nThank you".to_owned(),
            html: html.map(str::to_owned),
            timeout: Span::from_const_secs(5),
        }
    }

    fn without_date(bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let lines = text.lines().filter(|line| !line.starts_with("Date: "));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_same_message_is_the_same_bytes_but_for_its_date() {
        let run = RunId::from_uuid(uuid::Uuid::from_u128(1));
        let key = EffectId::derive(run, "mail", "", 0);

        for html in [None, Some("<p>Thank you</p>")] {
            let one = Letter::write(&message(html), "bot@semel.example", key).unwrap();
            let two = Letter::write(&message(html), "bot@semel.example", key).unwrap();

            assert_eq!(without_date(&one.bytes), without_date(&two.bytes));
            assert_eq!(one.id, format!("<{key}@semel.example>"));
            assert!(one.bytes.is_ascii(), "what is not ASCII is encoded");
        }
    }
}
