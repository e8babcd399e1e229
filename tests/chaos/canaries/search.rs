//! Looking for planted secrets in everything that was gathered, in every form.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Everything that was seen from outside: where it comes from, and the text.
#[derive(Default)]
pub(super) struct Gathered(Vec<(String, String)>);

impl Gathered {
    /// Adds a text and where it comes from.
    pub(super) fn add(&mut self, who: impl Into<String>, said: impl Into<String>) {
        self.0.push((who.into(), said.into()));
    }

    /// Where a text was found in any form; each with its context.
    pub(super) fn find(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for form in forms(text) {
            for (who, said) in &self.0 {
                if let Some(at) = said.find(&form) {
                    let start = said.floor_char_boundary(at.saturating_sub(80));
                    let end = said.floor_char_boundary(at + form.len() + 40);
                    found.push(format!("{who}: …{}…", &said[start..end]));
                }
            }
        }
        found
    }

    /// How much was gathered, in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|(_, said)| said.len()).sum()
    }
}

/// A text, and each of its longer lines, in every form in which it may be written down.
fn forms(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with("-----"));
    let parts = lines.filter(|line| line.len() >= 8).chain([text]);
    let mut forms: Vec<String> = parts.flat_map(forms_of).collect();
    forms.sort();
    forms.dedup();
    forms
}

fn forms_of(text: &str) -> Vec<String> {
    let quoted = serde_json::Value::from(text).to_string();
    let twice = serde_json::Value::from(quoted.as_str()).to_string();
    let mut forms = vec![
        text.to_owned(),
        quoted.trim_matches('"').to_owned(),
        twice.trim_matches(['"', '\\']).to_owned(),
        hex::encode(text),
        hex::encode_upper(text),
        text.bytes().map(|byte| format!("%{byte:02X}")).collect(),
        text.bytes().map(escaped).collect(),
        // A dump writes bytes as text with three octal digits, or doubles the backslash.
        text.replace('\\', "\\\\"),
    ];
    // Signing in to fetch a token escapes what it encodes.
    let escaped_text: String = text.bytes().map(form_escaped).collect();
    for (before, text) in (0..3).flat_map(|n| [(n, text), (n, escaped_text.as_str())]) {
        let padded = [vec![b' '; before], text.as_bytes().to_vec()].concat();
        let (first, last) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
        for encoded in [
            STANDARD_NO_PAD.encode(&padded),
            URL_SAFE_NO_PAD.encode(&padded),
        ] {
            forms.push(encoded[first..last].to_owned());
        }
    }
    forms
}

/// A byte as forms write it.
fn form_escaped(byte: u8) -> String {
    match byte {
        b'*' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    }
}

fn escaped(byte: u8) -> String {
    match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    }
}

#[test]
fn a_planted_text_is_found_in_every_form() {
    let secret = "c4nary/\"9\\+key~";
    let url: String = secret.bytes().map(escaped).collect();
    let said = [
        secret.to_owned(),
        format!(
            "Basic {}",
            STANDARD_NO_PAD.encode(format!("semel:{secret}"))
        ),
        format!("Basic {}", URL_SAFE_NO_PAD.encode(format!("se:{secret}!"))),
        hex::encode(secret),
        url,
        serde_json::json!({ "echo": secret }).to_string(),
        serde_json::json!(serde_json::json!({ "echo": secret }).to_string()).to_string(),
    ];

    for said in said {
        let mut gathered = Gathered::default();
        gathered.add("somebody", said.as_str());

        assert!(!gathered.find(secret).is_empty(), "{said}");
        assert!(gathered.find("another-secret").is_empty());
    }
}
