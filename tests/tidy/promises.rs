//! Every test that `docs/guarantees.md` names is there.

use std::fs;

use anyhow::Result;

use crate::expect_none;
use crate::tree::root;

#[test]
fn every_test_that_shows_a_promise_exists() -> Result<()> {
    let page = fs::read_to_string(root()?.join("docs/guarantees.md"))?;
    let mut objections = Vec::new();
    let mut named = 0;
    for line in page.lines().filter(|line| line.starts_with('|')) {
        let mut file = None;
        for quoted in line.split('`').skip(1).step_by(2) {
            if quoted.ends_with(".rs") {
                file = Some(quoted);
                if !root()?.join(quoted).is_file() {
                    objections.push(format!("{quoted} is not there"));
                }
            } else if let Some(path) = file
                && quoted.contains('_')
            {
                named += 1;
                let source = fs::read_to_string(root()?.join(path)).unwrap_or_default();
                if !has_test(&source, quoted) {
                    objections.push(format!("{path} has no test {quoted}"));
                }
            }
        }
    }
    anyhow::ensure!(named > 30, "the page names its tests: {named}");
    expect_none(&objections)
}

/// Whether a file has a test of a name: a function, or a row of the macro that makes some.
fn has_test(source: &str, name: &str) -> bool {
    let row = format!("{name} \"");
    let mut lines = source.lines().map(str::trim_start);
    source.contains(&format!("fn {name}(")) || lines.any(|line| line.starts_with(&row))
}
