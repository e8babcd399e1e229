//! One effect: what was sent and seen, and what an operator says about it where it is in doubt.

mod attend;

pub(super) use attend::{assign, note, snooze};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{Effect, Settle, Settled, Verdict};
use semel_flow::CheckContext;
use semel_flow::release::Reads;
use semel_model::Right;
use semel_model::effect::EffectState;
use semel_store::flows;

use super::effects::{acts_table, facts, sent_markup};
use super::forms::{self, Button, Offer};
use super::markup::{self, Markup};
use super::shell::{Page, Shell, Trouble, show_as, status_of};
use super::visit::{Form, Visit};
use super::words;
use crate::answer::Answered;
use crate::app::App;
use crate::error::ApiError;
use crate::heavy;

/// `GET /console/{namespace}/effects/{effect}`.
pub(super) async fn page(State(app): State<App>, visit: Visit) -> Answered {
    let empty = Typed::default();
    show_effect(&app, &visit, StatusCode::OK, None, &empty).await
}

/// What was typed into the form.
#[derive(Default)]
struct Typed {
    verdict: String,
    external_id: String,
    result: String,
    reason: String,
    /// The attempt that was looked at.
    attempt: String,
    /// Who looks into it, where that was typed.
    assignee: Option<String>,
    /// What was noted, where that was typed.
    note: Option<String>,
}

/// `POST /console/{namespace}/effects/{effect}/settle`.
pub(super) async fn settle(State(app): State<App>, visit: Visit, form: Form) -> Answered {
    let typed = Typed {
        verdict: form.get("verdict").to_owned(),
        external_id: form.get("external_id").to_owned(),
        result: form.get("result").to_owned(),
        reason: form.get("reason").to_owned(),
        attempt: form.get("attempt").to_owned(),
        ..Typed::default()
    };
    let settled = match read(&typed, &typed.attempt) {
        Ok(settle) => {
            let route = format!("{}/settle", route(&visit));
            visit
                .post::<Settled>(&route, &form, &settle)
                .await
                .map(drop)
        }
        Err(error) => Err(error),
    };
    match settled {
        Ok(()) => {
            let page = visit.page(&format!("/effects/{}#audit", visit.part("effect")));
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let status = status_of(&error);
            show_effect(&app, &visit, status, Some(error.into()), &typed).await
        }
    }
}

fn read(typed: &Typed, attempt: &str) -> Result<Settle, ApiError> {
    let invalid = |detail: &str| ApiError::new(Code::BodyInvalid, detail);
    let verdict = match typed.verdict.as_str() {
        "happened" => Verdict::Happened,
        "did_not_happen" => Verdict::DidNotHappen,
        "fail" => Verdict::Fail,
        "undo" => Verdict::Undo,
        _ => return Err(invalid("say what you found at the destination")),
    };
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let result = match given(&typed.result) {
        Some(text) => Some(
            serde_json::from_str(&text)
                .map_err(|_| invalid("the result is not JSON; a text stands in quotes"))?,
        ),
        None => None,
    };
    // Without it, the settlement would be of whichever attempt is the latest by now.
    let attempt = attempt.parse();
    let attempt = attempt.map_err(|_| invalid("open the page again: it names no attempt"))?;
    Ok(Settle {
        verdict,
        external_id: given(&typed.external_id),
        result,
        attempt: Some(attempt),
        reason: typed.reason.clone(),
    })
}

fn route(visit: &Visit) -> String {
    format!("/v1/effects/{}", words::encoded(visit.part("effect")))
}

async fn show_effect(
    app: &App,
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
    typed: &Typed,
) -> Answered {
    let json = route(visit);
    let effect: Effect = visit.get(&json).await?;
    let mut body = vec![facts(visit, &effect)];
    body.extend(effect.sent.as_ref().map(|sent| {
        let whole = visit.whole();
        forms::section("sent", "What was sent", &sent_markup(sent, &whole))
    }));
    if effect.state == EffectState::InDoubt {
        let reads = reads(app, visit, &effect).await;
        let form = settle_form(visit, &effect, &reads, typed)?;
        body.push(forms::section(
            "settle",
            "Settle the doubt",
            &form.within("div", "box"),
        ));
        body.push(attend::section(visit, &effect, typed)?);
    }
    if !effect.acts.is_empty() {
        let table = acts_table(visit, &effect.acts);
        body.push(forms::section("audit", "What operators did", &table));
    }
    let command = format!("semel effect show {}", effect.id);
    let source = effect.source.as_ref();
    let key = source.map_or_else(String::new, |source| source.key.clone());
    show_as(
        status,
        &Page {
            shell: Shell::new(
                visit,
                "/effects",
                &format!("{} · {key}", effect.step),
                &json,
                &command,
            ),
            heading_markup: markup::code(&effect.step),
            lead_markup: lead(visit, &effect),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

fn lead(visit: &Visit, effect: &Effect) -> Markup {
    match effect.state {
        EffectState::Done => Markup::fixed("It happened."),
        EffectState::Failed => Markup::fixed("It did not happen, and will not."),
        EffectState::Retrying => Markup::fixed("It did not happen; another attempt follows."),
        EffectState::Pending => Markup::fixed("It is being attempted."),
        EffectState::InDoubt => markup::assembled(format!(
            "Whether it happened is unknown: the last attempt began {}. Look at the destination, then say what you found.",
            visit.time(effect.intended_at)
        )),
    }
}

/// What later steps read of the step, by the release that the run is on; everything, where that cannot
/// be told.
async fn reads(app: &App, visit: &Visit, effect: &Effect) -> Option<Reads> {
    let source = effect.source.as_ref()?;
    let (name, number) = (source.flow.clone(), source.release?);
    let namespace_id = visit.caller().namespace_id;
    let (home, numbers) = (app.cell().home(), [number]);
    let texts = flows::find_sources(home, namespace_id, &name, &numbers).await;
    let text = texts.ok()?.remove(&number)?;
    let step = effect.step.clone();
    // A check is the author's text to work through, off the threads that serve requests.
    let checking = heavy::compute(namespace_id, move || {
        let file = format!("{name}.flow.yaml");
        let examined = semel_flow::examine(&file, &text, &CheckContext::default());
        examined.flow.map(|flow| flow.reads_of(&step))
    });
    checking.await.ok().flatten()
}

fn settle_form(
    visit: &Visit,
    effect: &Effect,
    reads: &Option<Reads>,
    typed: &Typed,
) -> Result<Markup, ApiError> {
    // What was found is about the attempt that was looked at, and about no later one.
    let attempt = effect.attempt.to_string();
    let same = typed.attempt.is_empty() || typed.attempt == attempt;
    let found = if same { typed.verdict.as_str() } else { "" };
    let mut fields = vec![
        forms::carried("attempt", &attempt),
        forms::choice(
            "verdict",
            "What did you find at the destination?",
            found,
            &[
                ("happened", "It happened: the run continues after it."),
                ("did_not_happen", "It did not happen: the run performs it."),
                (
                    "undo",
                    "It may have happened and must not: the run undoes it. Needs the right redo.",
                ),
                (
                    "fail",
                    "It cannot be told: the run fails here, and the doubt stays.",
                ),
            ],
        ),
    ];
    let named = |who: &std::collections::BTreeSet<String>| {
        let who: Vec<&str> = who.iter().map(String::as_str).collect();
        who.join(", ")
    };
    match reads {
        Some(reads) => {
            if !reads.external_id.is_empty() {
                let help = format!("If it happened. Read by: {}.", named(&reads.external_id));
                fields.push(forms::line(
                    "external_id",
                    "External id",
                    &typed.external_id,
                    &help,
                ));
            }
            if !reads.result.is_empty() {
                let help = format!(
                    "If it happened: what the step would have returned. Read by: {}.",
                    named(&reads.result)
                );
                fields.push(forms::lines(
                    "result",
                    "Result, as JSON",
                    &typed.result,
                    &help,
                ));
            }
            if reads.external_id.is_empty() {
                let help = "If it happened and you know it; no later step reads it.";
                fields.push(forms::line(
                    "external_id",
                    "External id (optional)",
                    &typed.external_id,
                    help,
                ));
            }
        }
        None => {
            fields.push(forms::line(
                "external_id",
                "External id",
                &typed.external_id,
                "If it happened.",
            ));
            fields.push(forms::lines(
                "result",
                "Result, as JSON",
                &typed.result,
                "If it happened and later steps read it.",
            ));
        }
    }
    fields.push(forms::reason("settle", &typed.reason));
    forms::form(
        visit,
        Offer {
            action: visit.page(&format!("/effects/{}/settle", effect.id)),
            right: Right::Settle,
            fields,
            buttons: vec![Button {
                label: "Settle",
                class: "",
                decision: "settle",
            }],
        },
    )
}
