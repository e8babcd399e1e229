//! Runs past their history: walks the runs of each release from the oldest on, and deletes what may go.
//!
//! A walk that comes to its end rests: what is not past its time now is looked at again later.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use semel_model::Span;
use semel_store::retention::{self, RunCursor};
use semel_store::{ReadError, partitions};

use crate::runtime::Runtime;

/// How long after the end of a walk the next one begins.
const REST: SignedDuration = SignedDuration::from_mins(10);

/// How many pages one pass looks at.
const PAGES_MAX: usize = 100;

/// How long the pages of one walk are apart, so that deleting never crowds out accepting.
const PAGE_PAUSE: Duration = Duration::from_millis(50);

/// Where the walk is.
#[derive(Default)]
pub(super) struct HistoryWalk {
    /// The releases that are left, and how far the first of them has been looked at.
    releases: VecDeque<i32>,
    cursor: Option<RunCursor>,
    /// When the next walk begins.
    next_at: Option<Timestamp>,
}

/// What holds for the runs of a release.
struct Policy {
    history: Span,
    keeps_claims: bool,
}

impl HistoryWalk {
    /// Continues the walk, or begins one if it is time. True where pages are left.
    pub(super) async fn go_on(&mut self, runtime: &Runtime) -> Result<bool, ReadError> {
        let cell = runtime.cell.every();
        if self.releases.is_empty() {
            let now = runtime.clock.now();
            if self.next_at.is_some_and(|at| now < at) {
                return Ok(false);
            }
            self.releases = retention::list_releases(cell).await?.into();
            self.next_at = Some(now + REST);
        }
        for _ in 0..PAGES_MAX {
            let Some(release) = self.releases.front().copied() else {
                partitions::drop_emptied(&runtime.cell).await?;
                return Ok(false);
            };
            let policy = policy_of(runtime, release).await?;
            let page = retention::list_old(cell, release, self.cursor, policy.history).await?;
            // Before anything of the page is deleted: one that fails does not hold up those behind it.
            self.cursor = page.next;
            if self.cursor.is_none() {
                self.releases.pop_front();
            }
            while !page.claims.is_empty() {
                let (history, keeps) = (policy.history, policy.keeps_claims);
                let deleted = retention::delete_old(cell, &page.claims, history, keeps).await?;
                runtime.metrics.runs_deleted.add(deleted.count);
                tokio::time::sleep(PAGE_PAUSE).await;
                if !deleted.more {
                    break;
                }
            }
        }
        Ok(true)
    }
}

/// What the live release of the flow says, for the runs of all of its releases, or else what the namespace or the server
/// says; never shorter than the run's own release keeps its keys. A release that cannot be read keeps everything that it might need.
async fn policy_of(runtime: &Runtime, release: i32) -> Result<Policy, ReadError> {
    let default = runtime.options.history;
    let Some(own) = runtime.catalogue.get(release).await? else {
        return Ok(Policy {
            history: default.max(KEEP_MAX),
            keeps_claims: true,
        });
    };
    let live = runtime
        .catalogue
        .find_flow(own.namespace_id, &own.flow.name);
    let said = live.as_ref().map_or(own.flow.history, |it| it.flow.history);
    let namespaces = runtime.catalogue.namespaces();
    let namespace = namespaces.iter().find(|it| it.id == own.namespace_id);
    let of_namespace = namespace.and_then(|namespace| namespace.history);
    let is_new = |flow: &semel_flow::Flow| flow.expires_as_new;
    Ok(Policy {
        history: said.or(of_namespace).unwrap_or(default).max(own.flow.keep),
        keeps_claims: is_new(&own.flow) || live.is_some_and(|it| is_new(&it.flow)),
    })
}

/// The longest time that keys are kept.
const KEEP_MAX: Span = Span::from_const_secs(366 * 86_400);
