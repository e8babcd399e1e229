//! A run that crashes every process that carries it: it is quarantined, and no other run with it. Runs that were
//! only near it continue together.

use anyhow::{Result, ensure};
use semel_testkit::{Cluster, Connection, Options, Peer, patience, until};

use crate::harness::Harness;
use crate::invariants;
use crate::servers::Home;

/// How many runs wait for a slow destination beside the one that crashes processes.
const NEIGHBOURS: usize = 8;

/// How often a process may crash before the run is found: when it accepts it, twice among all runs, in groups of
/// nine, four and two, beside another one whose group is as small, and three times alone. Some more, because its
/// neighbours leave the groups at their own time.
const KILLS_MAX: usize = 14;

/// How often the server is killed while runs read: the last time they are suspects.
const KILLS: usize = 3;

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
    invariants::hold_but(&home, &[&server], &["duties"]).await
}

/// Reads write nothing while they wait. Those of a killed server are taken twice without progress as soon as it
/// was killed twice.
#[tokio::test(flavor = "multi_thread")]
async fn runs_that_read_when_their_server_was_killed_continue_together() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let client = home.connect().await?;
    let harness = Harness::start()?;
    let mut server = harness.serve(&home, LEASE).await?;
    let source = format!(
        "flow: reads\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - id: ask\n\
         \x20   http: {{ get: '{}' }}\n",
        peer.url("/hold/list/1")
    );
    home.publish(&server, "reads", &source).await?;
    for number in 0..NEIGHBOURS {
        let body = format!(r#"{{"id":"reader-{number}"}}"#);
        let answer = server.client.post("/hooks/default/reads", body).await?;
        ensure!(answer.status == 202, "{}", answer.text());
    }

    for _ in 0..KILLS {
        peer.until_held(NEIGHBOURS, patience()).await?;
        home.kill(&mut server, LEASE).await?;
        peer.let_go().await?;
        server = harness.serve(&home, LEASE).await?;
    }
    // A group that was killed is halved.
    peer.until_held(NEIGHBOURS / 2, patience()).await?;
    let look = async || {
        peer.let_go().await?;
        keys(&client, "active").await
    };
    until("all runs to end", look, |active| active.is_empty()).await?;

    let succeeded = keys(&client, "succeeded").await?;
    ensure!(succeeded.len() == NEIGHBOURS, "{succeeded:?}");
    invariants::hold_but(&home, &[&server], &["duties"]).await
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
