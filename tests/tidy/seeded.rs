//! The page of seeded bugs lists every switch, and every switch is somewhere in the product.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};

use crate::expect_none;
use crate::tree::{root, texts};

/// Where the switches are.
const SWITCHES: &str = "crates/model/src/seeded_bug.rs";

/// The least bugs that are seeded.
const BUGS_MIN: usize = 25;

#[test]
fn every_seeded_bug_is_listed_with_the_test_that_catches_it() -> Result<()> {
    let page = fs::read_to_string(root()?.join("docs/seeded-bugs.md"))?;
    let switches = read_switches()?;
    anyhow::ensure!(switches.len() >= BUGS_MIN, "{} bugs", switches.len());
    let mut objections = Vec::new();
    let mut listed = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let quoted: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let name = quoted.first().context("a name")?;
        let place = quoted.iter().position(|word| word.ends_with(".rs"));
        let Some((path, test)) = place.and_then(|at| Some((quoted[at], *quoted.get(at + 1)?)))
        else {
            objections.push(format!("{name} names no test"));
            continue;
        };
        let source = fs::read_to_string(root()?.join(path)).unwrap_or_default();
        if !source.contains(&format!("fn {test}(")) {
            objections.push(format!("{path} has no test {test}"));
        }
        if row.contains("| by its test |") && !source.contains(&format!("\"{name}\"")) {
            objections.push(format!("{test} does not seed {name}"));
        }
        if !listed.insert((*name).to_owned()) {
            objections.push(format!("{name} is listed twice"));
        }
    }
    let names: BTreeSet<String> = switches.into_iter().map(|(_, name)| name).collect();
    let missing = names.difference(&listed);
    objections.extend(missing.map(|name| format!("{name} is not listed in docs/seeded-bugs.md")));
    let idle = listed.difference(&names);
    objections.extend(idle.map(|name| format!("{name} is listed and no switch")));
    expect_none(&objections)
}

#[test]
fn every_seeded_bug_is_in_the_product() -> Result<()> {
    let sources: String = texts()?
        .into_iter()
        .filter(|text| text.path.contains("/src/") && text.path != SWITCHES)
        .map(|text| text.content)
        .collect();
    let objections: Vec<String> = read_switches()?
        .into_iter()
        .filter(|(variant, _)| !is_used(&sources, variant))
        .map(|(variant, _)| format!("nothing asks for SeededBug::{variant}"))
        .collect();
    expect_none(&objections)
}

fn is_used(sources: &str, variant: &str) -> bool {
    let asked = format!("SeededBug::{variant}");
    let mut behind = sources.split(&asked).skip(1);
    behind.any(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// Each switch, as the code and as a process's environment spell it.
fn read_switches() -> Result<Vec<(String, String)>> {
    let source = fs::read_to_string(root()?.join(SWITCHES))?;
    let list = source
        .split("\nseeded_bugs! {")
        .nth(1)
        .context("the list")?;
    let list = list.split("\n}\n").next().unwrap_or_default();
    let switch = |line: &str| {
        let (variant, name) = line.trim().split_once(" = \"")?;
        Some((variant.to_owned(), name.strip_suffix("\",")?.to_owned()))
    };
    Ok(list.lines().filter_map(switch).collect())
}
