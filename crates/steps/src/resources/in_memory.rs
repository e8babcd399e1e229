//! Resources in memory: for rehearsals, which leave nothing behind and reach nothing that is live.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use semel_model::{Fault, Resource, ResourceRef};

use super::resource_store::StoredFiles;
use super::{KeepError, Opened, ResourceStore, resource_missing};

/// The most bytes of all resources together. The same bytes count once, whoever keeps them.
pub const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// Whose the bytes are inside: all namespaces share them.
const SHARED: i32 = 0;

/// Resources in memory. They end with it.
#[derive(Debug)]
pub struct ResourcesInMemory {
    files: StoredFiles,
    kept: Mutex<Kept>,
    /// One is kept at a time: two that share what is left would each have all of it.
    keeping: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Kept {
    /// What each namespace has kept.
    by_namespace: BTreeSet<(i32, ResourceRef)>,
    all: BTreeSet<ResourceRef>,
    bytes: u64,
}

impl Default for ResourcesInMemory {
    fn default() -> Self {
        Self {
            files: StoredFiles::in_memory(),
            kept: Mutex::default(),
            keeping: tokio::sync::Mutex::default(),
        }
    }
}

impl ResourcesInMemory {
    /// How many resources there are, of all namespaces.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().by_namespace.len()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, namespace_id: i32, kept: &Resource) {
        let mut known = self.lock();
        known.by_namespace.insert((namespace_id, kept.resource));
        if known.all.insert(kept.resource) {
            known.bytes = known.bytes.saturating_add(kept.bytes);
        }
    }
}

impl ResourceStore for ResourcesInMemory {
    fn open(
        &self,
        namespace_id: i32,
        resource: ResourceRef,
    ) -> BoxFuture<'_, Result<Opened, Fault>> {
        let known = self.lock().by_namespace.contains(&(namespace_id, resource));
        Box::pin(async move {
            match known {
                true => self.files.open(SHARED, resource).await,
                false => Err(resource_missing(resource)),
            }
        })
    }

    fn keep<'a>(
        &'a self,
        namespace_id: i32,
        media_type: &'a str,
        stream: BoxStream<'a, io::Result<Bytes>>,
        bytes_max: u64,
    ) -> BoxFuture<'a, Result<Resource, KeepError>> {
        Box::pin(async move {
            let _turn = self.keeping.lock().await;
            let left = MEMORY_BYTES_MAX.saturating_sub(self.lock().bytes);
            let most = bytes_max.min(left);
            let kept = self.files.keep(SHARED, media_type, stream, most).await?;
            self.note(namespace_id, &kept);
            Ok(kept)
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, TryStreamExt as _, stream};

    use super::*;

    async fn keep(store: &ResourcesInMemory, bytes: Vec<u8>) -> Result<Resource, KeepError> {
        let stream = stream::once(async { Ok(Bytes::from(bytes)) }).boxed();
        store.keep(7, "x/y", stream, u64::MAX).await
    }

    #[tokio::test]
    async fn a_namespace_reads_back_what_it_kept_and_no_other_does() {
        let store = ResourcesInMemory::default();

        let kept = keep(&store, b"hello".to_vec()).await.unwrap();
        let again = keep(&store, b"hello".to_vec()).await.unwrap();
        let opened = store.open(7, kept.resource).await.unwrap();
        let read: Vec<Bytes> = opened.stream.try_collect().await.unwrap();
        let other = store.open(8, kept.resource).await;

        assert_eq!(read.concat(), b"hello");
        assert_eq!((again, store.count()), (kept, 1));
        assert!(other.is_err_and(|fault| fault.code == "resource-missing"));
    }

    #[tokio::test]
    async fn all_of_them_together_are_bounded() {
        let store = ResourcesInMemory::default();
        let half = MEMORY_BYTES_MAX as usize / 2;

        let kept = (1..=3).map(|byte| keep(&store, vec![byte; half]));
        let kept = futures_util::future::join_all(kept).await;

        let (kept, refused): (Vec<_>, Vec<_>) = kept.into_iter().partition(Result::is_ok);
        assert_eq!((kept.len(), refused.len()), (2, 1));
        assert!(matches!(refused[0], Err(KeepError::TooLarge { .. })));
    }
}
