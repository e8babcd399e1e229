//! Any text is a flow or has mistakes, and every mistake points into it.

use proptest::prelude::*;
use semel_flow::{Severity, check};

use crate::effort::assert_grows_evenly;

fn holds(source: &str) -> Result<(), TestCaseError> {
    let checked = check("any.yaml", source);
    let sound = checked
        .diagnostics
        .iter()
        .all(|one| one.severity == Severity::Warning);
    prop_assert_eq!(checked.flow.is_some(), sound);
    let lines = source.split('\n').count();
    for diagnostic in &checked.diagnostics {
        prop_assert!((1..=lines).contains(&diagnostic.line), "{diagnostic:?}");
        prop_assert!(
            diagnostic.column <= diagnostic.text.chars().count() + 1,
            "{diagnostic:?}"
        );
        prop_assert!(!diagnostic.help.is_empty() && !diagnostic.message.is_empty());
        prop_assert!(
            !diagnostic.render(false).contains('\u{1b}'),
            "nothing steers a terminal"
        );
    }
    Ok(())
}

const WHOLE: &str = include_str!("../corpus/good/whole.yaml");

proptest! {
    #[test]
    fn any_text_is_read(source in "\\PC{0,200}") {
        holds(&source)?;
    }

    #[test]
    fn a_flow_with_something_cut_out_is_read(from in 0..WHOLE.len(), length in 0..40_usize) {
        let to = (from + length).min(WHOLE.len());
        let cut = [&WHOLE.as_bytes()[..from], &WHOLE.as_bytes()[to..]].concat();
        holds(&String::from_utf8_lossy(&cut))?;
    }

    #[test]
    fn a_flow_with_something_put_in_is_read(at in 0..WHOLE.len(), extra in "[\\PC\n\t\u{1b}]{1,8}") {
        let mut source = WHOLE.as_bytes()[..at].to_vec();
        source.extend_from_slice(extra.as_bytes());
        source.extend_from_slice(&WHOLE.as_bytes()[at..]);
        holds(&String::from_utf8_lossy(&source))?;
    }
}

#[test]
fn a_flow_of_500_steps_is_checked_quickly() {
    let judge = |source: &str| {
        let checked = check("long.yaml", source);
        assert!(checked.flow.is_some(), "{}", checked.render(false));
    };
    let [half, whole] = [250, 500].map(requests);

    assert_grows_evenly("250 steps", || judge(&half), || judge(&whole));
}

/// A flow of so many requests, each of which reads the answer before.
fn requests(count: usize) -> String {
    let mut source = String::from("flow: long\ntrigger: { api: {} }\nsteps:\n");
    for index in 0..count {
        let before = index.max(1) - 1;
        source.push_str(&format!(
            "  - id: s{index}\n    if: input.amount > {index}\n    http:\n      put: \
             \"https://a.example/${{{{ input.id }}}}/{index}\"\n      json: {{ n: \"${{{{ \
             {} }}}}\" }}\n",
            if index == 0 {
                "input.n".to_owned()
            } else {
                format!("steps.s{before}.result.n")
            },
        ));
    }
    source
}

#[test]
fn hostile_files_are_refused_in_no_time() {
    let head = "flow: hostile\ntrigger: { api: {} }\nsteps:\n  - id: a\n    function: ";
    let bodies = [
        "[",
        "{",
        "- ",
        "a: &a ",
        "? ",
        "\"",
        "'",
        "|\n",
        "!!x ",
        "*a ",
        "# ",
        "---\n",
        "\t",
        "a: ",
        "${{x+1}}",
        "${{ input.a }}",
        "}}",
        "(",
        "a.",
        "\\",
        "é",
        "\u{feff}",
        ",",
        "- a\n",
        "a: b\n",
    ];
    for body in bodies {
        for lead in ["", head, "flow: \"", "env: { a: \"", "steps: [", "result: "] {
            let [half, whole] = [100, 200].map(|kib: usize| {
                let times = kib * 1024 / body.len();
                format!("{lead}{}", body.repeat(times))
            });
            let judge = |source: &str| {
                let checked = check("hostile.yaml", source);
                assert!(checked.flow.is_none(), "{lead}{body}");
                let _ = checked.render(false);
            };

            let what = format!("{lead:?} {body:?}");
            assert_grows_evenly(&what, || judge(&half), || judge(&whole));
        }
    }
}
