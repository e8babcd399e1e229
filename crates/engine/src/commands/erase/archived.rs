//! Erasing what was said in runs that are archived: each file that has one is written anew without it, takes
//! the place of the old one in one commit, and the old one is removed.

use std::io;

use semel_model::{ClaimId, RunId};
use semel_store::archives::{self, ArchiveFile};
use semel_store::retention;

use super::{EraseError, Erasure};
use crate::archive::{ArchiveError, ErasedFile, RunArchive, remove_unneeded, reserve};
use crate::runtime::Runtime;

/// How often another may write a file anew at the same time.
const REPLACED_MAX: u32 = 16;

impl Runtime {
    /// The archive, where runs of a key are in one.
    pub(super) async fn archive_of(
        &self,
        claim: ClaimId,
    ) -> Result<Option<&dyn RunArchive>, EraseError> {
        let files = archives::list_of_key(self.cell.of(claim), claim).await?;
        match (files.is_empty(), &self.options.archive) {
            (_, Some(archive)) => Ok(Some(archive.as_ref())),
            (true, None) => Ok(None),
            (false, None) => Err(EraseError::Archive(ArchiveError::Off)),
        }
    }

    /// Erases what was said in the archived runs of a key, with their child runs. No file has it afterwards.
    pub(super) async fn erase_archived(
        &self,
        archive: &dyn RunArchive,
        namespace_id: i32,
        claim: ClaimId,
        erasure: &mut Erasure,
    ) -> Result<(), EraseError> {
        let files = archives::list_of_key(self.cell.of(claim), claim).await?;
        if files.is_empty() {
            return Ok(());
        }
        for (file, runs) in files {
            self.erase_file(archive, (namespace_id, claim), (file, &runs), erasure)
                .await?;
            erasure.runs += runs.len() as u64;
        }
        // What an erasure that was cut short has left, too.
        Ok(remove_unneeded(self.cell.every(), archive).await?)
    }

    async fn erase_file(
        &self,
        archive: &dyn RunArchive,
        (namespace_id, claim): (i32, ClaimId),
        (file, runs): (i64, &[RunId]),
        erasure: &mut Erasure,
    ) -> Result<(), EraseError> {
        for _ in 0..REPLACED_MAX {
            let Some(old) = archives::get(self.cell.of(claim), file).await? else {
                return Ok(());
            };
            let new = reserve(self.cell.every(), self.clock.now()).await?;
            let erased = archive.write_erased(&old, &new, runs, self.clock.now());
            let erased = match erased.await {
                Ok(Some(erased)) => erased,
                Ok(None) => return Ok(archives::discard(self.cell.every(), &new).await?),
                // Whether anything was written, or will be, is not known: it is removed with what crashes leave.
                Err(error) => {
                    if self.is_replaced(claim, &old).await? {
                        continue;
                    }
                    return Err(error.into());
                }
            };
            // Before the old file goes: it alone says what there is to erase elsewhere.
            self.erase_around(namespace_id, runs, &erased, erasure)
                .await?;
            if archives::replace(self.cell.of(claim), &old, &new, &erased.content).await? {
                return Ok(());
            }
            archives::discard(self.cell.every(), &new).await?;
            archive.remove(&new.object).await?;
        }
        let why = "others erase in the same file all the time: erase it again later";
        let busy = ArchiveError::Unreachable(io::Error::other(why));
        Err(EraseError::Archive(busy))
    }

    /// Whether a file was written anew by another since.
    async fn is_replaced(&self, claim: ClaimId, old: &ArchiveFile) -> Result<bool, EraseError> {
        let now = archives::get(self.cell.of(claim), old.id).await?;
        Ok(now.is_none_or(|now| now.object != old.object))
    }

    /// Erases what archived runs left in tables of their own.
    async fn erase_around(
        &self,
        namespace_id: i32,
        runs: &[RunId],
        erased: &ErasedFile,
        erasure: &mut Erasure,
    ) -> Result<(), EraseError> {
        for &(name, run) in &erased.names {
            retention::erase_named(self.cell.of(name), name, run).await?;
        }
        // A key that is no text is shown as another text would be, and stays where it is.
        for key in erased.keys.iter().filter(|key| !key.contains('\\')) {
            let key = key.as_bytes();
            erasure.resources += self.erase_kept(namespace_id, key, runs).await?;
        }
        erasure.started.extend(&erased.started);
        Ok(())
    }
}

impl From<ArchiveError> for EraseError {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Database(error) => error.into(),
            ArchiveError::Unreachable(_)
            | ArchiveError::Off
            | ArchiveError::Missing { .. }
            | ArchiveError::Broken { .. }
            | ArchiveError::Run(_) => Self::Archive(error),
        }
    }
}
