//! Fairness: how long the runs of a quiet namespace take, alone and beside another with many due.
//!
//! A server without room accepts one run, whose rows are copied as often as is asked: runs that are due. Then a server with
//! room starts. The quiet namespace starts so many runs a second and waits for each, first without and
//! then beside the others.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use hyper::Method;
use semel_testkit::semel::{Api, migrate, serve};
use semel_testkit::{Client, Cluster, Program};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::ground::{self, KV_FLOW};

/// The quiet namespace may take this much longer beside the others.
const RATIO_MAX: f64 = 1.5;

/// Nor may its runs take longer than this at the 99th percentile.
const P99_MS_MAX: f64 = 500.0;

/// How many runs a server holds at once.
const CAPACITY: &str = "1024";

/// Copies the run that was accepted, `$1` times, each with a key of its own.
const COPY: &str = "
    WITH copies AS MATERIALIZED (
        SELECT n, md5('due-' || n)::uuid AS id FROM generate_series(1, $1::int8) AS n),
    claimed AS (
        INSERT INTO claims (id, run_id, fingerprint, expires_at)
        SELECT c.id, c.id, o.fingerprint, o.expires_at FROM copies c, original_claim o),
    made AS (
        INSERT INTO runs (id, claim_id, namespace_id, release_id, partition_date, key, delivery_id, accepted_at)
        SELECT c.id, c.id, o.namespace_id, o.release_id, o.partition_date, convert_to('due-' || c.n, 'UTF8'), c.id,
               moment()
          FROM copies c, original_run o),
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT o.partition_date, c.id, 1, 1, moment(), replace(o.events::text, 'original', 'due-' || c.n)::json
          FROM copies c, original_line o)
    INSERT INTO queue (run_id, due_at, epoch, seq, partition_date, namespace_id)
    SELECT c.id, moment() - interval '1 hour', 1, 1, o.partition_date, o.namespace_id
      FROM copies c, original_run o";

const KEEP_ORIGINAL: &str = "
    CREATE TABLE original_run AS SELECT * FROM runs;
    CREATE TABLE original_claim AS SELECT * FROM claims;
    CREATE TABLE original_line AS SELECT * FROM journal;
    DELETE FROM queue";

const LEFT: &str = "
    SELECT count(*) FROM queue q JOIN original_run o ON o.namespace_id = q.namespace_id
     WHERE q.holder IS NULL";

/// How the quiet namespace is measured.
#[derive(Debug, Args)]
pub(crate) struct Fairness {
    /// How many runs of the other namespace are due.
    #[arg(long, default_value_t = 200_000)]
    due: i64,
    /// How many runs the quiet namespace starts in a second.
    #[arg(long, default_value_t = 10)]
    rate: u32,
    /// For how many seconds it is measured, each time.
    #[arg(long, default_value_t = 15)]
    seconds: u32,
    /// Where to write everything as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// How long the runs took.
#[derive(Debug, Serialize)]
struct Latency {
    runs: usize,
    p50_ms: f64,
    p99_ms: f64,
    /// How many runs of the other namespace were still due at the end.
    due_left: i64,
}

/// Measures, and says whether the quiet namespace is served as it should be.
pub(crate) async fn run(asked: &Fairness) -> Result<bool> {
    let cluster = Cluster::start(ground::options()).await?;
    let server = cluster.server();
    let admin = server.connect("postgres").await?;
    admin.batch_execute("CREATE DATABASE fair").await?;
    let url = server.url("fair");
    let token = migrate(Program::semel()?, &url).await?;
    let client = server.connect("fair").await?;
    let quiet = prepare(&url, &token, &client).await?;

    let room = ["--capacity", CAPACITY];
    let (_process, address) = serve(Program::semel()?, &url, "127.0.0.1:0", &room).await?;
    let caller = Arc::new(Client::new(address, 64));
    let alone = measure(&caller, &quiet, &client, asked, "alone").await?;
    eprintln!("{} runs are made due", asked.due);
    client.execute(COPY, &[&asked.due]).await?;
    client.batch_execute("VACUUM ANALYZE queue").await?;
    let beside = measure(&caller, &quiet, &client, asked, "beside").await?;

    let ratio = beside.p99_ms / alone.p99_ms;
    let is_fair = ratio <= RATIO_MAX && beside.p99_ms <= P99_MS_MAX;
    let figures = json!({
        "schema": "semel-bench-fair/1",
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "development_build": cfg!(debug_assertions),
        "due": asked.due,
        "rate_per_s": asked.rate,
        "seconds": asked.seconds,
        "alone": alone,
        "beside": beside,
        "ratio_p50": beside.p50_ms / alone.p50_ms,
        "ratio_p99": ratio,
        "bound_p99": RATIO_MAX,
        "bound_p99_ms": P99_MS_MAX,
        "met": is_fair,
    });
    let text = serde_json::to_string_pretty(&figures)?;
    eprintln!("{text}");
    if let Some(path) = &asked.out {
        std::fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(is_fair)
}

/// Publishes the flow in both namespaces, keeps the rows of one run that no server took, and gives
/// the token of the quiet namespace.
async fn prepare(url: &str, token: &str, client: &tokio_postgres::Client) -> Result<String> {
    let no_room = ["--capacity", "0"];
    let (_process, address) = serve(Program::semel()?, url, "127.0.0.1:0", &no_room).await?;
    let caller = Client::new(address, 1);
    let api = Api::new(&caller, token);
    api.publish("orders", KV_FLOW).await?;
    let create = json!({ "name": "quiet", "admin": "bench" }).to_string();
    let created = api.command(Method::POST, "/v1/namespaces", create).await?;
    let created: Value = created.json()?;
    let quiet = created["admin"]["token"]
        .as_str()
        .context("a token")?
        .to_owned();
    Api::new(&caller, &quiet).publish("orders", KV_FLOW).await?;
    let start = json!({ "input": { "id": "original" } }).to_string();
    api.command(Method::POST, "/v1/flows/orders/runs", start)
        .await?;
    client.batch_execute(KEEP_ORIGINAL).await?;
    Ok(quiet)
}

/// Starts runs of the quiet namespace at their rate, and waits for the end of each.
async fn measure(
    caller: &Arc<Client>,
    token: &str,
    client: &tokio_postgres::Client,
    asked: &Fairness,
    tag: &str,
) -> Result<Latency> {
    let mut runs = JoinSet::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / asked.rate.max(1));
    for number in 0..asked.rate * asked.seconds {
        ticks.tick().await;
        let (caller, bearer) = (caller.clone(), format!("Bearer {token}"));
        let body = json!({ "input": { "id": format!("{tag}-{number}") } }).to_string();
        runs.spawn(async move {
            let begun = Instant::now();
            let headers = [
                ("authorization", bearer.as_str()),
                ("content-type", "application/json"),
            ];
            let path = "/v1/flows/orders/runs?wait=30s";
            let answer = caller.send(Method::POST, path, &headers, body.into());
            let answer = answer.await?;
            ensure!(answer.text().contains("succeeded"), "{}", answer.text());
            Ok(begun.elapsed().as_secs_f64() * 1e3)
        });
    }
    let mut took = Vec::new();
    while let Some(ended) = runs.join_next().await {
        took.push(ended??);
    }
    let due_left = client.query_one(LEFT, &[]).await?.get(0);
    took.sort_by(f64::total_cmp);
    let at = |part: f64| took[((took.len() - 1) as f64 * part).round() as usize];
    Ok(Latency {
        runs: took.len(),
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        due_left,
    })
}
