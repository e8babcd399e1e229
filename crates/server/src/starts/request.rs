//! Requests to start a run whose key the flow names.
//!
//! ```text
//! begin ══▶ start ══▶ keep the run
//!      └─▶ the same name with another payload (422), or the run that answered before
//! ```
//!
//! The header names the request and never a run. The server stores which run answered, so that a
//! repeat gets that run's state of now. A request in flight is joined: starting twice is safe,
//! because the run's claim makes it one.

use semel_api::Code;
use semel_engine::memory::Portion;
use semel_engine::{Intake, Start};
use semel_model::{Fingerprint, Key, RunId, Slot, Span, json};
use semel_store::commands::{self, Begin};
use serde_json::{Value, json};

use super::{take_in, tell};
use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::commands::identify;
use crate::error::{ApiError, chain};

/// How long a request may be in progress before its process counts as dead, in seconds.
const HOLD_SECS: u64 = 30;

/// Starts a run once per request of a name.
pub(super) async fn once(
    app: App,
    caller: &Caller,
    name: &Key,
    (start, memory): (Start, Vec<Portion>),
    wait: Option<Span>,
) -> Answered {
    let id = identify(caller, "start", name.as_bytes());
    let Prints { payload, request } = Prints::of(&start)?;
    let hold = Span::from_secs(HOLD_SECS);
    // The pool that requests read from is read-only.
    let cell = app.engine.cell().of(Slot::of(id.as_bytes()));
    let begun = commands::begin(cell, id, start.namespace_id, request, hold).await?;
    let first = matches!(begun, Begin::First);
    match begun {
        Begin::Mismatch => return Err(ApiError::plain(Code::CommandMismatch)),
        Begin::First | Begin::UnderWay => {}
        Begin::Answered { answer, .. } => {
            if let Ok(run) = serde_json::from_value::<RunId>(answer["run"].clone())
                && let Some(met) = app.engine.meet_again(&start, run, payload).await?
            {
                return tell(&app, Intake::Accepted(met), wait).await;
            }
        }
    }
    let taken = take_in(&app, start, memory).await;
    let kept = match &taken {
        Ok(Intake::Accepted(accepted)) => {
            commands::finish(cell, id, 200, &json!({ "run": accepted.run })).await
        }
        // A refusal changed nothing, and its cause may change. A delivery that is held for an
        // operator was not accepted: a repeat is judged again, and gets the same answer as long as
        // that holds.
        Ok(Intake::Held(_) | Intake::Ignored | Intake::Stale(_)) | Err(_) if first => {
            commands::abandon(cell, id).await
        }
        Ok(Intake::Held(_) | Intake::Ignored | Intake::Stale(_)) | Err(_) => Ok(()),
    };
    if let Err(error) = kept {
        tracing::warn!(error = %chain(&error), "failed to store which run answered a request");
    }
    tell(&app, taken?, wait).await
}

/// What tells one start from another.
struct Prints {
    /// Of its input.
    payload: Fingerprint,
    /// Of all that is asked for.
    request: Fingerprint,
}

impl Prints {
    /// The parsed input goes with this call: the engine parses its own.
    fn of(start: &Start) -> Result<Self, ApiError> {
        let input = json::parse_strict(&start.input)
            .map_err(|error| ApiError::new(Code::BodyNotJson, error.to_string()))?;
        let payload = Fingerprint::of(&input);
        let subject: [Value; 3] = [
            start.flow.as_str().into(),
            start.trigger.as_str().into(),
            input,
        ];
        Ok(Self {
            payload,
            request: Fingerprint::of(&Value::Array(subject.into())),
        })
    }
}
