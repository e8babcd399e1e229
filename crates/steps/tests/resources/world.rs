//! Shelves of both kinds, and streams to put on them.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use semel_model::{Fault, Resource, ResourceRef, SecretText};
use semel_steps::resources::{Bucket, ResourceLocation, StoredFiles};
use semel_steps::{KeepError, ResourceStore as _};
use semel_testkit::{S3, s3};

/// More than anything here is long.
pub(crate) const PLENTY: u64 = 1 << 30;

/// A shelf and what it stands in.
pub(crate) struct World {
    pub(crate) shelf: StoredFiles,
    place: Ground,
}

enum Ground {
    Folder(tempfile::TempDir),
    Bucket(S3),
}

impl World {
    /// One shelf of each kind.
    pub(crate) async fn both() -> Result<[Self; 2]> {
        Ok([Self::folder()?, Self::bucket().await?])
    }

    pub(crate) fn folder() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let shelf = StoredFiles::open(&ResourceLocation::Folder(folder.path().to_owned()))?;
        let place = Ground::Folder(folder);
        Ok(Self { shelf, place })
    }

    pub(crate) async fn bucket() -> Result<Self> {
        let store = S3::start().await?;
        let place = ResourceLocation::Bucket(Bucket {
            bucket: s3::BUCKET.to_owned(),
            prefix: "semel/eu".to_owned(),
            endpoint: Some(store.endpoint()),
            region: "us-east-1".to_owned(),
            keys: Some(("who".to_owned(), SecretText::new("hush".to_owned()))),
        });
        let shelf = StoredFiles::open(&place)?;
        let place = Ground::Bucket(store);
        Ok(Self { shelf, place })
    }

    /// The names of everything that is stored, unfinished uploads to a folder included.
    pub(crate) async fn list(&self) -> Result<Vec<String>> {
        match &self.place {
            Ground::Folder(folder) => Ok(files(folder.path())?
                .iter()
                .filter_map(|path| path.strip_prefix(folder.path()).ok())
                .map(|path| path.display().to_string())
                .collect()),
            Ground::Bucket(store) => {
                let names = store.list().await?;
                let strip = |name: &String| name.strip_prefix("semel/eu/").map(str::to_owned);
                Ok(names.iter().filter_map(strip).collect())
            }
        }
    }

    pub(crate) async fn keep(&self, namespace_id: i32, text: &str) -> Result<Resource> {
        let stream = pieces(text.as_bytes().to_vec());
        let kept = self.shelf.keep(namespace_id, "text/plain", stream, PLENTY);
        Ok(kept.await?)
    }

    pub(crate) async fn read(&self, namespace_id: i32, resource: ResourceRef) -> Result<Vec<u8>> {
        let opened = self.shelf.open(namespace_id, resource).await;
        let opened = opened.map_err(|fault| anyhow!("{fault:?}"))?;
        let read: Vec<Bytes> = opened.stream.try_collect().await?;
        let read = read.concat();
        anyhow::ensure!(opened.bytes == read.len() as u64, "the length is reported");
        Ok(read)
    }

    pub(crate) async fn fault(&self, namespace_id: i32, resource: ResourceRef) -> Option<Fault> {
        self.shelf.open(namespace_id, resource).await.err()
    }

    /// The folder, where it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.place {
            Ground::Folder(folder) => Some(folder.path()),
            Ground::Bucket(_) => None,
        }
    }
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(files(&path)?),
            false => found.push(path),
        }
    }
    Ok(found)
}

/// Bytes in small pieces.
pub(crate) fn pieces(bytes: Vec<u8>) -> BoxStream<'static, io::Result<Bytes>> {
    let bytes = Bytes::from(bytes);
    let starts = (0..bytes.len()).step_by(1000);
    let cut = move |start: usize| Ok(bytes.slice(start..bytes.len().min(start + 1000)));
    stream::iter(starts.map(cut)).boxed()
}

/// So many bytes, never all in memory; `seed` makes them others.
pub(crate) fn long(bytes: u64, seed: u64) -> BoxStream<'static, io::Result<Bytes>> {
    const PIECE: u64 = 64 << 10;
    let piece = move |at: u64| {
        let size = PIECE.min(bytes - at) as usize;
        let mut state = seed ^ at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let random = std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        let all: Vec<u8> = random.flatten().take(size).collect();
        Ok(Bytes::from(all))
    };
    stream::iter((0..bytes).step_by(PIECE as usize).map(piece)).boxed()
}

/// The code of a keeping that must fail.
pub(crate) fn refused(kept: Result<Resource, KeepError>) -> Result<Fault> {
    match kept {
        Ok(resource) => Err(anyhow!("{resource:?} was kept")),
        Err(error) => Ok(error.fault()),
    }
}
