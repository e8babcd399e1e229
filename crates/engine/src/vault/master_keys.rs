//! The master keys, and whether they decrypt the data keys in the database.

use semel_store::{HomeCell, ReadError, secrets};
use zeroize::Zeroizing;

use super::key_owner;
use super::seal::SealingKey;
use crate::secret::{Secret, SecretError, read_key};

/// The prefix of a secret key that stands for the master key derived from it.
const DERIVED: &str = "derived:";

/// The master keys. The first key encrypts; any of them decrypts. That is how they are rotated.
#[derive(Clone)]
pub struct MasterKeys(pub(super) Vec<SealingKey>);

impl MasterKeys {
    /// Reads keys of 64 hex digits, separated by commas or lines, the current one first. A secret key
    /// behind `derived:` stands for the master key that is derived from it.
    ///
    /// # Errors
    ///
    /// Where one of them is no key, or there is none.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let words = text.split([',', '\n']).map(str::trim);
        let keys: Result<Vec<SealingKey>, SecretError> = words
            .filter(|word| !word.is_empty())
            .map(|word| match word.strip_prefix(DERIVED) {
                Some(secret) => {
                    let secret = Secret::from_hex(secret)?;
                    let mut keys = secret.master_keys().map(SealingKey::new);
                    keys.next().ok_or(SecretError)
                }
                None => Ok(SealingKey::new(*read_key(word)?)),
            })
            .collect();
        match keys? {
            keys if keys.is_empty() => Err(SecretError),
            keys => Ok(Self(keys)),
        }
    }

    /// Keys derived from the installation's secret, where the operator names no others: one from each
    /// secret key, the current one first.
    #[must_use]
    pub fn derive(secret: &Secret) -> Self {
        Self(secret.master_keys().map(SealingKey::new).collect())
    }

    pub(super) fn current(&self) -> &SealingKey {
        &self.0[0]
    }
}

/// What the configured master keys decrypt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyReport {
    /// How many data keys the first of them decrypts.
    pub current: usize,
    /// How many only a former one decrypts: `semel secret rotate` encrypts them anew.
    pub former: usize,
    /// What tells the master keys that are missing from others, one for each data key.
    pub locked: Vec<String>,
}

impl MasterKeys {
    /// Tries these keys on every data key of the installation.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn report(&self, cell: HomeCell<'_>) -> Result<KeyReport, ReadError> {
        let mut report = KeyReport::default();
        for row in secrets::list_keys(cell, None).await? {
            let owner = key_owner(row.namespace_id, row.number);
            let mut masters = self.0.iter();
            match masters.position(|master| master.unwrap_key(&owner, &row.wrapped).is_some()) {
                Some(0) => report.current += 1,
                Some(_) => report.former += 1,
                None => report.locked.push(row.wrapped_by),
            }
        }
        Ok(report)
    }

    /// Encrypts a text that belongs to `owner`, for this installation.
    pub(crate) fn seal(&self, owner: &[u8], text: &[u8]) -> Vec<u8> {
        self.current().seal(owner, text)
    }

    /// Decrypts what this installation encrypted for `owner`; nothing for anything else.
    pub(crate) fn open(&self, owner: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        self.0.iter().find_map(|key| key.open(owner, sealed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vault_opens_while_the_secret_key_changes() {
        let (new, old) = (Secret::generate(), Secret::generate());
        let derived = |text: &str| MasterKeys::derive(&Secret::from_hex(text).unwrap());
        let sealed = derived(&old).seal(b"owner", b"sk_live_1");

        let during = derived(&format!("{new},{old}"));
        let moved = during.seal(b"owner", b"sk_live_1");

        let opened = during.open(b"owner", &sealed).unwrap();
        assert_eq!(opened.as_slice(), b"sk_live_1");
        assert!(derived(&new).open(b"owner", &sealed).is_none());
        assert!(
            derived(&new).open(b"owner", &moved).is_some(),
            "the old key may go"
        );
    }

    #[test]
    fn a_derived_master_key_can_be_kept_while_addresses_get_another_key() {
        let (secret, master) = (Secret::generate(), Secret::generate());
        let sealed = MasterKeys::derive(&Secret::from_hex(&secret).unwrap()).seal(b"o", b"text");

        let kept = MasterKeys::parse(&format!("{master}\nderived:{secret}")).unwrap();

        assert!(kept.open(b"o", &sealed).is_some());
        let moved = kept.seal(b"o", b"text");
        let alone = MasterKeys::parse(&master).unwrap();
        assert!(alone.open(b"o", &moved).is_some(), "the first one encrypts");
        for wrong in ["derived:", "derived:abc", "", "abc"] {
            assert!(MasterKeys::parse(wrong).is_err(), "{wrong}");
        }
    }
}
