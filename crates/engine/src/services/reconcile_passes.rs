//! Reconcile passes: comparing what a source lists with the runs of a flow, page by page.
//!
//! ```text
//! instant of a live release ══▶ open ══▶ take ──▶ read a page ──▶ start what is missing ══▶ record ─┐
//!                                          ▲            └─ fails ══▶ later, with backoff            │
//!                                          └────────────────── the next page ◀──────────────────────┘
//! ```
//!
//! `══▶` is a commit. An instant has one pass, whichever server opens it. A server that dies leaves its
//! page to the next one, which reads it again: what was started is found by its key. A pass is made in
//! turns, each a task of its own: after some pages or some time a server gives it back, and takes
//! another: of the namespaces in turn, and of each the pass that is due longest. One namespace has not
//! all places. So a list that is slow or never ends delays no other flow's.

mod compare;
mod page;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use semel_flow::release::Reconcile;
use semel_model::{Fault, ScheduleId, Span};
use semel_store::reconcile_passes::{self as passes, ComparedPage, NewPass, ReconcilePass};
use semel_store::turns::NamespaceTurns;
use semel_store::{ReadError, flows};
use tokio::task::{self, JoinError, JoinSet};

use super::service::{HeldBy, Pace, PassError, Service};
use crate::catalogue::Release;
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use compare::Comparison;

/// For how long a server holds a pass before another may take it, besides the time that its list may
/// take to be read; from page to page.
const LEASE: Span = Span::from_const_secs(60);

/// How often a pass is taken without progress before it is given up, besides the reads that failed.
const TAKES_MAX: i64 = 50;

/// How many passes a server makes at a time.
const TOGETHER: usize = 4;

/// How many of them are of one namespace, which must not take the places of the others.
const TOGETHER_EACH: usize = 3;

/// How many pages of a pass are compared in one turn.
const TURN_PAGES: i32 = 20;

/// After how long a turn begins no other page.
const TURN: Duration = Duration::from_secs(30);

/// How often a page is read before its pass is given up.
const ATTEMPTS_MAX: i32 = 8;

/// How long a pass rests after the first failed read; twice as long after each further one.
const REST: Span = Span::from_const_secs(2);

/// How far back an instant may lie that nothing decided: only the latest of them has a pass.
const INSTANTS_WITHIN: Duration = Duration::from_secs(31 * 86_400);

/// Opens and makes the passes that are due.
pub(super) struct ReconcilePasses {
    runtime: Arc<Runtime>,
    pace: Pace,
    /// The state of the control data that `live` is of.
    version: i64,
    live: HashMap<ScheduleId, LiveReconcile>,
    order: NamespaceTurns,
    turns: JoinSet<Result<(), ReadError>>,
    /// The namespaces of the passes that are made.
    made: HashMap<task::Id, i32>,
    /// What the latest turn that failed met.
    failure: Option<PassError>,
}

/// How a turn ended.
type EndedTurn = Result<(task::Id, Result<(), ReadError>), JoinError>;

/// A live release that reconciles.
struct LiveReconcile {
    release: Arc<Release>,
    /// Every instant up to here is decided.
    decided_to: Timestamp,
}

impl ReconcilePasses {
    pub(super) fn new(runtime: Arc<Runtime>) -> Self {
        Self {
            runtime,
            pace: Pace::from_start(Duration::from_secs(1)),
            version: 0,
            live: HashMap::new(),
            order: NamespaceTurns::default(),
            turns: JoinSet::new(),
            made: HashMap::new(),
            failure: None,
        }
    }

    /// Follows changes of what is live.
    async fn follow(&mut self) -> Result<(), ReadError> {
        if self.runtime.catalogue.version() == self.version {
            return Ok(());
        }
        let (version, releases) = self.runtime.catalogue.all_live();
        let reconciles = |release: &Arc<Release>| release.flow.reconcile.is_some();
        let releases: Vec<Arc<Release>> = releases.into_iter().filter(reconciles).collect();
        let mut since = HashMap::new();
        if !releases.is_empty() {
            let rows = flows::list_live_ids(self.runtime.cell.home()).await?;
            since.extend(rows.into_iter().map(|row| (row.id, row.live_at)));
        }
        let mut live = HashMap::with_capacity(releases.len());
        for release in releases {
            let id = ScheduleId::derive(&release.namespace, &release.flow.name);
            let live_at = since.get(&release.id).copied().flatten();
            let latest = passes::find_latest(self.runtime.cell.of(id), id).await?;
            let decided_to = live_at
                .max(latest)
                .unwrap_or_else(|| self.runtime.clock.now());
            live.insert(
                id,
                LiveReconcile {
                    release,
                    decided_to,
                },
            );
        }
        self.live = live;
        self.version = version;
        Ok(())
    }

    /// Opens a pass for the latest instant of each recurrence that has come.
    async fn open_due(&mut self) -> Result<(), ReadError> {
        let now = self.runtime.clock.now();
        for (id, live) in &mut self.live {
            let Some(new) = due_pass(*id, live, now) else {
                continue;
            };
            passes::open(self.runtime.cell.of(*id), &new, None).await?;
            live.decided_to = new.nominal;
        }
        Ok(())
    }

    /// Takes as many passes as there is room for, of the namespaces in turn, and begins their turns.
    async fn take_due(&mut self) -> Result<(), ReadError> {
        while self.turns.len() < TOGETHER {
            let full = full_namespaces(self.made.values().copied());
            let every = self.runtime.cell.every();
            let Some(pass) = passes::take(every, &mut self.order, &full, LEASE).await? else {
                return Ok(());
            };
            let namespace_id = pass.new.namespace_id;
            let turn = self.turns.spawn(make(self.runtime.clone(), pass));
            self.made.insert(turn.id(), namespace_id);
        }
        Ok(())
    }

    /// Notes how a turn ended.
    fn end(&mut self, ended: EndedTurn) {
        let (id, failure): (_, Option<PassError>) = match ended {
            Ok((id, Ok(()))) => (id, None),
            Ok((id, Err(error))) => (id, Some(error.into())),
            Err(panicked) => (panicked.id(), Some(panicked.into())),
        };
        self.made.remove(&id);
        self.failure = failure.or(self.failure.take());
    }
}

impl Service for ReconcilePasses {
    const NAME: &'static str = "reconcile_passes";
    const HELD_BY: HeldBy = HeldBy::Holders(1);

    fn metrics(&self) -> &Metrics {
        &self.runtime.metrics
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    async fn pass(&mut self) -> Result<Duration, PassError> {
        while let Some(ended) = self.turns.try_join_next_with_id() {
            self.end(ended);
        }
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.follow().await?;
        self.open_due().await?;
        self.take_due().await?;
        Ok(self.pace.interval)
    }

    /// There is room for another turn.
    async fn wake_up(&mut self) {
        match self.turns.join_next_with_id().await {
            Some(ended) => self.end(ended),
            None => std::future::pending().await,
        }
    }

    async fn finish(&mut self) {
        while self.turns.join_next().await.is_some() {}
    }
}

/// The namespaces that have their share of the places.
fn full_namespaces(made: impl Iterator<Item = i32>) -> Vec<i32> {
    let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
    for namespace_id in made {
        *counts.entry(namespace_id).or_default() += 1;
    }
    let full = counts
        .into_iter()
        .filter(|(_, count)| *count >= TOGETHER_EACH);
    full.map(|(namespace_id, _)| namespace_id).collect()
}

/// The pass of the latest instant that has come and is not decided.
fn due_pass(id: ScheduleId, live: &LiveReconcile, now: Timestamp) -> Option<NewPass> {
    let reconcile = live.release.flow.reconcile.as_ref()?;
    let oldest = now.checked_sub(INSTANTS_WITHIN).unwrap_or(Timestamp::MIN);
    let instants = reconcile.recurrence.after(live.decided_to.max(oldest));
    let nominal = instants.take_while(|instant| *instant <= now).last()?;
    Some(new_pass(id, &live.release, nominal, reconcile.window))
}

/// A pass of a release at an instant, which looks so far back.
pub(crate) fn new_pass(
    id: ScheduleId,
    release: &Release,
    nominal: Timestamp,
    window: Span,
) -> NewPass {
    NewPass {
        id,
        nominal,
        namespace_id: release.namespace_id,
        flow: release.flow.name.to_string(),
        release_id: release.id,
        window_start: nominal
            .checked_sub(window.to_duration())
            .unwrap_or(Timestamp::UNIX_EPOCH),
        dry_run: false,
        asked_by: None,
    }
}

/// Makes one turn of a pass: compares page after page until the pass is done, fails, is taken by
/// another server, the turn is over, or this process stops.
async fn make(runtime: Arc<Runtime>, mut pass: ReconcilePass) -> Result<(), ReadError> {
    let release = match find_release(&runtime, &pass).await? {
        Ok(release) => release,
        Err(fault) => return postpone(&runtime, &pass, &fault).await,
    };
    let Some(reconcile) = release.flow.reconcile.as_deref() else {
        let fault = Fault::permanent("no-reconcile", "the release does not reconcile");
        return postpone(&runtime, &pass, &fault).await;
    };
    let lease = reconcile.list.timeout().as_millis() + LEASE.as_millis();
    let lease = Span::from_millis(lease);
    if !passes::hold(runtime.cell.of(pass.new.id), &pass, lease).await? {
        return Ok(());
    }
    let (begun, first) = (Instant::now(), pass.page);
    let is_over = |page: i32| page - first >= TURN_PAGES || begun.elapsed() >= TURN;
    while !is_over(pass.page) && !runtime.shutdown.requested.is_cancelled() {
        let again = pass.epoch > 1 && pass.page == first;
        let compared = compare_page(&runtime, (&release, reconcile), &pass, again);
        let compared = match compared.await {
            Ok(compared) => compared,
            Err(fault) => return postpone(&runtime, &pass, &fault).await,
        };
        let cell = runtime.cell.of(pass.new.id);
        if !passes::record(cell, &pass, &compared, lease).await? || compared.next.is_none() {
            return Ok(());
        }
        pass.advance(&compared);
    }
    passes::give_back(runtime.cell.of(pass.new.id), &pass).await
}

/// Reads the page that a pass stands at, and compares it.
async fn compare_page(
    runtime: &Arc<Runtime>,
    (release, reconcile): (&Arc<Release>, &Reconcile),
    pass: &ReconcilePass,
    again: bool,
) -> Result<ComparedPage, Fault> {
    let listed = page::read(runtime, release, reconcile, pass).await?;
    let comparison = Comparison {
        runtime,
        release,
        reconcile,
        pass,
        again,
    };
    let mut compared = comparison.make(listed.items).await?;
    compared.next = listed.next;
    let key = format!("{}/{}", pass.new.flow, pass.page);
    semel_steps::failpoint::failpoint("reconcile.record", &key).await;
    Ok(compared)
}

/// The release of a pass that makes progress, while it is live: what is no longer live starts no
/// runs.
async fn find_release(
    runtime: &Arc<Runtime>,
    pass: &ReconcilePass,
) -> Result<Result<Arc<Release>, Fault>, ReadError> {
    let reads = i64::from(ATTEMPTS_MAX) * (i64::from(pass.page) + 1);
    if pass.epoch > reads + TAKES_MAX {
        let message = "the pass was taken again and again without progress";
        return Ok(Err(Fault::permanent("pass-stuck", message)));
    }
    runtime.catalogue.refresh().await?;
    let flow = pass.new.flow.parse().ok();
    let live = flow.and_then(|flow| runtime.catalogue.find_flow(pass.new.namespace_id, &flow));
    Ok(match live {
        Some(live) if live.id == pass.new.release_id => Ok(live),
        Some(_) | None => {
            let message = "the release of the pass is no longer live";
            Err(Fault::permanent("release-replaced", message))
        }
    })
}

/// Has a page read again later, or gives the pass up.
async fn postpone(runtime: &Runtime, pass: &ReconcilePass, fault: &Fault) -> Result<(), ReadError> {
    let doublings = pass.attempt.clamp(0, ATTEMPTS_MAX).unsigned_abs();
    let again = fault.retryable && pass.attempt + 1 < ATTEMPTS_MAX;
    let rest = Span::from_millis(REST.as_millis() << doublings);
    let rest = fault.retry_after.map_or(rest, |asked| asked.max(rest));
    let text = semel_model::storable::without_zero(&fault.message).into_owned();
    let text = format!("{}: {text}", fault.code);
    tracing::warn!(
        flow = pass.new.flow,
        code = fault.code,
        again,
        "reconcile failed to compare a page"
    );
    let cell = runtime.cell.of(pass.new.id);
    passes::postpone(cell, pass, &text, again.then_some(rest)).await?;
    Ok(())
}
