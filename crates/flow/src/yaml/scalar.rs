//! What a plain scalar means where any value may stand: YAML 1.2's core types and no others.

use serde_json::Value;

/// A plain scalar, resolved.
#[derive(Debug, PartialEq)]
pub(crate) enum Plain {
    Value(Value),
    /// A number that would come out otherwise than written: `007`, `1.10`, `0x1F`, 2^60.
    Inexact(String),
}

/// Resolves a plain scalar. `no`, `on` and `yes` are text.
pub(crate) fn plain(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Plain::Value(Value::Null),
        "true" | "True" | "TRUE" => Plain::Value(Value::Bool(true)),
        "false" | "False" | "FALSE" => Plain::Value(Value::Bool(false)),
        _ if is_number(text) => number(text),
        _ => Plain::Value(Value::from(text)),
    }
}

/// Takes a number only in the form in which JSON would write it, so that nothing is lost silently.
fn number(text: &str) -> Plain {
    let whole = text
        .parse::<i64>()
        .ok()
        .filter(|value| value.unsigned_abs() < 1 << 53);
    let value = match whole {
        Some(value) => Some(Value::from(value)),
        None if text.contains(['.', 'e', 'E']) => text.parse::<f64>().ok().map(Value::from),
        None => None,
    };
    match value {
        Some(value) if !value.is_null() => {
            let spelled = value.to_string();
            if spelled == text {
                Plain::Value(value)
            } else {
                Plain::Inexact(spelled)
            }
        }
        Some(_) | None => Plain::Inexact("another number".to_owned()),
    }
}

/// Whether the core schema sees a number in a text.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && digits(exponent)
        && !exponent.is_empty()
        && !(whole.is_empty() && fraction.is_empty())
}
