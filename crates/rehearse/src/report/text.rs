//! The report as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{CaseReport, CaseVerdict, Report};

/// The matrix, what is in doubt, what must not happen, and a last line.
pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = write_report(&mut text, report);
    text
}

fn write_report(text: &mut String, report: &Report) -> std::fmt::Result {
    matrix(text, report)?;
    for note in &report.notes {
        writeln!(text, "note: {note}")?;
    }
    doubts(text, report)?;
    violations(text, report)?;
    let digest: String = report.digest.chars().take(12).collect();
    let (passed, doubt, violated) = (
        report.count(CaseVerdict::Passed),
        report.count(CaseVerdict::InDoubt),
        report.count(CaseVerdict::Violated),
    );
    let word = if report.passed { "passed" } else { "FAILED" };
    let secs = report.took_ms as f64 / 1_000.0;
    writeln!(
        text,
        "{word}: {} {digest}, {} cases in {secs:.1} s: {passed} passed, {doubt} in doubt as their guards say, {violated} violated",
        report.flow,
        report.cases.len(),
    )?;
    writeln!(
        text,
        "Destinations were played from the examples. How executors speak to real ones is tested by the conformance suite."
    )
}

/// One row per fault and place, one column per example.
fn matrix(text: &mut String, report: &Report) -> std::fmt::Result {
    let mut rows: Vec<(&str, BTreeMap<&str, CaseVerdict>)> = Vec::new();
    for case in &report.cases {
        match rows.iter_mut().find(|(fault, _)| *fault == case.fault) {
            Some((_, cells)) => {
                cells.insert(&case.example, case.verdict);
            }
            None => rows.push((
                &case.fault,
                BTreeMap::from([(case.example.as_str(), case.verdict)]),
            )),
        }
    }
    let faults = rows.iter().map(|(fault, _)| fault.chars().count());
    let width = faults.max().unwrap_or_default().max("fault".len());
    write!(text, "{:width$}", "fault")?;
    for example in &report.examples {
        let column = column_of(example);
        write!(text, "  {example:column$}")?;
    }
    writeln!(text)?;
    for (fault, cells) in rows {
        write!(text, "{fault:width$}")?;
        for example in &report.examples {
            let word = cells
                .get(example.as_str())
                .map_or("-", |verdict| word(*verdict));
            let column = column_of(example);
            write!(text, "  {word:column$}")?;
        }
        writeln!(text)?;
    }
    Ok(())
}

/// How wide the column of an example is.
fn column_of(example: &str) -> usize {
    example
        .chars()
        .count()
        .max(word(CaseVerdict::InDoubt).len())
}

const fn word(verdict: CaseVerdict) -> &'static str {
    match verdict {
        CaseVerdict::Passed => "ok",
        CaseVerdict::InDoubt => "doubt",
        CaseVerdict::Violated => "FAIL",
    }
}

fn doubts(text: &mut String, report: &Report) -> std::fmt::Result {
    let mut by_effect: BTreeMap<&str, usize> = BTreeMap::new();
    for doubt in report.cases.iter().flat_map(|case| &case.in_doubt) {
        *by_effect.entry(doubt).or_default() += 1;
    }
    for (doubt, cases) in by_effect {
        writeln!(text, "in doubt: {doubt} ({cases} cases)")?;
    }
    Ok(())
}

fn violations(text: &mut String, report: &Report) -> std::fmt::Result {
    let violated = |case: &&CaseReport| case.verdict == CaseVerdict::Violated;
    for case in report.cases.iter().filter(violated) {
        writeln!(
            text,
            "violation: example {}, fault {}",
            case.example, case.fault
        )?;
        for violation in &case.violations {
            writeln!(text, "  {}: {}", violation.code, violation.message)?;
        }
        if let Some(repeat) = &case.repeat {
            writeln!(text, "  repeat it: {repeat}")?;
        }
    }
    Ok(())
}
