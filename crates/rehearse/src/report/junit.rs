//! The report as JUnit XML.

use std::fmt::Write as _;

use super::{CaseVerdict, Report};

pub(super) fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = write_suite(&mut text, report);
    text
}

fn write_suite(text: &mut String, report: &Report) -> std::fmt::Result {
    let failures = report.count(CaseVerdict::Violated);
    let secs = report.took_ms as f64 / 1_000.0;
    writeln!(text, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(
        text,
        r#"<testsuite name="rehearse {}" tests="{}" failures="{failures}" time="{secs:.3}">"#,
        escape(&report.flow),
        report.cases.len(),
    )?;
    for case in &report.cases {
        let (class, name) = (escape(&case.example), escape(&case.fault));
        write!(text, r#"  <testcase classname="{class}" name="{name}""#)?;
        match case.verdict {
            CaseVerdict::Passed | CaseVerdict::InDoubt => writeln!(text, "/>")?,
            CaseVerdict::Violated => {
                writeln!(text, ">")?;
                for violation in &case.violations {
                    let message = escape(&violation.message);
                    let code = escape(&violation.code);
                    writeln!(text, r#"    <failure type="{code}" message="{message}"/>"#)?;
                }
                writeln!(text, "  </testcase>")?;
            }
        }
    }
    writeln!(text, "</testsuite>")
}

/// A text as an attribute's value: what XML cannot hold is left out.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(' '),
            c if c.is_control() => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_destination_says_cannot_leave_its_attribute() {
        assert_eq!(escape("a\"><b>\u{1}&"), "a&quot;&gt;&lt;b&gt;&amp;");
    }
}
