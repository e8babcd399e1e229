//! How a hook's deliveries are signed: what a preset or the author says of it, in one form.
//!
//! The whole of it is part of a release, so that a preset which is corrected changes the digest of
//! the flows that rest on it.

use semel_model::Span;
use serde::Serialize;

use crate::expr::Path;
use crate::provider::{self, Algorithm, Encoding, SecretEncoding, Unit};

/// How deliveries are signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// The header that carries the signature, in lower case.
    pub header: String,
    /// What stands between several signatures in that header; one that fits is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub separator: Option<char>,
    /// The ways of signing that are accepted, each with its prefix.
    pub schemes: Vec<Scheme>,
    /// The bytes that are signed, in this order, with nothing between them.
    pub signed: Vec<SignedPart>,
    /// When it was sent, and how far off that may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
}

/// One way of signing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scheme {
    /// What stands before the signature in its header.
    pub prefix: String,
    /// How the signature is computed.
    pub algorithm: Algorithm,
    /// How its bytes are written.
    pub encoding: Encoding,
    /// How the secret is written.
    pub secret: SecretEncoding,
}

/// A piece of what is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SignedPart {
    /// This text.
    Text(String),
    /// The body, as it came over the wire.
    Body,
    /// When it was sent, as its place spells it.
    Sent,
    /// The value of this header, which may hold no `.`: dots separate the parts.
    Header(String),
    /// The method, in capitals.
    Method,
    /// The public address of the hook, query included.
    Url,
    /// The same address with percent-encoding undone.
    UrlDecoded,
    /// The fields of a form, sorted by name, each name followed by its value. Nothing if the
    /// body is not a form: its SHA-256 then stands in the query as `bodySHA256`.
    FormSorted,
}

/// When a delivery was sent, and how old it may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// Where the time stands.
    pub at: SentAt,
    /// What it counts, since 1970.
    pub unit: Unit,
    /// How far it may lie from now, in both directions.
    pub tolerance: Span,
}

/// Where the time of sending stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SentAt {
    /// In the header of this name, in lower case.
    Header(String),
    /// In the signature's own header, after this prefix.
    Beside(String),
    /// In the payload, in the field of this name.
    Body(String),
}

impl Signature {
    /// Whether one signed text has one payload: the body stands in it as it came. A form's fields with
    /// nothing between them have many readings: a name may pass for the end of the value before it.
    #[must_use]
    pub fn settles_payload(&self) -> bool {
        self.signed.contains(&SignedPart::Body)
    }

    /// Whether only the source can have chosen what stands at a path of a delivery.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        let has = |part: &SignedPart| self.signed.contains(part);
        match path.root.as_str() {
            "headers" => path.fields.first().is_some_and(|name| {
                let name = name.to_ascii_lowercase();
                let time = self.sent.as_ref().map(|sent| &sent.at);
                let is_time = time == Some(&SentAt::Header(name.clone())) && has(&SignedPart::Sent);
                is_time || has(&SignedPart::Header(name))
            }),
            // An address is signed with its escapes undone, or runs into the form behind it.
            "query" => false,
            "input" => self.settles_payload(),
            // The rest is not the sender's to say.
            _ => true,
        }
    }
}

impl From<&provider::PresetSignature> for Signature {
    fn from(preset: &provider::PresetSignature) -> Self {
        Self {
            header: preset.header.to_owned(),
            separator: preset.separator,
            schemes: preset.schemes.iter().map(Scheme::from).collect(),
            signed: preset
                .signed
                .iter()
                .map(|part| lower_part(part, preset.id_header))
                .collect(),
            sent: preset.sent.as_ref().map(Sent::from),
        }
    }
}

impl From<&provider::PresetScheme> for Scheme {
    fn from(preset: &provider::PresetScheme) -> Self {
        Self {
            prefix: preset.prefix.to_owned(),
            algorithm: preset.algorithm,
            encoding: preset.encoding,
            secret: preset.secret,
        }
    }
}

impl From<&provider::PresetSent> for Sent {
    fn from(preset: &provider::PresetSent) -> Self {
        Self {
            at: match preset.at {
                provider::PresetSentAt::Header(name) => SentAt::Header(name.to_owned()),
                provider::PresetSentAt::Beside(prefix) => SentAt::Beside(prefix.to_owned()),
                provider::PresetSentAt::Body(field) => SentAt::Body(field.to_owned()),
            },
            unit: preset.unit,
            tolerance: preset.tolerance,
        }
    }
}

fn lower_part(part: &provider::PresetPart, id_header: Option<&str>) -> SignedPart {
    match part {
        provider::PresetPart::Text(text) => SignedPart::Text((*text).to_owned()),
        provider::PresetPart::Body => SignedPart::Body,
        provider::PresetPart::Sent => SignedPart::Sent,
        provider::PresetPart::Id => SignedPart::Header(id_header.unwrap_or_default().to_owned()),
        provider::PresetPart::Method => SignedPart::Method,
        provider::PresetPart::Url => SignedPart::Url,
        provider::PresetPart::UrlDecoded => SignedPart::UrlDecoded,
        provider::PresetPart::FormSorted => SignedPart::FormSorted,
    }
}
