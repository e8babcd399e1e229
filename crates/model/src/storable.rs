//! What a column of text can hold: no zero, and no more than an index entry has room for.
//!
//! JSON allows the character zero in any text, and destinations, workers and people may send texts
//! of any length. PostgreSQL's `text` takes no zero, and an index no entry beyond 2.7 kB.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// The most bytes of a name that a step computes, and of a text that is looked up by an index.
pub const NAME_BYTES_MAX: usize = 512;

/// How many hexadecimal digits of a digest distinguish long texts that begin alike.
const DIGEST_CHARS: usize = 32;

/// A text that cannot be a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAName {
    /// It holds the character zero.
    #[error("it holds the character zero, which cannot be stored")]
    Zero,
    /// It is too long.
    #[error("it has {0} bytes, and at most {NAME_BYTES_MAX} can be stored")]
    Long(usize),
}

/// Says whether a text can be a name.
///
/// # Errors
///
/// Where it holds a zero or is too long.
pub fn check_name(text: &str) -> Result<(), NotAName> {
    if text.contains('\0') {
        return Err(NotAName::Zero);
    }
    match text.len() {
        0..=NAME_BYTES_MAX => Ok(()),
        bytes => Err(NotAName::Long(bytes)),
    }
}

/// The text with every zero replaced by the sign for a character that is not known.
pub fn without_zero(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => Cow::Owned(text.replace('\0', "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

/// The beginning of a text, of so many characters at most, without a zero.
pub fn excerpt(text: &str, chars_max: usize) -> String {
    let plain = text.chars().map(|c| match c {
        '\0' => char::REPLACEMENT_CHARACTER,
        c => c,
    });
    plain.take(chars_max).collect()
}

/// The text as an index keeps it: a long one is cut and followed by a digest of the whole, so that
/// it is found by the whole text and by no other.
pub fn indexed(text: &str) -> Cow<'_, str> {
    if check_name(text).is_ok() {
        return Cow::Borrowed(text);
    }
    let digest = hex::encode(Sha256::digest(text.as_bytes()));
    let plain = without_zero(text);
    let room = NAME_BYTES_MAX - DIGEST_CHARS - '…'.len_utf8();
    let mut end = plain.len().min(room);
    while !plain.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}…{}", &plain[..end], &digest[..DIGEST_CHARS]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_zero_and_an_end() {
        assert_eq!(check_name("orders/42"), Ok(()));
        assert_eq!(check_name("a\0b"), Err(NotAName::Zero));
        assert_eq!(check_name(&"x".repeat(513)), Err(NotAName::Long(513)));
    }

    #[test]
    fn an_excerpt_is_short_and_has_no_zero() {
        assert_eq!(excerpt("paid", 10), "paid");
        assert_eq!(excerpt("ä\0bc", 3), "ä\u{fffd}b");
        assert_eq!(excerpt("a\0", 2), without_zero("a\0"));
    }

    #[test]
    fn an_indexed_text_is_short_and_tells_long_ones_apart() {
        assert_eq!(indexed("inv_1"), "inv_1");
        let (one, other) = ("ä".repeat(3_000), format!("{}x", "ä".repeat(3_000)));

        for text in [&one, &other, &"a\0".repeat(10)] {
            assert_eq!(check_name(&indexed(text)), Ok(()), "{text}");
            assert_eq!(indexed(text), indexed(text));
        }
        assert_ne!(indexed(&one), indexed(&other));
        assert_ne!(indexed("a\0b"), indexed("a\u{fffd}b"));
    }
}
