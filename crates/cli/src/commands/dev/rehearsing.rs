//! What `semel dev` rehearses in the background: each file that is saved, with one line about it.

use std::time::Duration;

use semel_engine::Engine;
use semel_rehearse::{CaseVerdict, RehearsalRequest, Rehearsals, Report, Selection};
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
            let cases = counted(report.cases.len());
            format!("{file}: rehearsed, {cases} passed in {secs:.1} s")
        }
        Some(report) => failed(file, &report),
        None => {
            let problem = view.problem.as_deref().unwrap_or("no report was made");
            format!("{file}: not rehearsed: {}", printable(problem))
        }
    }
}

/// Names the first case that shows a violation, and the command that plays it alone.
fn failed(file: &str, report: &Report) -> String {
    let mut violated = report
        .cases
        .iter()
        .filter(|case| case.verdict == CaseVerdict::Violated);
    let all = || format!("semel rehearse {}", operand(file));
    let Some(first) = violated.next() else {
        return format!("{file}: the rehearsal FAILED: {}", all());
    };
    let code = first.violations.first().map_or("", |it| it.code.as_str());
    let more = match violated.count() {
        0 => String::new(),
        more => format!(", and {} more", counted(more)),
    };
    let command = first.repeat.clone().unwrap_or_else(all);
    printable(&format!(
        "{file}: the rehearsal FAILED: {code} where {} strikes the example {}{more}: {command}",
        first.fault, first.example
    ))
}

fn counted(cases: usize) -> String {
    match cases {
        1 => "1 case".to_owned(),
        _ => format!("{cases} cases"),
    }
}

#[cfg(test)]
mod tests {
    use semel_rehearse::{CaseReport, FaultClass, Violation};

    use super::*;

    fn report(cases: Vec<CaseReport>) -> Report {
        Report {
            flow: "a".to_owned(),
            digest: String::new(),
            seed: 0,
            passed: false,
            examples: vec!["paid".to_owned()],
            cases,
            timelines: Vec::new(),
            notes: Vec::new(),
            took_ms: 1,
        }
    }

    fn case(fault: &str, verdict: CaseVerdict) -> CaseReport {
        CaseReport {
            example: "paid".to_owned(),
            fault: fault.to_owned(),
            class: FaultClass::Crash,
            at: None,
            verdict,
            in_doubt: Vec::new(),
            violations: match verdict {
                CaseVerdict::Violated => vec![Violation {
                    code: "effect-twice".to_owned(),
                    step: Some("charge".to_owned()),
                    message: "twice".to_owned(),
                }],
                CaseVerdict::Passed | CaseVerdict::InDoubt => Vec::new(),
            },
            repeat: Some(format!("semel rehearse a.flow.yaml --fault {fault}")),
        }
    }

    #[test]
    fn a_failed_rehearsal_names_its_first_case_and_how_to_repeat_it() {
        let violated = CaseVerdict::Violated;
        let passed = case("twice", CaseVerdict::Passed);
        let mut report = report(vec![passed, case("crash", violated)]);

        let one = failed("a.flow.yaml", &report);
        report.cases.push(case("lost", violated));
        let two = failed("a.flow.yaml", &report);

        assert_eq!(
            one,
            "a.flow.yaml: the rehearsal FAILED: effect-twice where crash strikes the example paid: semel rehearse \
             a.flow.yaml --fault crash"
        );
        assert!(two.contains("the example paid, and 1 case more: "), "{two}");
    }
}
