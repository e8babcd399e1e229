//! The vault: secrets, and the connections that name them.
//!
//! A secret is encrypted with its namespace's data key, which is itself encrypted with a master key
//! that is kept outside the database: a dump of the database reveals no secret. Secrets can be set
//! and used, and never be read back by a person. Each process keeps the secrets in use decrypted in
//! memory, and loads them again when control data changes.

mod destinations;
pub mod hosts;
mod master_keys;
mod seal;

pub use master_keys::{KeyReport, MasterKeys};

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use semel_model::{SecretText, Span};
use semel_steps::Destination;
use semel_store::audit::AuditEntry;
use semel_store::secrets::{self, DataKeyRow, SecretRow};
use semel_store::{Cell, ReadError, connections, flows};

pub use destinations::Destinations;
use seal::SealingKey;

/// How long a secret still verifies deliveries after a newer version was set.
pub const OVERLAP: Span = Span::from_const_secs(24 * 3_600);

/// The most bytes of a secret.
pub const SECRET_BYTES_MAX: usize = 16 * 1024;

impl std::fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MasterKeys({})", self.0.len())
    }
}

/// Why a secret was not kept.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// There is nothing in it, or too much.
    #[error("a secret has 1 to {SECRET_BYTES_MAX} bytes")]
    Length,
    /// The namespace's data key is encrypted with a master key that this process does not have.
    #[error("the data key is encrypted with the master key {name}, which this server lacks")]
    Locked {
        /// What tells that key from others.
        name: String,
    },
    /// The database did not answer in time.
    #[error("the database did not answer: {0}")]
    Unavailable(#[from] ReadError),
}

/// Secrets and connections as this process knows them.
pub struct Vault {
    cell: Cell,
    masters: MasterKeys,
    held: RwLock<Arc<Held>>,
}

#[derive(Default)]
struct Held {
    version: i64,
    secrets: HashMap<(i32, String), Vec<Opened>>,
    destinations: HashMap<i32, Arc<Destinations>>,
}

/// One version of a secret, opened.
struct Opened {
    text: SecretText,
    retires_at: Option<Timestamp>,
    hosts: Vec<String>,
}

/// A secret's name and version, which people may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretView {
    /// What connections and triggers call it.
    pub name: String,
    /// The latest version.
    pub version: i32,
    /// When that was set.
    pub set_at: Timestamp,
    /// Until when the version before it still verifies deliveries.
    pub former_until: Option<Timestamp>,
    /// The hosts that it may be sent to; empty means any host.
    pub hosts: Vec<String>,
}

impl Vault {
    /// Opens what is in use.
    pub(crate) async fn open(cell: &Cell, masters: MasterKeys) -> Result<Self, ReadError> {
        let vault = Self {
            cell: cell.clone(),
            masters,
            held: RwLock::default(),
        };
        vault.refresh().await?;
        Ok(vault)
    }

    /// Looks again, if control data changed.
    pub(crate) async fn refresh(&self) -> Result<(), ReadError> {
        let version = flows::version(self.cell.home()).await?;
        let former = self.held();
        let known = former.version;
        if version == known {
            return Ok(());
        }
        let keys = self.open_keys(None).await?;
        let mut held = Held {
            version,
            ..Held::default()
        };
        for row in secrets::list(self.cell.home(), None).await? {
            let key = keys.get(&(row.namespace_id, row.data_key));
            let text = key.and_then(|key| open_secret(key, &row));
            let Some(text) = text else {
                tracing::error!(
                    secret = row.name,
                    "cannot decrypt a secret: its master key is missing"
                );
                continue;
            };
            let opened = Opened {
                text,
                retires_at: row.retires_at,
                hosts: row.hosts,
            };
            let name = (row.namespace_id, row.name);
            held.secrets.entry(name).or_default().push(opened);
        }
        let mut destinations: HashMap<i32, Destinations> = HashMap::new();
        for row in connections::list_all(self.cell.home()).await? {
            let destination = held.link(row, &former);
            destinations
                .entry(destination.namespace_id)
                .or_default()
                .add(destination);
        }
        let destinations = destinations.into_iter();
        held.destinations = destinations.map(|(id, it)| (id, Arc::new(it))).collect();
        let mut slot = self.held.write().unwrap_or_else(PoisonError::into_inner);
        // Of two refreshes at the same time, the one that read older data may finish last.
        if slot.version == known || slot.version < held.version {
            *slot = Arc::new(held);
        }
        Ok(())
    }

    /// The state of the control data that this is of.
    pub(crate) fn version(&self) -> i64 {
        self.held().version
    }

    /// The destinations of a namespace.
    pub(crate) fn destinations(&self, namespace_id: i32) -> Arc<Destinations> {
        self.held()
            .destinations
            .get(&namespace_id)
            .cloned()
            .unwrap_or_default()
    }

    /// The longest that a destination remembers a key, by what the connections of all namespaces say.
    pub(crate) fn longest_window(&self) -> Span {
        let held = self.held();
        let windows = held
            .destinations
            .values()
            .filter_map(|it| it.longest_window());
        windows.max().unwrap_or_default()
    }

    /// The versions of a secret that are in use, the latest first.
    pub(crate) fn secrets(&self, namespace_id: i32, name: &str, now: Timestamp) -> Vec<SecretText> {
        let held = self.held();
        let versions = held.secrets.get(&(namespace_id, name.to_owned()));
        versions
            .into_iter()
            .flatten()
            .filter(|opened| opened.retires_at.is_none_or(|at| at > now))
            .map(|opened| opened.text.clone())
            .collect()
    }

    /// Keeps a secret as its next version, and says which that is. Where no hosts are given, it keeps
    /// those that it has.
    pub(crate) async fn set(
        &self,
        namespace_id: i32,
        name: &str,
        (text, hosts): (&SecretText, Option<&[String]>),
        overlap: Span,
        act: &AuditEntry,
    ) -> Result<i32, VaultError> {
        if text.reveal().is_empty() || text.reveal().len() > SECRET_BYTES_MAX {
            return Err(VaultError::Length);
        }
        let (number, key) = self.sealing_key(namespace_id).await?;
        loop {
            let version = secrets::next_version(self.cell.home(), namespace_id, name).await?;
            let row = seal_secret(&key, number, namespace_id, name, version, text);
            if secrets::set(self.cell.home(), &row, hosts, overlap, act).await? {
                self.refresh().await?;
                return Ok(version);
            }
        }
    }

    /// Binds a secret to hosts; false where it was bound to them already.
    pub(crate) async fn bind(
        &self,
        namespace_id: i32,
        name: &str,
        hosts: &[String],
        act: &AuditEntry,
    ) -> Result<bool, ReadError> {
        let bound = secrets::bind(self.cell.home(), namespace_id, name, hosts, act).await?;
        self.refresh().await?;
        Ok(bound)
    }

    /// Ends the overlap of former values sooner; false where none verifies deliveries for longer than that.
    pub(crate) async fn retire(
        &self,
        namespace_id: i32,
        name: &str,
        overlap: Span,
        act: &AuditEntry,
    ) -> Result<bool, ReadError> {
        let retired = secrets::retire(self.cell.home(), namespace_id, name, overlap, act).await?;
        self.refresh().await?;
        Ok(retired)
    }

    /// Removes a secret; false when there is none.
    pub(crate) async fn delete(
        &self,
        namespace_id: i32,
        name: &str,
        act: &AuditEntry,
    ) -> Result<bool, ReadError> {
        let deleted = secrets::delete(self.cell.home(), namespace_id, name, act).await?;
        self.refresh().await?;
        Ok(deleted)
    }

    /// The secrets of a namespace, without their values.
    pub(crate) async fn list(&self, namespace_id: i32) -> Result<Vec<SecretView>, ReadError> {
        let mut views: Vec<SecretView> = Vec::new();
        for row in secrets::list(self.cell.home(), Some(namespace_id)).await? {
            match views.last_mut().filter(|view| view.name == row.name) {
                Some(view) => view.former_until = view.former_until.max(row.retires_at),
                None => views.push(SecretView {
                    name: row.name,
                    version: row.version,
                    set_at: row.created_at,
                    hosts: row.hosts,
                    former_until: None,
                }),
            }
        }
        Ok(views)
    }

    /// Makes a new data key for a namespace, encrypts every secret in use with it, and all data
    /// keys with the current master key. May be repeated, and may be interrupted. The audit record
    /// commits with the new key, before anything is encrypted with it.
    pub(crate) async fn rotate(
        &self,
        namespace_id: i32,
        act: &AuditEntry,
    ) -> Result<usize, VaultError> {
        let keys = self.open_keys(Some(namespace_id)).await?;
        let mut rewrapped = Vec::new();
        for row in secrets::list_keys(self.cell.home(), Some(namespace_id)).await? {
            let key = keys
                .get(&(namespace_id, row.number))
                .ok_or(VaultError::Locked {
                    name: row.wrapped_by,
                })?;
            rewrapped.push(self.wrapped(namespace_id, row.number, key));
        }
        // Nothing is changed before all keys are known to decrypt.
        let number = keys.keys().map(|(_, number)| *number).max().unwrap_or(0) + 1;
        let fresh = self.wrapped(namespace_id, number, &SealingKey::generate());
        secrets::make_key_by(self.cell.home(), &fresh, act).await?;
        for row in &rewrapped {
            secrets::rewrap(self.cell.home(), row).await?;
        }
        let (number, key) = self.sealing_key(namespace_id).await?;
        let rows = secrets::list(self.cell.home(), Some(namespace_id)).await?;
        for row in &rows {
            let former = keys.get(&(namespace_id, row.data_key));
            if let Some(text) = former.and_then(|former| open_secret(former, row)) {
                let row = seal_secret(&key, number, namespace_id, &row.name, row.version, &text);
                secrets::reseal(self.cell.home(), &row).await?;
            }
        }
        self.refresh().await?;
        Ok(rows.len())
    }

    /// The key that encrypts new secrets of a namespace; made where there is none.
    async fn sealing_key(&self, namespace_id: i32) -> Result<(i32, SealingKey), VaultError> {
        if secrets::list_keys(self.cell.home(), Some(namespace_id))
            .await?
            .is_empty()
        {
            let fresh = self.wrapped(namespace_id, 1, &SealingKey::generate());
            secrets::make_key(self.cell.home(), &fresh).await?;
        }
        let rows = secrets::list_keys(self.cell.home(), Some(namespace_id)).await?;
        let name = rows.last().map(|row| row.wrapped_by.clone());
        let keys = self.open_keys(Some(namespace_id)).await?;
        let latest = rows.last().and_then(|row| {
            let key = keys.get(&(namespace_id, row.number))?;
            Some((row.number, key.clone()))
        });
        latest.ok_or(VaultError::Locked {
            name: name.unwrap_or_default(),
        })
    }

    fn wrapped(&self, namespace_id: i32, number: i32, key: &SealingKey) -> DataKeyRow {
        let master = self.masters.current();
        DataKeyRow {
            namespace_id,
            number,
            wrapped: key.wrap(master, &key_owner(namespace_id, number)),
            wrapped_by: master.name(),
        }
    }

    async fn open_keys(
        &self,
        namespace_id: Option<i32>,
    ) -> Result<BTreeMap<(i32, i32), SealingKey>, ReadError> {
        let rows = secrets::list_keys(self.cell.home(), namespace_id).await?;
        let opened = rows.iter().filter_map(|row| {
            let owner = key_owner(row.namespace_id, row.number);
            let mut masters = self.masters.0.iter();
            let key = masters.find_map(|master| master.unwrap_key(&owner, &row.wrapped))?;
            Some(((row.namespace_id, row.number), key))
        });
        Ok(opened.collect())
    }

    fn held(&self) -> Arc<Held> {
        match self.held.read() {
            Ok(held) => held.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        }
    }
}

impl Held {
    /// A connection with the latest versions of the secrets that it names. Its version is the state of the control
    /// data in which this process first read it so, which is never reused. The numbers of the rows are: they begin at
    /// 1 again for a name that was deleted.
    fn link(&self, row: connections::ConnectionRow, former: &Self) -> Destination {
        let mut named = BTreeMap::new();
        for name in row.connection.secrets() {
            let versions = self.secrets.get(&(row.namespace_id, name.to_owned()));
            let latest = versions.and_then(|versions| versions.first());
            // One that is bound to other hosts is missing here.
            if let Some(latest) = latest.filter(|it| hosts::may_send(&it.hosts, &row.connection)) {
                named.insert(name.to_owned(), latest.text.clone());
            }
        }
        let id = row.namespace_id;
        let mut linked = Destination::new(row.name, id, self.version, row.connection, named);
        let earlier = former.destinations.get(&id);
        if let Some(earlier) = earlier.and_then(|all| all.find(&linked.name))
            && linked.is_unchanged_since(earlier)
        {
            linked.version = earlier.version;
        }
        linked
    }
}

fn key_owner(namespace_id: i32, number: i32) -> Vec<u8> {
    format!("data-key|{namespace_id}|{number}").into_bytes()
}

fn secret_owner(namespace_id: i32, name: &str, version: i32) -> Vec<u8> {
    format!("secret|{namespace_id}|{name}|{version}").into_bytes()
}

fn seal_secret(
    key: &SealingKey,
    number: i32,
    namespace_id: i32,
    name: &str,
    version: i32,
    text: &SecretText,
) -> SecretRow {
    let owner = secret_owner(namespace_id, name, version);
    SecretRow {
        namespace_id,
        name: name.to_owned(),
        version,
        data_key: number,
        sealed: key.seal(&owner, text.reveal().as_bytes()),
        created_at: Timestamp::UNIX_EPOCH,
        retires_at: None,
        hosts: Vec::new(),
    }
}

fn open_secret(key: &SealingKey, row: &SecretRow) -> Option<SecretText> {
    let owner = secret_owner(row.namespace_id, &row.name, row.version);
    let text = key.open(&owner, &row.sealed)?;
    String::from_utf8(text.to_vec()).ok().map(SecretText::new)
}
