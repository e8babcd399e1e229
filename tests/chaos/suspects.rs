//! A run that crashes every process that carries it: it is quarantined, and no other run with it.

use anyhow::{Result, ensure};
use semel_testkit::{Cluster, Connection, Options, Peer, until};

use crate::harness::Harness;
use crate::servers::Home;

/// How many runs wait for a slow destination beside the one that crashes processes.
const NEIGHBOURS: usize = 8;

/// How often a process may crash before the run is found: twice among others, then alone.
const KILLS_MAX: usize = 9;

const LEASE: &str = "2s";

const POISON: &str = "poison";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_its_process_is_quarantined_alone() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let client = home.connect().await?;
    let harness = Harness::start()?;
    let mut server = harness.serve(&home, LEASE).await?;
    let source = format!(
        "flow: slow\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - id: call\n\
         \x20   http: {{ post: '{}', json: {{ id: '${{{{ input.id }}}}' }} }}\n    guard: key\n",
        peer.url("/slow/1000/keyed/x")
    );
    home.publish(&server, "slow", &source).await?;

    for number in 0..NEIGHBOURS {
        let body = format!(r#"{{"id":"neighbour-{number}"}}"#);
        let answer = server.client.post("/hooks/default/slow", body).await?;
        ensure!(answer.status == 202, "{}", answer.text());
    }
    // It is accepted, and its process crashes before the sender gets the response.
    let watch = harness.arm("accept.after", Some(POISON));
    let sender = server.client.clone();
    let body = format!(r#"{{"id":"{POISON}"}}"#);
    let sent = tokio::spawn(async move { sender.post("/hooks/default/slow", body).await });
    let held = watch.until_held().await?;
    home.kill(&mut server, LEASE).await?;
    drop(held);
    sent.await?.ok();

    let mut kills = 1;
    loop {
        // The worker that takes it finds its intent without an outcome, and is killed when it
        // reports that.
        let watch = harness.arm("outcome.before", Some(POISON));
        server = harness.serve(&home, LEASE).await?;
        let held = tokio::select! {
            held = watch.until_held() => Some(held?),
            stopped = until_stopped(&client) => {
                stopped?;
                None
            }
        };
        let Some(held) = held else { break };
        home.kill(&mut server, LEASE).await?;
        drop(held);
        kills += 1;
        ensure!(kills <= KILLS_MAX, "it still moves after {kills} kills");
    }

    until_over(&client).await?;
    let quarantined = keys(&client, "quarantined").await?;
    let succeeded = keys(&client, "succeeded").await?;
    ensure!(
        quarantined == [POISON],
        "{quarantined:?} after {kills} kills"
    );
    ensure!(succeeded.len() == NEIGHBOURS, "{succeeded:?}");
    let effects = peer.count("/slow/").await?.effects;
    ensure!(effects <= NEIGHBOURS as u64 + 1, "{effects} effects");
    Ok(())
}

async fn keys(client: &Connection, state: &str) -> Result<Vec<String>> {
    let text = "SELECT convert_from(key, 'UTF8') FROM runs WHERE state::text = $1 ORDER BY 1";
    let rows = client.query(text, &[&state]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

async fn until_stopped(client: &Connection) -> Result<()> {
    let look = async || keys(client, "quarantined").await;
    let is_there = |keys: &Vec<String>| keys.iter().any(|key| key == POISON);
    until("the run to be quarantined", look, is_there).await?;
    Ok(())
}

async fn until_over(client: &Connection) -> Result<()> {
    let look = async || keys(client, "active").await;
    until("all runs to end", look, |active| active.is_empty()).await?;
    Ok(())
}
