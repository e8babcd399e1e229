//! The process between a worker and its command: it ends the command when the worker is gone.
//!
//! ```text
//! worker ── stdin: LENGTH, newline, input, then open until the worker ends ──▶ supervisor ──▶ command
//! ```
//!
//! A worker that is killed cannot say goodbye, but the system closes its end of the pipe. The
//! supervisor then kills the command and all of its process group, so that nothing runs on behalf
//! of a worker whose task another one takes over. The command's end is passed on as it was: the
//! same exit code, or the same signal.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::config::Key;

/// The word that makes this binary a supervisor.
pub(crate) const WORD: &str = "worker-supervise";

/// The exit code of a command that could not be started, as shells have it.
pub(super) const NOT_STARTED: u8 = 127;

/// What is said of it.
pub(super) const NOT_STARTED_WORDS: &str = "semel: the command cannot be started";

/// The most bytes of an input.
const INPUT_BYTES_MAX: u64 = 64 << 20;

/// The command that supervises another one. Neither gets the worker's token: a command that a hostile
/// input leads astray must not claim and answer the tasks of its queues.
pub(super) fn command(words: &[OsString]) -> io::Result<tokio::process::Command> {
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.arg(WORD).arg("--").args(words);
    command.env_remove(Key::Token.env());
    Ok(command)
}

/// What a supervisor reads first.
pub(super) fn frame(input: &str) -> Vec<u8> {
    format!("{}\n{input}", input.len()).into_bytes()
}

/// Runs a command for as long as the worker lives.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let mut stdin = BufReader::new(io::stdin());
    let begun = read_frame(&mut stdin).and_then(|input| Ok((start(words)?, input)));
    let (mut child, input) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{NOT_STARTED_WORDS}: {error}");
            return ExitCode::from(NOT_STARTED);
        }
    };
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(mut to) = child.stdin.take() {
        std::thread::spawn(move || {
            // A command need not read what it is given.
            let _ = to.write_all(&input);
        });
    }
    std::thread::spawn(move || {
        // Until the worker's end.
        let _ = io::copy(&mut stdin, &mut io::sink());
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    });
    match child.wait() {
        Ok(status) => pass_on(status),
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "semel: cannot tell how the command ended: {error}"
            );
            end_by(Signal::KILL)
        }
    }
}

fn read_frame(stdin: &mut BufReader<io::Stdin>) -> io::Result<Vec<u8>> {
    let mut line = String::new();
    stdin.by_ref().take(32).read_line(&mut line)?;
    let length: u64 = line.trim().parse().map_err(io::Error::other)?;
    if length > INPUT_BYTES_MAX {
        return Err(io::Error::other("the input is too large"));
    }
    let mut input = Vec::new();
    stdin.by_ref().take(length).read_to_end(&mut input)?;
    Ok(input)
}

fn start(words: &[OsString]) -> io::Result<std::process::Child> {
    let Some((program, rest)) = words.split_first() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    Command::new(program)
        .args(rest)
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// Ends this process as the command ended.
fn pass_on(status: ExitStatus) -> ExitCode {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        (None, signal) => {
            let named = signal.and_then(Signal::from_named_raw);
            end_by(named.unwrap_or(Signal::KILL))
        }
    }
}

/// Ends this process by a signal, so that its parent sees how the command ended.
fn end_by(signal: Signal) -> ExitCode {
    let me = rustix::process::getpid();
    let _ = kill_process(me, signal);
    // A signal that does not end a process: then the hard one.
    let _ = kill_process(me, Signal::KILL);
    ExitCode::FAILURE
}
