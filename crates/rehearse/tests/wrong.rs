//! Wrong flows: each fails its rehearsal, with the step and the fault named and a command that
//! repeats the case.
//!
//! A file says in its first line what is found: `# expect: CODE STEP`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use semel_rehearse::{CaseReport, Selection};
use serde_json::json;

use crate::stage::World;

fn files() -> Result<Vec<PathBuf>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wrong");
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    files.sort();
    ensure!(files.len() >= 40, "{} wrong flows", files.len());
    Ok(files)
}

/// Into how many tests the files are divided.
const PARTS: usize = 4;

async fn fail(part: usize) -> Result<()> {
    let world = World::start().await?;
    let mut objections = Vec::new();
    for path in files()?.iter().skip(part).step_by(PARTS) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Err(error) = fails_as_expected(&world, path).await {
            objections.push(format!("{name}: {error:#}"));
        }
    }
    assert!(objections.is_empty(), "{}", objections.join("\n"));
    Ok(())
}

#[tokio::test]
async fn every_wrong_flow_fails_with_its_step_and_a_case_that_repeats() -> Result<()> {
    fail(0).await
}

#[tokio::test]
async fn every_wrong_flow_of_the_second_part_fails() -> Result<()> {
    fail(1).await
}

#[tokio::test]
async fn every_wrong_flow_of_the_third_part_fails() -> Result<()> {
    fail(2).await
}

#[tokio::test]
async fn every_wrong_flow_of_the_fourth_part_fails() -> Result<()> {
    fail(3).await
}

async fn fails_as_expected(world: &World, path: &Path) -> Result<()> {
    let source = fs::read_to_string(path)?;
    let expected = source
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("# expect: "));
    let (code, step) = expected
        .map(|words| words.split_once(' ').unwrap_or((words, "")))
        .context("the first line says what is expected")?;
    let report = world
        .rehearse("wrong.flow.yaml", &source, json!({}))
        .await?;
    let fits = |case: &&CaseReport| {
        let mut violations = case.violations.iter();
        violations.any(|one| one.code == code && one.step.as_deref().unwrap_or_default() == step)
    };
    let case = report.cases.iter().find(fits);
    let case = case.with_context(|| format!("no {code} {step} in:\n{}", report.to_text()))?;
    ensure!(case.repeat.is_some(), "a violation prints a command");

    let selection = Selection {
        example: Some(case.example.clone()),
        fault: Some(case.fault.clone()),
        seed: 0,
    };
    let again = world
        .rehearse_some("wrong.flow.yaml", &source, json!({}), &selection)
        .await?;
    let repeated = again
        .cases
        .iter()
        .any(|one| one.fault == case.fault && fits(&one));
    ensure!(repeated, "the case does not repeat:\n{}", again.to_text());
    Ok(())
}
