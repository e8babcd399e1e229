//! Attending to doubts: who looks into one, what they noted, until when it is put off.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use semel_api::Code;
use semel_api::types::{AssignDoubt, Attended, AttendedEffect, NoteDoubt, SnoozeDoubt};
use semel_engine::AttendError;
use semel_model::EffectId;
use semel_store::attention::{AttendedDoubt, DoubtRemark};
use serde_json::Value;

use crate::answer::Answered;
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::commands::{self, Command, Reply};
use crate::error::ApiError;
use crate::query::Named;

/// What is said of a doubt.
enum Remark {
    Assign(Option<String>),
    Note(Option<String>),
    Snooze(Option<Timestamp>),
}

impl Remark {
    fn verb(&self) -> &'static str {
        match self {
            Self::Assign(_) => "doubt assign",
            Self::Note(_) => "doubt note",
            Self::Snooze(_) => "doubt snooze",
        }
    }

    fn borrow(&self) -> DoubtRemark<'_> {
        match self {
            Self::Assign(name) => DoubtRemark::Assign(name.as_deref()),
            Self::Note(note) => DoubtRemark::Note(note.as_deref()),
            Self::Snooze(until) => DoubtRemark::Snooze(*until),
        }
    }
}

/// `POST /v1/effects/{effect}/assign`.
pub(crate) async fn assign(
    State(app): State<App>,
    caller: Caller,
    effect: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (AssignDoubt { to }, body) = payload.read()?;
    let asked = (&headers, &body);
    attend(app, &caller, &effect, asked, Remark::Assign(to)).await
}

/// `POST /v1/effects/{effect}/note`.
pub(crate) async fn note(
    State(app): State<App>,
    caller: Caller,
    effect: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (NoteDoubt { note }, body) = payload.read()?;
    let asked = (&headers, &body);
    attend(app, &caller, &effect, asked, Remark::Note(note)).await
}

/// `POST /v1/effects/{effect}/snooze`.
pub(crate) async fn snooze(
    State(app): State<App>,
    caller: Caller,
    effect: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (SnoozeDoubt { until, span }, body) = payload.read()?;
    let until = match (until, span) {
        (until, None) => until,
        (None, Some(span)) => {
            let until = app.engine.now().checked_add(span.to_duration());
            Some(until.unwrap_or(Timestamp::MAX))
        }
        (Some(_), Some(_)) => {
            let detail = "say `until` or `for`, and not both";
            return Err(ApiError::new(Code::BodyInvalid, detail));
        }
    };
    let asked = (&headers, &body);
    attend(app, &caller, &effect, asked, Remark::Snooze(until)).await
}

async fn attend(
    app: App,
    caller: &Caller,
    effect: &Named,
    (headers, body): (&HeaderMap, &Value),
    remark: Remark,
) -> Answered {
    let id: EffectId = effect.read(Code::EffectNotFound)?;
    let command = Command {
        verb: remark.verb(),
        subject: effect.as_str(),
        body,
        headers,
    };
    let (engine, asking) = (app.engine.clone(), caller.clone());
    commands::once(app, caller, command, async move {
        let actor = asking.actor();
        let said = engine.attend_doubt(asking.acting(&actor), id, remark.borrow());
        let attended = view(said.await?);
        tracing::info!(effect.id = %id, actor, act = remark.verb(), "doubt attended to");
        let done = AttendedEffect {
            effect: id,
            attended,
        };
        Reply::new(StatusCode::OK, &done)
    })
    .await
}

/// What is said of a doubt, in its wire form.
pub(super) fn view(said: AttendedDoubt) -> Attended {
    Attended {
        assignee: said.assignee,
        note: said.note,
        snoozed_until: said.snoozed_until,
    }
}

impl From<AttendError> for ApiError {
    fn from(error: AttendError) -> Self {
        match error {
            AttendError::Unknown => Self::plain(Code::EffectNotFound),
            AttendError::NotInDoubt => Self::new(Code::NotInDoubt, error.to_string()),
            AttendError::Invalid(detail) => Self::new(Code::BodyInvalid, detail),
            AttendError::Unavailable(error) => error.into(),
        }
    }
}
