//! What was done under a key, read for every page, command and message that tells it. Nobody else counts.

use std::sync::LazyLock;
use std::time::Duration;

use semel_api::types::{KeyStory, NameStory, RunDetail, StepStory, StoryCounts};
use semel_model::RunId;
use semel_store::effects::EffectView;
use semel_store::key_story::{self, LedgerCounts, LedgerStep, LedgerStory, StoryOf};
use semel_store::named_effects::{HolderView, NamedEffectView};
use semel_store::runs::RunView;

use crate::app::App;
use crate::error::chain;
use crate::places::FairPlaces;

/// How many stories are read at once, of all namespaces and of one: a key of many items takes a connection that others
/// wait for.
static STORIES: LazyLock<FairPlaces<i32>> = LazyLock::new(|| FairPlaces::new(3, 2));

/// How long a story waits for its place.
const PATIENCE: Duration = Duration::from_secs(2);

/// Of how many effects that are looked up by an identifier the steps are told.
const EFFECTS_MAX: usize = 20;

/// What is told for everything that a search found: the keys of the runs, the items, and the steps of effects
/// that are named by an identifier.
pub(crate) fn of_found(own: &[RunView], items: &[RunView], effects: &[EffectView]) -> Vec<StoryOf> {
    let mut of: Vec<StoryOf> = Vec::new();
    for run in own {
        let range = run.id.key_range();
        let is_new = !of.iter().any(|it| match it {
            StoryOf::Key(known) => known.key_range() == range,
            StoryOf::Child(_) | StoryOf::Step(..) => false,
        });
        if is_new {
            of.push(StoryOf::Key(run.id));
        }
    }
    of.extend(items.iter().map(|item| StoryOf::Child(item.id)));
    let steps = effects.iter().take(EFFECTS_MAX);
    of.extend(steps.map(|effect| StoryOf::Step(effect.run, effect.step.clone())));
    of
}

/// What was done under the key of a run; of a child run, at its place.
pub(crate) async fn of_run(app: &App, namespace_id: i32, detail: &RunDetail) -> KeyStory {
    let run: RunId = detail.run.id;
    let of = match detail.run.parent {
        None => StoryOf::Key(run),
        Some(_) => StoryOf::Child(run),
    };
    read(app, namespace_id, &[of], &[]).await
}

/// Reads a story. One that the database does not tell in time is told as not whole, beside everything else that is
/// known.
pub(crate) async fn read(
    app: &App,
    namespace_id: i32,
    of: &[StoryOf],
    names: &[NamedEffectView],
) -> KeyStory {
    let told = match of.is_empty() {
        // Named effects alone are told whole.
        true => LedgerStory {
            steps: Vec::new(),
            is_whole: !names.is_empty(),
        },
        false => read_ledger(app, namespace_id, of).await,
    };
    KeyStory {
        steps: told.steps.into_iter().map(step).collect(),
        names: names.iter().map(name).collect(),
        is_whole: told.is_whole,
    }
}

async fn read_ledger(app: &App, namespace_id: i32, of: &[StoryOf]) -> LedgerStory {
    let Some(_place) = STORIES.wait(namespace_id, PATIENCE).await else {
        return LedgerStory::unread();
    };
    let told = key_story::read(app.cell().every(), namespace_id, of).await;
    told.unwrap_or_else(|error| {
        tracing::warn!(
            error = chain(&error),
            "what was done under a key was not read"
        );
        LedgerStory::unread()
    })
}

fn step(told: LedgerStep) -> StepStory {
    StepStory {
        step: told.step,
        kind: told.kind,
        in_children: told.is_child,
        counts: counts(told.counts),
        external_ids: told.external_ids,
        runs: told.runs,
        met_by: told.notes.iter().filter_map(|note| holder(note)).collect(),
        first_at: told.first_at,
        last_at: told.last_at,
    }
}

fn counts(told: LedgerCounts) -> StoryCounts {
    let LedgerCounts {
        done,
        undone,
        undo_in_doubt,
        undo_under_way,
        undo_not_done,
        met,
        found,
        in_doubt,
        under_way,
        not_done,
        places,
    } = told;
    StoryCounts {
        done,
        undone,
        undo_in_doubt,
        undo_under_way,
        undo_not_done,
        met,
        found,
        in_doubt,
        under_way,
        not_done,
        places,
    }
}

/// The holder that a note of the ledger names: `already done by HOLDER (EFFECT) under its business key; …`.
fn holder(note: &str) -> Option<String> {
    let rest = note.strip_prefix("already done by ")?;
    let (holder, _) = rest.split_once(" (eff_")?;
    Some(holder.to_owned())
}

fn name(view: &NamedEffectView) -> NameStory {
    let (run, holder_name) = match &view.holder {
        HolderView::Run { run, .. } => (Some(*run), None),
        HolderView::Script { name, .. } => (None, Some(name.clone())),
    };
    NameStory {
        scope: view.name.scope().to_string(),
        state: view.state,
        run,
        holder_name,
        external_id: view.external_id.clone(),
        reuse_count: view.reuse_count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_the_ledger_names_the_holder_that_had_made_an_effect() {
        let by_run = "already done by run_1 (eff_2) under its business key; nothing was sent";
        let by_script = "already done by semel once on host (4) (eff_2) under its business key";

        assert_eq!(holder(by_run).as_deref(), Some("run_1"));
        assert_eq!(holder(by_script).as_deref(), Some("semel once on host (4)"));
        assert_eq!(holder("found before anything was sent"), None);
    }
}
