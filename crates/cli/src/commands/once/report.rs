//! Reporting to the server how the command ended: again and again, for as long as it is of use.

use std::time::Duration;

use semel_api::types::{FailOnce, FinishOnce};
use semel_api::{Client, ClientError};
use semel_engine::boottime::Boottime;

use crate::commands::worker::passes;

/// How long a report of done is sent again: a late one still turns a doubt into done. Any other is
/// worth nothing once the lease is over.
const DONE_PATIENCE: Duration = Duration::from_secs(3_600);

/// The first and the longest pause between two reports without an answer.
const REST: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// How a command ended, for the server.
pub(super) enum Ending {
    Done(FinishOnce),
    Failed(FailOnce),
}

impl Ending {
    /// Reports it until the server answers, or it is of no use any more.
    pub(super) async fn send(&self, client: &Client, lease: Duration) -> Result<(), ClientError> {
        let begun = Boottime::now().as_millis();
        let patience = match self {
            Self::Done(_) => DONE_PATIENCE,
            Self::Failed(_) => lease,
        };
        let mut rest = REST.0;
        loop {
            let sent = match self {
                Self::Done(finish) => client.finish_once(finish).await,
                Self::Failed(fail) => client.fail_once(fail).await,
            };
            let passed = Boottime::now().as_millis().saturating_sub(begun);
            let over = Duration::from_millis(passed) > patience;
            match sent {
                Ok(_) => return Ok(()),
                Err(error) if over || !passes(&error) => return Err(error),
                Err(_) => tokio::time::sleep(rest).await,
            }
            rest = (rest * 2).min(REST.1);
        }
    }
}
