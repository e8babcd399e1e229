//! `semel once`: a command runs once under its key, and its end says what a repeat finds.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use semel_testkit::program::Finished;
use semel_testkit::{Process, Program, Proxy, free_address, patience, until};
use serde_json::{Value, json};

use crate::desk::Desk;

/// A server, and a file that commands write to.
struct Place {
    desk: Desk,
}

impl Place {
    async fn open() -> Result<Self> {
        Ok(Self {
            desk: Desk::open(&[]).await?,
        })
    }

    /// `semel once` with options, a key, and a line of shell for its command.
    fn program(&self, options: &[&str], key: &str, line: &str) -> Result<Program> {
        Ok(Program::semel()?
            .arg("once")
            .args(options)
            .args([key, "--", "sh", "-c", line])
            .env("SEMEL_URL", self.desk.url())
            .env("SEMEL_TOKEN", self.desk.token())
            .current_dir(self.desk.folder()))
    }

    fn start(&self, options: &[&str], key: &str, line: &str) -> Result<Process> {
        self.program(options, key, line)?.start()
    }

    async fn once(&self, options: &[&str], key: &str, line: &str) -> Result<Finished> {
        self.program(options, key, line)?.run(patience()).await
    }

    /// Runs `semel once` and expects its exit code.
    async fn exits(&self, code: i32, options: &[&str], key: &str, line: &str) -> Result<Finished> {
        let ended = self.once(options, key, line).await?;
        ensure!(ended.status.code() == Some(code), "{code}: {ended:?}");
        Ok(ended)
    }

    fn note(&self, name: &str) -> PathBuf {
        self.desk.folder().join(name)
    }

    /// The lines that commands wrote to a file.
    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.note(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn until_noted(&self, name: &str) -> Result<Vec<String>> {
        let look = async || Ok(self.lines(name));
        until(&format!("lines in {name}"), look, |lines| !lines.is_empty()).await
    }
}

#[tokio::test]
async fn a_repeat_prints_the_stored_output_and_runs_nothing() -> Result<()> {
    let place = Place::open().await?;
    let line = r#"echo ran >> ran; echo "$SEMEL_KEY ${SEMEL_TOKEN:-none}"; printf 'a\0b'"#;

    let first = place.exits(0, &[], "charge:o-1", line).await?;
    let again = place.exits(0, &[], "charge:o-1", line).await?;
    let program = place.exits(0, &["--json"], "charge:o-1", line).await?;

    ensure!(first.stdout.starts_with("eff_"), "{first:?}");
    ensure!(first.stdout.contains(" none\n"), "no token: {first:?}");
    assert_eq!(first.stdout, again.stdout);
    let told: Value = serde_json::from_str(&program.stdout)?;
    assert_eq!(told["data"]["state"], json!("done"));
    assert_eq!(place.lines("ran").len(), 1);
    let other = place.exits(6, &[], "charge:o-1", "echo other").await?;
    ensure!(other.stderr.contains("another command"), "{other:?}");
    let scoped = ["--scope", "billing"];
    place.exits(0, &scoped, "charge:o-1", line).await?;
    assert_eq!(place.lines("ran").len(), 2, "another scope is another key");
    let listed = place.desk.data("semel once list --scope billing").await?;
    assert_eq!(listed["items"][0]["key"], json!("charge:o-1"));
    Ok(())
}

#[tokio::test]
async fn a_listed_code_runs_again_and_any_other_is_a_doubt_to_settle() -> Result<()> {
    let place = Place::open().await?;
    let failing = r#"echo "$SEMEL_KEY" >> keys; [ -f fixed ] || exit 2; echo paid"#;
    let listed = ["--failed", "2,9"];

    place.exits(2, &listed, "a", failing).await?;
    std::fs::write(place.note("fixed"), "")?;
    let done = place.exits(0, &listed, "a", failing).await?;
    assert_eq!(done.stdout, "paid\n");
    let keys = place.lines("keys");
    ensure!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");

    let odd = "echo ran >> odd; exit 17";
    let first = place.exits(4, &[], "b", odd).await?;
    ensure!(first.stderr.contains("exited with 17"), "{first:?}");
    let repeat = place.exits(4, &[], "b", odd).await?;
    ensure!(
        repeat.stderr.contains(", process "),
        "who held it: {repeat:?}"
    );
    ensure!(repeat.stderr.contains("semel once settle b"), "{repeat:?}");
    place.exits(1, &["--on-doubt", "fail"], "b", odd).await?;
    assert_eq!(place.lines("odd").len(), 1);

    let settle = "semel once settle b --did-not-happen --reason checked";
    for _ in 0..2 {
        place.desk.say(settle).await?;
    }
    place.exits(4, &[], "b", odd).await?;
    assert_eq!(place.lines("odd").len(), 2, "it ran again");
    let result = r#"'{"stdout": "by hand\n"}'"#;
    let settle = format!("semel once settle b --happened --result {result} --reason seen");
    place.desk.say(&settle).await?;
    let settled = place.exits(0, &[], "b", odd).await?;
    assert_eq!(settled.stdout, "by hand\n");
    place
        .desk
        .say("semel once redo b --reason 'a new one'")
        .await?;
    place.exits(4, &[], "b", odd).await?;
    assert_eq!(place.lines("odd").len(), 3);
    Ok(())
}

#[tokio::test]
async fn a_repeat_waits_for_the_process_that_holds_the_key() -> Result<()> {
    let place = Place::open().await?;
    let line = "echo ran >> ran; while [ ! -f go ]; do sleep 0.1; done; echo done";
    let mut first = place.start(&[], "a", line)?;
    place.until_noted("ran").await?;

    let busy = place.exits(3, &["--wait", "0"], "a", line).await?;
    ensure!(busy.stderr.contains("holds the key"), "{busy:?}");
    // It is told that another holds the key, and hears it once that one has ended: so it asks again.
    let server = place.desk.url().trim_start_matches("http://");
    let proxy = Proxy::start(server.parse()?).await?;
    proxy.hold_answers();
    let mut second = place
        .program(&[], "a", line)?
        .env("SEMEL_URL", format!("http://{}", proxy.address()))
        .start()?;
    proxy.until_held(1, patience()).await?;
    std::fs::write(place.note("go"), "")?;
    ensure!(first.until_exit(patience()).await?.success());
    proxy.resume();

    ensure!(second.until_exit(patience()).await?.success());
    assert_eq!(second.stdout(), "done\n");
    assert_eq!(place.lines("ran").len(), 1);
    Ok(())
}

#[tokio::test]
async fn without_a_server_nothing_runs() -> Result<()> {
    let place = Place::open().await?;
    let nowhere = format!("http://{}", free_address()?);

    let ended = place
        .program(&["--url", &nowhere], "a", "echo ran >> ran")?
        .run(patience())
        .await?;

    assert_eq!(ended.status.code(), Some(8), "{ended:?}");
    ensure!(place.lines("ran").is_empty());
    Ok(())
}

#[tokio::test]
async fn signals_are_the_commands_and_a_missing_command_is_no_doubt() -> Result<()> {
    let place = Place::open().await?;
    let line = "trap 'echo stopped; exit 0' TERM; echo ready >> ready; while :; do sleep 0.1; done";
    let mut once = place.start(&[], "a", line)?;
    place.until_noted("ready").await?;

    once.sigterm()?;
    let status = once.until_exit(patience()).await?;

    ensure!(status.success(), "{status}: {}", once.stderr());
    assert_eq!(once.stdout(), "stopped\n");
    let (url, token) = (place.desk.url(), place.desk.token());
    let missing = Program::semel()?
        .args([
            "once",
            "--url",
            url,
            "--token",
            token,
            "b",
            "--",
            "./not-there",
        ])
        .current_dir(place.desk.folder())
        .run(patience())
        .await?;
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
    let shown = place.desk.data("semel once show b").await?;
    assert_eq!(shown["state"], json!("failed"));
    Ok(())
}

#[tokio::test]
async fn a_command_that_may_be_repeated_dies_with_its_parent() -> Result<()> {
    let place = Place::open().await?;
    let line = "sleep 300 & echo $$ $! > pids; wait";
    let mut once = place.start(&["--on-doubt", "retry", "--lease", "2s"], "a", line)?;
    let noted = place.until_noted("pids").await?;
    let pids: Vec<u32> = noted[0].split(' ').flat_map(str::parse).collect();
    ensure!(pids.len() == 2, "{noted:?}");

    once.sigkill()?;

    until_dead(&pids).await?;
    let look = async || place.desk.data("semel once show a").await;
    let in_doubt = |shown: &Value| shown["state"] == json!("in_doubt");
    let shown = until("the effect to be in doubt", look, in_doubt).await?;
    shown["retry_at"]
        .as_str()
        .context("when it may run again")?;
    let options = ["--on-doubt", "retry", "--wait", "0s"];
    place.exits(4, &options, "a", line).await?;
    Ok(())
}

#[tokio::test]
async fn a_command_that_may_be_repeated_leaves_nothing_behind_when_its_end_is_reported()
-> Result<()> {
    let place = Place::open().await?;
    let retry = ["--on-doubt", "retry", "--failed", "2"];

    let failing = "sleep 300 & echo $! > left; exit 2";
    place.exits(2, &retry, "a", failing).await?;
    let left = place.until_noted("left").await?;
    let line = "sleep 300 & echo $PPID $$ $! > pids; wait";
    let mut once = place.start(&retry, "b", line)?;
    let noted = place.until_noted("pids").await?;
    let pids: Vec<u32> = noted[0].split(' ').flat_map(str::parse).collect();
    let [supervisor, command, background] = pids[..] else {
        anyhow::bail!("{noted:?}");
    };
    // The supervisor alone is killed, as a system without memory does.
    kill(supervisor).await?;
    let status = once.until_exit(patience()).await?;

    assert_eq!(status.code(), Some(4), "{}", once.stderr());
    until_dead(&[left[0].parse()?, command, background]).await
}

async fn kill(pid: u32) -> Result<()> {
    let kill = tokio::process::Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .status();
    ensure!(kill.await?.success(), "{pid} is not killed");
    Ok(())
}

/// Waits until none of these processes runs.
async fn until_dead(pids: &[u32]) -> Result<()> {
    let alive = async || {
        let alive = pids.iter().filter(|pid| is_alive(**pid));
        Ok(alive.copied().collect::<Vec<u32>>())
    };
    until("every process to end", alive, Vec::is_empty).await?;
    Ok(())
}

/// Whether a process runs; one that is a zombie does not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let mut rest = stat.rsplit(") ");
    let state = rest.next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

#[tokio::test]
async fn the_page_about_once_works_as_printed() -> Result<()> {
    let page = include_str!("../../docs/once.md");
    let place = Place::open().await?;
    let blocks = page.split("```sh\n").skip(1);
    let blocks: Vec<&str> = blocks.filter_map(|rest| rest.split("```").next()).collect();
    ensure!(blocks.len() == 3, "the page has its examples: {blocks:?}");
    let mut said = Vec::new();
    for block in &blocks {
        let first = place.desk.say(block).await?;
        assert_eq!(place.desk.say(block).await?, first, "{block}");
        said.push(first);
    }
    assert_eq!(said[0], "charged o-1\ncharged o-1\n");
    assert_eq!(said[2], "charged o-2\ncharged o-3\ncharged o-4\n");
    // The line of cron, with the command replaced by one that is here.
    let cron = page.lines().find(|line| line.starts_with("0 6 * * *"));
    let line = cron
        .context("the line of cron")?
        .trim_start_matches("0 6 * * *");
    let line = line
        .replace("\\%", "%")
        .replace("/usr/local/bin/send-report", "echo sent");
    for _ in 0..2 {
        assert_eq!(place.desk.say(&line).await?, "sent\n");
    }
    Ok(())
}
