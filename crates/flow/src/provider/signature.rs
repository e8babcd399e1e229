//! How a source signs, as data: what is signed, with what, and where the result stands.

use semel_model::Span;
use serde::Serialize;

/// How one source signs its deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresetSignature {
    /// The header that carries the signature, in lower case.
    pub header: &'static str,
    /// What stands between several signatures in that header. One that matches is enough: sources
    /// send several while a secret is being changed. Spaces around each are dropped.
    pub separator: Option<char>,
    /// The ways of signing that are accepted, each with its prefix. The others are skipped.
    pub schemes: &'static [PresetScheme],
    /// The bytes that are signed, in this order, with nothing between them.
    pub signed: &'static [PresetPart],
    /// The header with the delivery's id, where the id is signed. It may hold no `.`.
    pub id_header: Option<&'static str>,
    /// When it was sent, where that is signed. Without it a captured delivery never grows old, and
    /// only the memory of its key stops a replay.
    pub sent: Option<PresetSent>,
}

/// One way of signing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresetScheme {
    /// What stands before the signature in its header.
    pub prefix: &'static str,
    /// How the signature is computed.
    pub algorithm: Algorithm,
    /// How its bytes are written.
    pub encoding: Encoding,
    /// How the secret is written.
    pub secret: SecretEncoding,
}

/// How a signature is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// HMAC with SHA-256.
    HmacSha256,
    /// HMAC with SHA-512.
    HmacSha512,
    /// HMAC with SHA-1.
    HmacSha1,
    /// Ed25519: the receiver holds the public key alone.
    Ed25519,
}

/// How the bytes of a signature are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Two hex digits each.
    Hex,
    /// Base64 with `+`, `/` and padding.
    Base64,
}

/// How a secret is written where the source shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretEncoding {
    /// The text itself is the key, byte for byte, prefix included.
    Text,
    /// Base64 after this prefix; the bytes behind it are the key.
    Base64(&'static str),
}

/// A piece of what is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetPart {
    /// This text.
    Text(&'static str),
    /// The body, as it came over the wire.
    Body,
    /// When it was sent, as its place spells it.
    Sent,
    /// The delivery's id, as its header spells it.
    Id,
    /// The method, in capitals.
    Method,
    /// The address that the source called, scheme and query included, as it was configured there.
    Url,
    /// The same address with percent-encoding undone.
    UrlDecoded,
    /// The fields of a form, sorted by name, each name followed by its value. Nothing if the
    /// body is not a form: its SHA-256 then stands in the query as `bodySHA256`.
    FormSorted,
}

/// When a delivery was sent, and how old it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresetSent {
    /// Where the time stands.
    pub at: PresetSentAt,
    /// What it counts, since 1970.
    pub unit: Unit,
    /// How far it may lie from now, in both directions.
    pub tolerance: Span,
}

/// Where the time of sending stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetSentAt {
    /// In the header of this name, in lower case.
    Header(&'static str),
    /// In the signature's own header, after this prefix.
    Beside(&'static str),
    /// In the payload, at this path.
    Body(&'static str),
}

/// What a time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
}

/// Five minutes: what most sources recommend.
pub(super) const FIVE_MINUTES: Span = Span::from_const_secs(300);

impl PresetSignature {
    /// Whether one signed text has one payload: the body stands in it as it came. A form's fields with
    /// nothing between them have many readings.
    #[must_use]
    pub fn settles_payload(&self) -> bool {
        self.signed.contains(&PresetPart::Body)
    }

    /// One HMAC-SHA256 over the body alone, the whole header but a prefix.
    pub(super) const fn over_body(header: &'static str, schemes: &'static [PresetScheme]) -> Self {
        Self {
            header,
            separator: None,
            schemes,
            signed: &[PresetPart::Body],
            id_header: None,
            sent: None,
        }
    }
}

impl PresetScheme {
    /// HMAC-SHA256 with a secret that is used as it is written.
    pub(super) const fn sha256(prefix: &'static str, encoding: Encoding) -> Self {
        Self {
            prefix,
            algorithm: Algorithm::HmacSha256,
            encoding,
            secret: SecretEncoding::Text,
        }
    }
}
