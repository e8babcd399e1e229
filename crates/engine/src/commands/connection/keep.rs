//! Idempotent changes: storing the same connection or the same secret again changes nothing.

use std::sync::Arc;

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit as _, Mac};
use semel_flow::{CheckContext, Severity};
use semel_model::host::HostPattern;
use semel_model::{Connection, Fault, SecretText, Span};
use semel_store::{ReadError, audit, connections};
use sha2::Sha256;

use super::{Actor, ConnectionError, validate};
use crate::runtime::Runtime;
use crate::vault::{OVERLAP, VaultError};

/// What storing a connection changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionChange {
    /// There was none of that name.
    Created,
    /// It replaced another one.
    Replaced,
    /// The same one was there.
    Unchanged,
}

/// What setting a secret changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretChange {
    /// It has another value.
    Set,
    /// Its value stays, and the hosts that it may be sent to changed.
    Bound,
    /// Its value stays, and the former one verifies deliveries for a shorter time than it would have.
    Retired,
    /// Nothing.
    Unchanged,
}

impl Runtime {
    /// Stores a connection where there is none of that name, or the same; returns its version.
    ///
    /// # Errors
    ///
    /// Where it is not valid, or another connection has the name.
    pub async fn keep_connection(
        self: &Arc<Self>,
        by: Actor<'_>,
        name: &str,
        connection: &Connection,
    ) -> Result<(i64, ConnectionChange), ConnectionError> {
        validate(connection).map_err(ConnectionError::Invalid)?;
        let act = by.act("connection.put", name);
        if connections::make(self.cell.home(), by.namespace_id, name, connection, &act).await? {
            self.vault.refresh().await?;
            return Ok((1, ConnectionChange::Created));
        }
        match connections::find(self.cell.home(), by.namespace_id, name).await? {
            Some(known) if known.connection == *connection => {
                Ok((known.version, ConnectionChange::Unchanged))
            }
            Some(_) | None => Err(ConnectionError::Differs),
        }
    }

    /// Stores a connection, in place of another of that name; returns its version.
    ///
    /// # Errors
    ///
    /// Where it is not valid.
    pub async fn replace_connection(
        self: &Arc<Self>,
        by: Actor<'_>,
        name: &str,
        connection: &Connection,
    ) -> Result<(i64, ConnectionChange), ConnectionError> {
        match self.keep_connection(by, name, connection).await {
            Err(ConnectionError::Differs) => {
                let version = self.put_connection(by, name, connection).await?;
                Ok((version, ConnectionChange::Replaced))
            }
            other => other,
        }
    }

    /// Sets a secret, unless it has that text already, and binds it to hosts where some are given; returns its
    /// version and what changed. An overlap that is given with the text that it has already shortens the time
    /// for which the former text verifies deliveries.
    ///
    /// # Errors
    ///
    /// As [`Runtime::set_secret`].
    pub async fn keep_secret(
        self: &Arc<Self>,
        by: Actor<'_>,
        name: &str,
        (text, hosts): (&SecretText, Option<&[HostPattern]>),
        overlap: Option<Span>,
    ) -> Result<(i32, SecretChange), VaultError> {
        let hosts = hosts.map(|hosts| {
            hosts
                .iter()
                .map(|it| it.as_str().to_owned())
                .collect::<Vec<_>>()
        });
        let (vault, now) = (&self.vault, self.clock.now());
        // Another process may have set it a moment ago.
        vault.refresh().await?;
        let held = vault.secrets(by.namespace_id, name, now);
        if held
            .first()
            .is_some_and(|held| held.reveal() == text.reveal())
        {
            let known = vault.list(by.namespace_id).await?;
            if let Some(view) = known.iter().find(|view| view.name == name) {
                let is_bound = match &hosts {
                    Some(hosts) => {
                        let act = by.act("secret.bind", name);
                        vault.bind(by.namespace_id, name, hosts, &act).await?
                    }
                    None => false,
                };
                let is_retired = match overlap {
                    Some(overlap) => {
                        let act = by.act("secret.retire", name);
                        vault.retire(by.namespace_id, name, overlap, &act).await?
                    }
                    None => false,
                };
                let change = match (is_retired, is_bound) {
                    (true, _) => SecretChange::Retired,
                    (false, true) => SecretChange::Bound,
                    (false, false) => SecretChange::Unchanged,
                };
                return Ok((view.version, change));
            }
        }
        let act = by.act("secret.set", name);
        let value = (text, hosts.as_deref());
        let overlap = overlap.unwrap_or(OVERLAP);
        let version = vault
            .set(by.namespace_id, name, value, overlap, &act)
            .await?;
        Ok((version, SecretChange::Set))
    }

    /// A keyed digest that tells one secret's text from another, and reveals nothing without the
    /// installation's key: a plain digest of a short secret could be guessed.
    #[must_use]
    pub fn fingerprint_secret(
        self: &Arc<Self>,
        namespace_id: i32,
        name: &str,
        text: &SecretText,
    ) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(self.options.secret.fingerprint_key());
        assert!(mac.is_ok(), "a key of any length will do");
        let owner = format!("semel.secret-text.1|{namespace_id}|{name}|");
        let digest = mac.map(|mac| {
            let mac = mac.chain_update(owner.as_bytes());
            mac.chain_update(text.reveal().as_bytes()).finalize()
        });
        digest.map_or_else(|_| String::new(), |digest| hex::encode(digest.into_bytes()))
    }

    /// What a check may know of a namespace's connections, and how much one that is not there
    /// matters.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn facts(
        self: &Arc<Self>,
        namespace_id: i32,
        unknown: Severity,
    ) -> Result<CheckContext, ReadError> {
        let known = self.list_connections(namespace_id).await?;
        let known = known.into_iter().map(|row| {
            let fact = semel_flow::KnownConnection {
                key_window: row.connection.idempotency_keys.window,
                kind: Some(row.connection.kind()),
            };
            (row.name, fact)
        });
        Ok(CheckContext {
            connections: known.collect::<BTreeMap<_, _>>(),
            unknown: Some(unknown),
        })
    }

    /// Tests whether a destination can be reached, and reports what it found. Changes nothing
    /// there.
    ///
    /// # Errors
    ///
    /// Where there is no such connection.
    pub async fn test_connection(
        self: &Arc<Self>,
        namespace_id: i32,
        name: &str,
    ) -> Result<Result<String, Fault>, ConnectionError> {
        self.vault.refresh().await?;
        let destinations = self.vault.destinations(namespace_id);
        let to = destinations.find(name).ok_or(ConnectionError::Unknown)?;
        Ok(self.session().executors.test(to).await)
    }

    /// Creates what effects need at a destination, and returns what that is. May be repeated.
    ///
    /// # Errors
    ///
    /// Where there is no such connection.
    pub async fn prepare_connection(
        self: &Arc<Self>,
        by: Actor<'_>,
        name: &str,
    ) -> Result<Result<String, Fault>, ConnectionError> {
        self.vault.refresh().await?;
        let destinations = self.vault.destinations(by.namespace_id);
        let to = destinations.find(name).ok_or(ConnectionError::Unknown)?;
        // The change is made at the destination, so the audit record comes first.
        audit::begin(self.cell.home(), &by.act("connection.prepare", name)).await?;
        Ok(self.session().executors.prepare(to).await)
    }
}
