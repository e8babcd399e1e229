//! Jobs: cancelling and resuming many runs. A plan is shown first, and confirmed by its digest.

mod job;

pub(super) use job::{show_one, stop};

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{AskRunJob, Flow, Page as Found, RunJob, RunJobPlan, RunJobVerb};
use semel_model::{Right, RunId};

use super::forms::{self, Button, Offer, ask_page, section};
use super::markup::{self, Markup};
use super::named_runs::NamedRuns;
use super::shell::{Page, Shell, Trouble, keep, next_page, show_as, status_of};
use super::visit::{Form, Visit};
use super::{empty, words};
use crate::answer::Answered;
use crate::error::ApiError;

/// What can be done to many runs.
const VERBS: &[(&str, &str)] = &[("resume", "Resume"), ("cancel", "Cancel")];

/// The states that runs of a plan are in.
const STATES: &[(&str, &str)] = &[
    ("", "any that fits"),
    ("failed", "failed"),
    ("needs_review", "needs review"),
    ("quarantined", "quarantined"),
    ("active", "in flight"),
];

/// `GET /console/{namespace}/jobs`.
pub(super) async fn page(visit: Visit) -> Answered {
    show_jobs(&visit, StatusCode::OK, None).await
}

async fn show_jobs(visit: &Visit, status: StatusCode, problem: Option<Trouble>) -> Answered {
    let cursor = visit.parameter("cursor");
    let json = words::address("/v1/run-jobs", &[("cursor", cursor)]);
    let mut command = "semel run job".to_owned();
    if !cursor.is_empty() {
        words::push_option(&mut command, "cursor", cursor);
    }
    let shell = Shell::new(visit, "/jobs", "Jobs", &json, &command);
    let found: Found<RunJob> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, vec![other(visit)]),
    };
    let row = |job: &RunJob| {
        let id = job.job.to_string();
        vec![
            state(job),
            Markup::text(&format!("{} {}", job.verb, job.flow))
                .link(&visit.page(&format!("/jobs/{id}"))),
            Markup::text(&format!("{} of {}", job.done, job.count)),
            Markup::text(&job.refused.to_string()),
            Markup::text(&job.by),
            Markup::text(&job.reason),
            visit.time(job.created_at),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(row).collect();
    let columns = ["State", "What", "Done", "Refused", "By", "Why", "Made"];
    let list = match rows.is_empty() {
        true => empty::teach(
            "Nothing was done to many runs at once yet. The form above shows which runs it would be, before anything is done.",
            "semel run resume --flow FLOW --state failed --reason 'the bank is back'",
            "docs/operations.md",
        ),
        false => markup::table("Jobs, the newest first", &columns, &rows),
    };
    let flows: Found<Flow> = visit.get("/v1/flows").await?;
    let of = (visit.page("/jobs/new"), Right::Operate);
    let new = ask_page(visit, of, fields(&flows.items, visit), "Show which runs");
    let new = section(
        "new",
        "Cancel or resume many runs",
        &new.within("div", "box"),
    );
    let next = next_page(
        "Older jobs",
        &visit.page("/jobs"),
        &[],
        found.next.as_deref(),
    );
    let list = Markup::join([list].into_iter().chain(next));
    let body = [other(visit), new, section("jobs", "Jobs", &list)];
    show_as(
        status,
        &Page {
            shell,
            heading_markup: Markup::fixed("Jobs"),
            lead_markup: Markup::fixed(
                "Many runs at once: first a plan that names them, then a job that you confirm.",
            ),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

fn other(visit: &Visit) -> Markup {
    let replays = Markup::text("Replays of many runs").link(&visit.page("/replays"));
    replays.within("p", "presets")
}

fn state(job: &RunJob) -> Markup {
    match job.state.as_str() {
        "running" => markup::other_state("live", "▶", "running"),
        "done" => markup::other_state("good", "●", "done"),
        other => markup::other_state("quiet", "✕", other),
    }
}

fn fields(flows: &[Flow], visit: &Visit) -> Vec<Markup> {
    let names = flows
        .iter()
        .map(|flow| (flow.name.as_str(), flow.name.as_str()));
    let names: Vec<(&str, &str)> = names.collect();
    vec![
        forms::select(
            "verb",
            "What is done to them",
            visit.parameter("verb"),
            VERBS,
        ),
        forms::select("flow", "Runs of the flow", visit.parameter("flow"), &names),
        forms::select("state", "In the state", visit.parameter("state"), STATES),
        forms::line(
            "after",
            "Accepted at this time or later (optional)",
            visit.parameter("after"),
            "Such as 2026-11-17T08:00:00Z.",
        ),
        forms::line(
            "before",
            "Accepted before this time (optional)",
            visit.parameter("before"),
            "",
        ),
    ]
}

/// Which runs, as a plan or a form says it.
fn read(get: impl Fn(&'static str) -> String) -> Result<AskRunJob, ApiError> {
    let invalid = |detail: &str| ApiError::new(Code::BodyInvalid, detail);
    let time = |name| match get(name) {
        text if text.is_empty() => Ok(None),
        text => text.parse().map(Some),
    };
    let wrong = |_| invalid("a time is such as 2026-11-17T08:00:00Z");
    let state = match get("state") {
        word if word.is_empty() => None,
        word => Some(
            word.parse()
                .map_err(|_| invalid("there is no such state"))?,
        ),
    };
    Ok(AskRunJob {
        verb: match get("verb").as_str() {
            "cancel" => RunJobVerb::Cancel,
            "resume" => RunJobVerb::Resume,
            _ => return Err(invalid("say what is done to the runs")),
        },
        flow: get("flow").parse().map_err(|_| invalid("choose a flow"))?,
        state,
        after: time("after").map_err(wrong)?,
        before: time("before").map_err(wrong)?,
        digest: None,
        reason: None,
    })
}

/// `GET /console/{namespace}/jobs/new`: which runs it would be. Nothing is changed.
pub(super) async fn plan(visit: Visit) -> Answered {
    let planned = match read(|name| visit.parameter(name).to_owned()) {
        Ok(ask) => show_plan(&visit, &ask, (StatusCode::OK, None), "").await,
        Err(error) => Err(error),
    };
    match planned {
        // What was chosen stays, with what is wrong about it.
        Err(error) if visit.lacks(Right::Operate).is_none() => {
            let status = status_of(&error);
            show_jobs(&visit, status, Some(error.into())).await
        }
        planned => planned,
    }
}

async fn show_plan(
    visit: &Visit,
    ask: &AskRunJob,
    (status, problem): (StatusCode, Option<Trouble>),
    reason: &str,
) -> Answered {
    if visit.lacks(Right::Operate).is_some() {
        return Err(visit.caller().lacks(Right::Operate));
    }
    let plan: RunJobPlan = visit
        .ask((Method::POST, "/v1/run-jobs/preview"), ask)
        .await?;
    let (verb, done) = match ask.verb {
        RunJobVerb::Cancel => ("cancel", "cancelled"),
        RunJobVerb::Resume => ("resume", "resumed"),
    };
    let spelled = spelled(ask);
    let asked: Vec<(&str, &str)> = spelled
        .iter()
        .map(|(name, it)| (*name, it.as_str()))
        .collect();
    let json = words::address("/v1/runs", &asked[..2]);
    let mut command = format!("semel run {verb}");
    for (option, value) in asked.iter().filter(|(_, value)| !value.is_empty()) {
        words::push_option(&mut command, option, value);
    }
    let states: Vec<Vec<Markup>> = plan
        .states
        .iter()
        .map(|it| vec![Markup::text(&it.state), Markup::text(&it.count.to_string())])
        .collect();
    let named = NamedRuns::of(visit, plan.runs.clone()).await?;
    let runs: Vec<Vec<Markup>> = plan
        .runs
        .iter()
        .map(|run| vec![named.link(visit, *run)])
        .collect();
    let mut body = vec![other(visit)];
    if plan.count > 0 {
        body.push(section(
            "states",
            "By state",
            &markup::table("By state", &["State", "Runs"], &states),
        ));
        body.push(section(
            "runs",
            "Some of them",
            &markup::table("Some of them", &["Key of the run"], &runs),
        ));
        let form = confirm(visit, &plan, (verb, &asked), reason)?;
        body.push(section("confirm", "Confirm", &form.within("div", "box")));
    } else {
        body.push(Markup::text("No run fits.").within("p", "empty"));
    }
    let title = match ask.verb {
        RunJobVerb::Cancel => "Cancel many runs",
        RunJobVerb::Resume => "Resume many runs",
    };
    let lead = format!(
        "{} of {} would be {done}.",
        words::count(plan.count, "run", "runs"),
        plan.flow
    );
    show_as(
        status,
        &Page {
            shell: Shell::new(visit, "/jobs", title, &json, &command),
            heading_markup: Markup::fixed(title),
            lead_markup: Markup::text(&lead),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

/// Which runs, as a command and an address say it.
fn spelled(ask: &AskRunJob) -> [(&'static str, String); 4] {
    [
        ("flow", ask.flow.to_string()),
        (
            "state",
            ask.state.map(|it| it.to_string()).unwrap_or_default(),
        ),
        (
            "after",
            ask.after.map(|it| it.to_string()).unwrap_or_default(),
        ),
        (
            "before",
            ask.before.map(|it| it.to_string()).unwrap_or_default(),
        ),
    ]
}

fn confirm(
    visit: &Visit,
    plan: &RunJobPlan,
    (verb, asked): (&'static str, &[(&'static str, &str)]),
    reason: &str,
) -> Result<Markup, ApiError> {
    let (label, class) = match plan.verb {
        RunJobVerb::Cancel => ("Cancel these runs", "danger"),
        RunJobVerb::Resume => ("Resume these runs", ""),
    };
    let named = format!(
        "{}, by the digest {}. If the runs that fit have changed, nothing is done.",
        words::count(plan.count, "run", "runs"),
        plan.digest
    );
    let mut fields = vec![
        Markup::text(&named).within("p", "help"),
        forms::carried("verb", verb),
        forms::carried("digest", &plan.digest),
    ];
    fields.extend(
        asked
            .iter()
            .map(|(name, value)| forms::carried(name, value)),
    );
    fields.push(forms::reason("job", reason));
    let decision = "yes";
    let buttons = vec![Button {
        label,
        class,
        decision,
    }];
    let offer = Offer {
        action: visit.page("/jobs"),
        right: Right::Operate,
        fields,
        buttons,
    };
    forms::form(visit, offer)
}

/// `POST /console/{namespace}/jobs`.
pub(super) async fn make(visit: Visit, form: Form) -> Answered {
    let ask = read(|name| form.get(name).to_owned())?;
    let whole = AskRunJob {
        digest: form.given("digest"),
        reason: form.given("reason"),
        ..ask.clone()
    };
    let done: Result<RunJob, ApiError> = visit.post("/v1/run-jobs", &form, &whole).await;
    match done {
        Ok(job) => {
            let page = visit.page(&format!("/jobs/{}", job.job));
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let at = (status_of(&error), Some(error.into()));
            show_plan(&visit, &ask, at, form.get("reason")).await
        }
    }
}

/// How far something is.
pub(super) fn progress(done: i64, count: i64) -> Markup {
    let count = count.max(1);
    markup::assembled(format!(
        "<p><progress max=\"{count}\" value=\"{done}\" aria-label=\"Runs with an outcome\">{done} of {count}</progress></p>"
    ))
}

/// A run, by its id.
pub(super) fn run_link(visit: &Visit, run: RunId) -> Markup {
    let run = run.to_string();
    markup::code(&run).link(&visit.page(&format!("/runs/{run}")))
}
