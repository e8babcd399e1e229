//! What `semel dev` rehearses in the background: each file that is saved, with one line about it.

use std::time::Duration;

use semel_engine::Engine;
use semel_rehearse::{RehearsalRequest, Rehearsals, Report, Selection};
use semel_store::rehearsals::{self, RehearsalView};
use uuid::Uuid;

use crate::output;
use crate::text::{operand, printable};

/// How often it looks whether a rehearsal has ended.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// The longest that a rehearsal is waited for.
const PATIENCE: Duration = Duration::from_secs(300);

/// Rehearses a file that was saved, and says how it went.
pub(super) fn begin(engine: &Engine, rehearsals: Rehearsals, request: RehearsalRequest) {
    let engine = engine.clone();
    tokio::spawn(async move {
        let file = printable(&request.file);
        let (id, namespace_id) = (request.id, request.namespace_id);
        if let Err(error) = rehearsals.ask(request).await {
            output::note(&format!("{file}: not rehearsed: {error}"));
            return;
        }
        let ending = until_over(&engine, namespace_id, id);
        if let Ok(Some(view)) = tokio::time::timeout(PATIENCE, ending).await {
            output::note(&line(&file, &view));
        }
    });
}

/// What is asked for when a file is saved.
pub(super) fn request(namespace_id: i32, file: &str, source: &str) -> RehearsalRequest {
    RehearsalRequest {
        id: Uuid::now_v7(),
        namespace_id,
        asked_by: "dev".to_owned(),
        file: file.to_owned(),
        source: source.to_owned(),
        selection: Selection::default(),
    }
}

async fn until_over(engine: &Engine, namespace_id: i32, id: Uuid) -> Option<RehearsalView> {
    loop {
        let view = rehearsals::find(engine.cell().home(), namespace_id, id).await;
        let view = view.ok().flatten()?;
        if view.state != "queued" && view.state != "running" {
            return Some(view);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn line(file: &str, view: &RehearsalView) -> String {
    let report = view.report.as_deref();
    let report: Option<Report> = report.and_then(|report| serde_json::from_str(report).ok());
    match report {
        Some(report) if report.passed => {
            let secs = report.took_ms as f64 / 1_000.0;
            let cases = report.cases.len();
            format!("{file}: rehearsed, {cases} cases passed in {secs:.1} s")
        }
        Some(report) => {
            let violated = report.count(semel_rehearse::CaseVerdict::Violated);
            let command = format!("semel rehearse {}", operand(file));
            format!("{file}: the rehearsal FAILED in {violated} cases: {command}")
        }
        None => {
            let problem = view.problem.as_deref().unwrap_or("no report was made");
            format!("{file}: not rehearsed: {}", printable(problem))
        }
    }
}
