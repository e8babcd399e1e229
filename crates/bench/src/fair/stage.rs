//! One database with a quiet namespace and the others' runs, and the server that serves it.
//!
//! A server without room accepts one run, whose rows are copied as often as is asked: runs that are
//! due. Then a server with room starts.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use hyper::Method;
use semel_testkit::semel::Api;
use semel_testkit::{Client, Cluster, Program};
use serde_json::{Value, json};

use crate::ground::{self, KV_FLOW, NewDatabase, Semel};
use crate::load::Target;

/// How many runs a server holds at once.
const CAPACITY: &str = "1024";

/// How many runs one statement copies.
const STRETCH: i64 = 250_000;

/// Copies the run that was accepted for the numbers `$1` to `$2`, each with a key of its own.
const COPY: &str = "
    WITH copies AS MATERIALIZED (
        SELECT n, md5('due-' || n)::uuid AS id FROM generate_series($1::int8, $2::int8) AS n),
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

/// What no worker holds, of the namespace that has many.
const DUE: &str = "
    SELECT count(*) FROM queue q JOIN namespaces n ON n.id = q.namespace_id
     WHERE n.name = 'default' AND q.holder IS NULL";

/// Where the quiet runs are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuietPlace {
    /// In a namespace of their own.
    OwnNamespace,
    /// In the namespace of the others, by another flow: there is only that one.
    SameNamespace,
}

/// Which server accepts the quiet runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// The one that moves them. Where it has a place free, it begins a run as it accepts it, before any in the queue.
    Worker,
    /// One without room, so that every run goes through the queue.
    Front,
}

/// The servers, their database, and how the quiet runs are started.
pub(super) struct Stage {
    /// The server that moves runs.
    pub(super) semel: Semel,
    front: Option<Semel>,
    /// What opens the namespace of the quiet runs.
    pub(super) quiet_token: String,
    /// The flow of the quiet runs.
    pub(super) quiet_flow: &'static str,
    client: tokio_postgres::Client,
}

impl Stage {
    /// Makes a database in which so many runs are due, and serves it.
    pub(super) async fn open(
        cluster: &Cluster,
        name: &str,
        due: i64,
        (place, door): (QuietPlace, Door),
    ) -> Result<Self> {
        let NewDatabase { url, token, client } =
            ground::create_database(cluster.server(), name).await?;
        let front = Semel::serve(Program::semel, &url, token.clone(), "0").await?;
        let (quiet_token, quiet_flow) = publish(&front, place).await?;
        if due > 0 {
            keep_original(&front, &client).await?;
        }
        let front = match door {
            Door::Worker => {
                front.stop().await?;
                None
            }
            Door::Front => Some(front),
        };
        let mut made = 0;
        while made < due {
            let last = due.min(made + STRETCH);
            client.execute(COPY, &[&(made + 1), &last]).await?;
            made = last;
            eprintln!("{name}: {made} of {due} runs are due");
        }
        client.batch_execute("VACUUM ANALYZE").await?;
        client.batch_execute("CHECKPOINT").await?;
        let semel = Semel::serve(Program::semel, &url, token, CAPACITY).await?;
        Ok(Self {
            semel,
            front,
            quiet_token,
            quiet_flow,
            client,
        })
    }

    /// Where the quiet runs are started.
    pub(super) fn quiet_address(&self) -> SocketAddr {
        self.front.as_ref().unwrap_or(&self.semel).address()
    }

    /// Where the others' runs are started whose end is waited for.
    pub(super) fn others(&self) -> Arc<Target> {
        self.semel.runs_of("orders")
    }

    /// How many runs of the others are due.
    pub(super) async fn due(&self) -> Result<i64> {
        Ok(self.client.query_one(DUE, &[]).await?.get(0))
    }

    /// Ends the servers and removes the database, so that the next one has the machine to itself.
    pub(super) async fn close(self, cluster: &Cluster, name: &str) -> Result<()> {
        drop(self);
        let admin = cluster.server().connect("postgres").await?;
        let text = format!("DROP DATABASE {name} WITH (FORCE)");
        admin.batch_execute(&text).await?;
        admin.batch_execute("CHECKPOINT").await?;
        Ok(())
    }
}

/// Publishes the flow of the others and that of the quiet runs. Gives the token and the flow of the quiet ones.
async fn publish(front: &Semel, place: QuietPlace) -> Result<(String, &'static str)> {
    front.publish("orders", KV_FLOW).await?;
    let caller = Client::new(front.address(), 1);
    let api = Api::new(&caller, front.token());
    match place {
        QuietPlace::OwnNamespace => {
            let create = json!({ "name": "quiet", "admin": "bench" }).to_string();
            let created = api.command(Method::POST, "/v1/namespaces", create).await?;
            let created: Value = created.json()?;
            let token = created["admin"]["token"].as_str().context("a token")?;
            Api::new(&caller, token).publish("orders", KV_FLOW).await?;
            Ok((token.to_owned(), "orders"))
        }
        QuietPlace::SameNamespace => {
            let source = KV_FLOW.replace("flow: orders", "flow: quiet");
            api.publish("quiet", &source).await?;
            Ok((front.token().to_owned(), "quiet"))
        }
    }
}

/// Starts one run of the others and keeps its rows, before any server can take it.
async fn keep_original(front: &Semel, client: &tokio_postgres::Client) -> Result<()> {
    let caller = Client::new(front.address(), 1);
    let start = json!({ "input": { "id": "original" } }).to_string();
    Api::new(&caller, front.token())
        .command(Method::POST, "/v1/flows/orders/runs", start)
        .await?;
    Ok(client.batch_execute(KEEP_ORIGINAL).await?)
}
