//! What a run that is not the first of its key reads of the runs before it.
//!
//! Nothing of this is on the path of a first run.

use std::time::Duration;

use jiff::civil::Date;
use semel_model::event::Event;
use semel_model::{EffectId, PastEffect, PastOutcome, RunId};
use semel_store::child_runs::NewChildRun;
use semel_store::duplicates::{DuplicateVerdict, StoppedRepeat, Subject};
use semel_store::journal::LeaseChange;
use semel_store::runs::Stage;
use semel_store::{journal, kept_generations, late_responses, runs, waits};

use super::kept_generations::kept_of;
use super::parent_state::{self, Unread};
use super::{Turn, TurnError, unsure};
use crate::memory::parsed_bytes;
use crate::runtime::Runtime;
use crate::state::{EarlierRuns, PastLedger};

/// How long a run sleeps whose predecessor still acts.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How many runs of a key are read that ended before they had read what the run before them did.
const UNREAD_RUNS_MAX: usize = 1_000;

impl Turn {
    /// Reads what the runs before this one did, where that is not known yet. It goes into the
    /// journal with the next write, so that their history need not outlast this run. False where
    /// this run sleeps, because the one before it still acts: an operator resumed an item of it.
    pub(super) async fn read_earlier(&mut self) -> Result<bool, TurnError> {
        let is_known = self.inherit().await?;
        if is_known {
            self.hear_late_responses().await?;
        }
        Ok(is_known)
    }

    /// Takes in what was answered late to effects that earlier runs left in doubt: it is kept under the run
    /// that had sent them.
    async fn hear_late_responses(&mut self) -> Result<(), TurnError> {
        let earlier = self.state.earlier.as_ref();
        let Some(effects) = earlier.and_then(|it| it.effects.as_ref()) else {
            return Ok(());
        };
        let doubts = effects
            .values()
            .filter(|past| matches!(past.outcome, PastOutcome::InDoubt { .. }));
        let doubts: Vec<EffectId> = doubts.map(|past| past.effect).collect();
        if doubts.is_empty() {
            return Ok(());
        }
        let late = late_responses::list_of_effects(self.cell(), self.run, &doubts).await;
        let late = late.map_err(unsure)?;
        let bytes = late.iter().map(|it| parsed_bytes(it.text().as_bytes()));
        self.account.add(bytes.sum());
        let late = late.iter().map(|it| (it.effect, it.read()));
        self.late_responses.extend(late);
        Ok(())
    }

    async fn inherit(&mut self) -> Result<bool, TurnError> {
        let Some(earlier) = &self.state.earlier else {
            return Ok(true);
        };
        let (Some(last), None) = (earlier.last, &earlier.effects) else {
            return Ok(true);
        };
        let snapshot = runs::find_snapshot(self.runtime.cell.of(last), last).await;
        let snapshot = snapshot.map_err(unsure)?;
        if snapshot.is_some_and(|it| !it.state.is_ended()) {
            let due_at = Some(self.runtime.clock.now() + LOOK_AGAIN);
            let stage = Stage::Waiting;
            self.commit(LeaseChange::Return { due_at, stage }).await?;
            return Ok(false);
        }
        let inherited = self.ledger_of(last, earlier).await?;
        self.record(inherited)?;
        Ok(true)
    }

    async fn ledger_of(&self, last: RunId, earlier: &EarlierRuns) -> Result<Event, TurnError> {
        let (runtime, intent) = (&self.runtime, earlier.intent);
        let ledger = read_ledger(runtime, self.release.namespace_id, last, intent).await;
        let unread = |error: Unread| TurnError::Unsure(format!("the ledger of {last}: {error}"));
        let keeps = |step: &str| earlier.kept.iter().any(|kept| kept == step);
        match ledger.map_err(unread)? {
            Some(ledger) => Ok(ledger.inherited(intent, keeps)),
            None => {
                let kept = kept_of(runtime, earlier.first, intent).await;
                Ok(without_history(kept.map_err(unsure)?))
            }
        }
    }

    /// Counts an effect that an earlier run had performed as a duplicate, stopped at the ledger.
    pub(super) fn note_reuse(&self, step: &str) {
        let Some(past) = self.state.past(step) else {
            return;
        };
        self.runtime.metrics.effects_reused.add_one();
        self.runtime.writers.duplicates.add(StoppedRepeat {
            subject: Subject::Effect(past.effect),
            namespace_id: self.release.namespace_id,
            run: past.run,
            fingerprint: past.fingerprint,
            kind: DuplicateVerdict::Repeat,
            payload: None,
            arrival: None,
            at: self.runtime.clock.now(),
        });
    }

    /// Takes in what answered the waits of the run. Their identities derive from the first run of
    /// the key, so that they are not among what was loaded with the run. Gives about how many bytes they take.
    pub(super) async fn load_answers(&mut self) -> Result<usize, semel_store::ReadError> {
        if self.state.earlier.is_none() {
            return Ok(0);
        }
        let answers = waits::list_answers(self.cell(), self.run, self.state.first()).await?;
        let bytes = answers.iter().map(|it| parsed_bytes(it.text().as_bytes()));
        let bytes = bytes.sum();
        let answers = answers.into_iter().map(|it| (it.wait, it.read()));
        self.answers = answers.collect();
        Ok(bytes)
    }

    /// Says of child runs which ones stood at their places in earlier runs of the key.
    pub(super) async fn follow(
        &self,
        children: &mut [NewChildRun],
        keys: &[String],
    ) -> Result<(), TurnError> {
        let Some(earlier) = &self.state.earlier else {
            return Ok(());
        };
        let step = self.of().step;
        let places = keys
            .iter()
            .flat_map(|key| earlier.runs.iter().map(|run| run.child(step, key)));
        let places: Vec<RunId> = places.collect();
        let known = runs::list_known(self.cell(), &places)
            .await
            .map_err(unsure)?;
        let firsts: Vec<RunId> = keys
            .iter()
            .map(|key| earlier.first.child(step, key))
            .collect();
        let kept = kept_generations::list_known(self.cell(), &firsts)
            .await
            .map_err(unsure)?;
        for ((child, key), first) in children.iter_mut().zip(keys).zip(firsts) {
            let mut at_place = earlier.runs.iter().map(|run| run.child(step, key));
            let last = at_place.find(|run| known.contains(run));
            // Gone, but something of it is kept, which the child run reads as it would read the ledger.
            let last = last.or_else(|| kept.contains(&first).then_some(first));
            child.follows = Some((first, last));
        }
        Ok(())
    }
}

/// What a run and those before it did, from their journals; nothing where those are gone. A run that
/// ended before it had read what the one before it did leaves that to the next. `intent` is that of whoever
/// reads.
pub(crate) async fn read_ledger(
    runtime: &Runtime,
    namespace_id: i32,
    run: RunId,
    intent: u32,
) -> Result<Option<PastLedger>, Unread> {
    let mut read = Vec::new();
    let mut next = Some(run);
    while let Some(run) = next {
        if read.len() == UNREAD_RUNS_MAX {
            let reason = format!("{UNREAD_RUNS_MAX} runs of the key ended before their first step");
            return Err(Unread::Unavailable(reason));
        }
        let Some(mut ledger) = read_journal(runtime, namespace_id, run).await? else {
            break;
        };
        if intent > 0
            && let Some(parent) = ledger.parent()
        {
            ledger.set_intent(intent_of(runtime, parent).await?);
        }
        next = ledger.unread();
        read.push(ledger);
    }
    if let Some(oldest) = read.last_mut()
        && let Some((first, intent)) = oldest.unread_since(intent)
    {
        oldest.remember(kept_of(runtime, first, intent).await?);
    }
    let mut read = read.into_iter().rev();
    let first = read.next();
    Ok(first.map(|first| {
        read.fold(first, |before, mut ledger| {
            ledger.follow(before);
            ledger
        })
    }))
}

async fn read_journal(
    runtime: &Runtime,
    namespace_id: i32,
    run: RunId,
) -> Result<Option<PastLedger>, Unread> {
    let found = runs::find_release(runtime.cell.of(run), namespace_id, run).await?;
    let Some((_, partition_date)) = found else {
        return Ok(None);
    };
    let rows = journal::read(runtime.cell.of(run), partition_date, run).await?;
    if rows.is_empty() {
        return Ok(None);
    }
    let mut ledger = PastLedger::new(run);
    for row in &rows {
        for event in parent_state::read(row)? {
            ledger.read(event, row.at);
        }
    }
    Ok(Some(ledger))
}

/// Under which intent of its key a run ran, by the first rows of its journal and of those that it is a child
/// run of.
async fn intent_of(runtime: &Runtime, of: (RunId, Date)) -> Result<u32, Unread> {
    let mut next = Some(of);
    while let Some((run, partition_date)) = next.take() {
        let first = journal::read_first(runtime.cell.of(run), partition_date, run).await?;
        let Some(first) = first else {
            break;
        };
        for event in parent_state::read(&first)? {
            if let Event::Follows(followed) = &event {
                return Ok(followed.intent);
            }
            if let Event::Begun(begun) = event {
                next = Some((begun.parent, begun.partition_date));
            }
        }
    }
    Ok(0)
}

/// The history of earlier runs is gone, but for what is kept of some of their effects.
fn without_history(kept: Vec<PastEffect>) -> Event {
    Event::Inherited {
        runs: Vec::new(),
        effects: kept,
        results: Vec::new(),
    }
}
