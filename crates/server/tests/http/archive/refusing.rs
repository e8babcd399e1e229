//! An archive that refuses the runs of one key, or to remove one object: a fault that no real place can be made to
//! show for one file alone.

use std::io;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use semel_engine::{ArchiveError, ArchivedText, Budget, ErasedFile, RunArchive};
use semel_model::{ClaimId, RunId};
use semel_store::Cell;
use semel_store::archives::{ArchiveFile, FileContent, SpareFile};
use semel_store::retention::GoingKey;

#[derive(Debug)]
pub(crate) struct Refusing {
    pub(crate) inner: Arc<dyn RunArchive>,
    /// The key whose runs cannot be written.
    pub(crate) key: Option<ClaimId>,
    /// The object that cannot be removed.
    pub(crate) object: Option<String>,
}

impl RunArchive for Refusing {
    fn write<'a>(
        &'a self,
        cell: &'a Cell,
        file: &'a SpareFile,
        keys: &'a [GoingKey],
    ) -> BoxFuture<'a, Result<(usize, FileContent), ArchiveError>> {
        match keys.iter().any(|key| Some(key.claim) == self.key) {
            true => Box::pin(async { Err(ArchiveError::Run("it is refused".to_owned())) }),
            false => self.inner.write(cell, file, keys),
        }
    }

    fn find<'a>(
        &'a self,
        file: &'a ArchiveFile,
        run: (i32, RunId),
        memory: &'a Budget,
    ) -> BoxFuture<'a, Result<Option<ArchivedText>, ArchiveError>> {
        self.inner.find(file, run, memory)
    }

    fn write_erased<'a>(
        &'a self,
        from: &'a ArchiveFile,
        to: &'a SpareFile,
        runs: &'a [RunId],
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Option<ErasedFile>, ArchiveError>> {
        self.inner.write_erased(from, to, runs, at)
    }

    fn remove<'a>(&'a self, object: &'a str) -> BoxFuture<'a, Result<(), ArchiveError>> {
        match self.object.as_deref() == Some(object) {
            true => {
                Box::pin(async { Err(ArchiveError::Unreachable(io::Error::other("it is held"))) })
            }
            false => self.inner.remove(object),
        }
    }
}
