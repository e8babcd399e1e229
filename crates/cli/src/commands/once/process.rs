//! The command: a process group of its own, whose stdout is shown and stored.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use semel_engine::boottime::Boottime;
use semel_model::EffectId;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdout, Command};

use super::channel::{Channel, Word};
use super::limit::{Terms, grace};
use super::signals::CONT;
use super::stored::Written;
use super::supervise;
use crate::output::{Reader, Stdout};

/// How long the output is read on after the command has ended: something that it started may have
/// its stdout still.
const DRAIN: Duration = Duration::from_secs(5);

/// The ways to a command that runs.
pub(super) struct Reach {
    /// The command's process group, which its supervisor leads.
    group: Option<Pid>,
    supervisor: Option<Channel>,
}

impl Reach {
    /// Whether another process may follow this one, and nothing of the command may be left then.
    pub(super) fn is_supervised(&self) -> bool {
        self.supervisor.is_some()
    }

    /// The server answered a heartbeat that was sent at this time.
    pub(super) fn answered(&self, sent: Boottime) {
        self.say(Word::Answered(sent.as_millis()));
    }

    /// Passes on a signal that this process got.
    pub(super) fn pass_on(&self, number: i32) {
        match (number, &self.supervisor, self.group) {
            // The lease may be over by now, so the supervisor alone lets the command continue. The
            // supervisor may have been stopped too.
            (CONT, Some(supervisor), Some(leader)) => {
                supervisor.say(Word::Continue);
                let _ = kill_process(leader, Signal::CONT);
            }
            (_, _, _) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    self.send(signal);
                }
            }
        }
    }

    /// Ends a command whose lease is lost. The supervisor does that; KILL comes from here as well,
    /// because the supervisor may be stopped.
    pub(super) async fn end(&self, lease: Duration) {
        self.say(Word::Lost);
        tokio::time::sleep(grace(lease)).await;
        self.send(Signal::KILL);
    }

    fn say(&self, word: Word) {
        if let Some(supervisor) = &self.supervisor {
            supervisor.say(word);
        }
    }

    /// Sends a signal to every process of the group that is left.
    fn send(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills the rest of a group whose supervisor was killed before it could do so.
    fn kill_rest(&self) {
        if self.is_supervised() {
            self.send(Signal::KILL);
        }
    }

    /// The command's end in the words of a supervisor that has ended. A killed one said nothing.
    fn said_end(&self) -> Option<ExitStatus> {
        let said = self.supervisor.as_ref()?.hear(&mut Vec::new());
        said.into_iter().find_map(|word| match word {
            Word::Ended(status) => Some(ExitStatus::from_raw(status)),
            Word::Answered(_) | Word::Lost | Word::Continue => None,
        })
    }
}

/// A command that runs.
pub(super) struct Process {
    child: Child,
    stdout: Option<ChildStdout>,
    /// Whether what it writes is shown at once.
    shown: bool,
}

impl Process {
    /// Starts the command.
    pub(super) fn start(
        words: &[OsString],
        key: EffectId,
        reader: Reader,
    ) -> io::Result<(Self, Reach)> {
        let Some((program, rest)) = words.split_first() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut command = Command::new(program);
        command.args(rest).stdin(Stdio::from(stdin()?));
        Self::spawn(command, key, reader, None)
    }

    /// Starts the command under a supervisor: the command, and all that it started, ends with this
    /// process, and before its lease is over.
    pub(super) fn start_supervised(
        words: &[OsString],
        key: EffectId,
        reader: Reader,
        terms: Terms,
    ) -> io::Result<(Self, Reach)> {
        let (channel, theirs) = Channel::open(terms, &stdin()?)?;
        let mut command = supervise::command(words)?;
        command.stdin(Stdio::from(theirs));
        Self::spawn(command, key, reader, Some(channel))
    }

    fn spawn(
        mut command: Command,
        key: EffectId,
        reader: Reader,
        supervisor: Option<Channel>,
    ) -> io::Result<(Self, Reach)> {
        let mut child = command
            .env("SEMEL_KEY", key.to_string())
            .env_remove("SEMEL_TOKEN")
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let reach = Reach {
            group: id.and_then(Pid::from_raw),
            supervisor,
        };
        let process = Self {
            stdout: child.stdout.take(),
            child,
            shown: reader == Reader::Person,
        };
        Ok((process, reach))
    }

    /// Waits for its end. Nothing of a supervised command is left then: another process may run the
    /// command again as soon as the end is reported.
    pub(super) async fn end(self, reach: &Reach) -> (io::Result<ExitStatus>, Written) {
        let Self {
            mut child,
            stdout,
            shown,
        } = self;
        let mut written = Written::default();
        let mut reading = Box::pin(read(stdout, shown, &mut written));
        let status = tokio::select! {
            status = child.wait() => {
                reach.kill_rest();
                let _ = tokio::time::timeout(DRAIN, &mut reading).await;
                status
            }
            () = &mut reading => {
                let status = child.wait().await;
                reach.kill_rest();
                status
            }
        };
        drop(reading);
        let status = status.map(|own| reach.said_end().unwrap_or(own));
        (status, written)
    }
}

/// The command's stdin: that of this process, unless it is a terminal. A process group in the
/// background that reads from a terminal would be stopped.
fn stdin() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Ok(File::open("/dev/null")?.into());
    }
    stdin.as_fd().try_clone_to_owned()
}

async fn read(stdout: Option<ChildStdout>, shown: bool, written: &mut Written) {
    let Some(mut stdout) = stdout else {
        return;
    };
    let mut piece = [0; 8192];
    while let Ok(count @ 1..) = stdout.read(&mut piece).await {
        written.add(&piece[..count]);
        if shown {
            // The reader may have gone away, which does not end the command.
            let _ = Stdout.write_all(&piece[..count]);
            let _ = Stdout.flush();
        }
    }
}
