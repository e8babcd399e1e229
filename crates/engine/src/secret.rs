//! The installation's own secret: one key, or several while it is being changed.
//!
//! ```text
//! secret key ──▶ key of addresses       signs callbacks and approvals
//!           ├──▶ key of fingerprints    tells one secret's text from another
//!           └──▶ master key             encrypts the vault, where no master keys are configured
//! ```
//!
//! The key itself is not kept in memory. Tokens have nothing to do with it: their secrets are random.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// The most keys that an operator may list: each one is tried on every address.
const KEYS_MAX: usize = 8;

/// The keys from which callback addresses are derived, the current one first. The first makes, all
/// verify. They are kept outside the database.
#[derive(Clone)]
pub struct Secret(Vec<DerivedKeys>);

/// The keys of one secret key, each for one purpose.
#[derive(Clone)]
struct DerivedKeys {
    addresses: Zeroizing<[u8; 32]>,
    fingerprints: Zeroizing<[u8; 32]>,
    master: Zeroizing<[u8; 32]>,
}

/// The text is no secret.
#[derive(Debug, thiserror::Error)]
#[error(
    "a secret key is 64 hex digits, and at most {KEYS_MAX} are listed: make one with \
     `openssl rand -hex 32`"
)]
pub struct SecretError;

impl Secret {
    /// Reads keys of 64 hex digits, divided by commas or lines, the current one first.
    pub fn from_hex(text: &str) -> Result<Self, SecretError> {
        let words = text.split([',', '\n']).map(str::trim);
        let keys: Result<Vec<DerivedKeys>, SecretError> = words
            .filter(|word| !word.is_empty())
            .map(|word| read_key(word).map(|key| DerivedKeys::of(&key)))
            .collect();
        match keys? {
            keys if keys.is_empty() || keys.len() > KEYS_MAX => Err(SecretError),
            keys => Ok(Self(keys)),
        }
    }

    /// A new secret, as hex digits to be kept.
    pub fn generate() -> String {
        let mut bytes = [0; 32];
        let filled = getrandom::fill(&mut bytes);
        assert!(filled.is_ok(), "the system has random bytes");
        hex::encode(bytes)
    }

    /// The key that new addresses are signed with.
    pub(crate) fn address_key(&self) -> &[u8; 32] {
        &self.0[0].addresses
    }

    /// The keys that an address may be signed with.
    pub(crate) fn address_keys(&self) -> impl Iterator<Item = &[u8; 32]> {
        self.0.iter().map(|keys| &*keys.addresses)
    }

    /// The key of fingerprints.
    pub(crate) fn fingerprint_key(&self) -> &[u8; 32] {
        &self.0[0].fingerprints
    }

    /// The master keys that are derived from these keys.
    pub(crate) fn master_keys(&self) -> impl Iterator<Item = [u8; 32]> {
        self.0.iter().map(|keys| *keys.master)
    }
}

impl DerivedKeys {
    fn of(key: &[u8; 32]) -> Self {
        Self {
            addresses: derive(key, b"semel.addresses.1"),
            fingerprints: derive(key, b"semel.fingerprints.1"),
            master: derive(key, b"semel.master-key.1"),
        }
    }
}

fn derive(key: &[u8; 32], purpose: &[u8]) -> Zeroizing<[u8; 32]> {
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(key) else {
        unreachable!("any key length makes an HMAC")
    };
    let digest = mac.chain_update(purpose).finalize().into_bytes();
    Zeroizing::new(<[u8; 32]>::from(digest))
}

/// Reads one key of 64 hex digits.
pub(crate) fn read_key(word: &str) -> Result<Zeroizing<[u8; 32]>, SecretError> {
    let mut key = Zeroizing::new([0_u8; 32]);
    hex::decode_to_slice(word, key.as_mut_slice()).map_err(|_| SecretError)?;
    Ok(key)
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_keys_are_read_the_current_one_first() {
        let (new, old) = (Secret::generate(), Secret::generate());

        let both = Secret::from_hex(&format!("{new}\n{old}\n")).unwrap();
        let listed = Secret::from_hex(&format!(" {new} , {old}")).unwrap();
        let alone = Secret::from_hex(&new).unwrap();

        assert_eq!(both.0.len(), 2);
        assert_eq!(listed.0.len(), 2);
        assert_eq!(both.address_key(), alone.address_key());
        assert_eq!(both.fingerprint_key(), alone.fingerprint_key());
    }

    #[test]
    fn a_text_without_a_key_with_too_many_or_with_another_word_is_refused() {
        let many = vec![Secret::generate(); KEYS_MAX + 1].join(",");
        let odd = format!("{},soon", Secret::generate());

        for text in ["", "\n,", "abc", &"0".repeat(63), &odd, &many] {
            assert!(Secret::from_hex(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_keys_of_addresses_fingerprints_and_the_vault_are_apart() {
        let secret = Secret::from_hex(&"ab".repeat(32)).unwrap();

        let keys = &secret.0[0];

        assert_ne!(*keys.addresses, *keys.master);
        assert_ne!(*keys.addresses, *keys.fingerprints);
        assert_ne!(*keys.fingerprints, *keys.master);
        for key in [&keys.addresses, &keys.fingerprints, &keys.master] {
            assert_ne!(**key, [0xab; 32], "the secret key itself");
        }
    }
}
