//! What a script may send: sizes, times and words that can be stored.

use semel_model::storable::check_name;
use semel_model::{EffectScope, Span};
use semel_store::named_effects::NamedResult;
use serde_json::Value;

use super::{OnceBegin, OnceError, OnceSubject};

/// The most bytes of a stored result, as JSON text.
const RESULT_BYTES_MAX: usize = 256 * 1024;

/// The most characters of a failure's code.
const CODE_CHARS_MAX: usize = 64;

/// The shortest and the longest lease of a script, in milliseconds.
const LEASE_MS: std::ops::RangeInclusive<u64> = 1_000..=86_400_000;

pub(super) fn check_begin(of: &OnceSubject, asked: &OnceBegin) -> Result<(), OnceError> {
    match of.name.scope() {
        EffectScope::Shared | EffectScope::Once(_) => {}
        EffectScope::Flow(_) | EffectScope::Step { .. } => {
            let message = "only steps of the flow use its scope";
            return Err(OnceError::Invalid(message.to_owned()));
        }
    }
    if !LEASE_MS.contains(&asked.lease.as_millis()) {
        let message = "`lease` lies between 1s and 1d";
        return Err(OnceError::Invalid(message.to_owned()));
    }
    if asked.keep < Span::from_secs(1) {
        let message = "`keep` is at least 1s";
        return Err(OnceError::Invalid(message.to_owned()));
    }
    check_name(&asked.holder_name)?;
    Ok(())
}

pub(in crate::commands) fn check_result(happened: &NamedResult) -> Result<(), OnceError> {
    if let Some(id) = &happened.external_id {
        check_name(id)?;
    }
    let bytes = happened.result.as_ref().map_or(0, json_bytes);
    match bytes > RESULT_BYTES_MAX {
        true => Err(OnceError::Invalid(format!(
            "`result` has {bytes} bytes, and at most {RESULT_BYTES_MAX} can be stored"
        ))),
        false => Ok(()),
    }
}

fn json_bytes(value: &Value) -> usize {
    value.to_string().len()
}

pub(super) fn read_code(code: &str) -> Result<&str, OnceError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if code.is_empty() || code.len() > CODE_CHARS_MAX || !code.chars().all(plain) {
        return Err(OnceError::Invalid(format!(
            "`code` has 1 to {CODE_CHARS_MAX} lower-case letters, digits and hyphens"
        )));
    }
    Ok(code)
}
