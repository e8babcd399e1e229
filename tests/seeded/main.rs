//! Seeded bugs: each is switched on in turn, and the test that must notice it is run.
//!
//! `docs/seeded-bugs.md` says which test belongs to which bug; `tests/tidy` keeps that page in step
//! with the switches. A bug is caught where its test, built as always, fails within its time. The
//! quick ones are played with every change, all of them by `.ci/long seeded`, which also sees
//! each test pass without its bug.

mod builds;
mod page;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::stream::{self, StreamExt as _};
use semel_testkit::Program;

use self::builds::{Builds, Named};
use self::page::{Bug, Played};

/// How long a test is given.
#[derive(Clone, Copy)]
struct Limits {
    /// For what has to come, in seconds. With its bug a test waits in vain, so this is most of what a bug costs.
    wait: &'static str,
    /// For the whole test. One that still runs has noticed nothing.
    whole: Duration,
}

/// With every change. Where the machine is so slow that a test would need more without its bug as well, the bug seems
/// noticed and is not: [`LONG`] shows by the same limits that the tests are green.
const QUICK: Limits = Limits {
    wait: "5",
    whole: Duration::from_secs(300),
};

/// By `.ci/long seeded`, with the bugs and without.
const LONG: Limits = Limits {
    wait: "15",
    whole: Duration::from_secs(1_800),
};

/// How many tests run at once.
const TOGETHER: usize = 6;

/// The variable that names the bug of a process.
const VARIABLE: &str = "SEMEL_SEEDED_BUG";

/// The name of the bug that is to be played alone, by hand.
const ONLY: &str = "SEMEL_SEEDED_ONLY";

#[tokio::test(flavor = "multi_thread")]
async fn each_quick_bug_turns_its_test_red() -> Result<()> {
    let bugs = page::read()?;
    let quick = bugs
        .into_iter()
        .filter(|bug| bug.played == Played::EachChange);
    play(quick.filter(is_wanted).collect(), QUICK).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes: played by .ci/long seeded"]
async fn every_bug_turns_a_test_red_that_is_green_without_it() -> Result<()> {
    let bugs = page::read()?;
    let played = bugs
        .into_iter()
        .filter(|bug| bug.played != Played::ByItsTest);
    let played: Vec<Bug> = played.filter(is_wanted).collect();
    let builds = Builds::make()?;

    let tests: BTreeSet<(&str, &str)> = played.iter().map(Bug::test).collect();
    let green = tests.into_iter().map(|(path, name)| {
        let test = builds.find(path, name);
        async move {
            let run = run(&test?, None, LONG).await?;
            ensure!(run.is_none(), "{name} fails without any bug: {run:?}");
            Ok(())
        }
    });
    gather(green).await?;

    play(played, LONG).await
}

fn is_wanted(bug: &Bug) -> bool {
    std::env::var(ONLY).map_or(true, |only| only == bug.name)
}

/// Plays bugs, and fails with the names of those that nothing noticed.
async fn play(bugs: Vec<Bug>, limits: Limits) -> Result<()> {
    ensure!(!bugs.is_empty(), "there are bugs to play");
    let builds = Builds::make()?;
    let (count, begun) = (bugs.len(), Instant::now());
    let runs = bugs.iter().map(|bug| {
        let (path, name) = bug.test();
        let test = builds.find(path, name);
        async move {
            let begun = Instant::now();
            let noticed = run(&test?, Some(&bug.name), limits).await;
            let noticed = noticed.with_context(|| format!("{} in {name}", bug.name))?;
            let why = noticed.with_context(|| format!("{name} does not notice {}", bug.name))?;
            println!(
                "{:28} {:5.1} s  {name}: {why}",
                bug.name,
                begun.elapsed().as_secs_f64()
            );
            Ok(())
        }
    });
    gather(runs).await?;
    println!(
        "{count} bugs caught in {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Runs some at a time, and fails with all that failed.
async fn gather(runs: impl Iterator<Item = impl Future<Output = Result<()>>>) -> Result<()> {
    let results: Vec<Result<()>> = stream::iter(runs)
        .buffer_unordered(TOGETHER)
        .collect()
        .await;
    let failures: Vec<String> = results
        .into_iter()
        .filter_map(Result::err)
        .map(|error| format!("{error:#}"))
        .collect();
    ensure!(failures.is_empty(), "\n{}\n", failures.join("\n"));
    Ok(())
}

/// Runs one test; gives what it says where it fails, and nothing where it passes.
async fn run(test: &Named, bug: Option<&str>, limits: Limits) -> Result<Option<String>> {
    let arguments = [
        "--exact",
        "--include-ignored",
        "--nocapture",
        test.name.as_str(),
    ];
    let mut program = Program::at(&test.executable)
        .args(arguments)
        .current_dir(&test.package);
    if let Some(bug) = bug {
        // The cases that a law fails with are the bug's, and not kept.
        let keep_none = "PROPTEST_DISABLE_FAILURE_PERSISTENCE";
        program = program.env(VARIABLE, bug).env(keep_none, "1");
    }
    program = program.env(semel_testkit::patience::VARIABLE, limits.wait);
    let finished = program.run(limits.whole).await?;
    let (said, wrote) = (&finished.stdout, &finished.stderr);
    match finished.status.code() {
        Some(0) => {
            ensure!(
                said.contains("1 passed"),
                "{} was not run: {said}",
                test.name
            );
            Ok(None)
        }
        // What the test harness ends with where a test has failed.
        Some(101) => Ok(Some(reason(said, wrote))),
        code => anyhow::bail!("{} ended with {code:?}: {said}{wrote}", test.name),
    }
}

/// The line that says why a test failed.
fn reason(said: &str, wrote: &str) -> String {
    let lines = || wrote.lines().chain(said.lines());
    let mut behind_panic = lines()
        .skip_while(|line| !line.contains("panicked at"))
        .skip(1);
    let error = lines().find(|line| line.starts_with("Error: "));
    let line = behind_panic.next().or(error).unwrap_or("it says nothing");
    line.trim().chars().take(160).collect()
}
