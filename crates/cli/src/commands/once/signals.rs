//! The signals that `semel once` gets and that are meant for its command.
//!
//! SIGTSTP (Ctrl-Z) stops this process as well, because the shell waits for that. While no command
//! runs it stops this process only.

use std::io;

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::answer::Problem;

/// The signal that lets a stopped process continue.
pub(super) const CONT: i32 = Signal::CONT.as_raw();

/// The signal by which a terminal stops a process.
pub(super) const TSTP: i32 = Signal::TSTP.as_raw();

/// The signals that are passed on to the command.
const PASSED_ON: [i32; 8] = [1, 2, 3, 10, 12, 15, CONT, TSTP];

/// The signals of this process that are the command's.
pub(super) struct Signals(Vec<(i32, unix::Signal)>);

impl Signals {
    /// From now on these signals neither end nor stop this process.
    pub(super) fn catch() -> Result<Self, Problem> {
        Self::catch_these(&PASSED_ON)
    }

    /// Other signals of this process: from now on they neither end nor stop it, even after this
    /// value is dropped.
    pub(super) fn catch_these(numbers: &[i32]) -> Result<Self, Problem> {
        let caught: io::Result<Vec<_>> = numbers
            .iter()
            .map(|number| {
                let caught = signal(SignalKind::from_raw(*number));
                caught.map(|caught| (*number, caught))
            })
            .collect();
        match caught {
            Ok(caught) => Ok(Self(caught)),
            Err(error) => Err(Problem::local(format!("cannot catch signals: {error}"))),
        }
    }

    /// The next one, while a command runs.
    pub(super) async fn any(&mut self) -> i32 {
        std::future::poll_fn(|context| {
            for (number, caught) in &mut self.0 {
                if caught.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// The next one that asks for an end, while no command runs. Ctrl-Z is obeyed meanwhile.
    pub(super) async fn next(&mut self) -> i32 {
        loop {
            match self.any().await {
                TSTP => stop_here(),
                CONT => {}
                number => return number,
            }
        }
    }
}

/// Stops this process until somebody lets it continue.
pub(super) fn stop_here() {
    let _ = kill_process(getpid(), Signal::STOP);
}
