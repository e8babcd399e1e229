//! A replay of one run: what it would do at each step, and the form that carries exactly that out.

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{
    Forecast, PreviewReplay, Replay, ReplayPreview, Replayed, RunDetail, StepForecast,
};
use semel_model::Right;

use super::route;
use crate::answer::Answered;
use crate::console::forms::{self, ask_page, offer, section};
use crate::console::jobs::run_link;
use crate::console::markup::{self, Markup};
use crate::console::shell::{Page, Shell, Trouble, show_as, status_of};
use crate::console::visit::{Form, Visit};
use crate::console::words;
use crate::error::ApiError;

/// What is asked for: from which step, on which release, and which changed steps are skipped all the same.
#[derive(Default)]
struct Asked {
    from: String,
    release: String,
    accept: String,
}

impl Asked {
    fn read(get: impl Fn(&'static str) -> String) -> Self {
        Self {
            from: get("from"),
            release: get("release"),
            accept: get("accept"),
        }
    }

    fn pairs(&self) -> [(&'static str, &str); 3] {
        [
            ("from", &self.from),
            ("release", &self.release),
            ("accept", &self.accept),
        ]
    }

    fn accepted(&self) -> Vec<String> {
        let steps = self.accept.split(',').map(str::trim);
        let steps = steps.filter(|step| !step.is_empty());
        steps.map(str::to_owned).collect()
    }

    /// The same for the API.
    fn preview(&self) -> Result<PreviewReplay, ApiError> {
        let number = self.release.strip_prefix('r').unwrap_or(&self.release);
        let release = match number {
            "" | "live" => None,
            number => Some(number.parse().map_err(|_| {
                let detail = "a release is a number such as r4, or left empty for the live one";
                ApiError::new(Code::BodyInvalid, detail)
            })?),
        };
        Ok(PreviewReplay {
            release,
            from: Some(self.from.clone()).filter(|from| !from.is_empty()),
            input: None,
            accept_changed: self.accepted(),
        })
    }
}

/// Leads from a run to what a replay of it would do; nothing for a run that has not ended, or is a part of
/// another.
pub(super) fn link(visit: &Visit, detail: &RunDetail) -> Option<Markup> {
    let run = &detail.run;
    if !run.state.is_ended() || run.parent.is_some() {
        return None;
    }
    let mut steps: Vec<(&str, &str)> = vec![("", "the first step that is not done")];
    for effect in &detail.effects {
        let step = (effect.step.as_str(), effect.step.as_str());
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    let fields = vec![
        forms::select("from", "Replay from step", "", &steps),
        forms::line(
            "release",
            "On the release",
            "",
            "Such as r4; left empty, the live one.",
        ),
    ];
    let to = visit.page(&format!("/runs/{}/replay", run.id));
    let form = ask_page(visit, (to, Right::Replay), fields, "Show what it would do");
    Some(forms::folded("Replay", false, &form))
}

/// `GET /console/{namespace}/runs/{run}/replay`: what it would do. Nothing is changed.
pub(in crate::console) async fn page(visit: Visit) -> Answered {
    let asked = Asked::read(|name| visit.parameter(name).to_owned());
    show_preview(&visit, &asked, (StatusCode::OK, None), "").await
}

/// `POST /console/{namespace}/runs/{run}/replay`.
pub(in crate::console) async fn carry_out(visit: Visit, form: Form) -> Answered {
    let asked = Asked::read(|name| form.get(name).to_owned());
    let shown = asked.preview()?;
    let replay = Replay {
        digest: form.get("digest").to_owned(),
        release: shown.release,
        from: shown.from,
        input: None,
        accept_changed: shown.accept_changed,
        reason: form.given("reason"),
    };
    let address = format!("{}/replay", route(&visit));
    let done: Result<Replayed, ApiError> = visit.post(&address, &form, &replay).await;
    match done {
        Ok(replayed) => {
            let page = visit.page(&format!("/runs/{}", replayed.run));
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let at = (status_of(&error), Some(error.into()));
            show_preview(&visit, &asked, at, form.get("reason")).await
        }
    }
}

async fn show_preview(
    visit: &Visit,
    asked: &Asked,
    (status, problem): (StatusCode, Option<Trouble>),
    reason: &str,
) -> Answered {
    let json = route(visit);
    let detail: RunDetail = visit.get(&json).await?;
    let run = detail.run.id;
    let mut command = format!("semel run replay {run}");
    let options = [("from", &asked.from), ("release", &asked.release)];
    for (option, value) in options.iter().filter(|(_, value)| !value.is_empty()) {
        words::push_option(&mut command, option, value);
    }
    for step in asked.accepted() {
        words::push_option(&mut command, "accept-changed", &step);
    }
    let back = Markup::text("The run that would be replayed")
        .link(&visit.page(&format!("/runs/{run}")))
        .within("p", "presets");
    let mut body = vec![back];
    let previewed = match visit.lacks(Right::Replay) {
        Some(missing) => {
            body.push(Markup::text(&missing).within("p", "missing"));
            None
        }
        None => Some(preview(visit, asked).await),
    };
    let (mut status, mut problem) = (status, problem);
    match previewed {
        None => {}
        Some(Ok(preview)) => body.extend(parts(visit, asked, &preview, reason)?),
        // What was asked stays, with what is wrong about it.
        Some(Err(error)) if status_of(&error).is_client_error() => {
            status = status_of(&error);
            problem = Some(error.into());
            body.extend(link(visit, &detail));
        }
        Some(Err(error)) => return Err(error),
    }
    let title = format!("Replay of {}", detail.run.key);
    show_as(
        status,
        &Page {
            shell: Shell::new(visit, "/runs", &title, &json, &command),
            heading_markup: Markup::join([
                Markup::fixed("Replay of"),
                markup::code(&detail.run.key),
            ]),
            lead_markup: Markup::fixed(
                "The next run of the same key. What earlier runs did is not done again.",
            ),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

async fn preview(visit: &Visit, asked: &Asked) -> Result<ReplayPreview, ApiError> {
    let address = format!("{}/replay/preview", route(visit));
    let ask = (Method::POST, address.as_str());
    visit.ask(ask, &asked.preview()?).await
}

fn parts(
    visit: &Visit,
    asked: &Asked,
    preview: &ReplayPreview,
    reason: &str,
) -> Result<Vec<Markup>, ApiError> {
    let rows: Vec<Vec<Markup>> = preview
        .steps
        .iter()
        .map(|step| row(visit, asked, step))
        .collect();
    let columns = ["Would be", "Step", "Kind", "More"];
    let said = match &preview.from {
        Some(step) => format!("Reads and functions are made again from {step} on."),
        None => "Reads and functions keep their results.".to_owned(),
    };
    let mut notes = vec![
        Markup::text(&format!(
            "On r{}; the run is on r{}. {said}",
            preview.release, preview.last_release
        ))
        .within("p", "help"),
    ];
    let more = preview.notes.iter();
    notes.extend(more.map(|note| Markup::text(note).within("p", "help")));
    let table = markup::table("What it would do, step by step", &columns, &rows);
    let mut parts = vec![
        Markup::join(notes),
        section("steps", "What it would do", &table),
    ];
    let obstacles = preview.obstacles.iter().map(|it| {
        let text = format!("{} ({})", it.message, it.code);
        Markup::text(&text).within("p", "verdict is-bad")
    });
    let obstacles: Vec<Markup> = obstacles.collect();
    if !obstacles.is_empty() {
        let why = Markup::join(obstacles);
        parts.push(section("obstacles", "What is in the way", &why));
        return Ok(parts);
    }
    let mut fields = vec![
        Markup::text("If what it would do has changed meanwhile, nothing is done.")
            .within("p", "help"),
        forms::carried("digest", &preview.digest),
    ];
    fields.extend(
        asked
            .pairs()
            .map(|(name, value)| forms::carried(name, value)),
    );
    fields.push(forms::reason("replay", reason));
    let action = visit.page(&format!("/runs/{}/replay", preview.run));
    let form = offer(
        visit,
        (action, Right::Replay),
        fields,
        ("Replay this run", ""),
    )?;
    parts.push(section("confirm", "Confirm", &form.within("div", "box")));
    Ok(parts)
}

fn row(visit: &Visit, asked: &Asked, step: &StepForecast) -> Vec<Markup> {
    let (state, more) = words_of(visit, asked, step);
    vec![
        state,
        markup::code(&step.step),
        Markup::text(&step.kind),
        more,
    ]
}

fn words_of(visit: &Visit, asked: &Asked, step: &StepForecast) -> (Markup, Markup) {
    let plain = |word| markup::other_state("live", "▶", word);
    let nothing = Markup::default;
    match &step.forecast {
        Forecast::Skipped { run, .. } => (
            markup::other_state("good", "●", "skipped"),
            run_link(visit, *run),
        ),
        Forecast::Changed { accepted: true, .. } => {
            let state = markup::other_state("good", "●", "skipped");
            (state, nothing())
        }
        Forecast::Changed { .. } => {
            let accept = match asked.accept.is_empty() {
                true => step.step.clone(),
                false => format!("{},{}", asked.accept, step.step),
            };
            let pairs = [
                ("from", asked.from.as_str()),
                ("release", &asked.release),
                ("accept", &accept),
            ];
            let skip = Markup::text("Skip it all the same").link(&words::address("", &pairs));
            (markup::other_state("doubt", "▲", "done otherwise"), skip)
        }
        Forecast::Differs { run, .. } => (
            markup::other_state("bad", "■", "refused"),
            run_link(visit, *run),
        ),
        Forecast::Performed { effect, .. } => {
            (plain("performed"), markup::code(&effect.to_string()))
        }
        Forecast::InDoubt { effect } => {
            let page = visit.page(&format!("/effects/{effect}"));
            let settle = Markup::text("Settle it first").link(&page);
            (markup::other_state("doubt", "◆", "in doubt"), settle)
        }
        Forecast::Unknown { before } => (
            markup::other_state("rest", "◔", "decided later"),
            Markup::text(&format!("after {before}")),
        ),
        Forecast::Read => (plain("read again"), nothing()),
        Forecast::Waits => (markup::other_state("rest", "◔", "waits"), nothing()),
        Forecast::Asks => (markup::other_state("rest", "◔", "asks people"), nothing()),
        Forecast::Items { done, left } => {
            let more = match left {
                Some(left) => format!("{done} are done, {left} are not"),
                None => format!("{done} are done"),
            };
            (plain("items"), Markup::text(&more))
        }
        Forecast::NotRun => (markup::other_state("quiet", "✕", "not run"), nothing()),
        Forecast::Fails { code, message } => (
            markup::other_state("bad", "■", "fails"),
            Markup::text(&format!("{message} ({code})")),
        ),
    }
}
