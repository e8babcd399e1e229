//! The signals that `semel once` gets and that are meant for its command.

use std::io;

use tokio::signal::unix::{self, SignalKind, signal};

use crate::answer::Problem;

/// The signals that are passed on to the command.
const PASSED_ON: [i32; 6] = [1, 2, 3, 10, 12, 15];

/// The signals of this process that are the command's.
pub(super) struct Signals(Vec<(i32, unix::Signal)>);

impl Signals {
    /// From now on these signals do not end this process.
    pub(super) fn catch() -> Result<Self, Problem> {
        let caught = PASSED_ON.map(|number| Ok((number, signal(SignalKind::from_raw(number))?)));
        let caught: io::Result<Vec<_>> = caught.into_iter().collect();
        match caught {
            Ok(caught) => Ok(Self(caught)),
            Err(error) => Err(Problem::local(format!("cannot catch signals: {error}"))),
        }
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> i32 {
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
}
