//! Replays of many runs: a plan freezes them and previews each, and is then applied, paused or stopped.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{
    ChangePlan, Flow, Page as Found, PlanReplay, PlanSummary, PlannedRun, ReplayPlan,
};
use semel_model::{Right, RunId};

use super::forms::{self, folded, offer, section};
use super::jobs::progress;
use super::markup::{self, Markup};
use super::named_runs::NamedRuns;
use super::shell::{Page, Shell, Trouble, keep, next_page, show_as, status_of};
use super::visit::{Form, Visit};
use super::{empty, words};
use crate::answer::Answered;
use crate::error::ApiError;

/// The states whose runs can be replayed.
const STATES: &[(&str, &str)] = &[
    ("failed", "failed"),
    ("cancelled", "cancelled"),
    ("succeeded", "succeeded"),
];

/// `GET /console/{namespace}/replays`.
pub(super) async fn page(visit: Visit) -> Answered {
    show_plans(&visit, StatusCode::OK, None, None).await
}

/// `POST /console/{namespace}/replays`.
pub(super) async fn plan(visit: Visit, form: Form) -> Answered {
    let done = match read(&form) {
        Ok(ask) => {
            visit
                .post::<ReplayPlan>("/v1/replay-plans", &form, &ask)
                .await
        }
        Err(error) => Err(error),
    };
    match done {
        Ok(plan) => {
            let page = visit.page(&format!("/replays/{}", plan.plan));
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let status = status_of(&error);
            show_plans(&visit, status, Some(error.into()), Some(&form)).await
        }
    }
}

fn read(form: &Form) -> Result<PlanReplay, ApiError> {
    let invalid = |detail: &str| ApiError::new(Code::BodyInvalid, detail);
    let time = |name: &str| form.given(name).map(|text| text.parse()).transpose();
    let wrong = |_| invalid("a time is such as 2026-11-17T08:00:00Z");
    let state = form.given("state").map(|word| word.parse()).transpose();
    Ok(PlanReplay {
        flow: form
            .get("flow")
            .parse()
            .map_err(|_| invalid("choose a flow"))?,
        state: state.map_err(|_| invalid("there is no such state"))?,
        since: time("since").map_err(wrong)?,
        until: time("until").map_err(wrong)?,
        error: form.given("error"),
        per_second: None,
        reason: form.given("reason"),
    })
}

async fn show_plans(
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
    typed: Option<&Form>,
) -> Answered {
    let cursor = visit.parameter("cursor");
    let json = words::address("/v1/replay-plans", &[("cursor", cursor)]);
    let mut command = "semel replay list".to_owned();
    if !cursor.is_empty() {
        words::push_option(&mut command, "cursor", cursor);
    }
    let shell = Shell::new(visit, "/jobs", "Replays", &json, &command);
    let found: Found<ReplayPlan> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, Vec::new()),
    };
    let row = |plan: &ReplayPlan| {
        let page = visit.page(&format!("/replays/{}", plan.plan));
        vec![
            state(plan),
            Markup::text(&format!("{} on r{}", plan.flow, plan.release)).link(&page),
            Markup::text(&format!("{} of {}", plan.replayed, plan.runs)),
            Markup::text(&plan.refused.to_string()),
            Markup::text(&plan.actor),
            Markup::text(plan.reason.as_deref().unwrap_or("-")),
            visit.time(plan.created_at),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(row).collect();
    let columns = ["State", "What", "Replayed", "Refused", "By", "Why", "Made"];
    let list = match rows.is_empty() {
        true => empty::teach(
            "No plan was made yet. A plan freezes the runs that fit, and previews what each would do again.",
            "semel replay plan --flow FLOW --reason 'the rate was wrong'",
            "docs/replay.md",
        ),
        false => markup::table("Replay plans, the newest first", &columns, &rows),
    };
    let next = next_page(
        "Older plans",
        &visit.page("/replays"),
        &[],
        found.next.as_deref(),
    );
    let list = Markup::join([list].into_iter().chain(next));
    let jobs = Markup::text("Cancel or resume many runs").link(&visit.page("/jobs"));
    let form = plan_form(visit, typed).await?;
    let body = [
        jobs.within("p", "presets"),
        section(
            "new",
            "Plan a replay of many runs",
            &form.within("div", "box"),
        ),
        section("plans", "Plans", &list),
    ];
    show_as(
        status,
        &Page {
            shell,
            heading_markup: Markup::fixed("Replays of many runs"),
            lead_markup: Markup::fixed(
                "A replay is the next run of a key, on the live release: what is done stays done.",
            ),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

async fn plan_form(visit: &Visit, typed: Option<&Form>) -> Result<Markup, ApiError> {
    let flows: Found<Flow> = visit.get("/v1/flows").await?;
    let names = flows
        .items
        .iter()
        .map(|flow| (flow.name.as_str(), flow.name.as_str()));
    let names: Vec<(&str, &str)> = names.collect();
    let said = |name: &str| typed.map_or("", |form| form.get(name));
    let fields = vec![
        forms::select("flow", "The last runs of the flow", said("flow"), &names),
        forms::select("state", "In the state", said("state"), STATES),
        forms::line(
            "error",
            "Failed with this code (optional)",
            said("error"),
            "",
        ),
        forms::line(
            "since",
            "Accepted at this time or later (optional)",
            said("since"),
            "Such as 2026-11-17T08:00:00Z.",
        ),
        forms::line(
            "until",
            "Accepted before this time (optional)",
            said("until"),
            "",
        ),
        forms::reason("replay", said("reason")),
    ];
    let of = (visit.page("/replays"), Right::Replay);
    offer(visit, of, fields, ("Plan: replay nothing yet", ""))
}

fn state(plan: &ReplayPlan) -> Markup {
    match plan.state.as_str() {
        "previewing" => markup::other_state("live", "▷", "previewing"),
        "planned" => markup::other_state("rest", "◔", "planned"),
        "running" => markup::other_state("live", "▶", "running"),
        "paused" => markup::other_state("rest", "◔", "paused"),
        "done" => markup::other_state("good", "●", "done"),
        other => markup::other_state("quiet", "✕", other),
    }
}

/// `GET /console/{namespace}/replays/{plan}`.
pub(super) async fn show_one(visit: Visit) -> Answered {
    show_plan(&visit, StatusCode::OK, None, "").await
}

/// `POST /console/{namespace}/replays/{plan}/change`.
pub(super) async fn change(visit: Visit, form: Form) -> Answered {
    let verb = match form.get("decision") {
        verb @ ("apply" | "pause" | "stop") => verb,
        _ => {
            return Err(ApiError::new(
                Code::BodyInvalid,
                "say what becomes of the plan",
            ));
        }
    };
    let ask = ChangePlan {
        reason: form.given("reason"),
        per_second: None,
    };
    let address = format!("{}/{verb}", route(&visit));
    let done: Result<ReplayPlan, ApiError> = visit.post(&address, &form, &ask).await;
    match done {
        Ok(plan) => {
            let page = visit.page(&format!("/replays/{}", plan.plan));
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let status = status_of(&error);
            show_plan(&visit, status, Some(error.into()), form.get("reason")).await
        }
    }
}

fn route(visit: &Visit) -> String {
    format!("/v1/replay-plans/{}", words::encoded(visit.part("plan")))
}

async fn show_plan(
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
    reason: &str,
) -> Answered {
    let json = route(visit);
    let plan: ReplayPlan = visit.get(&json).await?;
    let cursor = visit.parameter("cursor");
    let listed = words::address(
        &format!("{json}/runs"),
        &[("limit", "50"), ("cursor", cursor)],
    );
    let runs: Found<PlannedRun> = visit.get(&listed).await?;
    let mut facts = vec![
        ("State", state(&plan)),
        ("Can be replayed", Markup::text(&plan.previewed.to_string())),
        ("Replayed", Markup::text(&plan.replayed.to_string())),
        ("Refused", Markup::text(&plan.refused.to_string())),
        ("In a second", Markup::text(&plan.per_second.to_string())),
        ("By", Markup::text(&plan.actor)),
        ("Made", visit.time(plan.created_at)),
        ("Why", Markup::text(plan.reason.as_deref().unwrap_or("-"))),
    ];
    let stopped = plan.stopped_because.as_deref();
    facts.extend(stopped.map(|why| ("Stopped by Semel", Markup::text(why))));
    let facts = markup::facts(facts);
    let mut body = vec![progress(plan.replayed + plan.refused, plan.runs), facts];
    if !plan.summaries.is_empty() {
        let rows: Vec<Vec<Markup>> = plan.summaries.iter().map(summary).collect();
        let table = markup::table(
            "What the previews show",
            &["Runs", "Preview", "Refused"],
            &rows,
        );
        body.push(section("previews", "What the previews show", &table));
    }
    let mut ids: Vec<RunId> = runs.items.iter().map(|it| it.run).collect();
    ids.extend(runs.items.iter().filter_map(|it| it.next));
    let named = NamedRuns::of(visit, ids).await?;
    body.push(section("runs", "Runs", &planned(visit, &runs, &named)));
    if let Some(forms) = offers(visit, &plan, reason)? {
        body.push(section("acts", "Acts", &forms));
    }
    let title = format!("Replay {} on r{}", plan.flow, plan.release);
    let lead = format!(
        "{} are frozen; {} are replayed and {} refused.",
        words::count(
            usize::try_from(plan.runs).unwrap_or_default(),
            "run",
            "runs"
        ),
        plan.replayed,
        plan.refused
    );
    let command = format!("semel replay show {}", plan.plan);
    show_as(
        status,
        &Page {
            shell: Shell::new(visit, "/jobs", &title, &json, &command),
            heading_markup: Markup::text(&title),
            lead_markup: Markup::text(&lead),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

fn summary(one: &PlanSummary) -> Vec<Markup> {
    vec![
        Markup::text(&one.runs.to_string()),
        one.summary.as_deref().map(Markup::text).unwrap_or_default(),
        one.code.as_deref().map(markup::code).unwrap_or_default(),
    ]
}

fn planned(visit: &Visit, runs: &Found<PlannedRun>, named: &NamedRuns) -> Markup {
    if runs.items.is_empty() {
        return Markup::text("No run fits.").within("p", "empty");
    }
    let row = |one: &PlannedRun| {
        let text = |text: &Option<String>| text.as_deref().map(Markup::text).unwrap_or_default();
        vec![
            Markup::text(&one.state),
            named.link(visit, one.run),
            text(&one.summary),
            one.next
                .map(|next| named.link(visit, next))
                .unwrap_or_default(),
            text(&one.note),
        ]
    };
    let rows: Vec<Vec<Markup>> = runs.items.iter().map(row).collect();
    let columns = [
        "State",
        "Key of the run",
        "Preview",
        "Replayed by",
        "Refused because",
    ];
    let mut parts = vec![markup::table("Runs of the plan", &columns, &rows)];
    parts.extend(next_page("Further runs", "", &[], runs.next.as_deref()));
    Markup::join(parts)
}

fn offers(visit: &Visit, plan: &ReplayPlan, reason: &str) -> Result<Option<Markup>, ApiError> {
    let verbs: &[(&'static str, &'static str, &'static str)] = match plan.state.as_str() {
        "planned" => &[
            ("apply", "Replay these runs", ""),
            ("stop", "Stop for good", "danger"),
        ],
        "running" => &[("pause", "Pause", ""), ("stop", "Stop for good", "danger")],
        "paused" => &[
            ("apply", "Continue", ""),
            ("stop", "Stop for good", "danger"),
        ],
        "previewing" => &[("stop", "Stop for good", "danger")],
        _ => return Ok(None),
    };
    let buttons = verbs.iter().map(|(decision, label, class)| forms::Button {
        label,
        class,
        decision,
    });
    let frozen = format!(
        "{}, frozen as {}. A run that fits later is not among them.",
        words::count(
            usize::try_from(plan.runs).unwrap_or_default(),
            "run",
            "runs"
        ),
        plan.plan
    );
    let form = forms::form(
        visit,
        forms::Offer {
            action: visit.page(&format!("/replays/{}/change", plan.plan)),
            right: Right::Replay,
            fields: vec![
                Markup::text(&frozen).within("p", "help"),
                forms::reason("change", reason),
            ],
            buttons: buttons.collect(),
        },
    )?;
    let open = plan.state == "planned" || !reason.is_empty();
    Ok(Some(
        folded("What becomes of the plan", open, &form).within("div", "acts"),
    ))
}
