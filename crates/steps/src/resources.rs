//! Resources: large outputs, kept outside the database and named by their content.
//!
//! A resource store knows bytes and nothing else. Which of them are still needed is in the
//! database, and the engine's retention asks there. Bytes are streamed in both directions, so that
//! an output of gigabytes costs a few MiB of memory.

mod gather;
mod in_memory;
mod objects;
mod place;
mod resource_store;
mod verify;

pub use in_memory::{MEMORY_BYTES_MAX, ResourcesInMemory};
pub use objects::ObjectFolder;
pub use place::{Bucket, ResourceLocation, ResourceLocationError};
pub use resource_store::{RESOURCE_BYTES_MAX, StoredFiles};

use std::fmt::Debug;
use std::io;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use jiff::Timestamp;
use semel_model::{Fault, FaultKind, Resource, ResourceRef};

/// Keeps bytes and gives them back.
pub trait ResourceStore: Debug + Send + Sync {
    /// Opens a resource for reading. Bytes that do not match its name break the stream off.
    ///
    /// The fault is `resource-missing` where there is none, `resources-off` where the server has no
    /// store, and `resources-unreachable` where the store gave no answer.
    fn open(
        &self,
        namespace_id: i32,
        resource: ResourceRef,
    ) -> BoxFuture<'_, Result<Opened, Fault>>;

    /// Keeps what the stream yields, up to a number of bytes. Keeping the same bytes again changes
    /// nothing and gives the same name.
    fn keep<'a>(
        &'a self,
        namespace_id: i32,
        media_type: &'a str,
        stream: BoxStream<'a, io::Result<Bytes>>,
        bytes_max: u64,
    ) -> BoxFuture<'a, Result<Resource, KeepError>>;

    /// Keeps what the stream yields, as long as that is what the caller named; otherwise nothing of it
    /// stays. A store that takes no uploads has none of this.
    fn keep_as<'a>(
        &'a self,
        _namespace_id: i32,
        _wanted: ResourceRef,
        _media_type: &'a str,
        _stream: BoxStream<'a, io::Result<Bytes>>,
        _bytes_max: u64,
    ) -> BoxFuture<'a, Result<Resource, KeepError>> {
        Box::pin(async { Err(KeepError::Off) })
    }

    /// Whether there is a place to keep anything.
    fn is_on(&self) -> bool {
        true
    }

    /// Sets bytes aside that are not known to be needed. They can still be opened, and are taken
    /// back with [`restore`](Self::restore) if they are needed after all. Nothing if there are
    /// none.
    fn set_aside(
        &self,
        _namespace_id: i32,
        _resource: ResourceRef,
        _at: Timestamp,
    ) -> BoxFuture<'_, io::Result<Option<Aside>>> {
        Box::pin(async { Ok(None) })
    }

    /// What was set aside before an instant, at most so many.
    fn list_aside(
        &self,
        _before: Timestamp,
        _most: usize,
    ) -> BoxFuture<'_, io::Result<Vec<Aside>>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// Takes bytes back that were set aside.
    fn restore(&self, _aside: Aside) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Removes bytes that were set aside, for good.
    fn discard(&self, _aside: Aside) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Everything that is kept, in no order.
    fn list_kept(&self) -> BoxStream<'_, io::Result<StoredResource>> {
        Box::pin(stream::empty())
    }

    /// Removes what was left behind by uploads that broke off before an instant; says how many.
    fn sweep(&self, _before: Timestamp) -> BoxFuture<'_, io::Result<u64>> {
        Box::pin(async { Ok(0) })
    }
}

/// Bytes that are kept, as far as the store knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredResource {
    /// Whose they are.
    pub namespace_id: i32,
    /// Which.
    pub resource: ResourceRef,
    /// When they were written.
    pub at: Timestamp,
}

/// Bytes that were set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aside {
    /// Whose they are.
    pub namespace_id: i32,
    /// Which.
    pub resource: ResourceRef,
    /// When they were set aside.
    pub at: Timestamp,
}

/// A resource that is being read.
pub struct Opened {
    /// How many bytes it has.
    pub bytes: u64,
    /// The bytes, in pieces.
    pub stream: BoxStream<'static, io::Result<Bytes>>,
}

/// Why nothing was kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// There is more than may be kept: the sender or the limit has to change.
    #[error("more than {bytes_max} bytes")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },

    /// The bytes are not those that the caller named.
    #[error("the bytes that came are {came}")]
    Differs {
        /// What came.
        came: ResourceRef,
    },

    /// The source of the bytes broke off: its reader knows why.
    #[error("the upload was cut off")]
    Source(#[source] io::Error),

    /// The server has no resource store: an operator sets `serve.resources`.
    #[error("this server has no resource store")]
    Off,

    /// The resource store did not take it: it may later.
    #[error("the resource store refused it")]
    Store(#[source] io::Error),
}

impl KeepError {
    /// The fault of a step that could not keep its output.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::TooLarge { .. } => Fault::permanent("resource-too-large", self.to_string()),
            Self::Differs { .. } => Fault::permanent("source-broken", self.to_string()),
            Self::Source(error) => Fault::passing("source-broken", format!("{self}: {error}")),
            Self::Off => resources_off(),
            Self::Store(error) => {
                let message = format!("{self}: {error}");
                Fault::passing("resources-unreachable", message).of(FaultKind::Ours)
            }
        }
    }
}

/// The store of a server that keeps no resources: whatever needs one fails and says why.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoResources;

impl ResourceStore for NoResources {
    fn open(
        &self,
        _namespace_id: i32,
        _resource: ResourceRef,
    ) -> BoxFuture<'_, Result<Opened, Fault>> {
        Box::pin(async { Err(resources_off()) })
    }

    fn keep<'a>(
        &'a self,
        _namespace_id: i32,
        _media_type: &'a str,
        _stream: BoxStream<'a, io::Result<Bytes>>,
        _bytes_max: u64,
    ) -> BoxFuture<'a, Result<Resource, KeepError>> {
        Box::pin(async { Err(KeepError::Off) })
    }

    fn is_on(&self) -> bool {
        false
    }
}

/// The store does not have these bytes.
#[must_use]
pub fn resource_missing(resource: ResourceRef) -> Fault {
    let message = format!("{resource} does not exist: it was never stored here, or it has expired");
    Fault::permanent("resource-missing", message).of(FaultKind::Ours)
}

/// The server has nowhere to keep large outputs.
#[must_use]
pub fn resources_off() -> Fault {
    Fault::permanent(
        "resources-off",
        "this server keeps no large outputs: an operator can set `serve.resources` to a folder or to s3://BUCKET/PREFIX",
    )
    .of(FaultKind::Ours)
}
