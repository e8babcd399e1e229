//! Creating, changing and deleting connections and secrets. Every change commits together with its
//! audit record.

mod keep;
mod secret_hosts;

pub use keep::{ConnectionChange, SecretChange};

use std::sync::Arc;

use semel_model::connection::Target;
use semel_model::{Connection, SecretText, Span};
use semel_store::audit::AuditEntry;
use semel_store::connections::{self, ConnectionRow};
use semel_store::{ReadError, flows, subscriptions};
use url::Url;

use crate::runtime::Runtime;
use crate::vault::{SecretView, VaultError};

/// Why a connection was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// It is not valid.
    #[error("{0}")]
    Invalid(String),
    /// A live flow uses it.
    #[error("the flow {flow} uses it")]
    InUse {
        /// The flow.
        flow: String,
    },
    /// A subscription uses it.
    #[error("the subscription {subscription} uses it")]
    Subscribed {
        /// The subscription.
        subscription: String,
    },
    /// There is none of this name.
    #[error("there is no connection of this name")]
    Unknown,
    /// Another one has the name.
    #[error("there is another connection of this name")]
    Differs,
    /// A secret that it names is bound to other hosts.
    #[error("the secret {secret} is bound to other hosts than {host}")]
    SecretBoundElsewhere {
        /// The secret.
        secret: String,
        /// Where the connection leads.
        host: String,
    },
    /// The database did not answer in time.
    #[error("the connection could not be stored: {0}")]
    Unavailable(#[from] ReadError),
}

impl ConnectionError {
    /// The stable word for this error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "connection-invalid",
            Self::InUse { .. } | Self::Subscribed { .. } => "connection-in-use",
            Self::Unknown => "connection-not-found",
            Self::Differs => "connection-differs",
            Self::SecretBoundElsewhere { .. } => "secret-bound-elsewhere",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

/// Who changes something, and where.
#[derive(Clone, Copy, Debug)]
pub struct Actor<'a> {
    /// The namespace, short.
    pub namespace_id: i32,
    /// The token's name.
    pub actor: &'a str,
}

impl Actor<'_> {
    /// The name of the token or the person, without how they came in.
    pub(crate) fn name(&self) -> &str {
        let mut ways = ["token:", "oidc:"].iter();
        let name = ways.find_map(|way| self.actor.strip_prefix(way));
        name.unwrap_or(self.actor)
    }

    /// The audit record of an action.
    pub(crate) fn act(&self, action: &'static str, subject: &str) -> AuditEntry {
        AuditEntry::new(self.namespace_id, self.actor, action, subject)
    }
}

impl Runtime {
    /// Stores a connection, in place of an earlier one of that name; returns its version.
    ///
    /// # Errors
    ///
    /// Where it is not valid.
    pub async fn put_connection(
        self: &Arc<Self>,
        by: Actor<'_>,
        name: &str,
        connection: &Connection,
    ) -> Result<i64, ConnectionError> {
        validate(connection).map_err(ConnectionError::Invalid)?;
        let act = by.act("connection.put", name);
        let version =
            connections::put(self.cell.home(), by.namespace_id, name, connection, &act).await?;
        self.vault.refresh().await?;
        Ok(version)
    }

    /// Removes a connection that neither a live flow nor a subscription uses.
    ///
    /// # Errors
    ///
    /// Where there is none, or a live flow or a subscription names it.
    pub async fn delete_connection(
        self: &Arc<Self>,
        by: Actor<'_>,
        name: &str,
    ) -> Result<(), ConnectionError> {
        for release in flows::list_live(self.cell.home()).await? {
            if release.namespace_id == by.namespace_id && self.catalogue.goes_over(release.id, name)
            {
                return Err(ConnectionError::InUse { flow: release.flow });
            }
        }
        let (cell, namespace_id) = (&self.cell, by.namespace_id);
        if let Some(subscription) =
            subscriptions::find_over(cell.home(), namespace_id, name).await?
        {
            return Err(ConnectionError::Subscribed { subscription });
        }
        let act = by.act("connection.delete", name);
        if !connections::delete(self.cell.home(), by.namespace_id, name, &act).await? {
            return Err(ConnectionError::Unknown);
        }
        self.vault.refresh().await?;
        Ok(())
    }

    /// The connections of a namespace, sorted by name.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn list_connections(
        self: &Arc<Self>,
        namespace_id: i32,
    ) -> Result<Vec<ConnectionRow>, ReadError> {
        connections::list(self.cell.for_people().home(), namespace_id).await
    }

    /// Stores a secret as its next version, and returns that version. The version before it
    /// verifies deliveries for `overlap` longer.
    ///
    /// # Errors
    ///
    /// Where it is empty or too long, or the namespace's data key cannot be opened.
    pub async fn set_secret(
        self: &Arc<Self>,
        by: Actor<'_>,
        name: &str,
        text: &SecretText,
        overlap: Span,
    ) -> Result<i32, VaultError> {
        let vault = &self.vault;
        let act = by.act("secret.set", name);
        let value = (text, None);
        vault.set(by.namespace_id, name, value, overlap, &act).await
    }

    /// Removes a secret; false when there is none.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn delete_secret(
        self: &Arc<Self>,
        by: Actor<'_>,
        name: &str,
    ) -> Result<bool, ReadError> {
        let act = by.act("secret.delete", name);
        self.vault.delete(by.namespace_id, name, &act).await
    }

    /// The secrets of a namespace, without their values.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn list_secrets(
        self: &Arc<Self>,
        namespace_id: i32,
    ) -> Result<Vec<SecretView>, ReadError> {
        self.vault.list(namespace_id).await
    }

    /// Encrypts every secret of a namespace with a new key, and returns how many there were.
    ///
    /// # Errors
    ///
    /// Where a former master key is needed that this server was not given.
    pub async fn rotate_secrets(self: &Arc<Self>, by: Actor<'_>) -> Result<usize, VaultError> {
        let act = by.act("secret.rotate", "*");
        self.vault.rotate(by.namespace_id, &act).await
    }
}

/// What is wrong with a connection, in one sentence.
fn validate(connection: &Connection) -> Result<(), String> {
    let address = match &connection.to {
        Target::Http(http) => {
            if http.redirects > 3 {
                return Err("a read follows at most three redirects".to_owned());
            }
            Some(("base_url", &http.base_url))
        }
        Target::Slack(slack) => Some(("base_url", &slack.base_url)),
        Target::Llm(llm) => Some(("base_url", &llm.base_url)),
        Target::Webhook(webhook) => Some(("url", &webhook.url)),
        Target::Ssh(ssh) => {
            if !ssh.host_key.starts_with("SHA256:") {
                return Err(
                    "`host_key` is the key's fingerprint, SHA256:…: ssh-keygen -lf FILE".to_owned(),
                );
            }
            None
        }
        Target::Postgres(_) | Target::Smtp(_) => None,
    };
    if let Some((field, address)) = address {
        validate_address(field, address)?;
    }
    if connection.limits.concurrency == 0 || connection.limits.per_second == Some(0) {
        return Err("a limit of zero would let nothing through".to_owned());
    }
    Ok(())
}

fn validate_address(field: &str, address: &str) -> Result<(), String> {
    let url = Url::parse(address).map_err(|error| format!("`{field}` is no address: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{field}` begins with https:// or http://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!(
            "`{field}` cannot hold a name and a password: use `auth` with a secret"
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!(
            "`{field}` ends with its path: a query belongs to the step"
        ));
    }
    Ok(())
}
