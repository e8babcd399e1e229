//! Tokens: `semel_`, 32 hex digits that name the token, `_`, 64 hex digits that are its secret.
//!
//! The name finds the record; the record keeps only the digest of the secret. The secret has 256
//! random bits, so one round of SHA-256 is as good as a slow hash. The prefix lets scanners find
//! a token that was committed by mistake.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

/// What every token begins with.
const PREFIX: &str = "semel_";

/// A token that was just made.
pub struct Minted {
    /// The token itself: shown once, never kept.
    pub text: String,
    /// Its name.
    pub id: Uuid,
    /// What is kept of its secret.
    pub digest: [u8; 32],
}

/// A token as a caller presents it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Presented {
    /// Its name.
    pub id: Uuid,
    /// The digest of its secret.
    pub digest: [u8; 32],
}

/// Makes a token. Fails where the system has no randomness to give.
pub fn mint() -> Result<Minted, getrandom::Error> {
    let mut name = [0; 16];
    getrandom::fill(&mut name)?;
    mint_named(name)
}

/// Makes a token of this name. Fails where the system has no randomness to give.
pub fn mint_named(name: [u8; 16]) -> Result<Minted, getrandom::Error> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    Ok(form(name, secret))
}

/// The token of a name and a secret.
fn form(name: [u8; 16], secret: [u8; 32]) -> Minted {
    Minted {
        text: format!("{PREFIX}{}_{}", hex::encode(name), hex::encode(secret)),
        id: Uuid::from_bytes(name),
        digest: Sha256::digest(secret).into(),
    }
}

/// Parses a token. Does not say what is wrong with one that cannot be parsed.
pub fn parse(text: &str) -> Option<Presented> {
    let (name, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let (mut id, mut bytes) = ([0; 16], [0; 32]);
    hex::decode_to_slice(name, &mut id).ok()?;
    hex::decode_to_slice(secret, &mut bytes).ok()?;
    Some(Presented {
        id: Uuid::from_bytes(id),
        digest: Sha256::digest(bytes).into(),
    })
}

impl Presented {
    /// Whether the secret is the one whose digest is stored, compared in constant time.
    pub fn matches(&self, kept: &[u8]) -> bool {
        self.digest.ct_eq(kept).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minted_token_reads_back_and_matches_its_digest() {
        let minted = mint().unwrap();

        let presented = parse(&minted.text).unwrap();

        assert_eq!(presented.id, minted.id);
        assert!(presented.matches(&minted.digest));
        assert_eq!(minted.text.len(), PREFIX.len() + 32 + 1 + 64);
    }

    #[test]
    fn two_tokens_share_nothing() {
        let (one, other) = (mint().unwrap(), mint().unwrap());

        assert_ne!(one.id, other.id);
        assert!(!parse(&one.text).unwrap().matches(&other.digest));
    }

    #[test]
    fn two_tokens_of_one_name_have_secrets_of_their_own() {
        let (one, other) = (mint_named([1; 16]).unwrap(), mint_named([1; 16]).unwrap());

        assert_eq!(one.id, other.id);
        assert_ne!(one.text, other.text);
        assert!(!parse(&one.text).unwrap().matches(&other.digest));
    }

    #[test]
    fn what_is_no_token_does_not_read() {
        let text = mint().unwrap().text;
        let cases = [
            "",
            "semel_",
            "semel__",
            &text[1..],
            &text[..text.len() - 1],
            &format!("{text}0"),
            &text.replace("semel_", "semel-"),
        ];

        for case in cases {
            assert!(parse(case).is_none(), "{case}");
        }
    }

    #[test]
    fn a_digest_of_another_length_matches_nothing() {
        let presented = parse(&mint().unwrap().text).unwrap();

        assert!(!presented.matches(&[]));
        assert!(!presented.matches(&presented.digest[..16]));
    }
}
