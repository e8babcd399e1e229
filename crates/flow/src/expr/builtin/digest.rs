//! Canonical JSON (RFC 8785) and digests.
//!
//! Canonical JSON has doubles only: beyond 2^53 two integers may read alike, and two intents would
//! share a key. Such numbers are refused instead of being rounded.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::super::error::EvalErrorKind;
use super::super::fuel::Fuel;
use super::super::value::{Map, Text, Val};
use super::{Builtin, made, text_of, wrong};

const INT_MAX: i64 = (1 << 53) - 1;
/// Text hashed, written or read as JSON per step of fuel.
const BYTES_PER_STEP: usize = 32;
/// Steps for each value that is written.
const STEPS_PER_NODE: usize = 3;
/// Nodes behind paths to ignore.
const IGNORED_MAX: usize = 100;

pub(super) fn json<'a>(fuel: &mut Fuel, value: &Val<'_>) -> Result<Val<'a>, EvalErrorKind> {
    let text = canonical(fuel, value, &[])?;
    made(fuel, text)
}

pub(super) fn sha256<'a>(fuel: &mut Fuel, value: &Val<'_>) -> Result<Val<'a>, EvalErrorKind> {
    let text = text_of(Builtin::Sha256, value)?;
    hashed(fuel, text.as_bytes())
}

/// HMAC (RFC 2104) with SHA-256, in hex.
pub(super) fn hmac_sha256<'a>(
    fuel: &mut Fuel,
    value: &Val<'_>,
    key: &Val<'_>,
) -> Result<Val<'a>, EvalErrorKind> {
    const BLOCK_BYTES: usize = 64;
    let text = text_of(Builtin::HmacSha256, value)?;
    let key = text_of(Builtin::HmacSha256, key)?;
    fuel.burn_for(text.len() + key.len(), BYTES_PER_STEP)?;
    let mut block = [0_u8; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        block[..32].copy_from_slice(&Sha256::digest(key.as_bytes()));
    } else {
        block[..key.len()].copy_from_slice(key.as_bytes());
    }
    let inner = block.map(|byte| byte ^ 0x36);
    let outer = block.map(|byte| byte ^ 0x5c);
    let inner = Sha256::new().chain_update(inner).chain_update(text);
    let digest = Sha256::new()
        .chain_update(outer)
        .chain_update(inner.finalize());
    made(fuel, hex::encode(digest.finalize()))
}

pub(super) fn fingerprint<'a>(
    fuel: &mut Fuel,
    value: &Val<'_>,
    ignored: Option<&Val<'_>>,
) -> Result<Val<'a>, EvalErrorKind> {
    let ignored = ignored.map_or(Ok(vec![]), paths)?;
    let ignored: Vec<Vec<&str>> = ignored
        .iter()
        .map(|path| path.split('.').collect())
        .collect();
    let text = canonical(fuel, value, &ignored)?;
    hashed(fuel, text.as_bytes())
}

pub(super) fn parse_json<'a>(fuel: &mut Fuel, value: &Val<'_>) -> Result<Val<'a>, EvalErrorKind> {
    let text = text_of(Builtin::ParseJson, value)?;
    fuel.burn_for(text.len(), BYTES_PER_STEP)?;
    // A parsed value takes up to thirty times its text (`[0,0,…]` is the worst), and making many
    // small values takes its time.
    fuel.make(text.len().saturating_mul(64))?;
    let parsed = semel_model::json::parse_strict(text.as_bytes()).map_err(|error| {
        EvalErrorKind::Invalid(format!("`parse_json` was given no JSON: {error}"))
    })?;
    own(&parsed)
}

fn own<'a>(value: &Value) -> Result<Val<'a>, EvalErrorKind> {
    Ok(match Val::lend(value)? {
        Val::Null => Val::Null,
        Val::Bool(value) => Val::Bool(value),
        Val::Int(value) => Val::Int(value),
        Val::Double(value) => Val::Double(value),
        Val::Text(text) => Val::Text(Text::Made(text.as_str().into())),
        Val::List(_) | Val::Map(_) => match value {
            Value::Array(items) => {
                let items = items.iter().map(own).collect::<Result<Vec<_>, _>>()?;
                Val::List(super::super::value::List::Made(items.into()))
            }
            Value::Object(fields) => {
                let mut made = Vec::with_capacity(fields.len());
                for (key, value) in fields {
                    made.push((Text::Made(key.as_str().into()), own(value)?));
                }
                made.sort_by(|(left, _), (right, _)| left.as_str().cmp(right.as_str()));
                Val::Map(Map::Made(made.into()))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Val::Null,
        },
    })
}

fn paths(ignored: &Val<'_>) -> Result<Vec<String>, EvalErrorKind> {
    let expected = "a list of paths";
    let Val::List(items) = ignored else {
        return Err(wrong(Builtin::Fingerprint, expected, ignored));
    };
    if items.len() > IGNORED_MAX {
        return Err(EvalErrorKind::Limit("ignored paths"));
    }
    items
        .iter()
        .map(|item| {
            let item = item?;
            let Val::Text(path) = &item else {
                return Err(wrong(Builtin::Fingerprint, expected, &item));
            };
            Ok(path.as_str().to_owned())
        })
        .collect()
}

fn canonical(
    fuel: &mut Fuel,
    value: &Val<'_>,
    ignored: &[Vec<&str>],
) -> Result<String, EvalErrorKind> {
    let ignored: Vec<&[&str]> = ignored.iter().map(Vec::as_slice).collect();
    let mut text = String::new();
    write(fuel, &mut text, value, &ignored)?;
    Ok(text)
}

/// Writes RFC 8785. `ignored` are the paths, from here on, that are left out.
fn write(
    fuel: &mut Fuel,
    out: &mut String,
    value: &Val<'_>,
    ignored: &[&[&str]],
) -> Result<(), EvalErrorKind> {
    fuel.burn(STEPS_PER_NODE)?;
    let before = out.len();
    match value {
        Val::Null => out.push_str("null"),
        Val::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Val::Int(value) if value.abs_diff(0) <= INT_MAX.abs_diff(0) => {
            out.push_str(&value.to_string());
        }
        Val::Int(_) => {
            let said = "a whole number beyond 2^53 has no exact JSON form: send it as text";
            return Err(EvalErrorKind::Invalid(said.to_owned()));
        }
        Val::Double(value) => leaf(out, &Value::from(*value))?,
        Val::Text(text) => {
            fuel.burn_for(text.as_str().len(), BYTES_PER_STEP)?;
            leaf(out, &Value::from(text.as_str()))?;
        }
        Val::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(fuel, out, &item?, &[])?;
            }
            out.push(']');
            return Ok(());
        }
        Val::Map(fields) => return write_map(fuel, out, fields, ignored),
    }
    fuel.make(out.len() - before)
}

fn write_map(
    fuel: &mut Fuel,
    out: &mut String,
    fields: &Map<'_>,
    ignored: &[&[&str]],
) -> Result<(), EvalErrorKind> {
    let mut keys = fields.keys();
    // RFC 8785 sorts by UTF-16 units, which differs from bytes beyond the basic plane.
    keys.sort_by(|left, right| {
        left.as_str()
            .encode_utf16()
            .cmp(right.as_str().encode_utf16())
    });
    out.push('{');
    let mut first = true;
    for key in keys {
        let key = key.as_str();
        fuel.burn_for(key.len(), BYTES_PER_STEP)?;
        let deeper: Vec<&[&str]> = ignored
            .iter()
            .filter(|path| path.first() == Some(&key))
            .map(|path| &path[1..])
            .collect();
        if deeper.iter().any(|path| path.is_empty()) {
            continue;
        }
        let Some(value) = fields.get(key) else {
            continue;
        };
        if !first {
            out.push(',');
        }
        first = false;
        leaf(out, &Value::from(key))?;
        out.push(':');
        write(fuel, out, &value?, &deeper)?;
    }
    out.push('}');
    Ok(())
}

fn leaf(out: &mut String, value: &Value) -> Result<(), EvalErrorKind> {
    let text = serde_json_canonicalizer::to_string(value)
        .map_err(|error| EvalErrorKind::Invalid(format!("not JSON: {error}")))?;
    out.push_str(&text);
    Ok(())
}

fn hashed<'a>(fuel: &mut Fuel, bytes: &[u8]) -> Result<Val<'a>, EvalErrorKind> {
    fuel.burn_for(bytes.len(), BYTES_PER_STEP)?;
    made(fuel, hex::encode(Sha256::digest(bytes)))
}
