//! One job: how far it is, where it was refused, and stopping it.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use semel_api::types::{RefusedRun, RunJob, StopRunJob};
use semel_model::Right;

use super::super::forms::{self, folded, offer, section};
use super::super::markup::{self, Markup};
use super::super::named_runs::NamedRuns;
use super::super::shell::{Page, Shell, Trouble, show_as, status_of};
use super::super::visit::{Form, Visit};
use super::super::words;
use super::{progress, state};
use crate::answer::Answered;
use crate::error::ApiError;

/// `GET /console/{namespace}/jobs/{job}`.
pub(in super::super) async fn show_one(visit: Visit) -> Answered {
    show_job(&visit, StatusCode::OK, None, "").await
}

/// `POST /console/{namespace}/jobs/{job}/stop`.
pub(in super::super) async fn stop(visit: Visit, form: Form) -> Answered {
    let address = format!("{}/stop", route(&visit));
    let reason = form.get("reason").to_owned();
    let done: Result<RunJob, ApiError> = visit.post(&address, &form, &StopRunJob { reason }).await;
    match done {
        Ok(job) => {
            let page = visit.page(&format!("/jobs/{}", job.job));
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let status = status_of(&error);
            show_job(&visit, status, Some(error.into()), form.get("reason")).await
        }
    }
}

fn route(visit: &Visit) -> String {
    format!("/v1/run-jobs/{}", words::encoded(visit.part("job")))
}

async fn show_job(
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
    reason: &str,
) -> Answered {
    let json = route(visit);
    let job: RunJob = visit.get(&json).await?;
    let mut facts = vec![
        ("State", state(&job)),
        ("Done", Markup::text(&job.done.to_string())),
        ("Refused", Markup::text(&job.refused.to_string())),
        ("By", Markup::text(&job.by)),
        ("Made", visit.time(job.created_at)),
        ("Why", Markup::text(&job.reason)),
        ("Digest of the plan", markup::code(&job.digest)),
    ];
    let stopped = job.stopped_because.as_deref();
    facts.extend(stopped.map(|why| ("Stopped by Semel", Markup::text(why))));
    let facts = markup::facts(facts);
    let mut body = vec![progress(job.done + job.refused, job.count), facts];
    if !job.refusals.is_empty() {
        let named = NamedRuns::of(visit, job.refusals.iter().map(|it| it.run).collect()).await?;
        let row = |one: &RefusedRun| {
            vec![
                named.link(visit, one.run),
                markup::code(&one.code),
                Markup::text(&one.note),
            ]
        };
        let rows: Vec<Vec<Markup>> = job.refusals.iter().map(row).collect();
        let table = markup::table("Refused", &["Key of the run", "Code", "Why"], &rows);
        body.push(section("refused", "Where it was not done", &table));
    }
    if job.state == "running" {
        let of = (
            visit.page(&format!("/jobs/{}/stop", job.job)),
            Right::Operate,
        );
        let fields = vec![forms::reason("stop", reason)];
        let form = offer(
            visit,
            of,
            fields,
            ("Stop: leave the others alone", "danger"),
        )?;
        let form = folded("Stop", problem.is_some(), &form).within("div", "acts");
        body.push(section("acts", "Acts", &form));
    }
    let title = format!("{} {}", job.verb, job.flow);
    let lead = format!(
        "{} of {} runs have an outcome.",
        job.done + job.refused,
        job.count
    );
    let command = format!("semel run job {}", job.job);
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
