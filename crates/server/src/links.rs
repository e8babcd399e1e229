//! Links that decide an approval: redacted from everything that the API shows.
//!
//! A person who follows such a link may see what is asked and, with `login: false`, decide. It is
//! meant for the person it was sent to; a token that reads runs must not get it as a side effect.

/// What comes before the token in the path of such a link, between separators.
const WORD: &[u8] = b"approvals";

/// The fewest characters of what counts as a token. A whole one has 86, and a text that was cut may
/// hold most of one; the identity of an approval, which opens nothing, has 37.
const TOKEN_CHARS_MIN: usize = 40;

/// What replaces it.
const HIDDEN: &str = "[redacted]";

/// A text with every such link cut off behind its path, also where it is a part of a form or of
/// another address and its separators are percent-encoded.
pub(crate) fn without_links(text: String) -> String {
    let mut clean = String::new();
    // What is copied so far, and where to search from.
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = find_word(&text.as_bytes()[at..]) {
        let word = at + found;
        at = word + WORD.len();
        let (before, after) = (&text.as_bytes()[..word], &text.as_bytes()[at..]);
        let Some(separator) = separator(after).filter(|_| ends_in_separator(before)) else {
            continue;
        };
        let token = at + separator;
        let length = token_length(&after[separator..]);
        if length >= TOKEN_CHARS_MIN {
            clean.push_str(&text[copied..token]);
            clean.push_str(HIDDEN);
            (copied, at) = (token + length, token + length);
        }
    }
    if copied == 0 {
        return text;
    }
    clean.push_str(&text[copied..]);
    clean
}

fn find_word(text: &[u8]) -> Option<usize> {
    text.windows(WORD.len())
        .position(|piece| piece.eq_ignore_ascii_case(WORD))
}

fn ends_in_separator(text: &[u8]) -> bool {
    let tail = &text[text.len().saturating_sub(2)..];
    tail.ends_with(b"/") || tail.eq_ignore_ascii_case(b"2f")
}

/// How long the separator is that a text begins with: `/`, or that percent-encoded once or more.
fn separator(text: &[u8]) -> Option<usize> {
    if text.first()? == &b'/' {
        return Some(1);
    }
    let mut code = text.strip_prefix(b"%")?;
    while let Some(inner) = code.strip_prefix(b"25") {
        code = inner;
    }
    let is_slash = code.get(..2)?.eq_ignore_ascii_case(b"2f");
    is_slash.then(|| text.len() - code.len() + 2)
}

/// How many characters of base64url a text begins with.
fn token_length(text: &[u8]) -> usize {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let end = text.iter().position(|byte| !is_token(byte));
    end.unwrap_or(text.len())
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
    #[test]
    fn a_link_is_cut_off_where_it_is_percent_encoded() {
        let token = "aZ0_-".repeat(18);

        for (before, after) in [
            ("%2Fapprovals%2F", "&x=1"),
            ("%2fapprovals%2f", "%3Fa"),
            ("%252Fapprovals%252F", ""),
            ("/Approvals/", " ü"),
        ] {
            let clean = without_links(format!("ü=http%3A{before}{token}{after}"));

            assert_eq!(clean, format!("ü=http%3A{before}[redacted]{after}"));
        }
    }

    #[test]
    fn most_of_a_token_is_cut_off_too() {
        let whole = "aZ0_-".repeat(18);

        let clean = without_links(format!("/approvals/{}", &whole[..85]));

        assert_eq!(clean, "/approvals/[redacted]");
    }

    #[test]
    fn words_that_begin_no_link_stay() {
        let long = "a".repeat(86);

        for text in [
            format!("approvals/{long}"),
            format!("/approvals-{long}"),
            format!("/approvals%2G{long}"),
            "/approvals".to_owned(),
            "/approvals%".to_owned(),
            "/approvals%25".to_owned(),
            "/approvals/approvals/ü".to_owned(),
        ] {
            assert_eq!(without_links(text.clone()), text);
        }
    }
}
