//! The resource store: resources in a folder or a bucket.
//!
//! ```text
//! NAMESPACE/aa/bb/DIGEST               the bytes, under their own digest
//! uploads/NAMESPACE/ID                 bytes that are still coming, whose digest is not known yet
//! aside/NAMESPACE/DIGEST/MICROSECONDS  bytes that are not known to be needed, to be deleted
//! ```
//!
//! A name appears at once and complete: bytes are uploaded under another name and moved. A process
//! that is killed in between leaves an upload, and a sweep removes it.

use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{BoxFuture, try_join};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, GetResult, MultipartUpload, ObjectStore, ObjectStoreExt as _};
use semel_model::{Fault, Resource, ResourceRef};
use uuid::Uuid;

use super::gather::Gather;
use super::place::{ResourceLocation, ResourceLocationError};
use super::verify::verified;
use super::{Aside, KeepError, Opened, ResourceStore, StoredResource, resource_missing};

/// The most bytes of one resource: what S3 copies in one piece.
pub const RESOURCE_BYTES_MAX: u64 = 5 << 30;

/// Resources in a folder or a bucket.
#[derive(Clone, Debug)]
pub struct StoredFiles {
    store: Arc<dyn ObjectStore>,
    /// The folder, where the store is one: what a killed upload leaves there has a name of its own.
    folder: Option<PathBuf>,
}

impl StoredFiles {
    /// The store at a place. A folder is made where it is missing; a bucket is not asked yet.
    ///
    /// # Errors
    ///
    /// If the place cannot be used.
    pub fn open(place: &ResourceLocation) -> Result<Self, ResourceLocationError> {
        let (store, folder) = place.open()?;
        Ok(Self { store, folder })
    }

    /// A store in memory, which behaves as a bucket does.
    pub(super) fn in_memory() -> Self {
        Self {
            store: Arc::new(InMemory::new()),
            folder: None,
        }
    }

    async fn keep_stream(
        &self,
        namespace_id: i32,
        media_type: &str,
        mut gather: Gather<'_>,
        wanted: Option<ResourceRef>,
    ) -> Result<Resource, KeepError> {
        let first = gather.part().await?;
        if gather.has_ended() {
            let resource = gather.resource(media_type);
            must_be(wanted, &resource)?;
            self.put_whole(namespace_id, resource.resource, first)
                .await
                .map_err(refused)?;
            return Ok(resource);
        }
        let upload = upload_path(namespace_id);
        let mut parts = self.store.put_multipart(&upload).await.map_err(refused)?;
        if let Err(error) = put_parts(&mut parts, first, &mut gather).await {
            // Where this fails as well, the sweep or the bucket's own rule removes the rest.
            let _ = parts.abort().await;
            return Err(error);
        }
        let resource = gather.resource(media_type);
        if let Err(differs) = must_be(wanted, &resource) {
            // Where this fails, the sweep removes it.
            let _ = self.store.delete(&upload).await;
            return Err(differs);
        }
        self.move_in(namespace_id, resource.resource, &upload)
            .await
            .map_err(refused)?;
        Ok(resource)
    }

    async fn put_whole(
        &self,
        namespace_id: i32,
        resource: ResourceRef,
        bytes: Bytes,
    ) -> object_store::Result<()> {
        let home = home_path(namespace_id, resource);
        if self.has(&home).await? {
            return Ok(());
        }
        if self.folder.is_none() {
            // A bucket takes an object whole or not at all.
            self.store.put(&home, bytes.into()).await?;
            return Ok(());
        }
        let upload = upload_path(namespace_id);
        self.store.put(&upload, bytes.into()).await?;
        self.store.rename(&upload, &home).await
    }

    async fn move_in(
        &self,
        namespace_id: i32,
        resource: ResourceRef,
        upload: &Path,
    ) -> object_store::Result<()> {
        let home = home_path(namespace_id, resource);
        if self.has(&home).await? {
            return self.store.delete(upload).await;
        }
        self.store.rename(upload, &home).await
    }

    async fn has(&self, path: &Path) -> object_store::Result<bool> {
        Ok(found(self.store.head(path).await)?.is_some())
    }

    /// The bytes at home, or aside. They may be on their way from one to the other, so home is
    /// looked at once more in the end.
    async fn find(
        &self,
        namespace_id: i32,
        resource: ResourceRef,
    ) -> object_store::Result<Option<GetResult>> {
        let home = home_path(namespace_id, resource);
        if let Some(bytes) = found(self.store.get(&home).await)? {
            return Ok(Some(bytes));
        }
        let folder = aside_folder(namespace_id, resource);
        let places: Vec<_> = self.store.list(Some(&folder)).try_collect().await?;
        for place in places {
            if let Some(bytes) = found(self.store.get(&place.location).await)? {
                return Ok(Some(bytes));
            }
        }
        found(self.store.get(&home).await)
    }
}

/// Refuses what is not what the caller named, before it has a name here.
fn must_be(wanted: Option<ResourceRef>, came: &Resource) -> Result<(), KeepError> {
    match wanted {
        Some(wanted) if wanted != came.resource => Err(KeepError::Differs {
            came: came.resource,
        }),
        Some(_) | None => Ok(()),
    }
}

/// Uploads part after part; while one is on its way the next is gathered.
async fn put_parts(
    parts: &mut Box<dyn MultipartUpload>,
    first: Bytes,
    gather: &mut Gather<'_>,
) -> Result<(), KeepError> {
    let mut part = first;
    while !gather.has_ended() {
        let sending = parts.put_part(part.into());
        let sent = async { sending.await.map_err(refused) };
        ((), part) = try_join(sent, gather.part()).await?;
    }
    parts.put_part(part.into()).await.map_err(refused)?;
    parts.complete().await.map_err(refused)?;
    Ok(())
}

impl ResourceStore for StoredFiles {
    fn open(
        &self,
        namespace_id: i32,
        resource: ResourceRef,
    ) -> BoxFuture<'_, Result<Opened, Fault>> {
        Box::pin(async move {
            let bytes = match self.find(namespace_id, resource).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return Err(resource_missing(resource)),
                Err(error) => return Err(refused(error).fault()),
            };
            Ok(Opened {
                bytes: bytes.meta.size,
                stream: verified(resource, bytes.into_stream().err_into().boxed()),
            })
        })
    }

    fn keep<'a>(
        &'a self,
        namespace_id: i32,
        media_type: &'a str,
        stream: BoxStream<'a, io::Result<Bytes>>,
        bytes_max: u64,
    ) -> BoxFuture<'a, Result<Resource, KeepError>> {
        let gather = Gather::new(stream, bytes_max.min(RESOURCE_BYTES_MAX));
        Box::pin(self.keep_stream(namespace_id, media_type, gather, None))
    }

    fn keep_as<'a>(
        &'a self,
        namespace_id: i32,
        wanted: ResourceRef,
        media_type: &'a str,
        stream: BoxStream<'a, io::Result<Bytes>>,
        bytes_max: u64,
    ) -> BoxFuture<'a, Result<Resource, KeepError>> {
        let gather = Gather::new(stream, bytes_max.min(RESOURCE_BYTES_MAX));
        Box::pin(self.keep_stream(namespace_id, media_type, gather, Some(wanted)))
    }

    fn set_aside(
        &self,
        namespace_id: i32,
        resource: ResourceRef,
        at: Timestamp,
    ) -> BoxFuture<'_, io::Result<Option<Aside>>> {
        let aside = Aside {
            namespace_id,
            resource,
            at,
        };
        Box::pin(async move {
            let home = home_path(namespace_id, resource);
            let moved = self.store.rename(&home, &aside_path(&aside)).await;
            Ok(found(moved)?.map(|()| aside))
        })
    }

    fn list_aside(&self, before: Timestamp, most: usize) -> BoxFuture<'_, io::Result<Vec<Aside>>> {
        Box::pin(async move {
            let old = self.store.list(Some(&Path::from("aside"))).try_filter_map(
                move |object| async move {
                    Ok(read_aside(&object.location).filter(|aside| aside.at < before))
                },
            );
            Ok(old.take(most).try_collect().await?)
        })
    }

    fn restore(&self, aside: Aside) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let home = home_path(aside.namespace_id, aside.resource);
            let moved = self.store.rename(&aside_path(&aside), &home).await;
            // Nothing there: another server was first.
            found(moved)?;
            Ok(())
        })
    }

    fn discard(&self, aside: Aside) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let removed = self.store.delete(&aside_path(&aside)).await;
            found(removed)?;
            Ok(())
        })
    }

    fn list_kept(&self) -> BoxStream<'_, io::Result<StoredResource>> {
        let kept = self.store.list(None).try_filter_map(|object| async move {
            let at = Timestamp::from_second(object.last_modified.timestamp()).ok();
            Ok(at.and_then(|at| read_home(&object.location, at)))
        });
        kept.err_into().boxed()
    }

    fn sweep(&self, before: Timestamp) -> BoxFuture<'_, io::Result<u64>> {
        Box::pin(async move {
            match &self.folder {
                Some(folder) => sweep_folder(folder.join("uploads"), before).await,
                None => Ok(sweep_bucket(&self.store, before).await?),
            }
        })
    }
}

/// The library hides unfinished files, so they are looked for directly.
async fn sweep_folder(uploads: PathBuf, before: Timestamp) -> io::Result<u64> {
    let work = move || {
        let mut removed = 0;
        for namespace in entries(&uploads)? {
            for file in entries(&namespace)? {
                let modified = file.metadata().and_then(|file| file.modified());
                let old =
                    modified.is_ok_and(|at| Timestamp::try_from(at).is_ok_and(|at| at < before));
                if old && std::fs::remove_file(&file).is_ok() {
                    removed += 1;
                }
            }
        }
        Ok(removed)
    };
    tokio::task::spawn_blocking(work).await?
}

fn entries(folder: &FilePath) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

async fn sweep_bucket(
    store: &Arc<dyn ObjectStore>,
    before: Timestamp,
) -> object_store::Result<u64> {
    let mut removed = 0;
    let mut uploads = store.list(Some(&Path::from("uploads")));
    while let Some(upload) = uploads.try_next().await? {
        if upload.last_modified.timestamp() < before.as_second() {
            removed += u64::from(found(store.delete(&upload.location).await)?.is_some());
        }
    }
    Ok(removed)
}

/// What is there; nothing if it is not.
fn found<T>(answer: object_store::Result<T>) -> object_store::Result<Option<T>> {
    match answer {
        Ok(there) => Ok(Some(there)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn refused(error: Error) -> KeepError {
    KeepError::Store(error.into())
}

fn home_path(namespace_id: i32, resource: ResourceRef) -> Path {
    let digest = hex::encode(resource.digest());
    let (first, second) = (&digest[..2], &digest[2..4]);
    Path::from(format!("{namespace_id}/{first}/{second}/{digest}"))
}

fn read_home(path: &Path, at: Timestamp) -> Option<StoredResource> {
    let parts: Vec<&str> = path.as_ref().split('/').collect();
    let [namespace_id, _, _, digest] = parts[..] else {
        return None;
    };
    Some(StoredResource {
        namespace_id: namespace_id.parse().ok()?,
        resource: ResourceRef::from_digest(hex::decode(digest).ok()?.try_into().ok()?),
        at,
    })
}

fn upload_path(namespace_id: i32) -> Path {
    let id = Uuid::now_v7().simple();
    Path::from(format!("uploads/{namespace_id}/{id}"))
}

fn aside_folder(namespace_id: i32, resource: ResourceRef) -> Path {
    let digest = hex::encode(resource.digest());
    Path::from(format!("aside/{namespace_id}/{digest}"))
}

fn aside_path(aside: &Aside) -> Path {
    let folder = aside_folder(aside.namespace_id, aside.resource);
    folder.join(aside.at.as_microsecond().to_string())
}

fn read_aside(path: &Path) -> Option<Aside> {
    let mut parts = path.as_ref().split('/').skip(1);
    let namespace_id = parts.next()?.parse().ok()?;
    let digest = hex::decode(parts.next()?).ok()?.try_into().ok()?;
    let at = Timestamp::from_microsecond(parts.next()?.parse().ok()?).ok()?;
    Some(Aside {
        namespace_id,
        resource: ResourceRef::from_digest(digest),
        at,
    })
}
