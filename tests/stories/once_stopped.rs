//! `semel once` that is stopped, not killed: its command does not run on beside another one.

use std::collections::HashSet;
use std::fs::File;

use anyhow::{Result, anyhow, ensure};
use semel_testkit::{Process, Program, Proxy, patience, until};
use serde_json::{Value, json};

use crate::desk::Desk;

/// Under these options another process may run the command again. The supervisor sends TERM after 4
/// seconds without an answered heartbeat, and KILL a second later.
const RETRY: [&str; 4] = ["--on-doubt", "retry", "--lease", "6s"];

/// `semel once` with options, a key, and a line of shell for its command.
fn once(desk: &Desk, options: &[&str], key: &str, line: &str) -> Result<Program> {
    Ok(Program::semel()?
        .arg("once")
        .args(options)
        .args([key, "--", "sh", "-c", line])
        .env("SEMEL_URL", desk.url())
        .env("SEMEL_TOKEN", desk.token())
        .current_dir(desk.folder()))
}

/// The lines that a command wrote to a file.
fn lines(desk: &Desk, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(desk.folder().join(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Waits until a command has noted its processes, and gives their numbers.
async fn until_noted<const COUNT: usize>(desk: &Desk, name: &str) -> Result<[u32; COUNT]> {
    let look = async || Ok(lines(desk, name));
    let noted = until(&format!("lines in {name}"), look, |noted| !noted.is_empty()).await?;
    let pids: Vec<u32> = noted[0].split(' ').flat_map(str::parse).collect();
    <[u32; COUNT]>::try_from(pids).map_err(|pids| anyhow!("{COUNT} processes, not {pids:?}"))
}

/// The letter that the system shows for the state of a process; `T` is stopped. So is a shell that waits for a child
/// which was stopped before it became another program, though the system calls that `D`.
fn state(pid: u32) -> Option<char> {
    let letter = letter(pid)?;
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let mut children = children.split_whitespace().peekable();
    let waits = letter == 'D' && children.peek().is_some();
    let mut children = children.filter_map(|child| child.parse().ok());
    match waits && children.all(|child| self::letter(child) == Some('T')) {
        true => Some('T'),
        false => Some(letter),
    }
}

fn letter(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.chars().next()
}

fn states(pids: &[u32]) -> Vec<Option<char>> {
    pids.iter().map(|pid| state(*pid)).collect()
}

async fn until_stopped(pids: &[u32]) -> Result<()> {
    let look = async || Ok(states(pids));
    let are_stopped = |seen: &Vec<Option<char>>| seen.iter().all(|state| *state == Some('T'));
    until("every process to be stopped", look, are_stopped).await?;
    Ok(())
}

/// Waits until none of these processes runs; one that is a zombie does not.
async fn until_ended(pids: &[u32]) -> Result<()> {
    let look = async || Ok(states(pids));
    let are_ended = |seen: &Vec<Option<char>>| {
        let mut seen = seen.iter();
        seen.all(|state| matches!(state, None | Some('Z' | 'X')))
    };
    until("every process to end", look, are_ended).await?;
    Ok(())
}

/// Waits until the server counts the process that holds a key as lost.
async fn until_in_doubt(desk: &Desk, key: &str) -> Result<()> {
    let line = format!("semel once show {key}");
    let look = async || desk.data(&line).await;
    let in_doubt = |shown: &Value| shown["state"] == json!("in_doubt");
    until("the effect to be in doubt", look, in_doubt).await?;
    Ok(())
}

async fn signal(pid: u32, name: &str) -> Result<()> {
    let kill = tokio::process::Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status();
    ensure!(kill.await?.success(), "{name} is not sent to {pid}");
    Ok(())
}

/// Waits for the end, and expects its exit code.
async fn exits(code: i32, once: &mut Process) -> Result<()> {
    let status = once.until_exit(patience()).await?;
    ensure!(status.code() == Some(code), "{status}: {}", once.stderr());
    Ok(())
}

#[tokio::test]
async fn a_command_that_may_be_repeated_ends_although_semel_once_is_stopped() -> Result<()> {
    let desk = Desk::open(&[]).await?;
    let line = "sleep 300 & echo $PPID $$ $! > pids; wait";
    let mut once = once(&desk, &RETRY, "a", line)?.start()?;
    let pids: [u32; 3] = until_noted(&desk, "pids").await?;

    once.sigstop()?;

    until_ended(&pids).await?;
    assert_eq!(state(once.id()), Some('T'), "nobody let it continue");
    once.sigcont()?;
    exits(4, &mut once).await?;
    let shown = desk.data("semel once show a").await?;
    assert_eq!(shown["state"], json!("in_doubt"));
    Ok(())
}

#[tokio::test]
async fn nothing_of_a_command_is_left_although_it_ends_while_semel_once_is_stopped() -> Result<()> {
    let desk = Desk::open(&[]).await?;
    let wait = "while [ ! -f go ]; do sleep 0.05; done";
    let line = format!("sleep 300 & echo $PPID $$ $! > pids; {wait}; echo done");
    let options = ["--on-doubt", "retry"];
    let mut once = once(&desk, &options, "a", &line)?.start()?;
    let pids: [u32; 3] = until_noted(&desk, "pids").await?;

    once.sigstop()?;
    until_stopped(&[once.id()]).await?;
    std::fs::write(desk.folder().join("go"), "")?;

    until_ended(&pids).await?;
    once.sigcont()?;
    exits(0, &mut once).await?;
    assert_eq!(once.stdout(), "done\n");
    Ok(())
}

#[tokio::test]
async fn a_command_stops_and_continues_with_semel_once() -> Result<()> {
    let desk = Desk::open(&[]).await?;
    for (key, options) in [("a", &[][..]), ("b", &["--on-doubt", "retry"][..])] {
        let line =
            format!("echo $$ > {key}.pid; while [ ! -f {key}.go ]; do sleep 0.05; done; echo done");
        let mut once = once(&desk, options, key, &line)?.start()?;
        let [command] = until_noted(&desk, &format!("{key}.pid")).await?;

        signal(once.id(), "TSTP").await?;
        until_stopped(&[once.id(), command]).await?;
        once.sigcont()?;
        std::fs::write(desk.folder().join(format!("{key}.go")), "")?;

        exits(0, &mut once).await?;
        assert_eq!(once.stdout(), "done\n", "{key}");
    }
    Ok(())
}

#[tokio::test]
async fn ctrl_z_stops_the_command_and_a_late_sigcont_does_not_wake_it() -> Result<()> {
    let desk = Desk::open(&[]).await?;
    let line = "echo $PPID $$ > pids; while :; do echo alive >> alive; sleep 0.05; done";
    let mut once = once(&desk, &RETRY, "a", line)?.start()?;
    let [supervisor, command] = until_noted(&desk, "pids").await?;

    // As on a machine that is frozen, the supervisor cannot end the command.
    signal(supervisor, "STOP").await?;
    until_stopped(&[supervisor]).await?;
    signal(once.id(), "TSTP").await?;
    until_stopped(&[once.id(), command]).await?;
    let alive = lines(&desk, "alive");
    until_in_doubt(&desk, "a").await?;
    assert_eq!(states(&[supervisor, command]), [Some('T'); 2]);
    once.sigcont()?;

    until_ended(&[supervisor, command]).await?;
    assert_eq!(lines(&desk, "alive"), alive, "it was not woken");
    exits(4, &mut once).await
}

#[tokio::test]
async fn a_command_that_stays_stopped_is_asked_to_end_before_it_is_killed() -> Result<()> {
    let desk = Desk::open(&[]).await?;
    let asked = "trap 'echo asked > asked; exit 7' TERM";
    let line = format!("{asked}; echo $PPID $$ > pids; while :; do sleep 0.05; done");
    // Five seconds lie between TERM and KILL.
    let options = ["--on-doubt", "retry", "--lease", "30s"];
    let mut once = once(&desk, &options, "a", &line)?.start()?;
    let [supervisor, command] = until_noted(&desk, "pids").await?;

    signal(once.id(), "TSTP").await?;
    until_stopped(&[once.id(), command]).await?;

    until_ended(&[supervisor, command]).await?;
    assert_eq!(lines(&desk, "asked"), ["asked"]);
    once.sigcont()?;
    exits(4, &mut once).await?;
    let said = once.stderr();
    ensure!(said.contains("exited with 7"), "its own end: {said}");
    Ok(())
}

#[tokio::test]
async fn nothing_is_started_under_a_lease_that_is_over() -> Result<()> {
    let desk = Desk::open(&[]).await?;
    for (key, on_doubt) in [("a", "ask"), ("b", "retry")] {
        let server = desk.url().trim_start_matches("http://");
        let proxy = Proxy::start(server.parse()?).await?;
        proxy.hold_answers();
        let options = ["--lease", "2s", "--on-doubt", on_doubt];
        let mut once = once(&desk, &options, key, "echo ran >> ran")?
            .env("SEMEL_URL", format!("http://{}", proxy.address()))
            .start()?;
        proxy.until_held(1, patience()).await?;
        once.sigstop()?;
        until_stopped(&[once.id()]).await?;
        proxy.resume();
        until_in_doubt(&desk, key).await?;

        once.sigcont()?;

        exits(4, &mut once).await?;
        let said = once.stderr();
        ensure!(said.contains("nothing was run"), "{on_doubt}: {said}");
        ensure!(lines(&desk, "ran").is_empty(), "{on_doubt}: it ran");
    }
    Ok(())
}

#[tokio::test]
async fn a_command_that_is_heard_of_outlives_its_lease() -> Result<()> {
    let desk = Desk::open(&[]).await?;
    let line = "while [ ! -f go ]; do sleep 0.05; done; echo done";
    let mut once = once(&desk, &RETRY, "a", line)?.start()?;

    // The first is from the begin, and each of the others comes two seconds after the one before.
    let mut heard = HashSet::new();
    let look = async || {
        let said = desk.say("semel once show a --json").await.ok();
        let shown: Option<Value> = said.and_then(|said| serde_json::from_str(&said).ok());
        let beat = shown.and_then(|shown| Some(shown["data"]["heartbeat_at"].as_str()?.to_owned()));
        heard.extend(beat);
        Ok(heard.len())
    };
    until("four heartbeats", look, |count| *count > 4).await?;
    std::fs::write(desk.folder().join("go"), "")?;

    exits(0, &mut once).await?;
    assert_eq!(once.stdout(), "done\n");
    Ok(())
}

#[tokio::test]
async fn a_supervised_command_reads_the_input_of_semel_once() -> Result<()> {
    let desk = Desk::open(&[]).await?;
    let input = desk.folder().join("input");
    std::fs::write(&input, "from a file\n")?;

    let ended = once(&desk, &RETRY, "a", "cat")?
        .with_input(File::open(input)?)
        .run(patience())
        .await?;

    ensure!(ended.status.success(), "{ended:?}");
    assert_eq!(ended.stdout, "from a file\n");
    Ok(())
}
