//! What a replay is decided by: the last run's journal, the release of the next run, and the
//! preview made of both. Reads, and changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use semel_model::event::Event;
use semel_model::replay::{Forecast, ReplayPreview};
use semel_model::run::RunState;
use semel_model::{EffectName, FlowName, Key, NamedEffectId, RunId};
use semel_store::claims::HeldKey;
use semel_store::key_story::{self, StoryOf};
use semel_store::{child_runs, flows, named_effects};
use serde_json::Value;

use super::last_run::{LastRun, unfit};
use super::report::seal;
use super::{ReplayError, ReplayWish, follows};
use crate::catalogue::Release;
use crate::decide::{
    DecideContext, NameLookup, NameRequest, PreviewContext, ReplayForecast, preview,
};
use crate::event;
use crate::external_result::ExternalResult;
use crate::ingest::key_of;
use crate::pauses::RunPauses;
use crate::runtime::Runtime;
use crate::state::FoldedRun;
use crate::turn::views;

/// A replay that can be carried out, unless its preview names an obstacle.
pub(super) struct Prepared {
    pub(super) preview: ReplayPreview,
    pub(super) release: Arc<Release>,
    pub(super) key: Key,
    /// The state of the last run, and the latest row of its journal.
    pub(super) state: RunState,
    pub(super) seq: i32,
    /// The first events of the next run.
    pub(super) accepted: Event,
    pub(super) follows: Event,
}

/// What is recorded about steps outside of the journal of their run, by step.
struct StepRecords {
    /// How many items are done, and how many are not.
    items: BTreeMap<String, (u64, Option<u64>)>,
    /// What is there under business keys.
    names: BTreeMap<String, NameLookup>,
}

impl Runtime {
    pub(super) async fn prepare_replay(
        self: &Arc<Self>,
        namespace_id: i32,
        run: RunId,
        held: &HeldKey,
        wish: &ReplayWish,
    ) -> Result<Prepared, ReplayError> {
        let mut last = self.read_last(namespace_id, run, held).await?;
        let release = self.release_of(&last, wish).await?;
        if let Some(input) = &wish.input {
            replace_input(&release, &mut last, (input, &wish.by))?;
        }
        if let Some(from) = &wish.from
            && release.flow.find_step(from).is_none()
        {
            let hint = format!("r{} has no step `{from}`", release.number);
            return Err(unfit(&last.view, &hint));
        }
        self.know_connections(&release).await;
        let mut items = self.items_of(run).await?;
        let inside = match items.is_empty() {
            true => Vec::new(),
            false => self.told_inside(namespace_id, run).await?,
        };
        if release.id != last.release.id || wish.input.is_some() {
            // Another list, other keys or other steps: what is left is not known before the run.
            items.values_mut().for_each(|(_, left)| *left = None);
        }
        let forecast = self
            .forecast_with_names(&last, &release, held, wish, items)
            .await?;
        let accepts = accepted(&release, &forecast, wish);
        let follows = follows(held, run, accepts, forecast.kept.clone());
        Ok(Prepared {
            preview: seal(&last, &release, forecast, inside),
            release,
            key: last.view.key,
            state: last.view.state,
            seq: last.seq,
            accepted: last.accepted,
            follows,
        })
    }

    async fn release_of(
        self: &Arc<Self>,
        last: &LastRun,
        wish: &ReplayWish,
    ) -> Result<Arc<Release>, ReplayError> {
        let (namespace_id, flow) = (last.release.namespace_id, &last.release.flow.name);
        let Some(number) = wish.release else {
            return self.live_release(namespace_id, flow).await;
        };
        let name = flow.as_str();
        let id = flows::find_numbered(self.cell.home(), namespace_id, name, number).await?;
        let id = id.ok_or_else(|| ReplayError::NoRelease(format!("r{number}")))?;
        let release = self.catalogue.get(id).await?;
        release.ok_or_else(|| unfit(&last.view, "the release cannot be read"))
    }

    async fn live_release(
        self: &Arc<Self>,
        namespace_id: i32,
        flow: &FlowName,
    ) -> Result<Arc<Release>, ReplayError> {
        let found = self.find_flow(namespace_id, flow).await;
        let found = found.map_err(|error| ReplayError::Unavailable(error.to_string()))?;
        found.ok_or_else(|| ReplayError::NoRelease("that is live".to_owned()))
    }

    /// How many items of each list of a run are done, and how many are not.
    async fn items_of(
        self: &Arc<Self>,
        run: RunId,
    ) -> Result<BTreeMap<String, (u64, Option<u64>)>, ReplayError> {
        let steps = child_runs::steps(self.cell.of(run), run).await?;
        let counts = steps.into_iter().map(|(step, counts)| {
            let (done, all) = (counts.succeeded, counts.all());
            (
                step,
                (done.unsigned_abs(), Some((all - done).unsigned_abs())),
            )
        });
        Ok(counts.collect())
    }

    /// What was done under the key in items and branches: the walk does not go into them.
    async fn told_inside(
        self: &Arc<Self>,
        namespace_id: i32,
        run: RunId,
    ) -> Result<Vec<String>, ReplayError> {
        let of = [StoryOf::Key(run)];
        let story = key_story::read(self.cell.every(), namespace_id, &of).await?;
        let steps = story.steps.iter().filter(|step| step.is_child);
        let more = match story.is_whole {
            true => "",
            false => "at least ",
        };
        let told = steps.map(|step| {
            let (name, counts) = (&step.step, step.counts);
            let done = counts.done + counts.met + counts.found;
            let unknown = counts.in_doubt + counts.undo_in_doubt + counts.under_way;
            let left = counts.not_done + counts.undone;
            format!(
                "`{name}` of items or branches: {more}{done} done, which is not done again for the same item; \
                 {more}{left} not done or undone; {more}{unknown} in doubt."
            )
        });
        Ok(told.collect())
    }

    /// Walks the flow, and again with what is there under the business keys that it met.
    async fn forecast_with_names(
        self: &Arc<Self>,
        last: &LastRun,
        release: &Release,
        held: &HeldKey,
        wish: &ReplayWish,
        items: BTreeMap<String, (u64, Option<u64>)>,
    ) -> Result<ReplayForecast, ReplayError> {
        let names = BTreeMap::new();
        let mut records = StepRecords { items, names };
        loop {
            let forecast = self.forecast(last, release, held, wish, &records)?;
            if forecast.asked.is_empty() {
                return Ok(forecast);
            }
            for asked in &forecast.asked {
                let lookup = self.look_up_name(release, asked).await?;
                records.names.insert(asked.step.clone(), lookup);
            }
        }
    }

    async fn look_up_name(
        self: &Arc<Self>,
        release: &Release,
        asked: &NameRequest,
    ) -> Result<NameLookup, ReplayError> {
        let name = EffectName::new(asked.scope.clone(), asked.key.as_bytes());
        let name = name.map_err(|error| ReplayError::Input(format!("`key`: {error}")))?;
        let id = NamedEffectId::derive(&release.namespace, &name);
        let found = named_effects::find(self.cell.of(id), release.namespace_id, id).await?;
        Ok(NameLookup { id, found })
    }

    fn forecast(
        self: &Arc<Self>,
        last: &LastRun,
        release: &Release,
        held: &HeldKey,
        wish: &ReplayWish,
        records: &StepRecords,
    ) -> Result<ReplayForecast, ReplayError> {
        let now = self.clock.now();
        let mut state = FoldedRun::new(RunId::derive(held.claim, held.number + 1));
        let follows = follows(held, last.view.id, Vec::new(), Vec::new());
        for event in [&last.accepted, &follows, &last.ledger] {
            let applied = event::apply(&mut state, event, &release.flow, now);
            applied.map_err(|misfit| ReplayError::Inconsistent(misfit.at(1)))?;
        }
        let views = views(self, release, &state, &last.view.key);
        let destinations = self.destinations(release);
        let context = DecideContext {
            flow: &release.flow,
            destinations: &destinations,
            run: &views.run,
            waits: &views.waits,
            landing: self.landing(),
            now,
            jitter: 0.0,
            cancel: false,
            answers: &[],
            late_responses: &[],
            outside: &ExternalResult::Nothing,
            looked: None,
            pauses: RunPauses::default(),
        };
        let about = PreviewContext {
            from: wish.from.as_deref(),
            accepts: &wish.accepts,
            requests: &last.requests,
            items: &records.items,
            names: &records.names,
        };
        Ok(preview(state, &context, about))
    }
}

/// Gives the next run another input, which must have the same key.
fn replace_input(
    release: &Release,
    last: &mut LastRun,
    (replacement, giver): (&Value, &Option<String>),
) -> Result<(), ReplayError> {
    let key = key_of(release, &last.accepted, replacement).map_err(ReplayError::Input)?;
    if let Some(key) = key.filter(|key| *key != last.view.key) {
        let (new, old) = (key.text(), last.view.key.text());
        let message = format!("the input has the key `{new}`, and the run has `{old}`");
        return Err(ReplayError::Input(message));
    }
    let schema = release.flow.input_schema.as_ref();
    if let Some(problem) = schema.and_then(|schema| schema.misfit(replacement)) {
        return Err(ReplayError::Input(problem));
    }
    if let Event::Accepted { input, by, .. } = &mut last.accepted {
        *input = replacement.clone();
        // Where the starter may not approve, the person who wrote the input may not either.
        if giver.is_some() {
            by.clone_from(giver);
        }
    }
    Ok(())
}

/// The steps whose changed requests the operator accepts: those that the forecast shows, and those of
/// items and branches, which it does not.
fn accepted(release: &Release, forecast: &ReplayForecast, wish: &ReplayWish) -> Vec<String> {
    let shown = |step: &String| {
        let mut steps = forecast.steps.iter();
        steps.find(|it| it.step == *step)
    };
    let is_accepted = |step: &&String| match shown(step) {
        Some(it) => matches!(it.forecast, Forecast::Changed { accepted: true, .. }),
        None => release.flow.find_step(step).is_some(),
    };
    wish.accepts.iter().filter(is_accepted).cloned().collect()
}
