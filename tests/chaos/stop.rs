//! A server that is asked to stop does so within its bound, whatever its destinations do.

use std::time::Duration;

use anyhow::{Result, ensure};
use semel_testkit::{Cluster, Options, Peer, Program, Stopwatch, patience, until};

use crate::invariants;
use crate::servers::{Home, serve};

/// How long a stop may take.
const BOUND: Duration = Duration::from_secs(2);

/// How much longer on a busy machine: far less than a stop takes that is not told its bound.
const GRACE: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_keeps_its_bound_and_the_call_that_it_cuts_off_is_in_doubt() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let program = Program::semel()?.env("SEMEL_STOP_BOUND", "2s");
    let mut first = serve(program, &home.url(), "2s").await?;
    let source = format!(
        "flow: charge\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - id: act\n    \
         http: {{ post: '{}/hang/plain/charge', json: {{ id: 1 }}, timeout: 5m }}\n    guard: review\n",
        peer.url("")
    );
    home.publish(&first, "charge", &source).await?;
    let answer = first
        .client
        .post("/hooks/default/charge", r#"{"id":"one"}"#)
        .await?;
    ensure!(answer.status == 202, "{}", answer.text());
    peer.until_held(1, patience()).await?;

    let begun = Stopwatch::start();
    first.process.sigterm()?;
    first.process.until_exit(patience()).await?;
    let took = begun.elapsed();
    let second = serve(Program::semel()?, &home.url(), "2s").await?;
    let client = home.connect().await?;
    let look = async || -> Result<String> {
        let state = "SELECT state::text FROM effects";
        Ok(client.query_one(state, &[]).await?.get(0))
    };
    let state = until("an outcome of the effect", look, |state| state != "pending").await?;

    ensure!(took < BOUND + GRACE, "the stop took {took:?}");
    ensure!(state == "in_doubt", "the effect is {state}");
    ensure!(peer.count("/hang/").await?.calls == 1, "it is sent once");
    invariants::hold(&home, &[&second]).await
}
