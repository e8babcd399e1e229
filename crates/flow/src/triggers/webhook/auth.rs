//! How a delivery proves where it comes from, as its author says.

use serde::Serialize;

use super::super::signature::{Scheme, Sent, SentAt, Signature, SignedPart};
use crate::provider::{Algorithm, Encoding, Provider, SecretEncoding, Unit};
use crate::tree::Record;

/// How a delivery proves where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WebhookAuth {
    /// Not at all: anyone who knows the address can deliver.
    None,
    /// By a signature over what is sent.
    Signature {
        /// The secret that it is made with, by name.
        secret: String,
        /// How it is made.
        signature: Signature,
    },
    /// By a shared secret that is sent along.
    Token {
        /// The header that carries it, in lower case.
        header: String,
        /// The secret, by name.
        secret: String,
    },
}

impl WebhookAuth {
    /// What a webhook says, and what its source is known for.
    pub(super) fn lower(record: &Record, provider: Option<&Provider>) -> Option<Self> {
        if record.word("auth") == Some("none") {
            return Some(Self::None);
        }
        let secret = record.text("secret")?.to_owned();
        let Some(said) = record.map("auth") else {
            let signature = provider?.signature.as_ref()?.into();
            return Some(Self::Signature { secret, signature });
        };
        if let Some(token) = said.map("token") {
            let header = token.word("header")?.to_ascii_lowercase();
            return Some(Self::Token { header, secret });
        }
        let signature = hmac(said.map("hmac")?)?;
        Some(Self::Signature { secret, signature })
    }
}

/// A signature as its author describes it: `HEADER.….TIME.BODY`, of which all but the body may be
/// absent.
fn hmac(said: &Record) -> Option<Signature> {
    let covered = said.list("covers").iter().map(|item| {
        let name = item.value.as_text()?;
        Some(SignedPart::Header(name.to_ascii_lowercase()))
    });
    let mut parts = covered.collect::<Option<Vec<_>>>()?;
    let sent = match said.text("timestamp") {
        Some(header) => Some(Sent {
            at: SentAt::Header(header.to_ascii_lowercase()),
            unit: Unit::Seconds,
            tolerance: said.span_of("tolerance")?,
        }),
        None => None,
    };
    parts.extend(sent.is_some().then_some(SignedPart::Sent));
    let dotted = parts
        .into_iter()
        .flat_map(|part| [part, SignedPart::Text(".".to_owned())]);
    Some(Signature {
        header: said.text("header")?.to_ascii_lowercase(),
        separator: None,
        schemes: vec![Scheme {
            prefix: said.text("prefix").unwrap_or_default().to_owned(),
            algorithm: match said.word("algorithm")? {
                "sha512" => Algorithm::HmacSha512,
                _ => Algorithm::HmacSha256,
            },
            encoding: match said.word("encoding")? {
                "base64" => Encoding::Base64,
                _ => Encoding::Hex,
            },
            secret: SecretEncoding::Text,
        }],
        signed: dotted.chain([SignedPart::Body]).collect(),
        sent,
    })
}
