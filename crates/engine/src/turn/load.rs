//! Where a turn begins: with a run that was just accepted, or with one that was taken.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::{Key, RunId};
use semel_store::late_responses::StoredResponse;
use semel_store::queue::Taken;
use semel_store::waits::WaitAnswer;
use semel_store::{ReadError, approvals, tasks};

use super::Turn;
use super::account::{MemoryAccount, inherited_bytes};
use super::first_effect::FirstEffectPlan;
use super::parent_state::{self, Unread};
use super::pending_write::PendingWrite;
use super::views::views;
use crate::catalogue::Release;
use crate::external_result::{ExternalResult, ExternalSource, external_source};
use crate::memory;
use crate::runtime::WorkerSession;
use crate::runtime::{Place, Runtime};
use crate::state::FoldedRun;

impl Turn {
    /// A run that this process has just accepted.
    pub(crate) fn begin(
        runtime: Arc<Runtime>,
        release: Arc<Release>,
        session: Arc<WorkerSession>,
        place: Place,
        fresh: LoadedRun,
    ) -> Self {
        let LoadedRun {
            run,
            key,
            partition_date,
            accepted_at,
            begun,
        } = fresh;
        let (state, opening, views) = match begun {
            TurnStart::With(opening) => {
                let FirstEffectPlan { state, act, views } = *opening;
                (state, Some(act), views)
            }
            TurnStart::At(state) => {
                let views = views(&runtime, &release, &state, &key);
                (*state, None, views)
            }
        };
        Self {
            carried: runtime.local.completions.carry(run),
            _holding: runtime.work.holdings.carry(session.id, run),
            runtime,
            release,
            session,
            account: MemoryAccount::begin(&state, 1, 0),
            place,
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
            late_responses: Vec::new(),
            outside: ExternalResult::Nothing,
            cancel: false,
            pending: PendingWrite::default(),
            unrecorded: None,
            sent: None,
            quarantined: false,
            charged: false,
            suspect: None,
            lease_over: false,
            looked: None,
            asked_room: false,
            overtaken: false,
            refused_by_pause: false,
            pauses: Arc::default(),
        }
    }

    /// A run that was taken from the queue: its journal is folded.
    pub(crate) async fn load(
        runtime: Arc<Runtime>,
        taken: Taken,
        session: Arc<WorkerSession>,
        place: Place,
    ) -> Result<Self, Unread> {
        let release = runtime.catalogue.get(taken.release_id).await?;
        let release = release.ok_or_else(|| Unread::Newer("its release".to_owned()))?;
        let release = match semel_model::SeededBug::ReleaseNotPinned.is_seeded() {
            true => runtime
                .catalogue
                .find_flow(release.namespace_id, &release.flow.name)
                .unwrap_or(release),
            false => release,
        };
        // Dropped as soon as it is read: so a run is there once.
        let journal = taken.journal;
        let accepted_at = journal.first().map(|line| line.at);
        let state = parent_state::fold(&runtime, &release.flow, taken.run, &journal).await?;
        drop(journal);
        let fresh = LoadedRun {
            run: taken.run,
            key: taken.key,
            partition_date: taken.partition_date,
            accepted_at: accepted_at
                .ok_or_else(|| Unread::Damaged("it has no journal".to_owned()))?,
            begun: TurnStart::At(Box::new(state)),
        };
        let mut turn = Self::begin(runtime, release, session, place, fresh);
        turn.epoch = taken.epoch;
        turn.charged = taken.charged;
        turn.seq = taken.seq;
        turn.takes = taken.takes;
        turn.cancel = taken.cancel;
        turn.quarantined = taken.quarantined;
        let outside = turn.runtime.look_for_external_result(&turn.state).await;
        turn.outside = turn.spill_answer(outside?).await;
        turn.answers = taken
            .answers
            .into_iter()
            .map(|it| (it.wait, it.read()))
            .collect();
        let besides = inherited_bytes(&turn.state) + turn.load_answers().await?;
        turn.account = MemoryAccount::begin(&turn.state, turn.seq, besides);
        turn.late_responses = taken
            .late_responses
            .into_iter()
            .map(|it| (it.effect, it.read()))
            .collect();
        Ok(turn)
    }
}

/// How much memory a run takes, with the answers that it waited for.
pub(super) fn weigh(taken: &Taken) -> usize {
    let lines = taken.journal.iter().map(|line| line.events.as_str());
    let answers = taken.answers.iter().map(WaitAnswer::text);
    let late = taken.late_responses.iter().map(StoredResponse::text);
    let texts = lines.chain(answers).chain(late);
    texts
        .map(|text| memory::parsed_bytes(text.as_bytes()))
        .sum()
}

/// A run that has just begun, or was folded from its journal.
pub(crate) struct LoadedRun {
    pub(crate) run: RunId,
    pub(crate) key: Key,
    pub(crate) partition_date: Date,
    pub(crate) accepted_at: Timestamp,
    pub(crate) begun: TurnStart,
}

/// Where a turn begins.
pub(crate) enum TurnStart {
    /// With an intent that was accepted together with the run.
    With(Box<FirstEffectPlan>),
    /// Where the journal says.
    At(Box<FoldedRun>),
}

impl Runtime {
    /// Reads what came from outside for a run that was just taken.
    pub(crate) async fn look_for_external_result(
        &self,
        state: &FoldedRun,
    ) -> Result<ExternalResult, ReadError> {
        Ok(match external_source(state) {
            ExternalSource::Nobody => ExternalResult::Nothing,
            ExternalSource::Task(task) => {
                let seen = tasks::look(self.cell.of(task), task).await?;
                seen.map_or(ExternalResult::Nothing, ExternalResult::Task)
            }
            ExternalSource::Approval(wait) => {
                let decision = approvals::look(self.cell.of(wait), wait).await?;
                decision.map_or(ExternalResult::Nothing, ExternalResult::Decision)
            }
        })
    }
}
