//! Resources: large outputs are stored outside the journal, and deleted when they expire.
//!
//! Bytes are stored before their row, and a row is removed before its bytes are:
//!
//! ```text
//! keep     bytes kept ──▶ row inserted
//! expire   bytes set aside ──▶ row removed, unless it was prolonged: then bytes restored
//! settle   a day later: a row that came meanwhile ──▶ bytes restored; none ──▶ bytes discarded
//! ```
//!
//! Bytes that are set aside can still be opened. Between storing bytes that were there already and
//! inserting their row, another server may set them aside: the row is found a day later and they
//! are restored. So no live row ever lacks its bytes, without a lock.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use semel_model::request::PersistRequest;
use semel_model::resource::INLINE_BYTES_MAX;
use semel_model::{Fault, Outcome, Receipt, Reserved, Resource, ResourceRef, RunId};
use semel_steps::resources::RESOURCE_BYTES_MAX;
use semel_steps::{KeepError, Opened, ResourceStore};
use semel_store::resources::{self, EXPIRE_MAX, Keeping};
use semel_store::{Cell, ReadError};
use serde_json::Value;

use crate::runtime::Runtime;

/// How long bytes stay aside. Longer than any step takes from keeping bytes to recording them.
const ASIDE_FOR: Duration = Duration::from_secs(86_400);

/// How old an upload must be to have been left behind. Longer than any step takes.
const UPLOAD_MAX: Duration = Duration::from_secs(86_400);

/// How old bytes without a row must be to be strays: the server that stored them crashed before it
/// recorded them.
const STRAY_AFTER: Duration = Duration::from_secs(86_400);

/// How many are looked up in one go.
const LOOK_UP_MAX: usize = 500;

/// How many that were set aside are settled in one go.
const SETTLE_MAX: usize = 1_000;

/// Rows in the database, bytes in the store.
#[derive(Clone)]
pub struct Resources {
    cell: Cell,
    store: Arc<dyn ResourceStore>,
}

/// Why expired resources are still there. Nothing is lost: the next round continues.
#[derive(Debug, thiserror::Error)]
pub enum ExpireError {
    /// The database did not answer.
    #[error(transparent)]
    Database(#[from] ReadError),
    /// The resource store did not answer.
    #[error("the resource store did not answer")]
    Store(#[from] std::io::Error),
}

/// Why an upload is not kept.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The bytes are another resource's.
    #[error("the bytes that came are {came}, not {wanted}")]
    Differs {
        /// What came.
        came: ResourceRef,
        /// What the caller named.
        wanted: ResourceRef,
    },
    /// They did not all come.
    #[error("the upload was cut off")]
    CutOff(#[source] io::Error),
    /// They are too many, or cannot be stored.
    #[error("{}", .0.message)]
    NotKept(Fault),
}

impl Resources {
    /// Resources whose rows are in this database and whose bytes are in this store.
    pub fn new(cell: Cell, store: Arc<dyn ResourceStore>) -> Self {
        Self { cell, store }
    }

    /// Opens a resource for reading.
    ///
    /// # Errors
    ///
    /// See [`ResourceStore::open`].
    pub async fn open(&self, namespace_id: i32, resource: ResourceRef) -> Result<Opened, Fault> {
        self.store.open(namespace_id, resource).await
    }

    /// Records resources whose bytes an executor has stored.
    ///
    /// # Errors
    ///
    /// Where the database did not answer. Recording them again is harmless.
    pub async fn record(&self, keeping: &Keeping<'_>, kept: &[Resource]) -> Result<(), Fault> {
        for resource in kept {
            resources::insert(self.cell.of(resource.resource), keeping, resource)
                .await
                .map_err(|error| {
                    let message =
                        format!("{} was kept and not recorded: {error}", resource.resource);
                    Fault::passing("not-recorded", message)
                })?;
        }
        Ok(())
    }

    /// Keeps a result by reference where it is too large for the journal: it becomes
    /// `{resource, bytes, type}`. A text is kept as it is, anything else as JSON.
    ///
    /// # Errors
    ///
    /// Where it is too large and cannot be kept. Then it is what it was.
    pub async fn spill(&self, keeping: &Keeping<'_>, result: &mut Value) -> Result<(), Fault> {
        if serialised_bytes(result)? <= INLINE_BYTES_MAX {
            return Ok(());
        }
        let media_type = match result.is_string() {
            true => "text/plain; charset=utf-8",
            false => "application/json",
        };
        let resource = self.keep(keeping, media_type, result).await?;
        *result = to_value(&resource)?;
        Ok(())
    }

    /// Keeps a value by reference. Doing it again is harmless.
    pub async fn persist(
        &self,
        namespace_id: i32,
        run: RunId,
        step: &str,
        request: &PersistRequest,
    ) -> Outcome {
        let keeping = Keeping {
            namespace_id,
            by: Some((run, step)),
            name: request.name.as_deref(),
            keep: request.keep,
        };
        let kept = self
            .keep(&keeping, &request.media_type, &request.value)
            .await
            .and_then(|resource| Ok((to_value(&resource)?, resource)));
        match kept {
            Ok((response, resource)) => Outcome::Done(Receipt {
                response,
                status: None,
                kept: vec![resource],
                reserved: Reserved::default(),
            }),
            Err(fault) => Outcome::Failed(fault),
        }
    }

    /// Keeps bytes that are uploaded under their name. Doing it again is harmless.
    ///
    /// # Errors
    ///
    /// Where the stream breaks off, is too long, or is not what the name says: then nothing of it stays.
    /// And where it cannot be kept or recorded; bytes without a record are removed later.
    pub async fn upload(
        &self,
        keeping: &Keeping<'_>,
        wanted: ResourceRef,
        media_type: &str,
        stream: BoxStream<'_, io::Result<Bytes>>,
    ) -> Result<Resource, UploadError> {
        let (id, most) = (keeping.namespace_id, RESOURCE_BYTES_MAX);
        let kept = self.store.keep_as(id, wanted, media_type, stream, most);
        let kept = kept.await.map_err(|error| match error {
            KeepError::Differs { came } => UploadError::Differs { came, wanted },
            KeepError::Source(cause) => UploadError::CutOff(cause),
            KeepError::TooLarge { .. } | KeepError::Off | KeepError::Store(_) => {
                UploadError::NotKept(error.fault())
            }
        })?;
        let recorded = self.record(keeping, std::slice::from_ref(&kept)).await;
        recorded.map_err(UploadError::NotKept)?;
        Ok(kept)
    }

    async fn keep(
        &self,
        keeping: &Keeping<'_>,
        media_type: &str,
        value: &Value,
    ) -> Result<Resource, Fault> {
        let bytes = match value {
            Value::String(text) => Bytes::copy_from_slice(text.as_bytes()),
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_)) => serde_json::to_vec(other).map_err(unwritable)?.into(),
        };
        let stream = stream::once(async { Ok(bytes) }).boxed();
        let resource = self
            .store
            .keep(keeping.namespace_id, media_type, stream, RESOURCE_BYTES_MAX)
            .await
            .map_err(|error| error.fault())?;
        self.record(keeping, std::slice::from_ref(&resource))
            .await?;
        Ok(resource)
    }

    /// Removes the rows of expired resources and sets their bytes aside; returns how many.
    ///
    /// # Errors
    ///
    /// Where the database or the store did not answer.
    pub async fn expire(&self) -> Result<u64, ExpireError> {
        let mut removed = 0;
        while self.store.is_on() {
            let expired = resources::list_expired(self.cell.every()).await?;
            let batch = expired.len();
            for (namespace_id, resource, now) in expired {
                removed += u64::from(self.expire_one(namespace_id, resource, now).await?);
            }
            if (batch as i64) < EXPIRE_MAX {
                break;
            }
        }
        Ok(removed)
    }

    async fn expire_one(
        &self,
        namespace_id: i32,
        resource: ResourceRef,
        now: Timestamp,
    ) -> Result<bool, ExpireError> {
        let aside = self.store.set_aside(namespace_id, resource, now).await?;
        let removed =
            resources::remove_expired(self.cell.of(resource), namespace_id, resource).await?;
        if let Some(aside) = aside
            && !removed
            && resources::is_needed(self.cell.of(resource), namespace_id, resource).await?
        {
            self.store.restore(aside).await?;
        }
        Ok(removed)
    }

    /// Removes the bytes of a resource at once, whatever its row says.
    pub(crate) async fn remove(
        &self,
        namespace_id: i32,
        resource: ResourceRef,
    ) -> Result<(), ExpireError> {
        let at = Timestamp::UNIX_EPOCH;
        if let Some(aside) = self.store.set_aside(namespace_id, resource, at).await? {
            self.store.discard(aside).await?;
        }
        Ok(())
    }

    /// Settles what was set aside a day before: bytes that a row needs are restored, the rest is
    /// discarded. Removes uploads that were left behind. Returns how many objects were removed.
    ///
    /// # Errors
    ///
    /// Where the database or the store did not answer.
    pub async fn settle_aside(&self, now: Timestamp) -> Result<u64, ExpireError> {
        let mut gone = self.store.sweep(now - UPLOAD_MAX).await?;
        loop {
            let asides = self.store.list_aside(now - ASIDE_FOR, SETTLE_MAX).await?;
            let batch = asides.len();
            for aside in asides {
                let (namespace_id, resource) = (aside.namespace_id, aside.resource);
                // Crosses slots (V2): one store serves all cells, and bytes that a database does not
                // know are discarded. With a second cell, the owner of the digest's slot must answer.
                if resources::is_needed(self.cell.of(resource), namespace_id, resource).await? {
                    self.store.restore(aside).await?;
                } else {
                    self.store.discard(aside).await?;
                    gone += 1;
                }
            }
            if batch < SETTLE_MAX {
                return Ok(gone);
            }
        }
    }
}

impl Resources {
    /// Sets bytes aside that were not recorded within a day; returns how many. Lists the whole
    /// store.
    ///
    /// # Errors
    ///
    /// Where the database or the store did not answer.
    pub async fn set_strays_aside(&self, now: Timestamp) -> Result<u64, ExpireError> {
        let before = now - STRAY_AFTER;
        let old = self
            .store
            .list_kept()
            .try_filter(|kept| std::future::ready(kept.at < before))
            .map_ok(|kept| (kept.namespace_id, kept.resource));
        let mut chunks = old.try_chunks(LOOK_UP_MAX);
        let mut found = 0;
        while let Some(kept) = chunks.try_next().await.map_err(|error| error.1)? {
            // Crosses slots (V2): as in `settle_aside`; nothing is a stray before every cell answered.
            for (namespace_id, resource) in resources::list_strays(self.cell.every(), &kept).await?
            {
                let aside = self.store.set_aside(namespace_id, resource, now).await?;
                found += u64::from(aside.is_some());
            }
        }
        Ok(found)
    }

    /// Lists the store: settles what was set aside, removes abandoned uploads, and sets strays
    /// aside.
    ///
    /// # Errors
    ///
    /// Where the database or the store did not answer.
    pub async fn look_through(&self, now: Timestamp) -> Result<(), ExpireError> {
        let gone = self.settle_aside(now).await?;
        let strays = self.set_strays_aside(now).await?;
        if gone + strays > 0 {
            tracing::info!(gone, strays, "swept the resource store");
        }
        Ok(())
    }
}

impl Runtime {
    /// The engine's resources.
    pub fn resources(&self) -> Resources {
        Resources::new(self.cell.clone(), self.options.resources.clone())
    }
}

/// Whether a result is too large for the journal.
pub(crate) fn is_large(result: &Value) -> bool {
    serialised_bytes(result).is_ok_and(|bytes| bytes > INLINE_BYTES_MAX)
}

/// How long a value is as JSON, without writing it.
fn serialised_bytes(value: &Value) -> Result<usize, Fault> {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_err(unwritable)?;
    Ok(count.0)
}

fn to_value(resource: &Resource) -> Result<Value, Fault> {
    serde_json::to_value(resource).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> Fault {
    Fault::permanent("value-unwritable", error.to_string())
}
