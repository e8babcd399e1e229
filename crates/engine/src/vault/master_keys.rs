//! The master keys, and whether they decrypt the data keys in the database.

use hmac::{Hmac, KeyInit as _, Mac};
use semel_store::{HomeCell, ReadError, secrets};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::key_owner;
use super::seal::SealingKey;
use crate::secret::{Secret, SecretError};

/// The master keys. The first key encrypts; any of them decrypts. That is how they are rotated.
#[derive(Clone)]
pub struct MasterKeys(pub(super) Vec<SealingKey>);

impl MasterKeys {
    /// Reads keys of 64 hex digits, separated by commas or lines, the current one first.
    ///
    /// # Errors
    ///
    /// Where one of them is no key, or there is none.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let words = text.split([',', '\n']).map(str::trim);
        let keys: Result<Vec<SealingKey>, SecretError> = words
            .filter(|word| !word.is_empty())
            .map(|word| Secret::from_hex(word).map(|secret| SealingKey::new(*secret.bytes())))
            .collect();
        match keys? {
            keys if keys.is_empty() => Err(SecretError),
            keys => Ok(Self(keys)),
        }
    }

    /// A key derived from the installation's secret, where the operator names no other.
    #[must_use]
    pub fn derive(secret: &Secret) -> Self {
        let mac = Hmac::<Sha256>::new_from_slice(secret.bytes());
        assert!(mac.is_ok(), "a key of any length will do");
        let digest = mac.map(|mac| mac.chain_update(b"semel.master-key.1").finalize());
        Self(vec![SealingKey::new(
            digest.map_or([0; 32], |digest| digest.into_bytes().into()),
        )])
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
