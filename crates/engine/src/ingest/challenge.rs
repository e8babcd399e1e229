//! Challenges: what a source asks of an address before it delivers to it.
//!
//! What is sent back was signed by the source, is short, and holds nothing that a browser could take for
//! more than text.

use semel_flow::provider::Challenge;
use semel_model::json;

/// The most bytes of a request that holds a challenge.
const BODY_BYTES_MAX: usize = 4_096;

/// The most characters of what is sent back.
const CHALLENGE_CHARS_MAX: usize = 256;

/// The type of the request by which Slack verifies an address.
const URL_VERIFICATION: &str = "url_verification";

/// What is to be sent back; nothing if the body is a delivery, or asks for something odd.
pub(super) fn read(kind: Challenge, body: &[u8]) -> Option<String> {
    match kind {
        Challenge::UrlVerification => url_verification(body),
        // It asks with a method of its own, and no delivery does.
        Challenge::RequestOrigin => None,
    }
}

fn url_verification(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    // Deliveries are read once, later.
    if text.len() > BODY_BYTES_MAX || !text.contains(URL_VERIFICATION) {
        return None;
    }
    let asked = json::parse_strict(body).ok()?;
    if asked["type"] != URL_VERIFICATION {
        return None;
    }
    let challenge = asked["challenge"].as_str()?;
    is_plain(challenge).then(|| challenge.to_owned())
}

/// Letters, digits and what base64 and tokens are written with.
fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~+/=".contains(&byte);
    (1..=CHALLENGE_CHARS_MAX).contains(&text.len()) && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slack(body: &str) -> Option<String> {
        read(Challenge::UrlVerification, body.as_bytes())
    }

    #[test]
    fn the_challenge_of_an_address_is_sent_back() {
        let body = r#"{"token":"t","challenge":"3eZbrw1aBm2rZgRNFdxV","type":"url_verification"}"#;

        assert_eq!(slack(body).as_deref(), Some("3eZbrw1aBm2rZgRNFdxV"));
        assert_eq!(read(Challenge::RequestOrigin, body.as_bytes()), None);
    }

    #[test]
    fn a_delivery_is_no_challenge_whatever_its_text() {
        for body in [
            r#"{"type":"event_callback","event":{"text":"url_verification"},"challenge":"x"}"#,
            r#"{"type":["url_verification"],"challenge":"x"}"#,
            r#"{"type":"url_verification"}"#,
            r#"["url_verification"]"#,
            "url_verification",
        ] {
            assert_eq!(slack(body), None, "{body}");
        }
    }

    #[test]
    fn nothing_long_or_odd_is_sent_back() {
        let of = |challenge: &str| {
            let body = serde_json::json!({ "type": "url_verification", "challenge": challenge });
            slack(&body.to_string())
        };

        assert!(of(&"a".repeat(256)).is_some());
        assert_eq!(of(&"a".repeat(257)), None);
        assert_eq!(of(&"a".repeat(5_000)), None);
        for odd in [
            "",
            "<b>",
            "a b",
            "a\r\nset-cookie: x",
            "ä",
            "a\u{0}",
            "\"",
            "'",
            "&amp;",
        ] {
            assert_eq!(of(odd), None, "{odd:?}");
        }
    }
}
