//! What an effect sends, for people to read: from the request that was recorded with its intent.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use jiff::civil::Date;
use semel_api::types::{Deniable, Effect, Sent, Source};
use semel_engine::landing::LandingWindow;
use semel_model::effect::EffectState;
use semel_model::event::NameEvent;
use semel_model::request::{RequestSummary, StepRequest};
use semel_model::{EffectId, Event, RunId};
use semel_store::attention::{self, AttendedDoubt};
use semel_store::effects::EffectView;
use semel_store::journal::{self, JournalRow};
use semel_store::runs::{self, RunView};

use super::sources::source;
use super::{attend, view};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::journal_memory::room_for_journal;
use crate::links::without_links;

/// The most characters of a body that are shown.
const BODY_CHARS_MAX: usize = 4_000;

/// The most runs of one list whose effects are shown with what they send.
const RUNS_MAX: usize = 10;

/// How much the journal of each may take, as it is stored: a long one is read where one effect is shown.
const JOURNAL_BYTES_MAX: i64 = 24 << 10;

/// One effect with the flow and the key that it comes from, and with what it sends.
pub(super) async fn whole(
    app: &App,
    caller: &Caller,
    found: &EffectView,
) -> Result<Effect, ApiError> {
    let cell = app.cell().of(found.run);
    let run = runs::find(cell, caller.namespace_id, found.run).await?;
    let _memory = room_for_journal(app, found.partition_date, found.run).await?;
    let lines = journal::read(app.cell().of(found.run), found.partition_date, found.run).await?;
    let journals = HashMap::from([(found.run, lines)]);
    let mut looked = Looked::read(std::slice::from_ref(found), &journals);
    if found.state == EffectState::InDoubt {
        looked.attended = attended(app, caller, std::slice::from_ref(found)).await?;
    }
    Ok(looked.show((app, caller), found, run.as_ref().map(source)))
}

/// Effects with the flow and the key that they come from, and with what they send as far as that costs
/// little.
pub(super) async fn detailed(
    app: &App,
    caller: &Caller,
    found: &[EffectView],
) -> Result<Vec<Effect>, ApiError> {
    let ids: Vec<RunId> = found.iter().map(|effect| effect.run).collect();
    let known = runs::find_many(app.cell().every(), caller.namespace_id, &ids).await?;
    let known: BTreeMap<RunId, &RunView> = known.iter().map(|run| (run.id, run)).collect();
    let mut wanted: Vec<(Date, RunId)> = Vec::new();
    for effect in found {
        let run = (effect.partition_date, effect.run);
        if wanted.len() < RUNS_MAX && !wanted.contains(&run) {
            wanted.push(run);
        }
    }
    let journals = journal::read_small(app.cell().every(), &wanted, JOURNAL_BYTES_MAX).await?;
    let mut looked = Looked::read(found, &journals);
    looked.attended = attended(app, caller, found).await?;
    let items = found.iter().map(|effect| {
        let source = known.get(&effect.run).map(|run| source(run));
        looked.show((app, caller), effect, source)
    });
    Ok(items.collect())
}

/// What people said of those that are in doubt.
async fn attended(
    app: &App,
    caller: &Caller,
    found: &[EffectView],
) -> Result<HashMap<EffectId, AttendedDoubt>, ApiError> {
    let ids: Vec<EffectId> = found.iter().map(|effect| effect.id).collect();
    let cell = app.cell().every();
    Ok(attention::list_attended(cell, caller.namespace_id, &ids).await?)
}

/// The key that each effect of a journal is sent with: its own, or that of its step's business key.
pub(crate) fn keys_sent(events: &[Event]) -> HashMap<EffectId, EffectId> {
    let (mut named, mut keys) = (HashMap::new(), HashMap::new());
    for event in events {
        if let Event::Named {
            step,
            named: NameEvent::Held { effect, .. },
        } = event
        {
            named.insert(step, *effect);
        } else if let Event::Intended { step, effect, .. } = event {
            let key = named.get(step).copied().unwrap_or(*effect);
            keys.entry(*effect).or_insert(key);
        }
    }
    keys
}

/// What was found in journals.
#[derive(Default)]
struct Looked {
    /// The runs whose journals were read.
    runs: BTreeSet<RunId>,
    /// What the wanted effects of those runs send.
    requests: BTreeMap<EffectId, StepRequest>,
    /// The keys that those effects are sent with.
    keys: HashMap<EffectId, EffectId>,
    /// When the first intents of the wanted effects were written.
    begun: HashMap<EffectId, Timestamp>,
    /// What people said of doubts.
    attended: HashMap<EffectId, AttendedDoubt>,
}

impl Looked {
    /// Reads the requests that were recorded with the first intents of wanted effects.
    fn read(wanted: &[EffectView], journals: &HashMap<RunId, Vec<JournalRow>>) -> Self {
        let wanted: BTreeSet<EffectId> = wanted.iter().map(|effect| effect.id).collect();
        let mut looked = Self::default();
        for (run, lines) in journals {
            looked.runs.insert(*run);
            let mut events: Vec<Event> = Vec::new();
            for line in lines {
                let read = line.read().unwrap_or_default();
                for event in &read {
                    if let Event::Intended { effect, .. } = event
                        && wanted.contains(effect)
                    {
                        looked.begun.entry(*effect).or_insert(line.at);
                    }
                }
                events.extend(read);
            }
            looked.keys.extend(keys_sent(&events));
            for event in events {
                if let Event::Intended {
                    effect,
                    request: Some(request),
                    ..
                } = event
                    && wanted.contains(&effect)
                {
                    looked.requests.entry(effect).or_insert(*request);
                }
            }
        }
        looked
    }

    fn show(
        &mut self,
        (app, caller): (&App, &Caller),
        effect: &EffectView,
        source: Option<Source>,
    ) -> Effect {
        let request = self.requests.remove(&effect.id);
        let key_sent = self.keys.get(&effect.id).copied();
        let look_up = request.as_ref().map(|request| {
            let sent = (request, key_sent.unwrap_or(effect.id));
            app.engine.look_up(caller.namespace_id, effect, sent)
        });
        let is_doubt = effect.state == EffectState::InDoubt;
        let begun = self.begun.get(&effect.id).copied();
        Effect {
            source,
            key_sent,
            first_intended_at: begun.filter(|_| effect.attempt > 1),
            sent: match self.runs.contains(&effect.run) {
                true => request.as_ref().map(sent),
                false => Some(elsewhere(effect.id)),
            },
            deniable: look_up
                .as_ref()
                .filter(|_| is_doubt)
                .map(|it| deniable(&it.landing)),
            find_url: look_up.and_then(|it| it.find_url),
            attended: self.attended.remove(&effect.id).map(attend::view),
            ..view(effect)
        }
    }
}

fn deniable(landing: &LandingWindow) -> Deniable {
    Deniable {
        from: landing.over,
        lease: landing.until_sent,
        timeout: landing.timeout,
        acts_within: landing.acts_within,
    }
}

/// What is shown instead of a request that was not looked for.
fn elsewhere(effect: EffectId) -> Sent {
    Sent {
        connection: None,
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
