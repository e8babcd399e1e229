//! The forms in which a text may come back.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use std::fmt::Write as _;

/// Every form of a text, each once.
pub(super) fn of(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let mut forms = vec![
        text.to_owned(),
        hex::encode(bytes),
        hex::encode_upper(bytes),
        json(text),
    ];
    for everything in [false, true] {
        forms.extend([
            percent(bytes, everything, true),
            percent(bytes, everything, false),
        ]);
    }
    // A sign-in by `Basic` has it behind a colon, a form behind a plus.
    forms.push(percent(bytes, false, true).replace("%20", "+"));
    for skipped in 0..3 {
        forms.extend([
            middle(
                &STANDARD_NO_PAD.encode(behind(bytes, skipped)),
                skipped,
                bytes.len(),
            ),
            middle(
                &URL_SAFE_NO_PAD.encode(behind(bytes, skipped)),
                skipped,
                bytes.len(),
            ),
        ]);
    }
    forms.sort_unstable();
    forms.dedup();
    forms.retain(|form| !form.is_empty());
    forms
}

/// The text as JSON writes it, without its quotes.
fn json(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    quoted[1..quoted.len().saturating_sub(1).max(1)].to_owned()
}

fn percent(bytes: &[u8], everything: bool, upper: bool) -> String {
    let mut text = String::with_capacity(bytes.len() * 3);
    for byte in bytes {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
        let _ = match (plain && !everything, upper) {
            (true, _) => {
                text.push(char::from(*byte));
                Ok(())
            }
            (false, true) => write!(text, "%{byte:02X}"),
            (false, false) => write!(text, "%{byte:02x}"),
        };
    }
    text
}

/// The bytes behind some others, which shift them within base64's groups of three.
fn behind(bytes: &[u8], skipped: usize) -> Vec<u8> {
    [vec![0; skipped], bytes.to_vec()].concat()
}

/// The letters of base64 that depend on the text alone, and not on what stands around it.
fn middle(encoded: &str, skipped: usize, len: usize) -> String {
    let first = (skipped * 8).div_ceil(6);
    let last = (skipped + len) * 8 / 6;
    encoded.get(first..last).unwrap_or_default().to_owned()
}
