//! The installation's own secret.

/// The secret from which callback addresses are derived. It is kept outside the database.
#[derive(Clone)]
pub struct Secret([u8; 32]);

/// The text is no secret.
#[derive(Debug, thiserror::Error)]
#[error("a secret key is 64 hex digits: make one with `openssl rand -hex 32`")]
pub struct SecretError;

impl Secret {
    /// Reads 64 hex digits.
    pub fn from_hex(text: &str) -> Result<Self, SecretError> {
        let bytes = hex::decode(text.trim()).map_err(|_| SecretError)?;
        bytes.try_into().map(Self).map_err(|_| SecretError)
    }

    /// A new secret, as hex digits to be kept.
    pub fn generate() -> String {
        let mut bytes = [0; 32];
        let filled = getrandom::fill(&mut bytes);
        assert!(filled.is_ok(), "the system has random bytes");
        hex::encode(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}
