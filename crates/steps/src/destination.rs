//! A destination with its doors open: a connection and the secrets that it names.

use std::collections::BTreeMap;

use semel_model::{Connection, Fault, SecretText};

/// A connection and the secrets that it names, as they are now.
pub struct Destination {
    /// What flows call it.
    pub name: String,
    /// Whose it is.
    pub namespace_id: i32,
    /// Grows when the connection or one of its secrets changes: pools and tokens that belong to
    /// another version are not used.
    pub version: i64,
    /// What its owner says of it.
    pub connection: Connection,
    secrets: BTreeMap<String, SecretText>,
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
        }
    }

    /// A secret that the connection names.
    ///
    /// # Errors
    ///
    /// Where nobody has set it: nothing is sent then.
    pub fn secret(&self, name: &str) -> Result<&SecretText, Fault> {
        self.secrets.get(name).ok_or_else(|| {
            let message = format!(
                "the connection `{}` needs the secret `{name}`, and it is not set: semel secret set {name}",
                self.name
            );
            Fault::passing("secret-missing", message)
        })
    }

    /// Every secret of the connection, for whoever has to keep them out of what is shown.
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
        Fault::permanent("connection-unfit", message)
    }
}
