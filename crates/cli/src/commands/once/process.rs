//! The command: a process group of its own, whose stdout is shown and stored.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use semel_model::EffectId;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdout, Command};

use super::stored::Written;
use super::supervise;
use crate::output::{Reader, Stdout};

/// How long the output is read on after the command has ended: something that it started may have
/// its stdout still.
const DRAIN: Duration = Duration::from_secs(5);

/// The signal that ends a process whatever it does.
pub(super) const KILL: i32 = 9;

/// The command's process group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group(Option<Pid>);

impl Group {
    /// Sends a signal to every process of the group that is left.
    pub(super) fn send(self, number: i32) {
        if let (Some(group), Some(signal)) = (self.0, Signal::from_named_raw(number)) {
            let _ = kill_process_group(group, signal);
        }
    }
}

/// A command that runs.
pub(super) struct Process {
    child: Child,
    stdout: Option<ChildStdout>,
    /// Whether what it writes is shown at once.
    shown: bool,
    /// Whether nothing of it may be left once it has ended.
    supervised: bool,
}

impl Process {
    /// Starts the command. A supervised one, and all that it started, ends with this process.
    pub(super) fn start(
        words: &[OsString],
        key: EffectId,
        supervised: bool,
        reader: Reader,
    ) -> io::Result<Self> {
        let mut command = match (supervised, words.split_first()) {
            (true, _) => supervise::command(words)?,
            (false, Some((program, rest))) => {
                let mut command = Command::new(program);
                command.args(rest);
                command
            }
            (false, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        // A process group in the background that reads from a terminal would be stopped.
        let stdin = match io::stdin().is_terminal() {
            true => Stdio::null(),
            false => Stdio::inherit(),
        };
        let mut child = command
            .env("SEMEL_KEY", key.to_string())
            .env_remove("SEMEL_TOKEN")
            .stdin(stdin)
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        Ok(Self {
            stdout: child.stdout.take(),
            child,
            shown: reader == Reader::Person,
            supervised,
        })
    }

    /// Its process group.
    pub(super) fn group(&self) -> Group {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        Group(id.and_then(Pid::from_raw))
    }

    /// Waits for its end. What a supervised command leaves in the background is killed, also where
    /// its supervisor was: another process may run the command again as soon as the end is reported.
    pub(super) async fn end(self) -> (io::Result<ExitStatus>, Written) {
        let rest = Some(self.group()).filter(|_| self.supervised);
        let kill_rest = || {
            if let Some(group) = rest {
                group.send(KILL);
            }
        };
        let Self {
            mut child,
            stdout,
            shown,
            ..
        } = self;
        let mut written = Written::default();
        let mut reading = Box::pin(read(stdout, shown, &mut written));
        let status = tokio::select! {
            status = child.wait() => {
                kill_rest();
                let _ = tokio::time::timeout(DRAIN, &mut reading).await;
                status
            }
            () = &mut reading => {
                let status = child.wait().await;
                kill_rest();
                status
            }
        };
        drop(reading);
        (status, written)
    }
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
