//! Reporting to the server how the command ended, however long that takes within an hour.

use std::time::Duration;

use semel_api::types::{FailOnce, FinishOnce};
use semel_api::{Client, ClientError};
use semel_engine::boottime::Boottime;

use crate::commands::worker::passes;

/// How long a report is sent again. A late report of done still turns a doubt into done.
const GIVE_UP_MS: u64 = 3_600_000;

/// The first and the longest pause between two reports without an answer.
const REST: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// How a command ended, for the server.
pub(super) enum Ending {
    Done(FinishOnce),
    Failed(FailOnce),
}

impl Ending {
    /// Reports it until the server answers.
    pub(super) async fn send(&self, client: &Client) -> Result<(), ClientError> {
        let begun = Boottime::now().as_millis();
        let mut rest = REST.0;
        loop {
            let sent = match self {
                Self::Done(finish) => client.finish_once(finish).await,
                Self::Failed(fail) => client.fail_once(fail).await,
            };
            let over = Boottime::now().as_millis().saturating_sub(begun) > GIVE_UP_MS;
            match sent {
                Ok(_) => return Ok(()),
                Err(error) if over || !passes(&error) => return Err(error),
                Err(_) => tokio::time::sleep(rest).await,
            }
            rest = (rest * 2).min(REST.1);
        }
    }
}
