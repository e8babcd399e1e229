//! Archiving: what is past its history is written to a file before it is deleted.
//!
//! ```text
//! list what goes ──▶ reserve a name ──▶ write the file ──▶ one commit: the file is theirs, the runs are deleted
//! ```
//!
//! A crash before the commit leaves the runs, and a file that is removed later. So does a run that changed
//! meanwhile: it is looked at again.

use std::time::Duration;

use semel_model::{ClaimId, RunId, Span};
use semel_store::retention::GoingKeys;
use semel_store::{archives, retention};

use super::policy::Policy;
use crate::archive::{ArchiveError, RunArchive, remove_unneeded, reserve};
use crate::runtime::Runtime;

/// How often the keys of a page may have changed while their file was written, before they are left for the next
/// walk.
const CHANGES_MAX: u32 = 3;

/// The most batches of expired files that one pass removes, so that it ends.
const EXPIRED_BATCHES_MAX: u32 = 100;

/// How long two files are apart, so that archiving never crowds out accepting.
const FILE_PAUSE: Duration = Duration::from_millis(50);

/// Archives and deletes what is past its time of some keys. A key that cannot be read stays, and holds up no other.
pub(super) async fn archive_page(
    runtime: &Runtime,
    archive: &dyn RunArchive,
    claims: &[ClaimId],
    policy: &Policy,
) -> Result<(), ArchiveError> {
    let done = archive_keys(runtime, archive, claims, policy).await;
    if done.as_ref().err().and_then(of_one_key).is_none() {
        return counted(runtime, done);
    }
    for claim in claims {
        let one = std::slice::from_ref(claim);
        let done = archive_keys(runtime, archive, one, policy).await;
        match done.as_ref().err().and_then(of_one_key) {
            Some(why) => stays(runtime, *claim, &why),
            None => counted(runtime, done)?,
        }
    }
    Ok(())
}

/// Why one key cannot be archived, where neither the archive nor the database is in trouble.
fn of_one_key(error: &ArchiveError) -> Option<String> {
    match error {
        ArchiveError::Run(why) => Some(why.clone()),
        ArchiveError::Database(error) => error.refusal(),
        ArchiveError::Unreachable(_)
        | ArchiveError::Off
        | ArchiveError::Missing { .. }
        | ArchiveError::Broken { .. } => None,
    }
}

/// Counts what was not done.
fn counted<T>(runtime: &Runtime, done: Result<T, ArchiveError>) -> Result<T, ArchiveError> {
    if done.is_err() {
        runtime.metrics.archive_failures.add(1);
    }
    done
}

/// Says that a key stays in the database.
fn stays(runtime: &Runtime, claim: ClaimId, why: &str) {
    runtime.metrics.archive_failures.add(1);
    let run = RunId::from_uuid(*claim.as_uuid());
    tracing::warn!(run.id = %run, why, "the runs of a key cannot be archived, and stay");
}

async fn archive_keys(
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
    let (history, keeps) = (policy.history, &policy.claims);
    let GoingKeys { keys, too_large } = retention::list_going(cell, claims, history, keeps).await?;
    if keys.is_empty() {
        for claim in too_large {
            stays(runtime, claim, "they are too many");
        }
        return Ok(false);
    }
    let file = reserve(cell, runtime.clock.now()).await?;
    // Where this fails, whether anything was written, or will be, is not known: it is removed with what crashes leave.
    let (count, content) = archive.write(&runtime.cell, &file, &keys).await?;
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

/// Removes files whose time is over, and what nothing needs. Says whether there may be more of the first.
pub(super) async fn sweep(
    runtime: &Runtime,
    archive: &dyn RunArchive,
) -> Result<bool, ArchiveError> {
    let more = match runtime.options.archive_keep {
        Some(keep) => expire(runtime, keep).await?,
        None => false,
    };
    let removed = remove_unneeded(runtime.cell.every(), archive).await;
    counted(runtime, removed.map(|()| more))
}

async fn expire(runtime: &Runtime, keep: Span) -> Result<bool, ArchiveError> {
    for _ in 0..EXPIRED_BATCHES_MAX {
        if archives::expire(runtime.cell.every(), keep).await? == 0 {
            return Ok(false);
        }
        tokio::time::sleep(FILE_PAUSE).await;
    }
    Ok(true)
}
