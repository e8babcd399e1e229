//! A writer with one connection: whatever gathers during a commit shares the next, without a timer.

use std::future::Future;

use anyhow::{Context, Result};
use tokio::sync::{mpsc, oneshot};

/// The most changes of one commit.
const BATCH_MAX: usize = 512;

/// How many changes may wait.
const WAITING_MAX: usize = 8192;

/// Writes changes.
pub(super) trait Commit: Send + 'static {
    /// What is written.
    type Change: Send + 'static;

    /// Writes them in one transaction.
    fn commit(&self, changes: Vec<Self::Change>) -> impl Future<Output = Result<()>> + Send;
}

/// The callers' end.
pub(super) struct Writer<C> {
    sender: mpsc::Sender<(C, oneshot::Sender<()>)>,
}

impl<C> Clone for Writer<C> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
        }
    }
}

impl<C: Send + 'static> Writer<C> {
    /// Starts one.
    pub(super) fn start(commit: impl Commit<Change = C>) -> Self {
        let (sender, mut receiver) = mpsc::channel::<(C, oneshot::Sender<()>)>(WAITING_MAX);
        tokio::spawn(async move {
            let mut gathered = Vec::with_capacity(BATCH_MAX);
            while receiver.recv_many(&mut gathered, BATCH_MAX).await > 0 {
                let (changes, answers): (Vec<_>, Vec<_>) = gathered.drain(..).unzip();
                if let Err(error) = commit.commit(changes).await {
                    // The waiting callers see it by the answer that never comes.
                    eprintln!("{}: {error:#}", std::any::type_name_of_val(&commit));
                    return;
                }
                for answer in answers {
                    answer.send(()).ok();
                }
            }
        });
        Self { sender }
    }

    /// Hands a change in and waits for its commit.
    pub(super) async fn write(&self, change: C) -> Result<()> {
        let (answer, answered) = oneshot::channel();
        self.sender.send((change, answer)).await.ok();
        answered.await.context("a writer failed")
    }
}
