//! What an effect sends, for people to read: from the request that was recorded with its intent.

use std::collections::{BTreeMap, BTreeSet};

use semel_api::types::{Effect, Sent, Source};
use semel_model::event::NameEvent;
use semel_model::request::{RequestSummary, StepRequest};
use semel_model::{EffectId, Event, RunId};
use semel_store::effects::EffectView;
use semel_store::runs::RunView;
use semel_store::{journal, runs};

use super::sources::source;
use super::view;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::links::without_links;

/// The most characters of a body that are shown.
const BODY_CHARS_MAX: usize = 4_000;

/// The most runs of one answer whose effects are shown with what they send: a journal is read for
/// each.
const RUNS_MAX: usize = 10;

/// After how many bytes of journals no further journal is read for one answer.
const JOURNAL_BYTES_ENOUGH: usize = 4 << 20;

/// Effects with the flow and the key that they come from, and with what they send: all of the first
/// run's, and those of others as far as that costs little.
pub(super) async fn detailed(
    app: &App,
    caller: &Caller,
    found: &[EffectView],
) -> Result<Vec<Effect>, ApiError> {
    let ids: Vec<RunId> = found.iter().map(|effect| effect.run).collect();
    let known = runs::find_many(app.cell().every(), caller.namespace_id, &ids).await?;
    let known: BTreeMap<RunId, &RunView> = known.iter().map(|run| (run.id, run)).collect();
    let sources = |run: &RunId| -> Option<Source> { known.get(run).map(|run| source(run)) };
    let mut looked = look(app, found).await?;
    let items = found.iter().map(|effect| Effect {
        source: sources(&effect.run),
        sent: match looked.runs.contains(&effect.run) {
            true => looked.sent.remove(&effect.id),
            false => Some(elsewhere(effect.id)),
        },
        ..view(effect)
    });
    Ok(items.collect())
}

/// What was found in journals.
#[derive(Default)]
struct Looked {
    /// The runs whose journals were read.
    runs: BTreeSet<RunId>,
    /// What the wanted effects of those runs send.
    sent: BTreeMap<EffectId, Sent>,
}

/// Reads one journal after the other, so that no more than one is held.
async fn look(app: &App, wanted: &[EffectView]) -> Result<Looked, ApiError> {
    let ids: BTreeSet<EffectId> = wanted.iter().map(|effect| effect.id).collect();
    let mut looked = Looked::default();
    let mut bytes = 0;
    for effect in wanted {
        if looked.runs.len() >= RUNS_MAX || bytes >= JOURNAL_BYTES_ENOUGH {
            break;
        }
        if looked.runs.insert(effect.run) {
            let lines =
                journal::read(app.cell().of(effect.run), effect.partition_date, effect.run).await?;
            bytes += lines.iter().map(|line| line.events.len()).sum::<usize>();
            looked.add(&ids, &lines);
        }
    }
    Ok(looked)
}

impl Looked {
    /// Adds the requests that were recorded with the first intents of wanted effects.
    fn add(&mut self, wanted: &BTreeSet<EffectId>, lines: &[journal::JournalRow]) {
        let mut keys = BTreeMap::new();
        for event in lines.iter().filter_map(|line| line.read().ok()).flatten() {
            if let Event::Named {
                step,
                named: NameEvent::Held { effect, .. },
            } = event
            {
                keys.insert(step, effect);
            } else if let Event::Intended {
                step,
                effect,
                request: Some(request),
                ..
            } = event
                && wanted.contains(&effect)
            {
                let key = keys.get(&step).copied();
                let sent = || Sent {
                    key,
                    ..sent(&request)
                };
                self.sent.entry(effect).or_insert_with(sent);
            }
        }
    }
}

/// What is shown instead of a request that was not looked for.
fn elsewhere(effect: EffectId) -> Sent {
    Sent {
        connection: None,
        key: None,
        what: format!("see `semel effect show {effect}`"),
        body: None,
        cut: true,
    }
}

fn sent(request: &StepRequest) -> Sent {
    let RequestSummary { what, body } = request.summary();
    // Before the cut, which may leave most of a link.
    let body = body.map(without_links);
    let cut = |body: &String| body.chars().nth(BODY_CHARS_MAX).is_some();
    Sent {
        connection: request.connection().map(str::to_owned),
        key: None,
        what,
        cut: body.as_ref().is_some_and(cut),
        body: body.map(|body| body.chars().take(BODY_CHARS_MAX).collect()),
    }
}

#[cfg(test)]
mod tests {
    use semel_model::request::{Emission, LocalChange};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_link_that_the_cut_goes_through_is_not_shown() {
        let link = format!("http%3A%2F%2Fx%2Fapprovals%2F{}", "aZ0_-".repeat(18));
        // The body is this text in quotes, and the cut leaves 80 characters of the token.
        let room = BODY_CHARS_MAX - 1 - (link.len() - 90) - 80;
        let emission = Emission {
            event: "told".to_owned(),
            data: json!(format!("{}{link}", "x".repeat(room))),
        };

        let shown = sent(&LocalChange::Emit(emission).into()).body.unwrap();

        assert!(shown.contains("%2Fapprovals%2F[redacted]"), "{shown}");
        assert!(!shown.contains("aZ0_-"));
    }
}
