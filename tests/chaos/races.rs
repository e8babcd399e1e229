//! Races of two actors for the same run, with the order of their commits chosen.

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::{Cluster, Connection, Options, Peer};
use serde_json::Value;

use crate::harness::Harness;
use crate::invariants;
use crate::servers::{Home, Served};

const WAITING: &str = "flow: waiting
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: tell
    kv: { set: url, value: '${{ waits.answer.url }}' }
  - id: answer
    wait: { callback: true, within: 1s }
result: steps.answer.result
";

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_that_overtakes_its_timeout_resumes_the_run() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let harness = Harness::start()?;
    let server = harness.serve(&home, "10s").await?;
    home.publish(&server, "waiting", WAITING).await?;
    let client = home.connect().await?;

    // The worker has seen no callback, and is about to write that the time is up.
    let timeout = harness.arm("record.before", Some("one"));
    deliver(&server, "waiting").await?;
    let timeout = timeout.until_held().await?;
    let url: Value = serde_json::from_str(&one(&client, "SELECT value::text FROM kv").await?)?;
    let url = url.as_str().context("an address")?;
    let path = &url[url.find("/callbacks/").context("a callback's address")?..];
    let called = server.client.post(path, r#"{"ok":true}"#).await?;
    timeout.let_go().await;

    ensure!(called.status == 200, "{}", called.text());
    until(&client, "SELECT state::text FROM runs", "succeeded").await?;
    let result = one(&client, "SELECT result::text FROM runs").await?;
    ensure!(result == r#"{"ok":true}"#, "the result is {result}");
    invariants::hold(&home, &[&server]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_answer_is_heard_while_the_run_is_being_stopped() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let (early, late) = (Harness::start()?, Harness::start()?);
    let first = early.serve(&home, "2s").await?;
    let flow = format!(
        "flow: charge\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - id: act\n    \
         http: {{ post: '{}', json: {{ id: 1 }}, timeout: 60s }}\n    guard: review\n",
        peer.url("/plain/charges")
    );
    home.publish(&first, "charge", &flow).await?;
    let second = late.serve(&home, "2s").await?;
    let client = home.connect().await?;

    // The first server holds the response when it is paused; the second finds the intent without an
    // outcome, and is about to write that the run is stopped for an operator.
    let answered = early.arm("outcome.before", Some("one"));
    deliver(&first, "charge").await?;
    let answered = answered.until_held().await?;
    let parking = late.arm("outcome.before", Some("one"));
    first.process.sigstop()?;
    let parking = parking.until_held().await?;
    answered.let_go().await;
    first.process.sigcont()?;
    until(&client, "SELECT count(*)::text FROM late_responses", "1").await?;
    parking.let_go().await;

    until(&client, "SELECT state::text FROM runs", "succeeded").await?;
    ensure!(peer.count("/plain/").await?.calls == 1, "it is sent once");
    invariants::hold(&home, &[&first, &second]).await
}

const PAUSING: &str = "flow: pausing
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: first
    if: input.waits
    wait: { callback: true, within: 1h }
";

#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_drops_never_take_the_key_from_the_next_run() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let harness = Harness::start()?;
    let server = harness.serve(&home, "10s").await?;
    home.publish(&server, "pausing", PAUSING).await?;
    let client = home.connect().await?;
    let post = async |body: &str| {
        let answer = server
            .client
            .post("/hooks/default/pausing", body.to_owned());
        let answer = answer.await?;
        ensure!(answer.status == 202, "{}", answer.text());
        let body: Value = answer.json()?;
        Ok(body["run"].as_str().context("a run")?.to_owned())
    };
    let bearer = format!("Bearer {}", home.token());
    let drop_key = async |name: &'static str| {
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", name),
        ];
        let path = "/v1/keys/pausing/drop?key=one";
        let body = r#"{"reason":"a trial"}"#.into();
        server.client.send(Method::POST, path, &headers, body).await
    };
    post(r#"{"id":"one","waits":false}"#).await?;
    until(&client, "SELECT state::text FROM runs", "succeeded").await?;

    // The first operator's command has found the run ended, and is about to free its key.
    let judged = harness.arm("drop.judged", Some("one"));
    let (late, second) = tokio::join!(drop_key("late"), async {
        let judged = judged.until_held().await?;
        let quick = drop_key("quick").await?;
        ensure!(quick.status == 200, "{}", quick.text());
        let second = post(r#"{"id":"one","waits":true}"#).await?;
        judged.let_go().await;
        anyhow::Ok(second)
    });
    let (late, second) = (late?, second?);
    let repeat = post(r#"{"id":"one","waits":true}"#).await?;

    ensure!(late.status == 409, "{}: {}", late.status, late.text());
    ensure!(repeat == second, "{repeat} beside {second}");
    let active = "SELECT count(*)::text FROM runs WHERE state = 'active'";
    ensure!(one(&client, active).await? == "1", "one run is active");
    invariants::hold(&home, &[&server]).await
}

async fn deliver(server: &Served, flow: &str) -> Result<()> {
    let path = format!("/hooks/default/{flow}");
    let answer = server.client.post(&path, r#"{"id":"one"}"#).await?;
    ensure!(answer.status == 202, "{}", answer.text());
    Ok(())
}

/// The one text that a query gives.
async fn one(client: &Connection, sql: &str) -> Result<String> {
    Ok(client.query_one(sql, &[]).await?.get(0))
}

/// Waits until a query gives what is wanted.
async fn until(client: &Connection, sql: &str, wanted: &str) -> Result<()> {
    let look = async || one(client, sql).await;
    let what = format!("{wanted} by {sql}");
    semel_testkit::until(&what, look, |found| found == wanted).await?;
    Ok(())
}
