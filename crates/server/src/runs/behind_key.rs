//! The business key that a run waits for.

use semel_api::types::BehindKey;
use semel_model::event::{NameEvent, NameHolder};
use semel_model::{EffectScope, Event};
use semel_store::runs::{self, RunView};

use crate::app::App;
use crate::error::ApiError;

/// The key that a run waits for, by the last that its journal says of one.
pub(super) async fn find(
    app: &App,
    run: &RunView,
    events: &[Event],
) -> Result<Option<BehindKey>, ApiError> {
    if run.state.is_ended() {
        return Ok(None);
    }
    let Some((step, (scope, key), behind, in_doubt)) = last(events) else {
        return Ok(None);
    };
    let mut waits = BehindKey {
        step,
        scope: scope.to_string(),
        key,
        behind: None,
        behind_state: None,
        script: None,
        in_doubt,
    };
    match behind {
        NameHolder::Script(name) => waits.script = Some(name),
        NameHolder::Run(id) => {
            waits.behind = Some(id);
            let known = runs::find_snapshot(app.cell().of(id), id).await?;
            waits.behind_state = known.map(|it| it.state.into());
        }
    }
    Ok(Some(waits))
}

type Waiting = (String, (EffectScope, String), NameHolder, bool);

fn last(events: &[Event]) -> Option<Waiting> {
    let (mut asked, mut last) = (None, None);
    for event in events {
        if let Event::Named { step, named } = event {
            last = None;
            if let NameEvent::Asked { scope, key, .. } = named {
                asked = Some((scope.clone(), key.clone()));
            } else if let NameEvent::Waiting { behind, in_doubt } = named {
                last = Some((step.clone(), behind.clone(), *in_doubt));
            }
        } else if matches!(event, Event::Broken { .. }) {
            last = None;
        }
    }
    let (step, behind, in_doubt) = last?;
    Some((step, asked?, behind, in_doubt))
}
