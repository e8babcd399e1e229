//! Verifies a delivery from what a preset says of its signature, and from nothing else.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use semel_flow::provider::{
    Algorithm, Encoding, PresetPart, PresetScheme, PresetSentAt, PresetSignature, SecretEncoding,
};
use serde_json::Value;
use sha2::Sha256;

use crate::providers::sha1;

/// A request, as a receiver sees it.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// Whether one of the signatures in the header fits.
pub(crate) fn is_authentic(signature: &PresetSignature, secret: &str, call: &Call) -> bool {
    let Some(message) = message(signature, call) else {
        return false;
    };
    entries(signature, call).iter().any(|entry| {
        signature.schemes.iter().any(|scheme| {
            let given = entry.strip_prefix(scheme.prefix);
            given.is_some_and(|given| expected(scheme, secret, &message).as_deref() == Some(given))
        })
    })
}

fn entries<'a>(signature: &PresetSignature, call: &'a Call) -> Vec<&'a str> {
    let header = call.headers.get(signature.header).map_or("", |text| text);
    match signature.separator {
        Some(separator) => header.split(separator).map(str::trim).collect(),
        None => vec![header],
    }
}

fn message(signature: &PresetSignature, call: &Call) -> Option<String> {
    let parts = signature.signed.iter().map(|part| match part {
        PresetPart::Text(text) => Some((*text).to_owned()),
        PresetPart::Body => Some(call.body.clone()),
        PresetPart::Sent => sent(signature, call),
        PresetPart::Id => call.headers.get(signature.id_header?).cloned(),
        PresetPart::Method => Some(call.method.clone()),
        PresetPart::Url => Some(call.url.clone()),
        PresetPart::UrlDecoded => Some(decoded(&call.url)),
        PresetPart::FormSorted => Some(form(&call.body).into_iter().map(|(n, v)| n + &v).collect()),
    });
    parts.collect()
}

fn sent(signature: &PresetSignature, call: &Call) -> Option<String> {
    match signature.sent?.at {
        PresetSentAt::Header(name) => call.headers.get(name).cloned(),
        PresetSentAt::Beside(prefix) => entries(signature, call)
            .iter()
            .find_map(|entry| entry.strip_prefix(prefix))
            .map(str::to_owned),
        PresetSentAt::Body(path) => {
            let body: Value = serde_json::from_str(&call.body).ok()?;
            body.get(path).map(Value::to_string)
        }
    }
}

fn expected(scheme: &PresetScheme, secret: &str, message: &str) -> Option<String> {
    let key = match scheme.secret {
        SecretEncoding::Text => secret.as_bytes().to_vec(),
        SecretEncoding::Base64(prefix) => STANDARD.decode(secret.strip_prefix(prefix)?).ok()?,
    };
    let bytes = match scheme.algorithm {
        Algorithm::HmacSha256 => {
            let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
            mac.update(message.as_bytes());
            mac.finalize().into_bytes().to_vec()
        }
        Algorithm::HmacSha1 => sha1::hmac(&key, message.as_bytes()).to_vec(),
        // No preset signs with SHA-512, and the samples hold no public key.
        Algorithm::HmacSha512 | Algorithm::Ed25519 => return None,
    };
    Some(match scheme.encoding {
        Encoding::Hex => hex::encode(bytes),
        Encoding::Base64 => STANDARD.encode(bytes),
    })
}

/// The fields of a form by name.
pub(crate) fn form(body: &str) -> BTreeMap<String, String> {
    let fields = body.split('&').filter_map(|field| field.split_once('='));
    fields
        .map(|(name, value)| (decoded(name), decoded(&value.replace('+', " "))))
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let escape = rest.get(1..3).and_then(|digits| hex::decode(digits).ok());
        match (first, escape) {
            (b'%', Some(byte)) => {
                bytes.extend(byte);
                rest = &rest[3..];
            }
            _ => {
                let letter = rest.chars().next().map_or(1, char::len_utf8);
                bytes.extend_from_slice(&rest.as_bytes()[..letter]);
                rest = &rest[letter..];
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}
