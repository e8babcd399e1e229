//! Where an operator looks an effect up at its destination: an address with places for its names.

use serde::{Deserialize, Serialize};

/// The longest address, in bytes.
const BYTES_MAX: usize = 2_000;

/// Stands for the key that the destination was sent.
const KEY: &str = "{key}";

/// Stands for the destination's own identity of what was made.
const EXTERNAL_ID: &str = "{external_id}";

/// The address of a page at a destination, e.g. `https://shop.example/search?q={key}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FindUrl(String);

/// A text that is no such address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`find_url` is an address such as https://shop.example/search?q={{key}}: it begins with https:// and a host, \
     holds no password, no space and no other braces than {{key}} and {{external_id}}, and has at most 2000 bytes"
)]
pub struct ParseFindUrlError;

impl TryFrom<String> for FindUrl {
    type Error = ParseFindUrlError;

    fn try_from(text: String) -> Result<Self, ParseFindUrlError> {
        match is_address(&text) {
            true => Ok(Self(text)),
            false => Err(ParseFindUrlError),
        }
    }
}

impl From<FindUrl> for String {
    fn from(url: FindUrl) -> Self {
        url.0
    }
}

/// The host stands before any place: what a sender wrote never decides where an operator is led.
fn is_address(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://") else {
        return false;
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let is_of_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    let bare = text.replace(KEY, "").replace(EXTERNAL_ID, "");
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"'<>\\^`{|}".contains(c);
    end > 0
        && rest[..end].chars().all(is_of_host)
        && bare.chars().all(is_plain)
        && text.len() <= BYTES_MAX
}

impl FindUrl {
    /// The page of one effect. Nothing where the address needs an identity that is not known.
    #[must_use]
    pub fn fill(&self, key: &str, external_id: Option<&str>) -> Option<String> {
        if self.0.contains(EXTERNAL_ID) && external_id.is_none() {
            return None;
        }
        // One pass: what a name holds is never read as a place.
        let mut filled = String::with_capacity(self.0.len());
        let mut rest = self.0.as_str();
        while let Some(at) = rest.find('{') {
            filled.push_str(&rest[..at]);
            let (value, place) = match rest[at..].starts_with(KEY) {
                true => (key, KEY),
                false => (external_id.unwrap_or_default(), EXTERNAL_ID),
            };
            push_encoded(&mut filled, value);
            rest = &rest[at + place.len()..];
        }
        filled.push_str(rest);
        Some(filled)
    }
}

/// Everything but what RFC 3986 leaves unreserved is written by its bytes.
fn push_encoded(to: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                to.push(char::from(byte));
            }
            other => to.push_str(&format!("%{other:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Result<FindUrl, ParseFindUrlError> {
        FindUrl::try_from(text.to_owned())
    }

    #[test]
    fn names_are_put_in_by_their_bytes() {
        let both = url("https://a.example:8443/x?q={key}&id={external_id}#{key}").unwrap();
        let one = url("https://a.example/{external_id}").unwrap();

        assert_eq!(
            both.fill("a b&c=ü/{key}", Some("../?#")).unwrap(),
            "https://a.example:8443/x?q=a%20b%26c%3D%C3%BC%2F%7Bkey%7D&id=..%2F%3F%23#a%20b%26c%3D%C3%BC%2F%7Bkey%7D"
        );
        assert_eq!(one.fill("k", None), None);
    }

    #[test]
    fn only_https_with_a_host_of_its_own_is_an_address() {
        assert!(url("https://dashboard.stripe.com/search?query={key}").is_ok());
        for text in [
            "",
            "http://a.example/{key}",
            "javascript:alert(1)",
            "https://",
            "https:///x",
            "https://{key}/",
            "https://{key}.a.example/",
            "https://user:pass@a.example/",
            "https://a.example/{other}",
            "https://a.example/{key",
            "https://a.example/a b",
            "https://a.example/\"x",
            "https://a.example/\u{202e}",
            "https://a.example\\@b.example/",
        ] {
            assert_eq!(url(text), Err(ParseFindUrlError), "{text}");
        }
        assert!(url(&format!("https://a.example/{}", "x".repeat(2_000))).is_err());
    }
}
