//! A server that is asked to stop does so within its bound, whatever its destinations do.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use semel_testkit::{Cluster, Options, Peer, Program, Stopwatch};
use tokio::time::sleep;

use crate::servers::{Home, serve};

/// How long a stop may take.
const BOUND: Duration = Duration::from_secs(2);

/// How much longer on a busy machine.
const GRACE: Duration = Duration::from_secs(2);

/// How long whatever comes next may take: the lease and a recovery.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_keeps_its_bound_and_the_call_that_it_cuts_off_is_in_doubt() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let program = Program::semel()?.env("SEMEL_STOP_BOUND", "2s");
    let mut first = serve(program, &home.url(), "2s").await?;
    let source = format!(
        "flow: charge\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - id: act\n    \
         http: {{ post: '{}/slow/30000/plain/charge', json: {{ id: 1 }}, timeout: 60s }}\n    guard: review\n",
        peer.url("")
    );
    home.publish(&first, "charge", &source).await?;
    let answer = first
        .client
        .post("/hooks/default/charge", r#"{"id":"one"}"#)
        .await?;
    ensure!(answer.status == 202, "{}", answer.text());
    let deadline = Instant::now() + PATIENCE;
    while peer.count("/slow/").await?.calls == 0 {
        ensure!(Instant::now() < deadline, "nothing was sent");
        sleep(Duration::from_millis(20)).await;
    }

    let begun = Stopwatch::start();
    first.process.sigterm()?;
    first.process.until_exit(PATIENCE).await?;
    let took = begun.elapsed();
    let _second = serve(Program::semel()?, &home.url(), "2s").await?;
    let client = home.connect().await?;
    let deadline = Instant::now() + PATIENCE;
    let state = loop {
        let row = client
            .query_one("SELECT state::text FROM effects", &[])
            .await?;
        let state: String = row.get(0);
        if state != "pending" || Instant::now() > deadline {
            break state;
        }
        sleep(Duration::from_millis(50)).await;
    };

    ensure!(took < BOUND + GRACE, "the stop took {took:?}");
    ensure!(state == "in_doubt", "the effect is {state}");
    ensure!(peer.count("/slow/").await?.calls == 1, "it is sent once");
    Ok(())
}
