//! The forms in which a text may come back.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// What different writers of percent-encoding leave as it is, besides letters and digits: RFC 3986,
/// HTML forms, JavaScript. The last one leaves nothing.
const PLAIN: [Option<&[u8]>; 4] = [Some(b"-_.~"), Some(b"*-._"), Some(b"-_.!~*'()"), None];

/// Every form of a text, each once.
pub(super) fn of(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let json = json(text);
    let mut forms = vec![
        text.to_owned(),
        hex::encode(bytes),
        hex::encode_upper(bytes),
        json.replace('/', "\\/"),
        in_ascii(&json),
        in_ascii(&json.replace('/', "\\/")),
        json,
    ];
    for plain in PLAIN {
        let upper = percent(bytes, plain);
        forms.extend([upper.replace("%20", "+"), lowered(&upper), upper]);
    }
    for skipped in 0..3 {
        let padded = [vec![0; skipped], bytes.to_vec()].concat();
        let (first, last) = ((skipped * 8).div_ceil(6), padded.len() * 8 / 6);
        // The letters that depend on the text alone, and not on what stands around it.
        let encoded = [
            STANDARD_NO_PAD.encode(&padded),
            URL_SAFE_NO_PAD.encode(&padded),
        ];
        let middles = encoded.iter().filter_map(|text| text.get(first..last));
        forms.extend(middles.map(str::to_owned));
    }
    forms.sort_unstable();
    forms.dedup();
    forms.retain(|form| !form.is_empty());
    forms
}

/// The text as JSON writes it, without its quotes.
fn json(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let inside = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    inside.unwrap_or_default().to_owned()
}

/// JSON as those write it who keep to ASCII.
fn in_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii() {
            text.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

fn percent(bytes: &[u8], plain: Option<&[u8]>) -> String {
    let mut text = String::with_capacity(bytes.len() * 3);
    for byte in bytes {
        let kept = plain.is_some_and(|plain| byte.is_ascii_alphanumeric() || plain.contains(byte));
        if kept {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Percent-encoding with small letters in its escapes.
fn lowered(percent: &str) -> String {
    let mut parts = percent.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (escape, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        text.push('%');
        text.push_str(&escape.to_lowercase());
        text.push_str(rest);
    }
    text
}
