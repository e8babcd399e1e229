//! Where a turn begins: with a run that was just accepted, or with one that was taken.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::{Key, RunId};
use semel_store::journal::Line;
use semel_store::queue::Taken;
use tokio::sync::OwnedSemaphorePermit;

use super::Turn;
use super::opening::Opening;
use super::pending_write::PendingWrite;
use super::views::views;
use crate::catalogue::Release;
use crate::engine::Inner;
use crate::fold::RunState;
use crate::lease::Tenure;
use crate::lineage::{self, Unread};
use crate::memory::{self, Portion};
use crate::outside::Outside;

impl Turn {
    /// A run that this process has just accepted.
    pub(crate) fn begin(
        inner: Arc<Inner>,
        release: Arc<Release>,
        tenure: Arc<Tenure>,
        permit: OwnedSemaphorePermit,
        fresh: Fresh,
    ) -> Self {
        let Fresh {
            run,
            key,
            partition_date,
            accepted_at,
            begun,
            portion,
        } = fresh;
        let (state, opening, views) = match begun {
            Begun::With(opening) => {
                let Opening { state, call, views } = *opening;
                (state, Some(call), views)
            }
            Begun::At(state) => {
                let views = views(&inner, &release, &state, &key);
                (*state, None, views)
            }
        };
        Self {
            carried: inner.ends.carry(run),
            _holding: inner.holdings.carry(tenure.session, run),
            inner,
            release,
            tenure,
            _permit: permit,
            _portion: portion,
            run,
            key,
            partition_date,
            accepted_at,
            gates: None,
            epoch: 1,
            seq: 1,
            takes: 1,
            state,
            views,
            opening,
            answers: Vec::new(),
            evidence: Vec::new(),
            outside: Outside::Nothing,
            cancel: false,
            pending: PendingWrite::default(),
            unrecorded: None,
            sent: None,
            quarantined: false,
            charged: false,
            suspect: None,
            settled: false,
            overtaken: false,
        }
    }

    /// A run that was taken from the queue: its journal is folded.
    pub(crate) async fn load(
        inner: Arc<Inner>,
        taken: Taken,
        tenure: Arc<Tenure>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, Unread> {
        let release = inner.catalogue.get(taken.release_id).await?;
        let release = release.ok_or_else(|| Unread::Newer("its release".to_owned()))?;
        let release = match semel_model::SeededBug::ReleaseNotPinned.is_seeded() {
            true => inner
                .catalogue
                .find_flow(release.namespace_id, &release.flow.name)
                .unwrap_or(release),
            false => release,
        };
        let accepted_at = taken.journal.first().map(|line| line.at);
        // Not without an end: what gives memory back may wait for this very run.
        let weight = weigh(&taken.journal);
        let budget = &inner.options.memory;
        let portion = budget.take_within(weight, PORTION_PATIENCE).await;
        let state = lineage::fold(&inner, &release.flow, taken.run, &taken.journal).await?;
        let fresh = Fresh {
            run: taken.run,
            key: taken.key,
            partition_date: taken.partition_date,
            accepted_at: accepted_at
                .ok_or_else(|| Unread::Damaged("it has no journal".to_owned()))?,
            begun: Begun::At(Box::new(state)),
            portion,
        };
        let mut turn = Self::begin(inner, release, tenure, permit, fresh);
        turn.epoch = taken.epoch;
        turn.charged = taken.charged;
        turn.seq = taken.seq;
        turn.takes = taken.takes;
        turn.cancel = taken.cancel;
        turn.quarantined = taken.quarantined;
        let outside = turn.inner.look_outside(&turn.state).await;
        turn.outside = outside?;
        turn.answers = taken
            .answers
            .into_iter()
            .map(|it| (it.wait, it.payload))
            .collect();
        turn.evidence = taken
            .evidence
            .into_iter()
            .map(|it| (it.effect, it.response))
            .collect();
        Ok(turn)
    }
}

/// How long a run that was taken waits for memory before it goes on without.
const PORTION_PATIENCE: Duration = Duration::from_secs(5);

/// How much memory a run takes whose journal this is.
fn weigh(journal: &[Line]) -> usize {
    let lines = journal.iter();
    lines
        .map(|line| memory::parsed_bytes(line.events.as_bytes()))
        .sum()
}

/// A run that has just begun, or was folded from its journal.
pub(crate) struct Fresh {
    pub(crate) run: RunId,
    pub(crate) key: Key,
    pub(crate) partition_date: Date,
    pub(crate) accepted_at: Timestamp,
    pub(crate) begun: Begun,
    /// The memory that it takes.
    pub(crate) portion: Option<Portion>,
}

/// Where a turn begins.
pub(crate) enum Begun {
    /// With an intent that was accepted together with the run.
    With(Box<Opening>),
    /// Where the journal says.
    At(Box<RunState>),
}
