//! Links that decide an approval: taken out of everything that the API shows.
//!
//! Whoever follows such a link may see what is asked and, with `login: false`, decide. It is meant
//! for whoever it was sent to; a token that reads runs must not hold it by the way.

/// What the path of such a link begins with.
const PATH: &str = "/approvals/";

/// The fewest characters of what follows: 64 bytes in base64url.
const TOKEN_CHARS_MIN: usize = 86;

/// What stands in its place.
const HIDDEN: &str = "[redacted]";

/// A text with every such link cut off behind its path.
pub(crate) fn without_links(text: String) -> String {
    if !text.contains(PATH) {
        return text;
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(PATH) {
        let (before, after) = rest.split_at(at + PATH.len());
        clean.push_str(before);
        let token = after
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
            .unwrap_or(after.len());
        if token >= TOKEN_CHARS_MIN {
            clean.push_str(HIDDEN);
            rest = &after[token..];
        } else {
            rest = after;
        }
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_cut_off_wherever_it_stands() {
        let token = "aZ0_-".repeat(18);
        let text =
            format!(r#"{{"a":"see http://x/approvals/{token}?b","c":"/approvals/{token}"}}"#);

        let clean = without_links(text);

        let wanted = r#"{"a":"see http://x/approvals/[redacted]?b","c":"/approvals/[redacted]"}"#;
        assert_eq!(clean, wanted);
    }

    #[test]
    fn an_address_that_opens_nothing_stays() {
        let text = "/v1/approvals/wait_0123456789abcdef0123456789abcdef/decide".to_owned();

        assert_eq!(without_links(text.clone()), text);
    }
}
