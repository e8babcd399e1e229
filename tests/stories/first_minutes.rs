//! The first minutes: exactly the commands of the README, in an empty directory, from nothing.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use semel_testkit::{Process, Program, Stopwatch, patience};

/// What `semel dev` may take from nothing to serving, where that is measured: with `SEMEL_FIGURES`.
const SERVES_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test]
async fn the_readme_works_as_printed() -> Result<()> {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md"))?;
    let commands = commands_of(&readme, "## Try it")?;
    let home = tempfile::tempdir()?;
    let mut served: Option<(Process, String)> = None;
    let mut said = Vec::new();

    for command in &commands {
        if command == "semel dev" {
            served = Some(start_dev(home.path()).await?);
            continue;
        }
        let command = match &served {
            Some((_, url)) => command.replace("http://127.0.0.1:7171", url),
            None => command.clone(),
        };
        if command.starts_with("curl ") {
            let (dev, _) = served.as_ref().context("`semel dev` comes before curl")?;
            ensure!(
                printed(dev).contains(&command),
                "not printed by `semel dev`: {command}"
            );
            let first = run(home.path(), &format!("{command} -i")).await?;
            let again = run(home.path(), &format!("{command} -i")).await?;
            assert_eq!(run_of(&first)?, run_of(&again)?, "one key, one run");
            assert!(
                !first.to_lowercase().contains("idempotency-replayed: true"),
                "{first}"
            );
            assert!(
                again.to_lowercase().contains("idempotency-replayed: true"),
                "{again}"
            );
            let listed = run(home.path(), "semel duplicate list").await?;
            assert!(listed.contains("repeat"), "it is listed at once: {listed}");
        } else {
            said.push(run(home.path(), &command).await?);
        }
    }

    let said = said.join("\n");
    assert!(said.contains("succeeded"), "the run is listed: {said}");
    assert!(said.contains("repeat"), "the repeat is listed: {said}");
    let (dev, _) = served.as_mut().context("the README starts `semel dev`")?;
    dev.sigterm()?;
    let status = dev.until_exit(patience()).await?;
    assert!(status.success(), "a stop is clean: {status}");
    Ok(())
}

/// The lines of the shell blocks under a heading.
fn commands_of(readme: &str, heading: &str) -> Result<Vec<String>> {
    let (_, section) = readme.split_once(heading).context("the heading is there")?;
    let section = section.split("\n## ").next().unwrap_or(section);
    let blocks = section
        .split("```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let commands: Vec<String> = blocks.flat_map(str::lines).map(str::to_owned).collect();
    ensure!(commands.len() >= 5, "the README has its commands");
    Ok(commands)
}

async fn start_dev(home: &Path) -> Result<(Process, String)> {
    let begun = Stopwatch::start();
    let dev = Program::semel()?.arg("dev").current_dir(home).start()?;
    dev.until_line("semel is ready at", patience()).await?;
    let took = begun.elapsed();
    println!("`semel dev` served after {took:?}");
    if std::env::var_os("SEMEL_FIGURES").is_some() {
        ensure!(took < SERVES_WITHIN, "`semel dev` took {took:?}");
    }
    let printed = printed(&dev);
    let url = printed
        .split("semel is ready at ")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    let url = url.context("the address is printed")?.trim().to_owned();
    dev.until_line("curl ", patience()).await?;
    Ok((dev, url))
}

fn printed(process: &Process) -> String {
    format!("{}{}", process.stdout(), process.stderr())
}

/// Runs a line in a shell that finds the binary under test.
pub(crate) async fn run(home: &Path, line: &str) -> Result<String> {
    let semel = Program::semel()?.path();
    let bin = semel.parent().context("the binary is in a directory")?;
    let path = format!("{}:{}", bin.display(), std::env::var("PATH")?);
    let finished = Program::at("/bin/sh")
        .args(["-c", line])
        .env("PATH", path)
        .current_dir(home)
        .run(patience())
        .await?;
    ensure!(
        finished.status.success(),
        "{line}\n{}{}",
        finished.stdout,
        finished.stderr
    );
    Ok(finished.stdout)
}

fn run_of(answer: &str) -> Result<&str> {
    let rest = answer
        .split("\"run\":\"")
        .nth(1)
        .context("the answer names a run")?;
    rest.split('"').next().context("the run has an end")
}
