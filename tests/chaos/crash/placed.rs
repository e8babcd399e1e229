//! A run that stands at its point, and its sender.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use semel_testkit::client::Answer;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::table::CrashCell;
use crate::crowd::post_until_taken;
use crate::harness::Held;
use crate::servers::Served;

/// A run at its point.
pub(crate) struct Placed<C> {
    pub(crate) cell: C,
    pub(crate) id: String,
    held: Option<Held>,
    /// The first delivery, until it is answered or lost.
    delivery: Option<JoinHandle<Result<Answer>>>,
    /// The runs that answers of success named.
    pub(crate) runs: Vec<String>,
}

impl<C: CrashCell> Placed<C> {
    /// Sends the delivery that starts the run.
    pub(crate) fn deliver(cell: C, id: String, server: &Served) -> Self {
        let delivery = tokio::spawn(deliver(server, &cell.flow_name(), &id));
        Self {
            cell,
            id,
            held: None,
            delivery: Some(delivery),
            runs: Vec::new(),
        }
    }

    /// The server stands at a fault point.
    pub(crate) fn hold(&mut self, held: Held) {
        self.held = Some(held);
    }

    /// Lets the server go on from its fault point.
    pub(crate) async fn let_go(&mut self) {
        if let Some(held) = self.held.take() {
            held.let_go().await;
        }
    }

    /// Waits for the answer to the first delivery, which may have been lost with its server.
    pub(crate) async fn hear(&mut self, within: Duration) -> Result<()> {
        let Some(delivery) = &mut self.delivery else {
            return Ok(());
        };
        if let Ok(answered) = timeout(within, delivery).await {
            self.delivery = None;
            if let Ok(answer) = answered? {
                self.runs.push(run_of(&answer)?);
            }
        }
        Ok(())
    }

    /// Sends the same again.
    pub(crate) async fn deliver_again(&mut self, server: &Served) -> Result<()> {
        let again = deliver(server, &self.cell.flow_name(), &self.id).await?;
        self.runs.push(run_of(&again)?);
        Ok(())
    }
}

fn deliver(
    server: &Served,
    flow: &str,
    id: &str,
) -> impl Future<Output = Result<Answer>> + Send + use<> {
    let client = server.client.clone();
    let path = format!("/hooks/default/{flow}");
    let body = format!(r#"{{"id":"{id}"}}"#);
    async move { post_until_taken(&client, &path, &body).await }
}

/// The run that an answer names.
fn run_of(answer: &Answer) -> Result<String> {
    ensure!(
        answer.status.is_success(),
        "{}: {}",
        answer.status,
        answer.text()
    );
    let body: Value = answer.json()?;
    let run = body["run"].as_str().context("a run in the answer")?;
    Ok(run.to_owned())
}
