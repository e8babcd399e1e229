//! Programs under signals, and that they die with their tests.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use semel_testkit::{Peer, Program, patience, until};

/// Set for the process that is killed with programs in its hands.
const VICTIM: &str = "SEMEL_TESTKIT_VICTIM";

#[tokio::test]
async fn a_program_that_ends_reports_its_status_and_output() {
    let shell = Program::at("sh").args(["-c", "echo \"$WORD\"; echo err >&2; exit 7"]);

    let finished = shell.env("WORD", "out").run(patience()).await.unwrap();

    assert_eq!(finished.status.code(), Some(7));
    assert_eq!(
        (finished.stdout.as_str(), finished.stderr.as_str()),
        ("out\n", "err\n")
    );
}

#[tokio::test]
async fn a_line_is_awaited_and_a_killed_program_is_dead() {
    let script = "echo first; echo ready to serve; exec sleep 1000";
    let mut process = Program::at("sh").args(["-c", script]).start().unwrap();

    let line = process.until_line("ready", patience()).await.unwrap();
    let status = process.sigkill().unwrap();

    assert_eq!(line, "ready to serve");
    assert_eq!(status.signal(), Some(9));
    assert!(!process.is_running().unwrap());
}

#[tokio::test]
async fn a_line_that_never_comes_is_an_error_that_shows_what_came() {
    let process = Program::at("sh")
        .args(["-c", "echo wrong port >&2"])
        .start()
        .unwrap();

    let error = process.until_line("ready", patience()).await.unwrap_err();

    assert!(format!("{error:#}").contains("wrong port"), "{error:#}");
}

#[tokio::test]
async fn a_stopped_program_continues_on_sigcont() {
    let script = "trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.01; done";
    let mut process = Program::at("sh").args(["-c", script]).start().unwrap();
    process.until_line("up", patience()).await.unwrap();

    process.sigstop().unwrap();
    process.sigterm().unwrap();
    assert!(
        !process.stdout().contains("asked"),
        "a stopped program hears nothing"
    );
    process.sigcont().unwrap();

    assert!(process.until_exit(patience()).await.unwrap().success());
    assert!(process.stdout().contains("asked"));
}

#[tokio::test]
async fn programs_and_peers_end_with_an_owner_that_is_killed() {
    let mut owner = Program::at(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "programs::holds_programs_until_killed",
            "--ignored",
            "--nocapture",
        ])
        .env(VICTIM, "yes")
        .start()
        .unwrap();
    let line = owner.until_line("held=", patience()).await.unwrap();
    let (_, pids) = line.split_once("held=").unwrap();
    let held: Vec<&str> = pids.split(',').collect();
    assert!(held.iter().all(|pid| is_alive(pid)));

    owner.sigkill().unwrap();

    let left = async || Ok(held.iter().filter(|pid| is_alive(pid)).count());
    until("programs to end with their owner", left, |left| *left == 0)
        .await
        .unwrap();
}

#[tokio::test]
#[ignore = "the victim of programs_and_peers_end_with_an_owner_that_is_killed"]
async fn holds_programs_until_killed() {
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let program = Program::at("sleep").arg("1000").start().unwrap();
    let mut peer = Peer::start().await.unwrap();
    println!("held={},{}", program.id(), peer.process().id());
    std::io::stdout().flush().unwrap();
    std::future::pending::<()>().await;
}

/// A zombie is dead: in a container it may never be collected.
fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid).join("status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}
