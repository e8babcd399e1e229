//! Runs past their history: walks the runs of each release from the oldest on, and deletes what may go, after it was
//! archived where there is an archive.
//!
//! Walks begin at least [`REST`] apart: what is not past its time now is looked at again later.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use semel_model::{ClaimId, RunId, Span};
use semel_store::retention::{self, DeletedRuns, RunCursor};
use semel_store::{ReadError, archives, partitions};

use super::archiving::archive_page;
use super::policy::{Policy, policy_of};
use crate::archive::ArchiveError;
use crate::runtime::Runtime;

/// How long after the beginning of a walk the next one begins, at the earliest.
const REST: SignedDuration = SignedDuration::from_mins(10);

/// The same where runs are archived: one that rests longer writes fewer and larger files.
const ARCHIVE_REST: SignedDuration = SignedDuration::from_mins(60);

/// How many pages one pass looks at.
const PAGES_MAX: usize = 100;

/// How long the pages of one walk are apart, so that deleting never crowds out accepting.
const PAGE_PAUSE: Duration = Duration::from_millis(50);

/// After how long a pass begins no other page, and no other part of a key with many runs: a pass that ends says that the
/// duty is done.
const DELETING_MAX: Duration = Duration::from_secs(10);

/// Where the walk is.
#[derive(Default)]
pub(super) struct HistoryWalk {
    /// The releases that had runs when the walk began.
    found: Vec<i32>,
    /// The releases that are left, and how far the first of them has been looked at.
    releases: VecDeque<i32>,
    cursor: Option<RunCursor>,
    /// The keys of a page that one pass did not finish, and their release.
    unfinished: Option<(i32, Vec<ClaimId>)>,
    /// When the next walk begins.
    next_at: Option<Timestamp>,
}

impl HistoryWalk {
    /// Continues the walk, or begins one if it is time. True where pages are left.
    pub(super) async fn go_on(&mut self, runtime: &Runtime) -> Result<bool, ArchiveError> {
        let cell = runtime.cell.every();
        if self.releases.is_empty() && self.unfinished.is_none() {
            let now = runtime.clock.now();
            if self.next_at.is_some_and(|at| now < at) {
                return Ok(false);
            }
            if runtime.options.archive.is_none()
                && !runtime.options.archive_ended
                && archives::has_kept(cell).await?
            {
                tracing::warn!(
                    "no run is deleted: others were archived, and this server has no `serve.archive`; set it as on the other servers, or to `off` to delete runs without"
                );
                self.next_at = Some(now + REST);
                return Ok(false);
            }
            self.found = retention::list_releases(cell).await?;
            self.releases = self.found.iter().copied().collect();
            let rest = match runtime.options.archive {
                Some(_) => ARCHIVE_REST,
                None => REST,
            };
            self.next_at = Some(now + rest);
        }
        let until = Instant::now() + DELETING_MAX;
        for _ in 0..PAGES_MAX {
            let unfinished = self.unfinished.take();
            let next = self.releases.front().copied();
            let Some(release) = unfinished.as_ref().map(|(release, _)| *release).or(next) else {
                partitions::drop_emptied(&runtime.cell).await?;
                return Ok(false);
            };
            let policy = policy_of(runtime, release, &self.found).await?;
            let claims = match unfinished {
                Some((_, claims)) => claims,
                None => self.next_page(runtime, release, policy.history).await?,
            };
            if let Some(archive) = &runtime.options.archive {
                archive_page(runtime, archive.as_ref(), &claims, &policy).await?;
                if Instant::now() >= until && !self.releases.is_empty() {
                    return Ok(true);
                }
                continue;
            }
            while !claims.is_empty() {
                let deleted = delete(runtime, &claims, &policy).await?;
                runtime.metrics.runs_deleted.add(deleted.count);
                tokio::time::sleep(PAGE_PAUSE).await;
                if !deleted.more {
                    break;
                }
                if Instant::now() >= until {
                    self.unfinished = Some((release, claims));
                    return Ok(true);
                }
            }
        }
        Ok(true)
    }

    /// The old keys of the next page of a release.
    async fn next_page(
        &mut self,
        runtime: &Runtime,
        release: i32,
        history: Span,
    ) -> Result<Vec<ClaimId>, ArchiveError> {
        let page = retention::list_old(runtime.cell.every(), release, self.cursor, history).await?;
        // Before anything of the page is deleted: one that fails does not hold up those behind it.
        self.cursor = page.next;
        if self.cursor.is_none() {
            self.releases.pop_front();
        }
        Ok(page.claims)
    }
}

/// Deletes what may go of some keys: key by key where the database refuses the page, so that the one
/// that it refuses holds up no other.
async fn delete(
    runtime: &Runtime,
    claims: &[ClaimId],
    policy: &Policy,
) -> Result<DeletedRuns, ReadError> {
    let (cell, history, keeps) = (runtime.cell.every(), policy.history, &policy.claims);
    match retention::delete_old(cell, claims, history, keeps).await {
        Err(error) if error.refusal().is_some() => {}
        deleted => return deleted,
    }
    let mut all = DeletedRuns::default();
    for claim in claims {
        let one = std::slice::from_ref(claim);
        match retention::delete_old(cell, one, history, keeps).await {
            Ok(deleted) => {
                all.count += deleted.count;
                all.more |= deleted.more;
            }
            Err(error) => match error.refusal() {
                Some(why) => stays(runtime, *claim, &why),
                None => return Err(error),
            },
        }
    }
    Ok(all)
}

/// Says that a key stays in the database.
fn stays(runtime: &Runtime, claim: ClaimId, why: &str) {
    runtime.metrics.service_failures.add_one("retention_runs");
    let run = RunId::from_uuid(*claim.as_uuid());
    tracing::warn!(run.id = %run, why, "the runs of a key cannot be deleted, and stay");
}
