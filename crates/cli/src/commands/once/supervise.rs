//! The process between `semel once --on-doubt retry` and its command: it ends the command and all
//! that it started when `semel once` is gone.
//!
//! Another process may run the command again once the lease is over, so nothing of the first one may
//! be left. The system tells the supervisor of its parent's end by a signal; it also looks by itself.
//! Supervisor and command are one process group, which `semel once` sends signals to: the supervisor
//! stays until the command has ended, and passes its end on as it was. `semel once` then kills what is
//! left of the group, before it reports; a process that made a session of its own has left the group.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, getpgrp, getppid, kill_process_group, set_parent_process_death_signal,
};
use tokio::process::Command;

use super::signals::Signals;
use crate::commands::worker::supervise::pass_on;

/// The word that makes this binary a supervisor of one command.
pub(crate) const WORD: &str = "once-supervise";

/// The exit code of a command that could not be started, as shells have it.
const NOT_STARTED: u8 = 127;

/// How often the supervisor looks whether its parent is there.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The command that supervises another one.
pub(super) fn command(words: &[OsString]) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let parent = std::process::id().to_string();
    command.arg(WORD).arg(parent).arg("--").args(words);
    Ok(command)
}

/// Runs a command for as long as the parent lives.
pub(crate) fn run(parent: &OsString, words: &[OsString]) -> ExitCode {
    let parent = parent.to_str().and_then(|it| it.parse().ok());
    let parent = parent.and_then(Pid::from_raw);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = runtime.and_then(|runtime| runtime.block_on(supervise(parent, words)));
    match ended {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "semel: the command cannot be started: {error}"
            );
            ExitCode::from(NOT_STARTED)
        }
    }
}

async fn supervise(parent: Option<Pid>, words: &[OsString]) -> io::Result<ExitCode> {
    let mut signals =
        Signals::catch().map_err(|problem| io::Error::other(problem.message().to_owned()))?;
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let Some((program, rest)) = words.split_first() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    end_if_orphaned(parent);
    let mut child = Command::new(program).args(rest).spawn()?;
    loop {
        tokio::select! {
            status = child.wait() => return Ok(pass_on(status?)),
            _ = signals.next() => end_if_orphaned(parent),
            () = tokio::time::sleep(LOOK_EVERY) => end_if_orphaned(parent),
        }
    }
}

/// Ends the whole group, this process included, if the parent is gone.
fn end_if_orphaned(parent: Option<Pid>) {
    if getppid() != parent {
        let _ = kill_process_group(getpgrp(), Signal::KILL);
    }
}
