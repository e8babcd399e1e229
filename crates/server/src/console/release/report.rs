//! What a rehearsal showed: the violations with how to repeat them, and every case as a matrix.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use semel_api::types::{Rehearsal, Release};
use semel_rehearse::{CaseReport, CaseVerdict, Report};

use super::super::forms::section;
use super::super::markup::{self, Markup, assembled, escape, visible};
use super::super::visit::Visit;
use super::super::words;

/// The most rows of the matrix.
const ROWS_MAX: usize = 400;

/// One sentence about a release and its latest rehearsal.
pub(super) fn lead(visit: &Visit, release: &Release, latest: Option<&Rehearsal>) -> Markup {
    let proof = release.proof.as_deref().unwrap_or("not rehearsed");
    let Some(latest) = latest else {
        return Markup::text(&format!("The release is {proof}."));
    };
    match (latest.ended_at, &latest.problem) {
        (None, None) => Markup::join([
            Markup::text(&format!(
                "The rehearsal is under way: {} of {} cases.",
                latest.done, latest.total
            )),
            Markup::text("Look again").link("?"),
        ]),
        (_, Some(problem)) => Markup::text(&format!("There is no report: {problem}.")),
        (Some(at), None) => Markup::join([
            Markup::text(&format!("The release is {proof}. It was rehearsed")),
            visit.time(at),
        ]),
    }
}

/// The report of a rehearsal that has one.
pub(super) fn show(rehearsal: &Rehearsal) -> Markup {
    let report = rehearsal.report.clone();
    let report: Option<Report> = report.and_then(|report| serde_json::from_value(report).ok());
    let Some(report) = report else {
        return Markup::default();
    };
    let count = |verdict| report.count(verdict);
    let (passed, doubts) = (count(CaseVerdict::Passed), count(CaseVerdict::InDoubt));
    let violated = count(CaseVerdict::Violated);
    let figures = assembled(format!(
        "<ul class=\"figures\"><li><span class=\"number state good\"><span class=\"shape\" aria-hidden=\"true\">●</span>{passed}</span><span class=\"what\">cases in which everything happened once</span></li>\
         <li><span class=\"number state doubt\"><span class=\"shape\" aria-hidden=\"true\">◆</span>{doubts}</span><span class=\"what\">cases that end in a doubt, as the guard says</span></li>\
         <li><span class=\"number state bad\"><span class=\"shape\" aria-hidden=\"true\">■</span>{violated}</span><span class=\"what\">violations: twice, or not at all</span></li></ul>"
    ));
    let mut parts = vec![section("figures", "What it showed", &figures)];
    let violations: Vec<&CaseReport> = report
        .cases
        .iter()
        .filter(|case| case.verdict == CaseVerdict::Violated)
        .collect();
    if !violations.is_empty() {
        let cards: String = violations.iter().map(|case| violation(case)).collect();
        let list = assembled(format!("<ul class=\"doubts\">{cards}</ul>"));
        parts.push(section("violations", "Violations", &list));
    }
    parts.push(section("matrix", "Every case", &matrix(&report)));
    if !report.notes.is_empty() {
        let notes: String = report
            .notes
            .iter()
            .map(|note| format!("<li>{}</li>", Markup::text(note)))
            .collect();
        let notes = assembled(format!("<ul>{notes}</ul>"));
        parts.push(section("notes", "What was assumed", &notes));
    }
    Markup::join(parts)
}

/// What must not happen and did, with what was played and the command that plays it again.
fn violation(case: &CaseReport) -> String {
    let mut card = format!(
        "<li><h3>{} · {}</h3>",
        Markup::text(&case.example),
        Markup::text(&case.fault)
    );
    for found in &case.violations {
        let step = match &found.step {
            Some(step) => format!("{step}: "),
            None => String::new(),
        };
        let _ = write!(
            card,
            "<p>{} <span class=\"quiet-text\">{}</span></p>",
            Markup::text(&format!("{step}{}", found.message)),
            Markup::text(&found.code)
        );
    }
    let at = case.at.as_deref().unwrap_or("the delivery");
    let class = case.class.to_string();
    let _ = write!(
        card,
        "{}",
        markup::facts(vec![
            ("Example", Markup::text(&case.example)),
            ("Fault", Markup::text(&class)),
            ("Place", markup::code(at)),
            (
                "Repeat exactly this case",
                match &case.repeat {
                    Some(command) => assembled(format!(
                        "<code data-copy>{}</code>",
                        escape(&visible(command, false))
                    )),
                    None => Markup::default(),
                }
            ),
        ])
    );
    card.push_str("</li>");
    card
}

/// Faults down, examples across.
fn matrix(report: &Report) -> Markup {
    let (mut faults, mut known): (Vec<&str>, HashSet<&str>) = Default::default();
    let mut cases: HashMap<(&str, &str), &CaseReport> = HashMap::new();
    for case in &report.cases {
        if known.insert(&case.fault) {
            faults.push(&case.fault);
        }
        cases.entry((&case.fault, &case.example)).or_insert(case);
    }
    let left_out = faults.len().saturating_sub(ROWS_MAX);
    faults.truncate(ROWS_MAX);
    let mut table = "<div class=\"table\"><table><caption>Every case</caption><thead><tr><th scope=\"col\">Fault</th>".to_owned();
    let name = |text: &str| escape(&visible(text, false));
    for example in &report.examples {
        let _ = write!(table, "<th scope=\"col\">{}</th>", name(example));
    }
    table.push_str("</tr></thead><tbody>");
    for fault in faults {
        let _ = write!(table, "<tr><th scope=\"row\">{}</th>", markup::code(fault));
        for example in &report.examples {
            let _ = match cases.get(&(fault, example.as_str())) {
                Some(case) => write!(
                    table,
                    "<td data-label=\"{}\"><div>{}</div></td>",
                    name(example),
                    verdict(case)
                ),
                None => write!(table, "<td></td>"),
            };
        }
        table.push_str("</tr>");
    }
    table.push_str("</tbody></table></div>");
    if left_out > 0 {
        let more = words::count(left_out, "further fault is", "further faults are");
        let _ = write!(
            table,
            "<p class=\"help\">{more} in the JSON of this page.</p>"
        );
    }
    assembled(table)
}

fn verdict(case: &CaseReport) -> Markup {
    match case.verdict {
        CaseVerdict::Passed => markup::other_state("good", "●", "once"),
        CaseVerdict::InDoubt => {
            let steps = case.in_doubt.join(", ");
            markup::other_state("doubt", "◆", &format!("in doubt: {steps}"))
        }
        CaseVerdict::Violated => markup::other_state("bad", "■", "violated"),
    }
}
