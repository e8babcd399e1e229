//! Archiving: what is past its history is written to a file before it is deleted.
//!
//! ```text
//! list what goes ──▶ reserve a name ──▶ write the file ──▶ one commit: the file is theirs, the runs are deleted
//! ```
//!
//! A crash before the commit leaves the runs, and a file that is removed later. So does a run that changed
//! meanwhile: it is looked at again.

use std::time::Duration;

use semel_model::ClaimId;
use semel_store::{archives, retention};

use super::policy::Policy;
use crate::archive::{ArchiveError, RunArchive, remove_unneeded, reserve};
use crate::runtime::Runtime;

/// How often the keys of a page may have changed while their file was written, before they are left for the next
/// walk.
const CHANGES_MAX: u32 = 3;

/// How long two files are apart, so that archiving never crowds out accepting.
const FILE_PAUSE: Duration = Duration::from_millis(50);

/// Archives and deletes what is past its time of some keys.
pub(super) async fn archive_page(
    runtime: &Runtime,
    archive: &dyn RunArchive,
    claims: &[ClaimId],
    policy: &Policy,
) -> Result<(), ArchiveError> {
    let mut changes = 0;
    while changes < CHANGES_MAX {
        if !archive_some(runtime, archive, claims, policy, &mut changes).await? {
            break;
        }
        tokio::time::sleep(FILE_PAUSE).await;
    }
    Ok(())
}

/// Archives as many keys as one file takes. False where there were none.
async fn archive_some(
    runtime: &Runtime,
    archive: &dyn RunArchive,
    claims: &[ClaimId],
    policy: &Policy,
    changes: &mut u32,
) -> Result<bool, ArchiveError> {
    let cell = runtime.cell.every();
    let (history, keeps) = (policy.history, policy.keeps_claims);
    let (keys, _) = retention::list_going(cell, claims, history, keeps).await?;
    if keys.is_empty() {
        return Ok(false);
    }
    let file = reserve(cell, runtime.clock.now()).await?;
    let (count, content) = match archive.write(&runtime.cell, &file, &keys).await {
        Ok(written) => written,
        Err(error) => {
            runtime.metrics.archive_failures.add(1);
            // Whether anything was written is not known: it is removed with what crashes leave.
            archives::discard(cell, &file).await?;
            return Err(error);
        }
    };
    let keys = &keys[..count.min(keys.len())];
    let written = (&file, &content);
    match retention::delete_archived(cell, keys, written, history, keeps).await? {
        Some(deleted) => {
            let archived: usize = keys.iter().map(|key| key.runs.len()).sum();
            runtime.metrics.runs_archived.add(archived as u64);
            runtime.metrics.runs_deleted.add(deleted);
        }
        None => {
            *changes += 1;
            // At once, and not with what crashes leave: it may have what is being erased.
            archives::discard(cell, &file).await?;
            archive.remove(&file.object).await?;
            archives::forget(cell, &file).await?;
        }
    }
    Ok(true)
}

/// Lets files go whose time is over, and removes what nothing needs.
pub(super) async fn sweep(runtime: &Runtime, archive: &dyn RunArchive) -> Result<(), ArchiveError> {
    let cell = runtime.cell.every();
    if let Some(keep) = runtime.options.archive_keep {
        while archives::expire(cell, keep).await?.0 > 0 {
            tokio::time::sleep(FILE_PAUSE).await;
        }
    }
    let removed = remove_unneeded(cell, archive).await;
    if removed.is_err() {
        runtime.metrics.archive_failures.add(1);
    }
    removed
}
