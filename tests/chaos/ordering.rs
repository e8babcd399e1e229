//! Ordering: versions of many objects delivered shuffled and repeated. The destination ends at the
//! newest of each and never goes back.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use semel_testkit::{Chance, Cluster, Connection, Peer, Program};
use serde_json::{Value, json};

use crate::campaign::{keep_figures, size, storage};
use crate::crowd::{self, Post};
use crate::invariants;
use crate::queries::{UNENDED, until_none};
use crate::servers::{Home, serve, until_known};

/// How many objects there are, and how many versions of each, unless the environment says
/// otherwise.
const OBJECTS: usize = 100;
const VERSIONS: usize = 20;

/// How often each version is delivered.
const TIMES: usize = 2;

const SENDERS: usize = 64;

const FLOW: &str = "flow: sync
trigger:
  webhook:
    auth: none
    key: input.id
    order: { object: input.object, version: input.version }
steps:
  - id: write
    http:
      put: 'PEER/put/${{ input.object }}'
      json: { object: '${{ input.object }}', version: '${{ input.version }}' }
";

#[tokio::test(flavor = "multi_thread")]
async fn the_destination_ends_at_the_newest_version_and_never_goes_back() -> Result<()> {
    let objects = size("SEMEL_ORDERING_OBJECTS", OBJECTS)?;
    let cluster = Cluster::start(storage()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let servers = [
        serve(Program::semel()?, &home.url(), "10s").await?,
        serve(Program::semel()?, &home.url(), "10s").await?,
    ];
    let source = FLOW.replace("PEER", &peer.url(""));
    home.publish(&servers[0], "sync", &source).await?;
    until_known(&servers, "sync").await?;
    let client = home.connect().await?;
    let begun = Instant::now();

    let mut posts: Vec<Post> = (0..objects * VERSIONS * TIMES)
        .map(|index| delivery(index % objects, index / objects % VERSIONS))
        .collect();
    Chance::new("ordering").shuffle(&mut posts);
    let half = posts.split_off(posts.len() / 2);
    let (first, second) = tokio::try_join!(
        crowd::send(&servers[0], SENDERS / 2, posts),
        crowd::send(&servers[1], SENDERS / 2, half),
    )?;
    let delivered = begun.elapsed();
    until_none(&client, UNENDED).await?;

    let (mut stale, mut answered) = (0, 0);
    for (_, answer) in first.iter().chain(&second) {
        ensure!(answer.status.is_success(), "{}", answer.text());
        let body: Value = answer.json()?;
        stale += usize::from(body["stale"] == json!(true));
        answered += usize::from(body["run"].is_string());
    }
    ensure!(
        answered == objects * VERSIONS * TIMES,
        "every answer names a run"
    );
    let applied = check_destination(&peer, objects).await?;
    let runs = check_runs(&client, objects).await?;
    let recorded: i64 = client
        .query_one(
            "SELECT coalesce(sum(count), 0)::int8 FROM stale_deliveries",
            &[],
        )
        .await?
        .get(0);
    ensure!(
        recorded == stale as i64,
        "{recorded} of {stale} stale deliveries are recorded"
    );
    let figures = json!({
        "objects": objects,
        "versions": VERSIONS,
        "deliveries": objects * VERSIONS * TIMES,
        "delivered_per_s": ((objects * VERSIONS * TIMES) as f64 / delivered.as_secs_f64()).round(),
        "took_s": begun.elapsed().as_secs(),
        "stale": stale,
        "runs": runs.0,
        "superseded": runs.1,
        "written": applied,
        "went_back": 0,
        "not_at_the_newest": 0,
    });
    println!("{figures:#}");
    keep_figures("ordering", &figures)?;
    invariants::hold(&home, &servers.iter().collect::<Vec<_>>()).await
}

fn delivery(object: usize, version: usize) -> Post {
    let body = json!({ "id": format!("{object}/{version}"), "object": format!("o{object}"),
        "version": version });
    Post {
        subject: object,
        path: "/hooks/default/sync".to_owned(),
        body: body.to_string(),
    }
}

/// What was written of each object only grew, and ended at the newest. Tells how much was written.
async fn check_destination(peer: &Peer, objects: usize) -> Result<usize> {
    let mut newest: HashMap<String, u64> = HashMap::new();
    let effects = peer.effects().await?;
    for effect in &effects {
        let body: Value = serde_json::from_str(&effect.body)?;
        let object = body["object"].as_str().context("an object")?.to_owned();
        let version = body["version"].as_u64().context("a version")?;
        if let Some(before) = newest.insert(object.clone(), version) {
            ensure!(version > before, "{object} went from {before} to {version}");
        }
    }
    ensure!(
        newest.len() == objects,
        "{} objects were written",
        newest.len()
    );
    for (object, version) in &newest {
        ensure!(
            *version == VERSIONS as u64 - 1,
            "{object} ended at {version}"
        );
    }
    Ok(effects.len())
}

/// Runs succeeded, or gave way to something newer. Tells how many there are, and how many gave way.
async fn check_runs(client: &Connection, objects: usize) -> Result<(i64, i64)> {
    let row = client
        .query_one(
            "SELECT count(*), count(*) FILTER (WHERE state = 'superseded' AND fault ->> 'code' = 'superseded'),
                    count(*) FILTER (WHERE state = 'succeeded')
               FROM runs",
            &[],
        )
        .await?;
    let (all, superseded, succeeded): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    ensure!(
        all == superseded + succeeded,
        "{all} runs, {superseded} superseded, {succeeded} succeeded"
    );
    ensure!(succeeded >= objects as i64, "{succeeded} runs succeeded");
    Ok((all, superseded))
}
