//! Whether the configured master keys decrypt the data keys in the database.

use semel_store::{HomeCell, ReadError, secrets};
use zeroize::Zeroizing;

use super::{MasterKeys, key_owner};

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
