//! Bodies that come from resources, and a store of resources for tests.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use semel_model::request::MultipartField;
use semel_model::{Fault, Resource, ResourceRef};
use semel_steps::resources::{KeepError, Opened, ResourceStore};
use semel_steps::{Pooling, Reach};
use semel_testkit::pace;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::stage::{Stage, caller, done, failed, key, request, route};

/// Keeps resources in a folder.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: TempDir,
    broken: bool,
    /// How long it takes for each piece.
    pause: Duration,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            broken: false,
            pause: Duration::ZERO,
        }
    }

    /// A store that takes nothing.
    pub(crate) fn broken() -> Self {
        Self {
            broken: true,
            ..Self::new()
        }
    }

    /// A store that takes so long for each piece.
    pub(crate) fn slow(pause: Duration) -> Self {
        Self {
            pause,
            ..Self::new()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        fs::read_dir(self.folder.path()).unwrap().count() == 0
    }

    pub(crate) fn bytes_of(&self, resource: ResourceRef) -> u64 {
        fs::metadata(self.path(resource)).unwrap().len()
    }

    pub(crate) fn read(&self, resource: ResourceRef) -> Vec<u8> {
        fs::read(self.path(resource)).unwrap()
    }

    fn path(&self, resource: ResourceRef) -> std::path::PathBuf {
        self.folder.path().join(hex::encode(resource.digest()))
    }

    /// Keeps so many MiB.
    fn fill(&self, mib: usize) -> ResourceRef {
        let piece: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        let mut hash = Sha256::new();
        let mut file = tempfile::NamedTempFile::new_in(self.folder.path()).unwrap();
        for _ in 0..mib {
            hash.update(&piece);
            file.write_all(&piece).unwrap();
        }
        let resource = ResourceRef::from_digest(hash.finalize().into());
        file.persist(self.path(resource)).unwrap();
        resource
    }
}

impl ResourceStore for Folder {
    fn open(
        &self,
        namespace_id: i32,
        resource: ResourceRef,
    ) -> BoxFuture<'_, Result<Opened, Fault>> {
        Box::pin(async move {
            assert_eq!(namespace_id, 7, "whose they are");
            let absent = |_| Fault::permanent("resource-missing", "there is none");
            let file = File::open(self.path(resource)).map_err(absent)?;
            let bytes = file.metadata().unwrap().len();
            let read = |mut file: File| async move {
                let mut piece = vec![0; 1 << 16];
                let count = file.read(&mut piece)?;
                piece.truncate(count);
                Ok((count > 0).then(|| (Bytes::from(piece), file)))
            };
            let stream = stream::try_unfold(file, read).boxed();
            Ok(Opened { bytes, stream })
        })
    }

    fn keep<'a>(
        &'a self,
        namespace_id: i32,
        media_type: &'a str,
        mut stream: BoxStream<'a, io::Result<Bytes>>,
        bytes_max: u64,
    ) -> BoxFuture<'a, Result<Resource, KeepError>> {
        Box::pin(async move {
            assert_eq!(namespace_id, 7, "whose they are");
            if self.broken {
                return Err(KeepError::Store(io::Error::other("the disk is full")));
            }
            let mut hash = Sha256::new();
            let mut bytes = 0;
            let mut file = tempfile::NamedTempFile::new_in(self.folder.path()).unwrap();
            while let Some(piece) = stream.next().await {
                let piece = piece.map_err(KeepError::Source)?;
                pace(self.pause).await;
                bytes += piece.len() as u64;
                if bytes > bytes_max {
                    return Err(KeepError::TooLarge { bytes_max });
                }
                hash.update(&piece);
                file.write_all(&piece).map_err(KeepError::Store)?;
            }
            let resource = ResourceRef::from_digest(hash.finalize().into());
            file.persist(self.path(resource)).unwrap();
            Ok(Resource {
                resource,
                bytes,
                media_type: media_type.to_owned(),
            })
        })
    }
}

/// The most memory that this process ever held.
pub(crate) fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_resource_is_sent_as_it_is_and_never_held() {
    let stage = Stage::start().await.unwrap();
    let folder = Arc::new(Folder::new());
    let resource = folder.fill(100);
    let mut reach = Reach::open();
    reach.resources = folder;
    let caller = caller(&reach);
    let before = peak_kib();

    let mut put = request("PUT", &stage.url("/echo"));
    put.file = Some(resource.to_string());
    let sent = done(
        caller
            .send_request(&put, route(None), Some(key()), Pooling::Shared)
            .await,
    );

    let grown = peak_kib() - before;
    println!("100 MiB streamed from a store: {grown} KiB at the peak");
    assert!(grown < 64 * 1024, "{grown} KiB");
    let seen = &sent.response["json"];
    assert_eq!(seen["sha256"], hex::encode(resource.digest()));
    assert_eq!(seen["headers"]["content-length"], (100 << 20).to_string());
    assert_eq!(seen["headers"]["content-type"], "application/octet-stream");
}

#[tokio::test]
async fn a_resource_in_a_part_is_the_same_bytes_on_every_try() {
    let stage = Stage::start().await.unwrap();
    let folder = Arc::new(Folder::new());
    let resource = folder.fill(1);
    let mut reach = Reach::open();
    reach.resources = folder;
    let caller = caller(&reach);
    let mut post = request("POST", &stage.url("/echo"));
    post.parts = vec![MultipartField {
        name: "scan".to_owned(),
        text: None,
        file: Some(resource.to_string()),
        file_name: Some("scan.bin".to_owned()),
    }];

    let ask = async || {
        let sent = caller
            .send_request(&post, route(None), Some(key()), Pooling::Shared)
            .await;
        done(sent).response["json"]["sha256"].clone()
    };

    assert_eq!(ask().await, ask().await);
}

#[tokio::test]
async fn a_resource_that_is_not_there_sends_nothing() {
    let stage = Stage::start().await.unwrap();
    let mut reach = Reach::open();
    reach.resources = Arc::new(Folder::new());
    let gone = ResourceRef::from_digest([1; 32]).to_string();
    let mut put = request("PUT", &stage.url("/echo"));

    let mut codes = Vec::new();
    for (reach, file) in [
        (reach.clone(), gone.clone()),
        (reach, "a.txt".into()),
        (Reach::open(), gone),
    ] {
        put.file = Some(file);
        let caller = caller(&reach);
        let outcome = caller.send_request(&put, route(None), Some(key()), Pooling::Shared);
        codes.push(failed(outcome.await).code);
    }

    assert_eq!(codes, ["resource-missing", "bad-request", "resources-off"]);
    assert_eq!(stage.counts().await["connections"], 0);
}
