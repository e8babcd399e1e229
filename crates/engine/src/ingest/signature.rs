//! Verification of webhook signatures and tokens.
//!
//! Verified over the bytes as they came, before anything is parsed. Every usable version of the
//! secret and every signature of the header is tried, and comparisons take constant time. A
//! stand-in replaces what is missing, so that a refusal costs about the same whatever its reason;
//! and the sender gets the same answer for all of them.

mod mac;
mod message;

use jiff::Timestamp;
use semel_flow::release::{Sent, SentAt, Signature, WebhookAuth};
use semel_model::{SecretText, SeededBug, json};
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

use message::Message;

/// The most signatures that are looked at in one header.
const SIGNATURES_MAX: usize = 16;

/// The most digits of a time of sending: milliseconds until the year 5138.
const TIME_DIGITS_MAX: usize = 14;

/// Tried where no secret is set. It verifies nothing: the refusal is decided before.
const STAND_IN: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// A request to a hook, as far as a signature can cover it.
#[derive(Clone, Copy)]
pub(super) struct SignedRequest<'a> {
    /// The headers, with lower-case names.
    pub(super) headers: &'a [(String, String)],
    /// The public address of the hook, query included.
    pub(super) url: &'a str,
    /// The query parameters, unescaped.
    pub(super) query: &'a [(String, String)],
    /// The body as it came.
    pub(super) body: &'a [u8],
}

/// Why a delivery does not verify, for the operator of the hook. Senders do not learn it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VerifyError {
    /// No secret of that name can be used.
    NoSecret,
    /// A required header is missing, occurs twice or cannot be read.
    Incomplete,
    /// No signature or token fits.
    Unfit,
    /// It was sent too long ago, or will be.
    Untimely,
}

impl VerifyError {
    /// The text for the log and the record.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::NoSecret => "the secret is not set, or not of the form that the scheme takes",
            Self::Incomplete => "a header is missing, stands twice or cannot be read",
            Self::Unfit => "no signature fits any version of the secret",
            Self::Untimely => "the time of sending is too far from now",
        }
    }
}

impl<'a> SignedRequest<'a> {
    /// The value of a header; nothing where it is absent or occurs twice.
    pub(super) fn header(&self, name: &str) -> Option<&'a str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let first = values.next();
        first
            .filter(|_| values.next().is_none())
            .map(|(_, value)| value.as_str())
    }

    /// Whether the body can be nothing but JSON: a list or a map.
    fn is_list_or_map(&self) -> bool {
        let first = self.body.iter().find(|byte| !byte.is_ascii_whitespace());
        matches!(first, Some(b'{' | b'['))
    }

    /// Whether the body is a form. A body that is declared a form and yet begins as JSON was sent
    /// by a program that declares everything a form, as curl does.
    pub(super) fn is_form(&self) -> bool {
        if self.is_list_or_map() {
            return false;
        }
        let kind = self.header("content-type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        // The header is seldom signed: what reads as JSON is JSON, whatever it is declared.
        kind.eq_ignore_ascii_case("application/x-www-form-urlencoded")
            && json::parse_strict(self.body).is_err()
    }
}

/// Verifies a delivery as its hook demands.
pub(super) fn judge(
    auth: &WebhookAuth,
    secrets: &[SecretText],
    call: &SignedRequest<'_>,
    now: Timestamp,
) -> Result<(), VerifyError> {
    match auth {
        WebhookAuth::None => Ok(()),
        WebhookAuth::Token { header, .. } => judge_token(header, secrets, call),
        WebhookAuth::Signature { signature, .. } => judge_signature(signature, secrets, call, now),
    }
}

/// SHA-256 of the signed text, where that text does not settle its payload. The text is all that a
/// captured delivery has one of: its body may be spelled and divided in many ways under one signature.
pub(super) fn text_digest(auth: &WebhookAuth, call: &SignedRequest<'_>) -> Option<[u8; 32]> {
    let WebhookAuth::Signature { signature, .. } = auth else {
        return None;
    };
    if signature.settles_payload() {
        return None;
    }
    let (entries, _) = entries(
        signature,
        call.header(&signature.header).unwrap_or_default(),
    );
    let sent = signature.sent.as_ref();
    let time = sent.and_then(|sent| stated_time(sent, &entries, call));
    Some(Sha256::digest(Message::of(signature, call, time).joined()).into())
}

fn judge_token(
    header: &str,
    secrets: &[SecretText],
    call: &SignedRequest<'_>,
) -> Result<(), VerifyError> {
    let sent = call.header(header);
    let given = match header {
        "authorization" => sent.and_then(bearer),
        _ => sent,
    };
    // Digests have one length, so that the comparison does not reveal the secret's length.
    let digest = Sha256::digest(given.unwrap_or_default());
    let mut fits = Choice::from(0);
    for secret in or_stand_in(secrets).iter() {
        fits |= Sha256::digest(secret.reveal())
            .as_slice()
            .ct_eq(digest.as_slice());
    }
    match (secrets.is_empty(), given, bool::from(fits)) {
        (true, _, _) => Err(VerifyError::NoSecret),
        (false, None | Some(""), _) => Err(VerifyError::Incomplete),
        (false, Some(_), false) => Err(VerifyError::Unfit),
        (false, Some(_), true) => Ok(()),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

fn judge_signature(
    signature: &Signature,
    secrets: &[SecretText],
    call: &SignedRequest<'_>,
    now: Timestamp,
) -> Result<(), VerifyError> {
    let header = call.header(&signature.header);
    let (entries, few) = entries(signature, header.unwrap_or_default());
    let time = signature
        .sent
        .as_ref()
        .and_then(|sent| stated_time(sent, &entries, call));
    let message = Message::of(signature, call, time);
    let (mut fits, mut usable) = (Choice::from(0), !secrets.is_empty());
    let mut opened = false;
    for secret in or_stand_in(secrets).iter() {
        for scheme in &signature.schemes {
            let tried = mac::try_scheme(scheme, secret.reveal(), &entries, &message);
            fits |= tried.fits;
            opened |= tried.usable;
        }
    }
    usable &= opened;
    if !usable {
        return Err(VerifyError::NoSecret);
    }
    if header.is_none() || !few || !message.is_whole {
        return Err(VerifyError::Incomplete);
    }
    if !bool::from(fits) && !SeededBug::SignatureNotCompared.is_seeded() {
        return Err(VerifyError::Unfit);
    }
    match &signature.sent {
        Some(sent) if !is_timely(sent, time, call, now) => Err(VerifyError::Untimely),
        Some(_) | None => Ok(()),
    }
}

/// The signatures of a header, and whether there are not too many of them.
fn entries<'a>(signature: &Signature, header: &'a str) -> (Vec<&'a str>, bool) {
    let Some(separator) = signature.separator else {
        return (vec![header], true);
    };
    let mut parts = header.split(separator).map(str::trim);
    let entries = parts.by_ref().take(SIGNATURES_MAX).collect();
    (entries, parts.next().is_none())
}

/// The time of sending as it is spelled; nothing where it is absent or occurs twice. One in the
/// payload is looked for once the payload is known to be genuine.
fn stated_time<'a>(sent: &Sent, entries: &[&'a str], call: &SignedRequest<'a>) -> Option<&'a str> {
    match &sent.at {
        SentAt::Header(name) => call.header(name),
        SentAt::Beside(prefix) => {
            let mut times = entries
                .iter()
                .filter_map(|entry| entry.strip_prefix(prefix.as_str()));
            let first = times.next();
            first.filter(|_| times.next().is_none())
        }
        SentAt::Body(_) => None,
    }
}

/// Whether a delivery whose signature fits was sent about now.
fn is_timely(sent: &Sent, time: Option<&str>, call: &SignedRequest<'_>, now: Timestamp) -> bool {
    let within = match &sent.at {
        SentAt::Header(_) | SentAt::Beside(_) => time.and_then(|text| read_time(sent, text)),
        SentAt::Body(field) => json::parse_strict(call.body)
            .ok()
            .and_then(|payload| read_time(sent, &payload.get(field)?.to_string())),
    };
    within.is_some_and(|at| {
        now.duration_since(at).unsigned_abs().as_millis() <= u128::from(sent.tolerance.as_millis())
    })
}

fn read_time(sent: &Sent, text: &str) -> Option<Timestamp> {
    let is_plain = !text.is_empty()
        && text.len() <= TIME_DIGITS_MAX
        && text.bytes().all(|byte| byte.is_ascii_digit());
    let count: i64 = is_plain.then(|| text.parse().ok()).flatten()?;
    match sent.unit {
        semel_flow::provider::Unit::Seconds => Timestamp::from_second(count).ok(),
        semel_flow::provider::Unit::Millis => Timestamp::from_millisecond(count).ok(),
    }
}

/// The secrets to try; where there is none, a stand-in that costs the same work.
fn or_stand_in(secrets: &[SecretText]) -> std::borrow::Cow<'_, [SecretText]> {
    match secrets.is_empty() {
        true => vec![SecretText::new(STAND_IN.to_owned())].into(),
        false => secrets.into(),
    }
}

#[cfg(test)]
mod tests;
