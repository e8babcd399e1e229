//! A rehearsal finds defects of Semel itself: bugs of `docs/seeded-bugs.md`, each armed in a process
//! of its own that rehearses a recipe.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::stream::{self, StreamExt as _};
use semel_rehearse::{CaseReport, CaseVerdict, Report};
use semel_testkit::Program;

use crate::recipes::{connections_of, read};
use crate::stage::World;

/// Each bug, and the recipe whose rehearsal shows it.
const BUGS: [(&str, &str); 12] = [
    ("key-not-unique", "order-paid"),
    ("outcome-before-send", "order-paid"),
    ("new-key-on-retry", "incident-paging"),
    ("retry-without-guard", "order-paid"),
    ("doubt-taken-for-failure", "order-paid"),
    ("probe-finding-ignored", "order-paid"),
    ("name-done-before-effect", "refund"),
    ("second-decision-wins", "refund"),
    ("missing-fence", "order-paid"),
    ("item-key-ignored", "csv-import"),
    ("tick-keyed-by-now", "renewal-reminders"),
    ("wait-answered-twice", "remote-build"),
];

/// The variable that names the bug of a process.
const BUG: &str = "SEMEL_SEEDED_BUG";

/// The variable that names the recipe that a process rehearses.
const RECIPE: &str = "SEMEL_REHEARSED_RECIPE";

/// What stands before the report that a process prints.
const REPORT: &str = "report: ";

/// How long one rehearsal may take, with a bug that makes it wait.
const PATIENCE: Duration = Duration::from_secs(170);

/// How many processes rehearse at once.
const TOGETHER: usize = 2;

#[tokio::test]
async fn rehearsals_of_recipes_find_bugs_of_the_engine() -> Result<()> {
    let rehearsals = BUGS.map(|(bug, recipe)| async move {
        let found = find(bug, recipe).await;
        found.with_context(|| format!("{bug} is not found by {recipe}"))
    });
    let found: Vec<Result<String>> = stream::iter(rehearsals).buffered(TOGETHER).collect().await;

    let mut missed = Vec::new();
    for one in found {
        match one {
            Ok(line) => println!("{line}"),
            Err(error) => missed.push(format!("{error:#}")),
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    Ok(())
}

/// Rehearses a recipe with a bug; the violation that names a step and a fault.
async fn find(bug: &str, recipe: &str) -> Result<String> {
    let name = "engine_bugs::a_recipe_is_rehearsed_with_the_bug_of_this_process";
    let finished = Program::at(std::env::current_exe()?)
        .args(["--exact", "--include-ignored", "--nocapture", name])
        .env(BUG, bug)
        .env(RECIPE, recipe)
        .run(PATIENCE)
        .await?;
    let line = finished
        .stdout
        .lines()
        .find_map(|line| line.split(REPORT).nth(1));
    let line = line.with_context(|| format!("{}{}", finished.stdout, finished.stderr))?;
    let report: Report = serde_json::from_str(line)?;
    let names_a_step = |case: &&CaseReport| {
        let named = case.violations.iter().any(|one| one.step.is_some());
        case.verdict == CaseVerdict::Violated
            && case.fault != "none"
            && (named || case.fault.contains('@'))
    };
    let case = report.cases.iter().find(names_a_step);
    let case = case.with_context(|| report.to_text())?;
    ensure!(!report.passed && case.repeat.is_some(), "{case:?}");
    let violation = case.violations.iter().find(|one| one.step.is_some());
    let violation = violation
        .or(case.violations.first())
        .context("a violation")?;
    let (fault, code) = (&case.fault, &violation.code);
    let step = violation.step.as_deref().unwrap_or("-");
    Ok(format!("{bug:26} {recipe:18} {fault:36} {code} {step}"))
}

#[tokio::test]
#[ignore = "a process of rehearsals_of_recipes_find_bugs_of_the_engine"]
async fn a_recipe_is_rehearsed_with_the_bug_of_this_process() -> Result<()> {
    let recipe = std::env::var(RECIPE)?;
    let world = World::start().await?;
    let source = read(&recipe)?;
    let file = format!("{recipe}.flow.yaml");

    let report = world
        .rehearse(&file, &source, connections_of(&recipe))
        .await?;

    println!("{REPORT}{}", serde_json::to_string(&report)?);
    Ok(())
}
