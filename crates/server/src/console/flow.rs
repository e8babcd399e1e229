//! One flow: its graph, what starts a run and what each step does, its releases; pause, resume and start.

mod texts;

pub(super) use texts::releases_page as releases;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{AskPause, AskResume, FlowDetail, PauseChange, Release, StartRun, Tallies};
use semel_flow::{Examined, Flow, Severity};
use semel_model::{Right, TriggerKind};
use serde_json::Value;

use super::forms::{self, folded, offer, section};
use super::graph::{Graph, StepCounts};
use super::markup::{self, Markup};
use super::shell::{Page, Shell, Trouble, show_as, status_of};
use super::visit::{Form, Visit};
use super::words;
use crate::answer::Answered;
use crate::app::App;
use crate::error::ApiError;
use crate::heavy;

/// `GET /console/{namespace}/flows/{flow}`.
pub(super) async fn page(State(app): State<App>, visit: Visit) -> Answered {
    show_flow(&app, &visit, StatusCode::OK, None, &Typed::default()).await
}

/// What was typed into a form.
#[derive(Default)]
struct Typed {
    verb: &'static str,
    reason: String,
    input: String,
    key: String,
}

/// `POST /console/{namespace}/flows/{flow}/pause`.
pub(super) async fn pause(State(app): State<App>, visit: Visit, form: Form) -> Answered {
    let reason = form.get("reason").to_owned();
    let ask = AskPause {
        reason: reason.clone(),
    };
    let route = format!("{}/pause", route(&visit));
    let done = visit.post::<PauseChange>(&route, &form, &ask).await;
    let verb = "pause";
    finish(&app, &visit, done.map(|_| visit_page(&visit)), verb, &form).await
}

/// `POST /console/{namespace}/flows/{flow}/resume`.
pub(super) async fn resume(State(app): State<App>, visit: Visit, form: Form) -> Answered {
    let route = format!("{}/resume", route(&visit));
    let done = match read_rate(form.get("per_second")) {
        Ok(per_second) => {
            let reason = form.given("reason");
            let ask = AskResume { reason, per_second };
            visit.post::<PauseChange>(&route, &form, &ask).await
        }
        Err(error) => Err(error),
    };
    let done = done.map(|_| visit_page(&visit));
    finish(&app, &visit, done, "resume", &form).await
}

/// How many runs a second continue after a pause, where that was said.
pub(super) fn read_rate(text: &str) -> Result<Option<f64>, ApiError> {
    match (text.is_empty(), text.parse::<f64>()) {
        (true, _) => Ok(None),
        (false, Ok(rate)) => Ok(Some(rate)),
        (false, Err(_)) => Err(ApiError::new(
            Code::BodyInvalid,
            "how many runs continue in a second is a number",
        )),
    }
}

/// `POST /console/{namespace}/flows/{flow}/start`.
pub(super) async fn start(State(app): State<App>, visit: Visit, form: Form) -> Answered {
    let started = begin(&visit, &form).await;
    let to = started.and_then(|started| match started["run"].as_str() {
        Some(run) => Ok(visit.page(&format!("/runs/{run}"))),
        None => Err(ApiError::new(
            Code::BodyInvalid,
            "it started no run: the trigger ignores such an input, or a newer one came before",
        )),
    });
    finish(&app, &visit, to, "start", &form).await
}

async fn begin(visit: &Visit, form: &Form) -> Result<Value, ApiError> {
    let input = serde_json::from_str(form.get("input"));
    let input = input.map_err(|_| ApiError::new(Code::BodyInvalid, "the input is not JSON"))?;
    let start = StartRun {
        input,
        key: form.given("run_key"),
        trigger: (form.get("trigger") == "manual").then_some(TriggerKind::Manual),
    };
    let route = format!("{}/runs", route(visit));
    // A key of the run's own is what makes a second click the same start.
    match start.key.is_some() {
        true => visit.ask((Method::POST, &route), &start).await,
        false => visit.post(&route, form, &start).await,
    }
}

fn visit_page(visit: &Visit) -> String {
    visit.page(&format!("/flows/{}", words::encoded(visit.part("flow"))))
}

async fn finish(
    app: &App,
    visit: &Visit,
    done: Result<String, ApiError>,
    verb: &'static str,
    form: &Form,
) -> Answered {
    match done {
        Ok(page) => Ok(Redirect::to(&page).into_response()),
        Err(error) => {
            let status = status_of(&error);
            let typed = Typed {
                verb,
                reason: form.get("reason").to_owned(),
                input: form.get("input").to_owned(),
                key: form.get("run_key").to_owned(),
            };
            show_flow(app, visit, status, Some(error.into()), &typed).await
        }
    }
}

fn route(visit: &Visit) -> String {
    format!("/v1/flows/{}", words::encoded(visit.part("flow")))
}

async fn show_flow(
    app: &App,
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
    typed: &Typed,
) -> Answered {
    let json = route(visit);
    let found: FlowDetail = visit.get(&json).await?;
    let flow = &found.flow;
    let asked = visit.parameter("release").parse().ok();
    let shown = asked.or(flow.live).or(flow.latest);
    let shown = found.releases.iter().find(|it| Some(it.number) == shown);
    let runs = [("q", format!("flow:{}", flow.name))];
    let runs = words::address(&visit.page("/runs"), &[("q", runs[0].1.as_str())]);
    let figures = words::address(&visit.page("/"), &[("flow", &flow.name)]);
    let mut body = vec![
        Markup::join([
            Markup::fixed("Runs of this flow").link(&runs),
            Markup::fixed("Its last 24 hours").link(&figures),
        ])
        .within("p", "presets"),
    ];
    if let Some(release) = shown {
        let examined = examine(app, visit, &flow.name, &release.source).await?;
        let about = examined.flow.as_ref().and_then(|it| it.about.as_deref());
        if let Some(about) = about {
            body.insert(0, Markup::text(about).within("p", "about"));
        }
        let counts = count_steps(visit, &flow.name).await?;
        body.extend(parts(app, visit, (&found, release), &examined, counts));
        let offers = offers(visit, &found, (release, examined.flow.as_ref()), typed)?;
        body.push(section("acts", "Acts", &offers));
    }
    body.push(section(
        "releases",
        "Releases",
        &texts::releases(visit, &found),
    ));
    let command = format!("semel flow show {}", words::shell_word(&flow.name));
    show_as(
        status,
        &Page {
            shell: Shell::new(visit, "/flows", &flow.name, &json, &command),
            heading_markup: Markup::text(&flow.name),
            lead_markup: Markup::text(&texts::lead(flow, shown)),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

/// How often attempts at each step had which outcome in the last day.
async fn count_steps(visit: &Visit, flow: &str) -> Result<StepCounts, ApiError> {
    let json = words::address("/v1/tallies", &[("flow", flow), ("steps", "true")]);
    let tallies: Tallies = visit.get(&json).await?;
    Ok(StepCounts::read(&tallies.items))
}

/// What the check says of a release, off the threads that serve requests.
pub(super) async fn examine(
    app: &App,
    visit: &Visit,
    name: &str,
    source: &str,
) -> Result<Examined, ApiError> {
    let namespace_id = visit.caller().namespace_id;
    let known = app.engine.facts(namespace_id, Severity::Warning).await?;
    let (file, source) = (format!("{name}.flow.yaml"), source.to_owned());
    let checking = move || semel_flow::examine(&file, &source, &known);
    heavy::compute(namespace_id, checking).await
}

fn parts(
    app: &App,
    visit: &Visit,
    (found, release): (&FlowDetail, &Release),
    examined: &Examined,
    counts: StepCounts,
) -> Vec<Markup> {
    let starts = examined.inventory.starts.iter();
    let graph = Graph {
        name: &found.flow.name,
        starts: starts.map(|start| start.trigger).collect(),
        steps: &examined.chart,
        whole: visit.parameter("whole") == "yes",
        counts,
    };
    let mut picture = vec![graph.in_page()];
    if graph.is_folded() {
        let help = "Steps inside of others are folded, because there are many.";
        let asked = [("release", visit.parameter("release")), ("whole", "yes")];
        let all = Markup::text("Draw every step").link(&words::address("", &asked));
        picture.push(Markup::join([Markup::text(help), all]).within("p", "help"));
    }
    if !graph.counts.is_empty() {
        let help = "The numbers are attempts of the last 24 hours: ● done, ■ failed, ◆ in doubt. They are approximate.";
        picture.push(Markup::text(help).within("p", "help"));
    }
    picture.push(texts::steps(&examined.chart, &graph.counts));
    let mut parts = vec![section("graph", "Steps", &Markup::join(picture))];
    let starts = texts::starts(&examined.inventory);
    let hook = examined.flow.as_ref().and_then(|flow| {
        let base = &app.engine.options().public_url;
        texts::hook(visit, flow, &release.source, base)
    });
    let starts = Markup::join(std::iter::once(starts).chain(hook));
    parts.push(section("starts", "What starts a run", &starts));
    parts.push(section(
        "effects",
        "What it does, and what a crash would do",
        &texts::effects(&examined.inventory),
    ));
    let source = markup::block(&release.source, &visit.whole());
    parts.push(section(
        "source",
        "Text of this release",
        &folded("Show the text", false, &source),
    ));
    parts
}

fn offers(
    visit: &Visit,
    found: &FlowDetail,
    (release, flow): (&Release, Option<&Flow>),
    typed: &Typed,
) -> Result<Markup, ApiError> {
    let act = |verb: &str| format!("{}/{verb}", visit_page(visit));
    let mut offers = Vec::new();
    let live = found.flow.live == Some(release.number);
    if let Some(flow) = flow.filter(|_| live)
        && let Some((trigger, start)) = [TriggerKind::Manual, TriggerKind::Api]
            .into_iter()
            .find_map(|kind| Some((kind, flow.trigger.start(kind)?)))
    {
        let input = match typed.input.is_empty() {
            true => texts::example(flow, &release.source),
            false => typed.input.clone(),
        };
        let mut fields = vec![
            forms::carried("trigger", trigger.as_str()),
            forms::lines(
                "input",
                "Input, as JSON",
                &input,
                "What the flow reads as input.",
            ),
        ];
        if start.key.is_none() {
            let help = "What identifies the intent: a second start under it is the same run. Without one, each form is a run.";
            fields.push(forms::line("run_key", "Key (optional)", &typed.key, help));
        }
        let form = offer(
            visit,
            (act("start"), Right::Start),
            fields,
            ("Start a run", ""),
        )?;
        offers.push(folded("Start a run", typed.verb == "start", &form));
    }
    match &found.flow.paused {
        None => {
            let fields = vec![forms::reason("pause", &typed.reason)];
            let of = (act("pause"), Right::Operate);
            let form = offer(visit, of, fields, ("Pause this flow", "danger"))?;
            offers.push(folded("Pause", typed.verb == "pause", &form));
        }
        Some(_) => {
            let fields = vec![
                forms::line(
                    "per_second",
                    "How many runs continue in a second (optional)",
                    "",
                    "All at once, where nothing is said.",
                ),
                forms::reason("resume", &typed.reason),
            ];
            let of = (act("resume"), Right::Operate);
            let form = offer(visit, of, fields, ("Resume this flow", ""))?;
            offers.push(folded("Resume", typed.verb == "resume", &form));
        }
    }
    Ok(Markup::join(offers).within("div", "acts"))
}
