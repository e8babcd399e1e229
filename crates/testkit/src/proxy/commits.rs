//! How commits look on a wire of PostgreSQL: a spelled-out `COMMIT`, or a prepared statement whose
//! text says that it commits alone, and what kind it is.

use std::collections::HashMap;

/// What a client of PostgreSQL sends to end a transaction.
const COMMIT: &[u8] = b"COMMIT\0";

/// What stands in front of a prepared statement that is a transaction by itself; ` */` or
/// `: KIND */` follows.
const COMMITS_ALONE: &[u8] = b"\0/* commits alone";

/// The kinds of statements that writers make; those without a kind are taken to be theirs.
const WRITERS: &[&str] = &["", "accept", "record"];

/// The longest name of a kind.
const KIND_BYTES_MAX: usize = 40;

/// The statements of one wire that commit alone: their kinds by their names.
#[derive(Default)]
pub(super) struct Commits {
    kinds: HashMap<Vec<u8>, String>,
}

impl Commits {
    /// Learns the names of statements that commit alone, as they are prepared.
    pub(super) fn learn(&mut self, bytes: &[u8]) {
        for at in 0..bytes.len().saturating_sub(COMMITS_ALONE.len()) {
            if bytes[at..].starts_with(COMMITS_ALONE) {
                // A letter and a number; what stands before is the message's length.
                let is_digit = |byte: &&u8| byte.is_ascii_digit();
                let digits = bytes[..at].iter().rev().take_while(is_digit).count();
                let name = bytes[at.saturating_sub(digits + 1)..at].to_vec();
                let kind = read_kind(&bytes[at + COMMITS_ALONE.len()..]);
                self.kinds.insert(name, kind);
            }
        }
    }

    /// Whether a writer commits here: deliveries, transitions, or a transaction that is spelled out.
    pub(super) fn are_in(&self, bytes: &[u8]) -> bool {
        let is_writers = |kind: &&str| WRITERS.contains(kind);
        bytes.windows(COMMIT.len()).any(|part| part == COMMIT)
            || self.list(bytes).iter().any(is_writers)
    }

    /// The kinds of what commits alone here, in order. A prepared statement is bound as an unnamed
    /// portal: its name stands between two zeros.
    pub(super) fn list(&self, bytes: &[u8]) -> Vec<&str> {
        let mut found = Vec::new();
        for (at, byte) in bytes.iter().enumerate() {
            if *byte != 0 || self.kinds.is_empty() {
                continue;
            }
            let rest = &bytes[at + 1..];
            let length = rest.iter().take(16).position(|byte| *byte == 0);
            if let Some(kind) = length.and_then(|length| self.kinds.get(&rest[..length])) {
                found.push(kind.as_str());
            }
        }
        found
    }
}

/// The kind that a mark names; nothing if it names none.
fn read_kind(after: &[u8]) -> String {
    let text = after.strip_prefix(b": ").unwrap_or_default();
    let length = text
        .windows(3)
        .take(KIND_BYTES_MAX)
        .position(|end| end == b" */");
    let text = &text[..length.unwrap_or_default()];
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_known_by_the_name_under_which_it_was_prepared() {
        let mut commits = Commits::default();
        commits.learn(b"P\0\0\0\x50s12\0/* commits alone: take one */ UPDATE\0");
        commits.learn(b"P\0\0\0\x50s3\0/* commits alone */ WITH\0");

        assert_eq!(commits.list(b"B\0\0\0\x10\0s12\0\0\0"), ["take one"]);
        assert_eq!(commits.list(b"B\0\0\0\x10\0s3\0\0\0"), [""]);
        assert!(commits.list(b"B\0\0\0\x10\0s1\0\0\0").is_empty());
        assert!(commits.are_in(b"Q\0\0\0\x0bCOMMIT\0"));
    }
}
