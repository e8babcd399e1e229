//! Signatures: one scheme, one version of the secret, all signatures of a header.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use semel_flow::provider::{Algorithm, Encoding, SecretEncoding};
use semel_flow::release::Scheme;
use subtle::{Choice, ConstantTimeEq as _};
use zeroize::Zeroizing;

use super::message::Message;

/// How many bytes a secret has that is written in base64.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// How many bytes an Ed25519 public key has.
const PUBLIC_KEY_BYTES: usize = 32;

/// The stand-in for a key of another form.
const STAND_IN: [u8; 32] = [0; 32];

/// What came of trying.
pub(super) struct Tried {
    /// Whether one of the signatures fits.
    pub(super) fits: Choice,
    /// Whether the secret is of the form that the scheme takes.
    pub(super) usable: bool,
}

/// Tries one scheme with one version of the secret on all signatures.
pub(super) fn try_scheme(
    scheme: &Scheme,
    secret: &str,
    entries: &[&str],
    message: &Message<'_>,
) -> Tried {
    let key = read_key(scheme, secret);
    let usable = key.is_some();
    let key = key.unwrap_or_else(|| Zeroizing::new(STAND_IN.to_vec()));
    let given = entries
        .iter()
        .filter_map(|entry| entry.strip_prefix(scheme.prefix.as_str()))
        .filter_map(|text| read_signature(scheme.encoding, text));
    let algorithm = match scheme.algorithm {
        Algorithm::HmacSha256 => Some(hmac::HMAC_SHA256),
        Algorithm::HmacSha512 => Some(hmac::HMAC_SHA512),
        Algorithm::HmacSha1 => Some(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        Algorithm::Ed25519 => None,
    };
    let mut fits = Choice::from(0);
    match algorithm {
        Some(algorithm) => {
            let expected = sign(algorithm, &key, message);
            given.for_each(|given| fits |= expected.as_ref().ct_eq(&given));
        }
        // What is compared here is public.
        None => given.for_each(|given| fits |= verifies(&key, message, &given)),
    }
    Tried {
        fits: fits & Choice::from(u8::from(usable)),
        usable,
    }
}

fn sign(algorithm: hmac::Algorithm, key: &[u8], message: &Message<'_>) -> hmac::Tag {
    let mut context = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
    for piece in &message.pieces {
        context.update(piece);
    }
    context.sign()
}

fn verifies(key: &[u8], message: &Message<'_>, given: &[u8]) -> Choice {
    let key = UnparsedPublicKey::new(&ED25519, key);
    let verified = key.verify(&message.joined(), given);
    Choice::from(u8::from(verified.is_ok()))
}

/// The bytes of a secret. The prefix says what it is for: a public key, which is not secret, must
/// never be used as one.
fn read_key(scheme: &Scheme, secret: &str) -> Option<Zeroizing<Vec<u8>>> {
    match scheme.secret {
        SecretEncoding::Text => {
            (!secret.is_empty()).then(|| Zeroizing::new(secret.as_bytes().to_vec()))
        }
        SecretEncoding::Base64(prefix) => {
            let text = secret.strip_prefix(prefix)?;
            let bytes = Zeroizing::new(STANDARD.decode(text).ok()?);
            let fits = match scheme.algorithm {
                Algorithm::HmacSha256 | Algorithm::HmacSha512 | Algorithm::HmacSha1 => {
                    KEY_BYTES.contains(&bytes.len())
                }
                Algorithm::Ed25519 => bytes.len() == PUBLIC_KEY_BYTES,
            };
            fits.then_some(bytes)
        }
    }
}

fn read_signature(encoding: Encoding, text: &str) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Hex => hex::decode(text).ok(),
        Encoding::Base64 => STANDARD.decode(text).ok(),
    }
}
