//! Files of the archive: ended runs as Parquet, one row each, in a folder or a bucket.
//!
//! A row has the run as `GET /v1/runs/{run}` shows it to a token with the right `payload`, as JSON, and beside
//! it what one filters by; a run with items also lists those. Rows lie in the order of their runs, in groups of a bounded size, so that a run is
//! found by reading the end of the file and one group.

pub(crate) mod detail;
mod erase;
mod file;
mod read;

pub(crate) use file::{ArchivedRow, FileWriter, FinishedFile};

use std::io;

use bytes::Bytes;
use jiff::Timestamp;
use semel_engine::{
    ArchiveError, ArchivedText, Budget, ErasedFile, ObjectFolder, ResourceLocation,
    ResourceLocationError,
};
use semel_model::RunId;
use semel_store::archives::{ArchiveFile, FileContent, SpareFile};
use sha2::{Digest as _, Sha256};

/// The files of an archive.
#[derive(Clone, Debug)]
pub(crate) struct ArchiveFiles {
    objects: ObjectFolder,
}

impl ArchiveFiles {
    /// Those at a place.
    pub(crate) fn open(place: &ResourceLocation) -> Result<Self, ResourceLocationError> {
        let objects = ObjectFolder::open(place)?;
        Ok(Self { objects })
    }

    /// Tries whether files can be written and read.
    pub(crate) async fn try_out(&self) -> io::Result<()> {
        self.objects.try_out().await
    }

    /// Writes a file under a reserved name.
    pub(crate) async fn write(
        &self,
        file: &SpareFile,
        finished: FinishedFile,
    ) -> Result<FileContent, ArchiveError> {
        let bytes = Bytes::from(finished.bytes);
        let content = FileContent {
            bytes: bytes.len() as u64,
            sha256: Sha256::digest(&bytes).into(),
            newest_at: finished.newest_at,
            runs: finished.runs,
        };
        let written = self.objects.write(&file.object, bytes).await;
        written.map_err(ArchiveError::Unreachable)?;
        Ok(content)
    }

    /// What a file says of a run.
    pub(crate) async fn find(
        &self,
        file: &ArchiveFile,
        run: (i32, RunId),
        memory: &Budget,
    ) -> Result<Option<ArchivedText>, ArchiveError> {
        read::find(&self.objects, file, run, memory).await
    }

    /// Writes a file anew, without what was said in some of its runs.
    pub(crate) async fn write_erased(
        &self,
        from: &ArchiveFile,
        to: &SpareFile,
        runs: &[RunId],
        at: Timestamp,
    ) -> Result<Option<ErasedFile>, ArchiveError> {
        let bytes = read::whole(&self.objects, from).await?;
        let runs = runs.iter().map(RunId::to_string).collect();
        let (object, name) = (from.object.clone(), from.object.clone());
        let erased = tokio::task::spawn_blocking(move || erase::rewrite(&object, bytes, &runs, at));
        let erased = erased
            .await
            .map_err(|_| broken(&name, "it cannot be taken apart"))??;
        let Some(erased) = erased else {
            return Ok(None);
        };
        let content = self.write(to, erased.file).await?;
        Ok(Some(ErasedFile {
            content,
            keys: erased.said.keys,
            names: erased.said.names,
            started: erased.said.started,
        }))
    }

    /// Removes a file.
    pub(crate) async fn remove(&self, object: &str) -> Result<(), ArchiveError> {
        let removed = self.objects.remove(object).await;
        removed.map_err(ArchiveError::Unreachable)
    }
}

/// What reading from the archive met.
fn unread(object: &str, error: io::Error) -> ArchiveError {
    match error.kind() == io::ErrorKind::NotFound {
        true => ArchiveError::Missing {
            object: object.to_owned(),
        },
        false => ArchiveError::Unreachable(error),
    }
}

fn broken(object: &str, why: impl ToString) -> ArchiveError {
    ArchiveError::Broken {
        object: object.to_owned(),
        why: why.to_string(),
    }
}

#[cfg(test)]
mod tests;
