//! The run that is replayed: what it came to, and whether it may be replayed at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use semel_model::effect::LedgerEntry;
use semel_model::event::Event;
use semel_model::request::StepRequest;
use semel_model::run::RunState;
use semel_model::{EffectId, PastEffect, RunId};
use semel_store::claims::HeldKey;
use semel_store::journal::{self, JournalRow};
use semel_store::runs::{self, RunView};

use super::ReplayError;
use crate::catalogue::Release;
use crate::runtime::Runtime;
use crate::state::{Current, FoldedRun, PastLedger};
use crate::turn::earlier::read_ledger;
use crate::turn::kept_generations::kept_of;
use crate::turn::parent_state::{self, Unread};

/// How many earlier runs of a key are read for what they sent.
const EARLIER_RUNS_MAX: usize = 16;

/// What the last run of a key came to.
pub(super) struct LastRun {
    pub(super) view: RunView,
    pub(super) release: Arc<Release>,
    pub(super) accepted: Event,
    /// The latest row of its journal.
    pub(super) seq: i32,
    /// What the next run inherits.
    pub(super) ledger: Event,
    /// What was sent, by effect.
    pub(super) requests: BTreeMap<EffectId, StepRequest>,
}

impl Runtime {
    pub(super) async fn read_last(
        self: &Arc<Self>,
        namespace_id: i32,
        run: RunId,
        held: &HeldKey,
    ) -> Result<LastRun, ReplayError> {
        let view = runs::find(self.cell.of(run), namespace_id, run).await?;
        let view = view.ok_or(ReplayError::Unknown)?;
        must_fit(&view, held)?;
        let release = runs::find_release(self.cell.of(run), namespace_id, run).await?;
        let (release, _) = release.ok_or(ReplayError::Unknown)?;
        let release = self.catalogue.get(release).await?;
        let release = release.ok_or_else(|| unfit(&view, "its release cannot be read"))?;
        let rows = journal::read(self.cell.of(run), view.partition_date, run).await?;
        if !view.state.is_ended() {
            let state = parent_state::fold(self, &release.flow, run, &rows).await;
            let state = state.map_err(|error| unread(&view, error))?;
            must_be_settled(&view, &state)?;
        }
        let mut requests = BTreeMap::new();
        let mut ledger = PastLedger::new(run);
        let mut first = None;
        for row in &rows {
            for event in read(&view, row)? {
                note_request(&mut requests, &event);
                match first {
                    None => first = Some(event),
                    Some(_) => ledger.read(event, row.at),
                }
            }
        }
        let gone = "its history has been deleted, so Semel cannot know what it did";
        let accepted = first.ok_or_else(|| unfit(&view, gone))?;
        if let Some(before) = ledger.unread() {
            let before = read_ledger(self, namespace_id, before, held.intent).await;
            match before.map_err(|error| unread(&view, error))? {
                Some(before) => ledger.follow(before),
                None => {
                    let first = RunId::derive(held.claim, 0);
                    ledger.remember(kept_of(self, first, held.intent).await?);
                }
            }
        }
        let ledger = ledger.inherited(held.intent, |_| true);
        self.read_requests((namespace_id, &view), &ledger, &mut requests)
            .await?;
        Ok(LastRun {
            view,
            release,
            accepted,
            seq: rows.last().map_or(0, |row| row.seq),
            ledger,
            requests,
        })
    }

    /// Reads what runs before the last one sent, where the last one reused it.
    async fn read_requests(
        self: &Arc<Self>,
        (namespace_id, view): (i32, &RunView),
        ledger: &Event,
        requests: &mut BTreeMap<EffectId, StepRequest>,
    ) -> Result<(), ReplayError> {
        let mut earlier: Vec<RunId> = effects(ledger)
            .filter(|past| past.is_done() && !requests.contains_key(&past.effect))
            .map(|past| past.run)
            .collect();
        earlier.sort_unstable();
        earlier.dedup();
        for run in earlier.into_iter().take(EARLIER_RUNS_MAX) {
            let found = runs::find_release(self.cell.of(run), namespace_id, run).await?;
            let Some((_, partition_date)) = found else {
                continue;
            };
            for row in journal::read(self.cell.of(run), partition_date, run).await? {
                for event in read(view, &row)? {
                    note_request(requests, &event);
                }
            }
        }
        Ok(())
    }
}

/// Whether the run is the last of its key, and ended or is stopped without a doubt.
fn must_fit(view: &RunView, held: &HeldKey) -> Result<(), ReplayError> {
    if let Some(parent) = view.parent {
        return Err(unfit(view, &format!("replay its parent run, {parent}")));
    }
    if view.closed_at.is_some() {
        let hint = "what it was given has been erased, or is being: start another under a new key";
        return Err(unfit(view, hint));
    }
    if held.run != view.id {
        let hint = format!("{} has its key now: replay that one", held.run);
        return Err(unfit(view, &hint));
    }
    if held.is_dropped {
        let hint = "its key was dropped: the next delivery of the key makes its next run";
        return Err(unfit(view, hint));
    }
    match view.state {
        RunState::InDoubt => Err(unfit(view, "settle the doubt first, semel doubt list")),
        RunState::Active => Err(unfit(
            view,
            "it continues by itself; to replay it, cancel it first, semel run cancel",
        )),
        RunState::NeedsReview
        | RunState::Quarantined
        | RunState::Succeeded
        | RunState::Failed
        | RunState::Cancelled
        | RunState::Superseded => Ok(()),
    }
}

/// Whether what the run began is settled, so that it may end.
fn must_be_settled(view: &RunView, state: &FoldedRun) -> Result<(), ReplayError> {
    match &state.current {
        Current::Fresh | Current::Reading(_) | Current::Broken(_) => Ok(()),
        Current::Effect(pending) => match &pending.entry {
            LedgerEntry::Retrying(effect) if effect.doubted() || pending.given_up.is_some() => {
                Err(unfit(
                    view,
                    "an earlier attempt may have happened: resume it first, semel run resume",
                ))
            }
            LedgerEntry::Failed(_) | LedgerEntry::Retrying(_) | LedgerEntry::Done(_) => Ok(()),
            LedgerEntry::Pending(_) | LedgerEntry::InDoubt(_) => Err(unfit(
                view,
                "whether its last effect happened is unknown: resume it and settle that first, \
                 semel run resume",
            )),
        },
        Current::Waiting { .. } | Current::Fan(_) | Current::Approving(_) => Err(unfit(
            view,
            "it waits for something: cancel it first, semel run cancel",
        )),
    }
}

fn note_request(requests: &mut BTreeMap<EffectId, StepRequest>, event: &Event) {
    if let Event::Intended {
        effect,
        request: Some(request),
        ..
    } = event
    {
        requests.insert(*effect, (**request).clone());
    }
}

fn read(view: &RunView, row: &JournalRow) -> Result<Vec<Event>, ReplayError> {
    let damaged = |error| unread(view, Unread::Damaged(format!("row {}: {error}", row.seq)));
    row.read().map_err(damaged)
}

/// The run cannot be replayed.
pub(super) fn unfit(view: &RunView, hint: &str) -> ReplayError {
    ReplayError::Unfit {
        state: view.state,
        hint: hint.to_owned(),
    }
}

/// What cannot be read stays so: only a database that gave no answer is worth another try.
fn unread(view: &RunView, error: Unread) -> ReplayError {
    match error {
        Unread::Inconsistent(error) => ReplayError::Inconsistent(error),
        Unread::Unavailable(reason) => ReplayError::Unavailable(reason),
        Unread::Newer(_) | Unread::Damaged(_) => {
            unfit(view, &format!("its journal cannot be read: {error}"))
        }
    }
}

/// The effects that a run inherits.
pub(super) fn effects(ledger: &Event) -> impl Iterator<Item = &PastEffect> {
    let effects = if let Event::Inherited { effects, .. } = ledger {
        effects.as_slice()
    } else {
        &[]
    };
    effects.iter()
}
