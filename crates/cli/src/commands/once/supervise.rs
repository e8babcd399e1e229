//! The process between `semel once --on-doubt retry` and its command: it ends the command and all
//! that it started when `semel once` is gone, or when the server was not heard of for too long.
//!
//! Another process may run the command again once the lease is over, so nothing of the first one
//! may be left. `semel once` cannot see to that alone: it may be killed, or stopped (Ctrl-Z,
//! SIGSTOP, a debugger) for longer than the lease. So the supervisor holds the deadline itself, and
//! each answered heartbeat moves it. The system tells the supervisor of its parent's end by a
//! signal; it also looks by itself.
//!
//! Supervisor and command are one process group, which `semel once` sends signals to. The
//! supervisor catches those that would stop it. SIGCONT alone is a word to the supervisor, which
//! looks at its deadline first. Its last act says how the command ended and kills what is left of
//! the group, itself included; a process that made a session of its own has left the group.
//!
//! A supervisor that is stopped together with `semel once` (a frozen cgroup or virtual machine)
//! sees to nothing until it continues.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, getpgrp, getppid, kill_process_group, set_parent_process_death_signal,
};
use semel_engine::boottime::Boottime;
use tokio::process::Command;

use super::channel::{Channel, Word};
use super::limit::{Due, Limit};
use super::signals::Signals;
use crate::answer::Problem;

/// The word that makes this binary a supervisor of one command.
pub(crate) const WORD: &str = "once-supervise";

/// The exit code of a command that could not be started, as shells have it.
const NOT_STARTED: u8 = 127;

/// How often the supervisor looks at its parent and its deadline.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// SIGTTIN and SIGTTOU, by which a terminal stops a whole process group because one of its
/// processes reads or writes.
const OF_TERMINALS: [i32; 2] = [Signal::TTIN.as_raw(), Signal::TTOU.as_raw()];

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
    let mut signals = Signals::catch().map_err(local)?;
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let (channel, terms, stdin) = Channel::take()?;
    let Some((program, rest)) = words.split_first() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let mut watch = Watch {
        parent,
        channel,
        begun: Vec::new(),
        limit: Limit::new(terms),
    };
    watch.end_if_orphaned();
    if !watch.limit.holds(now_ms()) {
        return Err(io::Error::other("its lease is over"));
    }
    let mut child = Command::new(program)
        .args(rest)
        .stdin(Stdio::from(stdin))
        .spawn()?;
    // Only now: with these caught, a terminal may hold up a message of this process for ever.
    let _ = Signals::catch_these(&OF_TERMINALS);
    loop {
        tokio::select! {
            status = child.wait() => return Ok(watch.end(status)),
            _ = signals.any() => watch.look(),
            () = tokio::time::sleep(LOOK_EVERY) => watch.look(),
        }
    }
}

fn local(problem: Problem) -> io::Error {
    io::Error::other(problem.message().to_owned())
}

/// The watch over one command.
struct Watch {
    parent: Option<Pid>,
    channel: Channel,
    /// The beginning of a word that has not come whole.
    begun: Vec<u8>,
    limit: Limit,
}

impl Watch {
    /// Does what is due. The deadline comes before SIGCONT: this process may have been stopped too.
    fn look(&mut self) {
        self.end_if_orphaned();
        let continues = self.hear();
        let now_ms = now_ms();
        match self.limit.due(now_ms) {
            Due::Kill => send(Signal::KILL),
            Due::Term => {
                send(Signal::TERM);
                // A stopped command hears TERM when it continues; the lease lasts beyond KILL.
                send(Signal::CONT);
            }
            Due::Nothing if continues && self.limit.holds(now_ms) => send(Signal::CONT),
            Due::Nothing => {}
        }
    }

    /// Ends the whole group, this process included, if the parent is gone.
    fn end_if_orphaned(&self) {
        if getppid() != self.parent {
            send(Signal::KILL);
        }
    }

    /// Hears all that `semel once` has said, and whether the command is to continue.
    fn hear(&mut self) -> bool {
        let mut continues = false;
        for word in self.channel.hear(&mut self.begun) {
            match word {
                Word::Answered(sent_ms) => self.limit.answer(sent_ms),
                Word::Lost => self.limit.lose(),
                Word::Continue => continues = true,
                // The supervisor's own word.
                Word::Ended(_) => {}
            }
        }
        continues
    }

    /// Says how the command ended, and kills what it left in the group, this process included:
    /// `semel once` may be stopped, and see to nothing. Without a word the end is not known.
    fn end(&self, status: io::Result<ExitStatus>) -> ExitCode {
        if let Ok(status) = status {
            self.channel.say(Word::Ended(status.into_raw()));
        }
        send(Signal::KILL);
        ExitCode::FAILURE
    }
}

/// Sends a signal to the whole group, this process included.
fn send(signal: Signal) {
    let _ = kill_process_group(getpgrp(), signal);
}

fn now_ms() -> u64 {
    Boottime::now().as_millis()
}
