//! A server that dies between the look before the first attempt and the intent.
//!
//! It has found nothing, and another system creates the same thing before the next server takes the
//! run. That server looks again: what the first one saw is not recorded before the intent is.

use anyhow::{Result, ensure};
use semel_testkit::{Client, Cluster, Options, Peer};

use crate::harness::Harness;
use crate::invariants;
use crate::queries::{SUCCEEDED, until_count};
use crate::servers::Home;

const LEASE: &str = "2s";

const FLOW: &str = "flow: contacts
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: create
    http: { post: 'PEER/plain/ours', json: { id: '${{ input.id }}' } }
    guard: probe
    probe:
      before: true
      http: { get: 'PEER/items?id=${{ input.id }}' }
      found: probe.json.items.size() > 0
";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_between_look_and_intent_lets_the_next_one_look_again() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let (client, peer, harness) = (
        home.connect().await?,
        Peer::start().await?,
        Harness::start()?,
    );
    let mut server = harness.serve(&home, LEASE).await?;
    let flow = FLOW.replace("PEER", &peer.url(""));
    home.publish(&server, "contacts", &flow).await?;

    let watch = harness.arm("intent.before", Some("c-1"));
    let hook = "/hooks/default/contacts";
    let body = r#"{"id":"c-1"}"#.to_owned();
    let delivered = server.client.post(hook, body.clone()).await?;
    ensure!(delivered.status.is_success(), "{delivered:?}");
    let held = watch.until_held().await?;
    let looked = peer.count("/items").await?.calls;
    home.kill(&mut server, LEASE).await?;
    drop(held);
    let elsewhere = Client::new(peer.address(), 1);
    elsewhere.post("/plain/theirs", body).await?;
    let other = harness.serve(&home, LEASE).await?;

    until_count(&client, SUCCEEDED, 1).await?;
    let effects = "SELECT attempt, state::text FROM effects";
    let row = client.query_one(effects, &[]).await?;
    assert_eq!((row.get(0), row.get(1)), (0_i32, "done"));
    assert_eq!(looked, 1);
    assert_eq!(peer.count("/items").await?.calls, 2, "it looked again");
    assert_eq!(peer.count("/plain/ours").await?.calls, 0, "nothing is sent");
    invariants::hold_but(&home, &[&other], &["duties"]).await
}
