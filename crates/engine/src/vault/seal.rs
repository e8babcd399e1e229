//! Encryption: secrets in the database can only be decrypted with a key that is not in it.
//!
//! XChaCha20-Poly1305 with a random nonce in front. The owner of a text is authenticated with it,
//! so that the ciphertext cannot be moved to another name.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

const NONCE_BYTES: usize = 24;

/// A key that encrypts and decrypts. Wiped when it is dropped.
#[derive(Clone)]
pub(crate) struct SealingKey(Zeroizing<[u8; 32]>);

impl SealingKey {
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    pub(crate) fn generate() -> Self {
        let mut bytes = [0; 32];
        fill(&mut bytes);
        Self::new(bytes)
    }

    /// A name that tells one master key from another, and reveals nothing about it.
    pub(crate) fn name(&self) -> String {
        let digest = Sha256::new()
            .chain_update(b"semel.key-name.1")
            .chain_update(*self.0)
            .finalize();
        hex::encode(&digest[..8])
    }

    /// Encrypts a text that belongs to `owner`.
    pub(crate) fn seal(&self, owner: &[u8], text: &[u8]) -> Vec<u8> {
        let mut nonce = [0; NONCE_BYTES];
        fill(&mut nonce);
        let payload = Payload {
            msg: text,
            aad: owner,
        };
        let sealed = self.cipher().encrypt(&XNonce::from(nonce), payload);
        assert!(sealed.is_ok(), "a text of this size can be sealed");
        [nonce.as_slice(), &sealed.unwrap_or_default()].concat()
    }

    /// Decrypts what was encrypted with this key for `owner`; nothing for anything else.
    pub(crate) fn open(&self, owner: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES)?;
        let nonce: [u8; NONCE_BYTES] = nonce.try_into().ok()?;
        let payload = Payload {
            msg: sealed,
            aad: owner,
        };
        let opened = self.cipher().decrypt(&XNonce::from(nonce), payload).ok()?;
        Some(Zeroizing::new(opened))
    }

    /// This key, encrypted with another.
    pub(crate) fn wrap(&self, by: &Self, owner: &[u8]) -> Vec<u8> {
        by.seal(owner, self.0.as_slice())
    }

    /// The key that was encrypted with this one.
    pub(crate) fn unwrap_key(&self, owner: &[u8], wrapped: &[u8]) -> Option<Self> {
        let opened = self.open(owner, wrapped)?;
        let bytes: [u8; 32] = opened.as_slice().try_into().ok()?;
        Some(Self::new(bytes))
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&(*self.0).into())
    }
}

fn fill(bytes: &mut [u8]) {
    let filled = getrandom::fill(bytes);
    assert!(filled.is_ok(), "the system has random bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ciphertext_decrypts_only_with_its_key_and_owner() {
        let key = SealingKey::generate();
        let sealed = key.seal(b"main|stripe|1", b"sk_live_1");

        let opened = key.open(b"main|stripe|1", &sealed).unwrap();
        assert_eq!(opened.as_slice(), b"sk_live_1");
        assert!(key.open(b"main|stripe|2", &sealed).is_none());
        assert!(key.open(b"other|stripe|1", &sealed).is_none());
        assert!(
            SealingKey::generate()
                .open(b"main|stripe|1", &sealed)
                .is_none()
        );
        let mut bent = sealed.clone();
        *bent.last_mut().unwrap() ^= 1;
        assert!(key.open(b"main|stripe|1", &bent).is_none());
        assert!(key.open(b"main|stripe|1", b"short").is_none());
    }

    #[test]
    fn the_same_text_is_encrypted_differently_each_time() {
        let key = SealingKey::generate();

        assert_ne!(key.seal(b"a", b"text"), key.seal(b"a", b"text"));
    }
}
