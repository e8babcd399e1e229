//! A destination with its doors open: a connection and the secrets that it names.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use semel_model::{Connection, Fault, FaultKind, SecretText};

use crate::redact::Redactor;

/// A connection and the secrets that it names, as they are now.
pub struct Destination {
    /// What flows call it.
    pub name: String,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// Grows when the connection or one of its secrets changes: pools and tokens that belong to
    /// another version are not used.
    pub version: i64,
    /// What its owner says of it.
    pub connection: Connection,
    secrets: BTreeMap<String, SecretText>,
    redactor: OnceLock<Arc<Redactor>>,
}

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
        }
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
