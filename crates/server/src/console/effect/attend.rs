//! A doubt while it is looked into: who does, what they noted, and until when it is put off.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{AssignDoubt, Attended, AttendedEffect, Effect, NoteDoubt, SnoozeDoubt};
use semel_model::Right;
use serde::Serialize;

use super::{Typed, route, show_effect};
use crate::answer::Answered;
use crate::app::App;
use crate::console::forms::{self, offer};
use crate::console::markup::Markup;
use crate::console::shell::status_of;
use crate::console::visit::{Form, Visit};
use crate::error::ApiError;

/// For how long a doubt can be put off.
const SPANS: &[(&str, &str)] = &[
    ("1h", "for an hour"),
    ("4h", "for four hours"),
    ("1d", "for a day"),
    ("7d", "for a week"),
    ("", "not any more"),
];

/// `POST /console/{namespace}/effects/{effect}/assign`.
pub(in crate::console) async fn assign(
    State(app): State<App>,
    visit: Visit,
    form: Form,
) -> Answered {
    let to = form.given("assignee");
    say(&app, &visit, &form, "assign", &AssignDoubt { to }).await
}

/// `POST /console/{namespace}/effects/{effect}/note`.
pub(in crate::console) async fn note(State(app): State<App>, visit: Visit, form: Form) -> Answered {
    let note = form.given("note");
    say(&app, &visit, &form, "note", &NoteDoubt { note }).await
}

/// `POST /console/{namespace}/effects/{effect}/snooze`.
pub(in crate::console) async fn snooze(
    State(app): State<App>,
    visit: Visit,
    form: Form,
) -> Answered {
    let span = match form.given("snooze").map(|span| span.parse()) {
        None => None,
        Some(Ok(span)) => Some(span),
        Some(Err(_)) => return Err(ApiError::new(Code::BodyInvalid, "choose one of the times")),
    };
    let snooze = SnoozeDoubt { until: None, span };
    say(&app, &visit, &form, "snooze", &snooze).await
}

async fn say(
    app: &App,
    visit: &Visit,
    form: &Form,
    verb: &str,
    said: &(impl Serialize + Sync),
) -> Answered {
    let address = format!("{}/{verb}", route(visit));
    let done: Result<AttendedEffect, ApiError> = visit.post(&address, form, said).await;
    match done {
        Ok(_) => {
            let page = visit.page(&format!("/effects/{}#attend", visit.part("effect")));
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let status = status_of(&error);
            // What was typed stays, to be corrected.
            let typed_into = |of: &str, name: &str| (verb == of).then(|| form.get(name).to_owned());
            let typed = Typed {
                assignee: typed_into("assign", "assignee"),
                note: typed_into("note", "note"),
                ..Typed::default()
            };
            show_effect(app, visit, status, Some(error.into()), &typed).await
        }
    }
}

/// The forms.
pub(super) fn section(visit: &Visit, effect: &Effect, typed: &Typed) -> Result<Markup, ApiError> {
    let said = effect.attended.clone().unwrap_or_default();
    let Attended { assignee, note, .. } = said;
    let assignee = typed.assignee.clone().or(assignee);
    let note = typed.note.clone().or(note);
    let at = |verb: &str| {
        let page = visit.page(&format!("/effects/{}/{verb}", effect.id));
        (page, Right::Settle)
    };
    let who = forms::line(
        "assignee",
        "Who looks into it",
        &assignee.unwrap_or_default(),
        "Left empty: nobody.",
    );
    let noted = forms::lines(
        "note",
        "What was found so far",
        &note.unwrap_or_default(),
        "It replaces the note before. Left empty, the note is removed.",
    );
    let later = forms::select("snooze", "List it last", "1h", SPANS);
    let forms = Markup::join([
        offer(visit, at("assign"), vec![who], ("Assign", "plain"))?,
        offer(visit, at("note"), vec![noted], ("Note", "plain"))?,
        offer(visit, at("snooze"), vec![later], ("Snooze", "plain"))?,
    ]);
    let help = Markup::text("Nothing of this settles the doubt. Each is in the audit record.");
    let content = Markup::join([help.within("p", "help"), forms]);
    Ok(forms::section(
        "attend",
        "While you look into it",
        &content.within("div", "box"),
    ))
}
