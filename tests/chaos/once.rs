//! `semel once` under fire: many processes for each key, while processes and servers are killed.
//!
//! Each command writes a line to the file of its key, so what ran is counted there and not in a table
//! of Semel's. A process that was killed leaves a doubt; the test settles it as an operator would, by
//! looking at the file.

mod points;

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::try_join_all;
use semel_testkit::program::Finished;
use semel_testkit::{
    Chance, Cluster, Connection, Options, Program, free_address, pace, patience, until,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Mutex, Notify};

use crate::campaign::{keep_figures, size, storage};
use crate::harness::Harness;
use crate::invariants;
use crate::queries::{until_count, until_none};
use crate::servers::{Home, faults, serve_at};

/// How many keys there are, and how many processes for each, unless the environment says otherwise.
const KEYS: usize = 12;
const TIMES: usize = 8;

/// How many processes run at a time.
const AT_A_TIME: usize = 8;

/// One of so many processes is killed.
const KILLED_OF: usize = 6;

/// The longest that a process which is to be killed may live, in milliseconds.
const LIFE_MS_MAX: usize = 600;

/// How often the server is killed.
const KILL_EVERY: Duration = Duration::from_secs(3);

/// When the server is killed for the first time: a quick machine is through in three seconds.
const FIRST_KILL: Duration = Duration::from_millis(700);

/// After so long no process that was killed can run its command any more.
const LATER: &str = "UPDATE clock SET time_offset = time_offset + interval '2 minutes'";

/// Where processes find the server, and where their commands write.
pub(super) struct Place {
    folder: TempDir,
    listen: String,
    token: String,
}

impl Place {
    pub(super) fn new(home: &Home) -> Result<Self> {
        Ok(Self {
            folder: tempfile::tempdir()?,
            listen: free_address()?.to_string(),
            token: home.token().to_owned(),
        })
    }

    pub(super) fn listen(&self) -> &str {
        &self.listen
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// How many lines commands wrote to a file.
    pub(super) fn count(&self, name: &str) -> usize {
        let text = std::fs::read_to_string(self.file(name)).unwrap_or_default();
        text.lines().count()
    }

    /// `semel` with these words, in the folder.
    pub(super) fn semel(&self, words: &[&str]) -> Result<Program> {
        Ok(Program::semel()?
            .args(words)
            .env("SEMEL_URL", format!("http://{}", self.listen))
            .env("SEMEL_TOKEN", &self.token)
            .current_dir(self.folder.path()))
    }

    /// `semel once` of a key with a line of shell.
    pub(super) fn once(&self, options: &[&str], key: &str, line: &str) -> Result<Program> {
        let words = [&["once"], options, &[key, "--", "sh", "-c", line]].concat();
        self.semel(&words)
    }

    pub(super) async fn show(&self, key: &str) -> Result<Value> {
        let shown = self
            .semel(&["once", "show", "--json", key])?
            .run(patience())
            .await?;
        let shown: Value = serde_json::from_str(&shown.stdout)?;
        Ok(shown["data"].clone())
    }

    pub(super) async fn settle(&self, key: &str, words: &[&str]) -> Result<Finished> {
        let about = ["once", "settle", key, "--reason", "looked at the file"];
        self.semel(&[&about, words].concat())?.run(patience()).await
    }

    /// Says that the command of a key did not run, as soon as its process can no longer do so.
    async fn settle_as_not_run(&self, key: &str) -> Result<Finished> {
        let settle = async || self.settle(key, &["--did-not-happen"]).await;
        let is_heard = |settled: &Finished| !settled.stderr.contains("may still run");
        until("a process that can no longer run", settle, is_heard).await
    }
}

/// What the command of a key does.
fn line(key: &str) -> String {
    format!("echo ran >> {key}; sleep 0.1; echo done {key}")
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_once_while_processes_and_servers_are_killed() -> Result<()> {
    let keys = size("SEMEL_ONCE_KEYS", KEYS)?;
    let times = size("SEMEL_ONCE_TIMES", TIMES)?;
    let cluster = Cluster::start(storage()).await?;
    let home = Home::found(cluster.server()).await?;
    let place = Arc::new(Place::new(&home)?);
    let client = home.connect().await?;
    let over = Arc::new(Notify::new());
    let home = Arc::new(home);
    let servers = tokio::spawn(keep_killing(
        Arc::clone(&home),
        Arc::clone(&place),
        Arc::clone(&over),
    ));

    let begun = Instant::now();
    let tally = storm(&place, keys, times).await?;
    let seconds = begun.elapsed().as_secs();
    over.notify_one();
    let server_kills = servers.await??;

    let doubts = settle_all(&place, &client, keys).await?;
    let figures = json!({
        "keys": keys, "processes_of_each": times, "seconds": seconds,
        "processes_killed": tally.killed.load(Ordering::Relaxed),
        "servers_killed": server_kills,
        "exits": { "done": tally.done.load(Ordering::Relaxed),
                   "held": tally.held.load(Ordering::Relaxed),
                   "in_doubt": tally.in_doubt.load(Ordering::Relaxed),
                   "unreachable": tally.unreachable.load(Ordering::Relaxed) },
        "doubts_settled": doubts, "run_twice": 0,
    });
    println!("{figures:#}");
    ensure!(server_kills > 0, "no server was killed");
    invariants::hold_but(&home, &[], &["duties"]).await?;
    keep_figures("once", &figures)
}

/// How processes ended.
#[derive(Default)]
struct Tally {
    killed: AtomicUsize,
    done: AtomicUsize,
    held: AtomicUsize,
    in_doubt: AtomicUsize,
    unreachable: AtomicUsize,
}

/// Starts every process of every key, in an order of chance.
async fn storm(place: &Place, keys: usize, times: usize) -> Result<Tally> {
    let mut chance = Chance::new("once");
    let mut calls: Vec<usize> = (0..keys * times).map(|call| call % keys).collect();
    chance.shuffle(&mut calls);
    let mut first = HashSet::new();
    let calls: VecDeque<(usize, Option<Duration>)> = calls
        .into_iter()
        .map(|key| {
            // The first process of a key is the one that runs the command, unless it dies before.
            let killed_of = if first.insert(key) { 2 } else { KILLED_OF };
            let life = Duration::from_millis(chance.below(LIFE_MS_MAX) as u64);
            (key, (chance.below(killed_of) == 0).then_some(life))
        })
        .collect();
    let (calls, tally) = (Mutex::new(calls), Tally::default());
    let workers = (0..AT_A_TIME).map(|_| async {
        loop {
            let Some((key, life)) = calls.lock().await.pop_front() else {
                return anyhow::Ok(());
            };
            call(place, &format!("key-{key}"), life, &tally).await?;
        }
    });
    try_join_all(workers).await?;
    Ok(tally)
}

/// One process, which is killed where it has a time to live.
async fn call(place: &Place, key: &str, life: Option<Duration>, tally: &Tally) -> Result<()> {
    let program = place.once(&["--lease", "2s", "--wait", "60s"], key, &line(key))?;
    let mut process = program.start()?;
    if let Some(life) = life {
        pace(life).await;
        process.sigkill()?;
        tally.killed.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    let status = process.until_exit(patience()).await?;
    let counter = match status.code() {
        Some(0) => {
            ensure!(
                process.stdout() == format!("done {key}\n"),
                "{}",
                process.stdout()
            );
            &tally.done
        }
        Some(3) => &tally.held,
        Some(4) => &tally.in_doubt,
        Some(8) => &tally.unreachable,
        _ => bail!("{key}: {status}: {}", process.stderr()),
    };
    counter.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Kills the server again and again, and starts it where it was.
async fn keep_killing(home: Arc<Home>, place: Arc<Place>, over: Arc<Notify>) -> Result<usize> {
    let mut kills = 0;
    loop {
        let program = Program::semel()?;
        let mut server = serve_at(program, &home.url(), "2s", place.listen()).await?;
        let life = match kills {
            0 => FIRST_KILL,
            _ => KILL_EVERY,
        };
        tokio::select! {
            () = pace(life) => {
                server.process.sigkill()?;
            }
            () = over.notified() => {
                // It stays for those who look at what is left.
                std::mem::forget(server);
                return Ok(kills);
            }
        }
        kills += 1;
    }
}

/// Settles every doubt by what the files say. Then every key is done, and ran once.
async fn settle_all(place: &Place, client: &Connection, keys: usize) -> Result<usize> {
    client.batch_execute(LATER).await?;
    let pending = "SELECT count(*) FROM named_effects WHERE state = 'pending'";
    until_none(client, pending).await?;
    let mut doubts = 0;
    for key in (0..keys).map(|key| format!("key-{key}")) {
        ensure!(place.count(&key) < 2, "{key} ran twice");
        let show = async || place.show(&key).await;
        let shown = until("a key that nobody holds", show, |shown| {
            shown["state"] != "pending"
        });
        if shown.await?["state"] == "in_doubt" {
            doubts += 1;
            let result = json!({ "stdout": format!("done {key}\n") }).to_string();
            let happened = ["--happened", "--result", &result];
            let settled = match place.count(&key) {
                0 => place.settle_as_not_run(&key).await?,
                _ => place.settle(&key, &happened).await?,
            };
            ensure!(settled.status.success(), "{settled:?}");
        }
        let repeat = place.once(&[], &key, &line(&key))?.run(patience()).await?;
        ensure!(repeat.status.success(), "{key}: {repeat:?}");
        ensure!(
            repeat.stdout == format!("done {key}\n"),
            "{key}: {repeat:?}"
        );
        ensure!(
            place.count(&key) == 1,
            "{key} ran {} times",
            place.count(&key)
        );
    }
    Ok(doubts)
}

/// Waits until a file is there.
pub(super) async fn until_there(path: &Path) -> Result<()> {
    let what = path.display().to_string();
    until(&what, async || Ok(path.exists()), |is_there| *is_there).await?;
    Ok(())
}

/// Keys whose process was lost.
const IN_DOUBT: &str = "SELECT count(*) FROM named_effects WHERE state = 'in_doubt'";

/// A process that is frozen past its lease finds its effect in doubt when it continues.
async fn frozen(options: &[&str], key: &str, exit: i32) -> Result<(Finished, Value)> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let place = Place::new(&home)?;
    let server = serve_at(Program::semel()?, &home.url(), "2s", place.listen()).await?;
    let line = format!(
        "echo ran >> {key}; while [ ! -f go ]; do sleep 0.05; done; echo late; exit {exit}"
    );
    let options = [&["--lease", "1s"], options].concat();
    let mut process = place.once(&options, key, &line)?.start()?;
    until_there(&place.file(key)).await?;

    process.sigstop()?;
    until_count(&home.connect().await?, IN_DOUBT, 1).await?;
    std::fs::write(place.file("go"), "")?;
    process.sigcont()?;
    let status = process.until_exit(patience()).await?;

    let ended = Finished {
        status,
        stdout: process.stdout(),
        stderr: process.stderr(),
    };
    invariants::hold(&home, &[&server]).await?;
    Ok((ended, place.show(key).await?))
}

#[tokio::test]
async fn a_late_report_of_done_settles_the_doubt() -> Result<()> {
    let (ended, shown) = frozen(&[], "late-done", 0).await?;

    ensure!(ended.status.success(), "{ended:?}");
    assert_eq!(shown["state"], json!("done"));
    assert_eq!(shown["result"]["stdout"], json!("late\n"));
    Ok(())
}

#[tokio::test]
async fn a_late_report_of_failed_changes_nothing() -> Result<()> {
    let (ended, shown) = frozen(&["--failed", "2"], "late-fail", 2).await?;

    assert_eq!(ended.status.code(), Some(4), "{ended:?}");
    assert_eq!(shown["state"], json!("in_doubt"));
    let note = shown["note"].as_str().context("what came too late")?;
    ensure!(note.contains("exit-2"), "{note}");
    Ok(())
}

#[tokio::test]
async fn a_repeat_follows_a_lost_process_under_the_same_key_where_both_agreed() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let place = Place::new(&home)?;
    let harness = Harness::start()?;
    let program = faults()?.env("SEMEL_FAULTS", harness.socket());
    let server = serve_at(program, &home.url(), "2s", place.listen()).await?;
    let line = r#"echo "$SEMEL_KEY" >> keys; [ -f go ] || sleep 300; echo followed"#;
    let options = ["--lease", "2s", "--on-doubt", "retry"];
    let mut lost = place.once(&options, "a", line)?.start()?;
    until_there(&place.file("keys")).await?;
    lost.sigkill()?;
    std::fs::write(place.file("go"), "")?;
    let mut next = place.once(&options, "a", line)?.start()?;
    until_count(&home.connect().await?, IN_DOUBT, 1).await?;
    // The next process hears of the doubt, and asks again instead of running the command.
    let asked = || harness.arm("once.begin.after", Some("a")).until_held();
    asked().await?.let_go().await;
    let again = asked().await?;
    assert_eq!(place.count("keys"), 1, "not before its time");

    home.pass("62 seconds").await?;
    again.let_go().await;
    let status = next.until_exit(patience()).await?;

    ensure!(status.success(), "{status}: {}", next.stderr());
    assert_eq!(next.stdout(), "followed\n");
    let keys = std::fs::read_to_string(place.file("keys"))?;
    let keys: Vec<&str> = keys.lines().collect();
    ensure!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
    invariants::hold_but(&home, &[&server], &["duties"]).await
}

#[tokio::test]
async fn a_command_that_may_be_repeated_ends_when_its_server_is_away() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let place = Place::new(&home)?;
    let mut server = serve_at(Program::semel()?, &home.url(), "2s", place.listen()).await?;
    let options = ["--lease", "3s", "--on-doubt", "retry"];
    let line = "echo ran >> a; sleep 300; echo ran >> a";
    let mut process = place.once(&options, "a", line)?.start()?;
    until_there(&place.file("a")).await?;

    server.process.sigkill()?;
    let status = process.until_exit(patience()).await?;

    assert_eq!(status.code(), Some(4), "{}", process.stderr());
    ensure!(
        process.stderr().contains("ended the command"),
        "{}",
        process.stderr()
    );
    // No server lives: the records and the lists are all that can be looked at.
    invariants::hold(&home, &[]).await
}
