//! The console, opened from the command line; and the commands that its pages print.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use semel_testkit::{Program, patience};

use crate::first_minutes::run;

/// A page of the console, as curl gets it with the cookie of its sign-in.
async fn page(home: &Path, base: &str, path: &str) -> Result<String> {
    run(
        home,
        &format!("curl -sSf -b jar '{base}/console/default{path}'"),
    )
    .await
}

#[tokio::test]
async fn the_console_opens_with_one_command_and_the_commands_of_its_pages_work() -> Result<()> {
    let home = tempfile::tempdir()?;
    let home = home.path();
    let dev = Program::semel()?.arg("dev").current_dir(home).start()?;
    dev.until_line("/console/sign-in#", patience()).await?;
    run(home, "semel init greet").await?;
    dev.until_line("greet r1 is live", patience()).await?;
    let start = "semel run start greet --input '{\"id\":\"7\",\"name\":\"Ada\"}' --wait 30s";
    run(home, start).await?;
    run(home, start).await?;

    let opened = run(home, "semel open 7 --print").await?;
    let url = opened
        .lines()
        .find(|line| line.starts_with("http"))
        .context("an address")?;
    let (address, code) = url.split_once('#').context("a code")?;
    ensure!(
        address.contains("?to=%2Fconsole%2Fdefault%2Fruns%3Fq%3D7"),
        "{url}"
    );
    let base = address.split("/console/").next().context("a server")?;
    let entered = format!(
        "curl -sS -o /dev/null -w '%{{http_code}}' -c JAR -H 'sec-fetch-site: same-origin' \
         --data-urlencode 'code={code}' '{base}/console/sign-in'"
    );
    let status = run(home, &entered.replace("JAR", "jar")).await?;
    ensure!(status.trim() == "303", "{url}: {status}");
    let again = run(home, &entered.replace("JAR", "none")).await?;
    ensure!(again.trim() == "400", "a code works once: {again}");

    let pages = [
        "/",
        "/runs",
        "/runs?q=state%3Asucceeded",
        "/keys?key=7",
        "/doubts",
        "/approvals",
        "/approvals?all=yes",
        "/duplicates",
        "/duplicates?held=yes",
        "/effects",
        "/effects?state=done",
        "/flows",
        "/flows/greet",
        "/flows/greet/diff/r1..r1",
        "/flows/greet/releases/1/rehearsal",
        "/schedules",
        "/connections",
        "/secrets",
        "/subscriptions",
        "/tasks",
        "/jobs",
        "/replays",
        "/settings",
        "/audit",
        "/tokens",
    ];
    for path in pages {
        let shown = page(home, base, path).await?;
        let command = shown.split("<dt>Command</dt><dd><code data-copy>").nth(1);
        let command = command.and_then(|rest| rest.split("</code>").next());
        let command = command.context("a command")?.replace("&#39;", "'");
        run(home, &command)
            .await
            .with_context(|| format!("{path}: {command}"))?;
    }
    let story = page(home, base, "/keys?key=7").await?;
    ensure!(
        story.contains("1 run; 1 repeat got the first answer."),
        "{story}"
    );
    Ok(())
}
