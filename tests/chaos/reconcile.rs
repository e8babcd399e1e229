//! A server that dies in the middle of a reconcile pass.
//!
//! It has started the missing runs of a page and dies before it has recorded that page. The next
//! server reads the page again, and the runs are there.

use anyhow::{Result, ensure};
use hyper::Method;
use semel_testkit::{Cluster, Options, Peer};

use crate::harness::Harness;
use crate::invariants;
use crate::queries::{SUCCEEDED, until_count};
use crate::servers::Home;

const LEASE: &str = "2s";

const ORDERS: usize = 250;

const FLOW: &str = r#"flow: orders
keep: 1d
trigger:
  webhook: { auth: none, key: '"order/" + input.id' }
reconcile:
  every: 300d
  list:
    http:
      get: "PEER/shop/250/10/NOW/orders?since=${{ window.start }}&size=100"
      pages: { items: orders, cursor: next, query: page }
  key: '"order/" + item.id'
  at: item.created_at
  window: 1d
steps:
  - { id: seen, kv: { add: '${{ input.id }}' } }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_during_a_pass_starts_nothing_twice_and_counts_right() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let (client, peer, harness) = (
        home.connect().await?,
        Peer::start().await?,
        Harness::start()?,
    );
    let mut server = harness.serve(&home, LEASE).await?;
    let now = client.query_one("SELECT extract(epoch FROM moment())::int8", &[]);
    let now: i64 = now.await?.get(0);
    let flow = FLOW
        .replace("PEER", &peer.url(""))
        .replace("NOW", &now.to_string());
    home.publish(&server, "orders", &flow).await?;

    let watch = harness.arm("reconcile.record", Some("orders/1"));
    let body = "{}".to_owned();
    let asked = home.command(&server, Method::POST, "/v1/reconcile/orders", body);
    let asked = asked.await?;
    ensure!(asked.status == 201, "{asked:?}");
    let held = watch.until_held().await?;
    until_count(&client, "SELECT count(*) FROM runs", 200).await?;
    home.kill(&mut server, LEASE).await?;
    drop(held);
    let other = harness.serve(&home, LEASE).await?;
    // The pass is free once the dead server's hold on it is over.
    let later = "UPDATE reconcile_passes SET due_at = moment()";
    client.batch_execute(later).await?;

    let done = "SELECT count(*) FROM reconcile_passes WHERE state = 'done'";
    until_count(&client, done, 1).await?;
    let counts = "SELECT started, known, left_out, page::int8, epoch FROM reconcile_passes";
    let row = client.query_one(counts, &[]).await?;
    let found: Vec<i64> = (0..5).map(|column| row.get(column)).collect();
    assert_eq!(found, [ORDERS as i64, 0, 10, 3, 2]);
    until_count(&client, SUCCEEDED, ORDERS).await?;
    let once = "SELECT count(*) FROM kv WHERE entry LIKE 'o-%' AND value::text = '1'";
    until_count(&client, once, ORDERS).await?;
    invariants::hold_but(&home, &[&other], &["duties"]).await
}
