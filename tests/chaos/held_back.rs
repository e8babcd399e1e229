//! A destination with a rate limit, and more runs than it takes: they wait without work for the
//! database, and what they did before is on record while they do.

use anyhow::{Result, ensure};
use hyper::Method;
use semel_testkit::{Cluster, Connection, Options, Peer, Program, until};
use serde_json::{Value, json};

use crate::campaign::{keep_figures, scaled};
use crate::crowd::{self, Post};
use crate::harness::Harness;
use crate::invariants;
use crate::queries::{count, until_count};
use crate::servers::{Home, Served, serve};

const LEASE: &str = "2s";

/// How many runs wait for one exchange a second, unless `SEMEL_RATE_RUNS` says otherwise: with
/// every change, and in a campaign.
const RUNS: usize = 60;
const RUNS_FULL: usize = 10_000;

/// How many effects are awaited, one a second, unless `SEMEL_RATE_SENT` says otherwise.
const SENT: u64 = 5;
const SENT_FULL: u64 = 600;

/// The most rows of the journal for each effect that was sent, beyond the row that accepts a run.
const ROWS_MAX: u64 = 6;

/// How many connections the sender has.
const CONNECTIONS: usize = 4;

/// Runs that sleep for room.
const ASLEEP: &str = "SELECT count(*) FROM queue WHERE holder IS NULL AND stage = 'retrying'";

/// The runs that slept until a time of their own at the last look, with the leases that they had then.
const WATCHED: &str = "
    CREATE TEMPORARY TABLE watched (
        run_id uuid PRIMARY KEY, epoch bigint NOT NULL, due_at timestamptz NOT NULL)";

/// Those of them that were taken although their time has not come.
const TAKEN_EARLY: &str = "
    SELECT count(*)
      FROM watched w
      JOIN queue q ON q.run_id = w.run_id
     WHERE q.epoch <> w.epoch AND w.due_at > moment()";

const WATCH: &str = "
    INSERT INTO watched
    SELECT run_id, epoch, due_at FROM queue
     WHERE holder IS NULL AND stage = 'retrying' AND due_at > moment()
        ON CONFLICT (run_id) DO UPDATE SET epoch = EXCLUDED.epoch, due_at = EXCLUDED.due_at";

const FILLER: &str = "flow: filler
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: act
    http: { connection: slow, post: /plain/filler, json: {} }
";

const ORDERS: &str = "flow: orders
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: charge
    http: { connection: bank, post: /keyed/charge, json: { id: '${{ input.id }}' } }
    guard: key
  - id: act
    http: { connection: slow, post: /plain/act, json: {} }
";

async fn connect(home: &Home, server: &Served, peer: &Peer) -> Result<()> {
    let slow = json!({ "per_second": 1 });
    let bank = json!({ "concurrency": 64 });
    for (name, limits) in [("slow", slow), ("bank", bank)] {
        let connection: Value = json!({ "connection": {
            "to": { "http": { "base_url": peer.url("") } },
            "idempotency_keys": { "window": "2d" },
            "limits": limits } });
        let at = format!("/v1/connections/{name}");
        home.command(server, Method::PUT, &at, connection.to_string())
            .await?;
    }
    home.publish(server, "filler", FILLER).await
}

async fn fill(server: &Served, runs: usize) -> Result<()> {
    let post = |subject| Post {
        subject,
        path: "/hooks/default/filler".to_owned(),
        body: format!(r#"{{"id":"{subject}"}}"#),
    };
    let answers = crowd::send(server, CONNECTIONS, (0..runs).map(post).collect()).await?;
    for (_, answer) in answers {
        ensure!(answer.status.is_success(), "{}", answer.text());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_behind_a_rate_is_taken_about_once_and_leaves_no_rows() -> Result<()> {
    let runs = scaled("SEMEL_RATE_RUNS", RUNS, RUNS_FULL)?;
    let wanted = scaled("SEMEL_RATE_SENT", SENT, SENT_FULL)?;
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let (client, peer) = (home.connect().await?, Peer::start().await?);
    let server = serve(Program::semel()?, &home.url(), "10s").await?;
    connect(&home, &server, &peer).await?;

    fill(&server, runs).await?;
    client.batch_execute(WATCHED).await?;
    let mut sent = 0;
    while sent < wanted {
        let before = sent;
        let look = async || -> Result<u64> {
            look_for_early(&client).await?;
            Ok(peer.count("/plain/filler").await?.calls)
        };
        let what = format!("more than {before} effects");
        sent = until(&what, look, |now| *now > before).await?;
    }

    let rows = "SELECT count(*) FROM journal WHERE seq > 1";
    let rows = u64::try_from(count(&client, rows).await?)?;
    let sent = peer.count("/plain/filler").await?.calls;
    ensure!(rows <= ROWS_MAX * sent, "{rows} rows for {sent} effects");
    let later = "holder IS NULL AND due_at > moment() + interval '5s'";
    let waiting = count(
        &client,
        &format!("SELECT count(*) FROM queue WHERE {later}"),
    )
    .await?;
    let most = format!("SELECT coalesce(max(seq), 0)::int8 FROM queue WHERE {later}");
    ensure!(
        count(&client, &most).await? <= 2,
        "a row for each run that waits, at most"
    );
    // The first lease is that of the server that accepted the run.
    let takes = "SELECT coalesce(sum(greatest(epoch - 1, 0)), 0)::int8 FROM queue";
    let takes = format!("{takes} WHERE {later}");
    let takes = count(&client, &takes).await?;
    println!("{sent} sent, {rows} rows; {waiting} runs that wait were taken {takes} times");
    ensure!(waiting > 0, "some wait");
    ensure!(takes <= waiting * 2, "{takes} takes of {waiting} runs");
    let watched = count(&client, "SELECT count(*) FROM watched").await?;
    ensure!(watched > 0, "some were watched");
    let broken = invariants::list_breaches(&home).await?;
    ensure!(broken.is_empty(), "{broken:?}");
    keep_figures(
        "rate-limit",
        &json!({
            "runs": runs,
            "per_second": 1,
            "sent": sent,
            "rows": rows,
            "rows_for_each_sent": rows as f64 / sent as f64,
            "waiting": waiting,
            "takes_of_those_that_wait": takes,
            "watched": watched,
            "taken_early": 0,
        }),
    )
}

/// Demands that no run is taken before the time until which it slept, and notes those that sleep now.
async fn look_for_early(client: &Connection) -> Result<()> {
    let early = count(client, TAKEN_EARLY).await?;
    ensure!(early == 0, "{early} runs were taken before their time");
    client.execute(WATCH, &[]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_before_it_commits_an_outcome_without_room_repeats_it() -> Result<()> {
    let charged = die_at("outcome.before").await?;

    assert_eq!(charged, 2, "under the same key");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_is_on_record_while_its_run_waits_for_room() -> Result<()> {
    let charged = die_at("outcome.after").await?;

    assert_eq!(charged, 1);
    Ok(())
}

/// Kills a server at the write of an outcome after which the run finds no room for its next step,
/// and lets the next server finish the run. Returns how often the first step was asked for.
async fn die_at(point: &'static str) -> Result<u64> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let (client, peer, harness) = (
        home.connect().await?,
        Peer::start().await?,
        Harness::start()?,
    );
    let mut server = harness.serve(&home, LEASE).await?;
    connect(&home, &server, &peer).await?;
    home.publish(&server, "orders", ORDERS).await?;
    fill(&server, 12).await?;
    let look = async || count(&client, ASLEEP).await;
    until("runs to wait", look, |asleep| *asleep >= 8).await?;

    let watch = harness.arm(point, Some("o-1"));
    let body = r#"{"id":"o-1"}"#.to_owned();
    let delivered = server.client.post("/hooks/default/orders", body).await?;
    ensure!(delivered.status.is_success(), "{delivered:?}");
    let held = watch.until_held().await?;
    home.kill(&mut server, LEASE).await?;
    drop(held);
    let intents = "SELECT count(*) FROM effects e JOIN runs r ON r.id = e.run_id
                    WHERE convert_from(r.key, 'UTF8') = 'o-1'";
    ensure!(
        count(&client, intents).await? == 1,
        "no intent without room"
    );
    let other = harness.serve(&home, LEASE).await?;

    let ended = "SELECT count(*) FROM runs
                  WHERE state = 'succeeded' AND convert_from(key, 'UTF8') = 'o-1'";
    until_count(&client, ended, 1).await?;
    let charged = peer.count("/keyed/charge").await?;
    assert_eq!(charged.effects, 1);
    assert_eq!(peer.count("/plain/act").await?.calls, 1);
    invariants::hold_but(&home, &[&other], &["duties"]).await?;
    Ok(charged.calls)
}
