//! A destination with its doors open: a connection and the secrets that it names.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use semel_model::{Connection, Fault, FaultKind, SecretText};
use sha2::{Digest as _, Sha256};

use crate::redact::Redactor;

/// A connection and the secrets that it names, as they are now.
pub struct Destination {
    /// What flows call it.
    pub name: String,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// Grows when the connection or one of its secrets changes, also where it is deleted and created again: of
    /// two destinations of one name, the one with the greater version is newer.
    pub version: i64,
    /// What its owner says of it.
    pub connection: Connection,
    secrets: BTreeMap<String, SecretText>,
    redactor: OnceLock<Arc<Redactor>>,
    identity: OnceLock<Identity>,
}

/// Version, settings and secrets of a destination, as a digest. A token, a pool or a client is used for the
/// destination that it was made for and no other, whatever the numbers of its rows say: they begin at 1 again after a
/// delete. Neither logged nor stored, because short secrets could be guessed from it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity([u8; 32]);

impl Destination {
    /// A connection with its secrets, by name.
    #[must_use]
    pub fn new(
        name: String,
        namespace_id: i32,
        version: i64,
        connection: Connection,
        secrets: BTreeMap<String, SecretText>,
    ) -> Self {
        Self {
            name,
            namespace_id,
            version,
            connection,
            secrets,
            redactor: OnceLock::new(),
            identity: OnceLock::new(),
        }
    }

    /// Whether the connection and its secrets are what they are in another destination.
    #[must_use]
    pub fn is_unchanged_since(&self, earlier: &Self) -> bool {
        let texts = self.named().map(|(name, text)| (name, text.reveal()));
        let former = earlier.named().map(|(name, text)| (name, text.reveal()));
        self.connection == earlier.connection && texts.eq(former)
    }

    /// What tokens, pools and clients that were made for it are known by.
    pub(crate) fn identity(&self) -> Identity {
        *self.identity.get_or_init(|| {
            let settings = format!("{:?}", self.connection);
            let named = self.named();
            let texts = named.flat_map(|(name, text)| [name.as_bytes(), text.reveal().as_bytes()]);
            let mut hash = Sha256::new();
            hash.update(self.version.to_be_bytes());
            // Each part behind its length: none can pass for the end of another.
            for part in std::iter::once(settings.as_bytes()).chain(texts) {
                hash.update(part.len().to_be_bytes());
                hash.update(part);
            }
            Identity(hash.finalize().into())
        })
    }

    /// What finds its secrets in what comes back.
    #[must_use]
    pub fn redactor(&self) -> Arc<Redactor> {
        let made = || Arc::new(Redactor::of(self.named()));
        self.redactor.get_or_init(made).clone()
    }

    /// The same for attempts that send one credential more: a token that was fetched for them.
    pub(crate) fn redactor_with(&self, name: &str, text: &SecretText) -> Arc<Redactor> {
        Arc::new(Redactor::of(self.named().chain([(name, text)])))
    }

    fn named(&self) -> impl Iterator<Item = (&str, &SecretText)> {
        self.secrets
            .iter()
            .map(|(name, text)| (name.as_str(), text))
    }

    /// A secret that the connection names.
    ///
    /// # Errors
    ///
    /// If it is not set: nothing is sent then.
    pub fn secret(&self, name: &str) -> Result<&SecretText, Fault> {
        self.secrets.get(name).ok_or_else(|| {
            let message = format!(
                "the connection `{}` needs the secret `{name}`, which is not set (semel secret set {name}) or is bound to other hosts (semel secret list)",
                self.name
            );
            Fault::passing("secret-missing", message).of(FaultKind::Ours)
        })
    }

    /// Every secret of the connection, for code that has to keep them out of what is shown.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretText> {
        self.secrets.values()
    }

    /// The connection is of another kind than the step needs.
    #[must_use]
    pub fn unfit(&self, step: &str) -> Fault {
        let kind = self.connection.kind();
        let message = format!(
            "the connection `{}` is of the kind {kind}, which `{step}` cannot use",
            self.name
        );
        Fault::permanent("connection-unfit", message).of(FaultKind::Unfit)
    }
}
