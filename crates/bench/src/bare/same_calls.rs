//! The rows of a run of three calls, by one small writer without an engine, and the calls by a real HTTP client: that
//! of the testkit, which is hyper with connections that are kept, in this process.
//!
//! A call may not leave before its intent is on disk, so that a run has four commits in a row: accept and first
//! intent, twice an outcome with the next intent, last outcome and end. The first writes claim, run and queue entry, each later
//! one the fence, and all a line of the journal and the ledger, as the product does.

use std::sync::Arc;

use anyhow::{Result, ensure};
use hyper::Method;
use semel_testkit::{Client as HttpClient, Peer};
use serde_json::{Value, json};
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::same_rows::{HOLDER, all_free, all_held, effect_of};
use super::writer::{Commit, Writer};
use super::{Delivery, Rows, STEPS};
use crate::load::{Sender, payload};

/// The most connections of the client.
const CONNECTIONS_MAX: usize = 512;

/// The steps of the flow.
const STEP_NAMES: [&str; STEPS as usize] = ["first", "second", "third"];

/// Claims what is free; makes run, queue entry, first line of the journal and first entry of the ledger of each.
const ACCEPT: &str = "
    WITH arrived AS MATERIALIZED (
        SELECT *, (now() AT TIME ZONE 'UTC')::date AS partition_date
          FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::uuid[])
            AS t (claim_id, run_id, fingerprint, key, events, effect_id)),
    claimed AS (
        INSERT INTO claims (id, run_id, fingerprint, expires_at)
        SELECT claim_id, run_id, fingerprint, date_trunc('minute', now() + interval '30 days') FROM arrived
            ON CONFLICT (id) DO NOTHING
     RETURNING id, run_id),
    fresh AS MATERIALIZED (SELECT * FROM arrived WHERE (claim_id IN (SELECT id FROM claimed)) IS TRUE),
    made AS (
        INSERT INTO runs (id, claim_id, namespace_id, release_id, key, delivery_id, accepted_at, partition_date)
        SELECT run_id, claim_id, 1, 1, convert_to(key, 'UTF8'), fingerprint, now(), partition_date FROM fresh),
    queued AS (
        INSERT INTO queue (run_id, due_at, holder, epoch, seq, partition_date, namespace_id)
        SELECT run_id, now(), '00000000-0000-0000-0000-000000000001', 1, 1, partition_date, 1 FROM fresh),
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT partition_date, run_id, 1, 1, now(), events::json FROM fresh),
    entered AS (
        INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt, intended_at)
        SELECT partition_date, effect_id, run_id, 1, 'first', 'http', 'key', 'pending', 1, now() FROM fresh)
    SELECT run_id FROM claimed";

/// Settles a call and writes the intent of the next: fence, line, two entries of the ledger.
const STEP: &str = "
    WITH moves AS MATERIALIZED (
        SELECT *, (now() AT TIME ZONE 'UTC')::date AS partition_date
          FROM unnest($1::uuid[], $2::int4[], $3::text[], $4::uuid[], $5::uuid[], $6::text[])
            AS t (run_id, seq, events, settled, next, step)),
    fenced AS (
        UPDATE queue q SET seq = q.seq + 1
          FROM moves t
         WHERE q.run_id = ANY (ARRAY[t.run_id]) AND q.epoch = 1 AND q.seq = t.seq AND q.holder IS NOT DISTINCT FROM $7
     RETURNING 1),
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT partition_date, run_id, seq + 1, 1, now(), events::json FROM moves),
    changed AS (
        UPDATE effects e SET state = 'done', settled_at = now()
          FROM moves t WHERE e.partition_date = t.partition_date AND e.id = t.settled AND e.state <> 'done'),
    entered AS (
        INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt, intended_at)
        SELECT partition_date, next, run_id, 1, step, 'http', 'key', 'pending', 1, now() FROM moves)
    SELECT count(*) FROM fenced";

/// Settles the last call and ends the run.
const END: &str = "
    WITH moves AS MATERIALIZED (
        SELECT *, (now() AT TIME ZONE 'UTC')::date AS partition_date
          FROM unnest($1::uuid[], $2::text[], $3::uuid[]) AS t (run_id, events, settled)),
    fenced AS (
        DELETE FROM queue q
         USING moves t
         WHERE q.run_id = ANY (ARRAY[t.run_id]) AND q.epoch = 1 AND q.seq = 3 AND q.holder IS NOT DISTINCT FROM $4
     RETURNING 1),
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT partition_date, run_id, 4, 1, now(), events::json FROM moves),
    changed AS (
        UPDATE effects e SET state = 'done', settled_at = now()
          FROM moves t WHERE e.partition_date = t.partition_date AND e.id = t.settled AND e.state <> 'done'),
    ended AS (
        UPDATE runs r SET state = 'succeeded', ended_at = now(), result = '{\"ok\":true}'
          FROM moves t WHERE r.id = t.run_id)
    SELECT count(*) FROM fenced";

/// One transition of one run.
#[derive(Debug)]
enum Change {
    /// The key is claimed, the run made and its first call intended.
    Accept(Delivery),
    /// A call is settled and the next intended, or the run ended.
    Settle {
        run: Uuid,
        key: String,
        number: u8,
        response: Value,
    },
}

/// The callers' end of the writer, and their client.
#[derive(Clone)]
pub(crate) struct SameCalls {
    writer: Writer<Change>,
    http: Arc<HttpClient>,
}

impl SameCalls {
    /// Starts the writer on a connection of its own, to a database that has the product's tables.
    pub(crate) async fn start(url: &str, peer: &Peer) -> Result<Self> {
        let client = super::connect(url, Rows::Same).await?;
        let tables = Tables {
            accept: client.prepare(ACCEPT).await?,
            step: client.prepare(STEP).await?,
            end: client.prepare(END).await?,
            client,
        };
        Ok(Self {
            writer: Writer::start(tables),
            http: Arc::new(HttpClient::new(peer.address(), CONNECTIONS_MAX)),
        })
    }

    /// So many runners of this writer. `tag` tells the keys of slices apart.
    pub(crate) fn crowd(&self, count: usize, tag: &str) -> Vec<SameCallsRunner> {
        let runner = |index| SameCallsRunner {
            calls: self.clone(),
            prefix: format!("{tag}-{index}"),
            next: 0,
        };
        (0..count).map(runner).collect()
    }
}

struct Tables {
    client: Client,
    accept: Statement,
    step: Statement,
    end: Statement,
}

impl Commit for Tables {
    type Change = Change;

    async fn commit(&self, changes: Vec<Change>) -> Result<()> {
        let (client, columns) = (&self.client, Columns::of(changes));
        let (begun, accepted, stepped, ended, committed) = futures_util::join!(
            client.batch_execute("BEGIN"),
            columns.accept(client, &self.accept),
            columns.step(client, &self.step),
            columns.end(client, &self.end),
            client.batch_execute("COMMIT"),
        );
        begun?;
        accepted?;
        stepped?;
        ended?;
        Ok(committed?)
    }
}

#[derive(Default)]
struct Columns {
    claims: Vec<Uuid>,
    claimed_runs: Vec<Uuid>,
    fingerprints: Vec<Uuid>,
    keys: Vec<String>,
    accepted: Vec<String>,
    first_effects: Vec<Uuid>,
    moved: Vec<Uuid>,
    seqs: Vec<i32>,
    moves: Vec<String>,
    settled: Vec<Uuid>,
    next_effects: Vec<Uuid>,
    next_steps: Vec<&'static str>,
    ended: Vec<Uuid>,
    ends: Vec<String>,
    last_effects: Vec<Uuid>,
}

impl Columns {
    fn of(changes: Vec<Change>) -> Self {
        let mut columns = Self::default();
        for change in changes {
            match change {
                Change::Accept(delivery) => columns.add_accepted(delivery),
                Change::Settle {
                    run,
                    key,
                    number,
                    response,
                } => columns.add_settled(run, &key, number, &response),
            }
        }
        columns
    }

    fn add_accepted(&mut self, delivery: Delivery) {
        let effect = effect_of(delivery.run, 0);
        let input = &delivery.input;
        self.accepted.push(format!(
            r#"[{{"event":"accepted","trigger":"api","input":{input}}},{}]"#,
            intended(0, effect, &delivery.key)
        ));
        self.claims.push(delivery.claim);
        self.claimed_runs.push(delivery.run);
        self.fingerprints.push(delivery.fingerprint);
        self.keys.push(delivery.key);
        self.first_effects.push(effect);
    }

    fn add_settled(&mut self, run: Uuid, key: &str, number: u8, response: &Value) {
        let step = STEP_NAMES[usize::from(number)];
        let done =
            format!(r#"{{"event":"done","step":"{step}","by":"answer","result":{response}}}"#);
        let next = number + 1;
        match STEP_NAMES.get(usize::from(next)) {
            Some(name) => {
                let effect = effect_of(run, next);
                self.moved.push(run);
                self.seqs.push(i32::from(next));
                self.moves
                    .push(format!("[{done},{}]", intended(next, effect, key)));
                self.settled.push(effect_of(run, number));
                self.next_effects.push(effect);
                self.next_steps.push(name);
            }
            None => {
                self.ended.push(run);
                self.ends.push(format!(
                    r#"[{done},{{"event":"ended","state":"succeeded","result":{{"ok":true}}}}]"#
                ));
                self.last_effects.push(effect_of(run, number));
            }
        }
    }

    async fn accept(&self, client: &Client, statement: &Statement) -> Result<()> {
        if self.claims.is_empty() {
            return Ok(());
        }
        let rows = client
            .query(
                statement,
                &[
                    &self.claims,
                    &self.claimed_runs,
                    &self.fingerprints,
                    &self.keys,
                    &self.accepted,
                    &self.first_effects,
                ],
            )
            .await?;
        all_free(rows.len(), self.claims.len())
    }

    async fn step(&self, client: &Client, statement: &Statement) -> Result<()> {
        if self.moved.is_empty() {
            return Ok(());
        }
        let row = client
            .query_one(
                statement,
                &[
                    &self.moved,
                    &self.seqs,
                    &self.moves,
                    &self.settled,
                    &self.next_effects,
                    &self.next_steps,
                    &HOLDER,
                ],
            )
            .await?;
        all_held(row.get(0), self.moved.len())
    }

    async fn end(&self, client: &Client, statement: &Statement) -> Result<()> {
        if self.ended.is_empty() {
            return Ok(());
        }
        let row = client
            .query_one(
                statement,
                &[&self.ended, &self.ends, &self.last_effects, &HOLDER],
            )
            .await?;
        all_held(row.get(0), self.ended.len())
    }
}

fn body(key: &str, number: u8) -> String {
    format!(r#"{{"order":"{key}","step":{number}}}"#)
}

fn intended(number: u8, effect: Uuid, key: &str) -> String {
    let step = STEP_NAMES[usize::from(number)];
    let request = json!({ "body": body(key, number) });
    format!(
        r#"{{"event":"intended","step":"{step}","effect":"eff_{}","attempt":1,"request":{request}}}"#,
        effect.simple()
    )
}

/// Carries one run at a time.
pub(crate) struct SameCallsRunner {
    calls: SameCalls,
    prefix: String,
    next: u64,
}

impl SameCallsRunner {
    /// Makes one call, and reads of its answer what the product keeps of it: status, headers, JSON and text.
    async fn act(&self, run: Uuid, key: &str, number: u8) -> Result<Value> {
        let idempotency_key = format!("eff_{}", effect_of(run, number).simple());
        let headers = [
            ("content-type", "application/json"),
            ("accept", "*/*"),
            ("accept-encoding", "gzip"),
            ("user-agent", "semel-bench"),
            ("idempotency-key", idempotency_key.as_str()),
        ];
        let sent = self.calls.http.send(
            Method::POST,
            "/keyed/orders",
            &headers,
            body(key, number).into(),
        );
        let answer = sent.await?;
        ensure!(
            answer.status == 201,
            "the peer answered {}: {}",
            answer.status,
            answer.text()
        );
        let headers: serde_json::Map<String, Value> = answer
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.into())))
            .collect();
        let json: Value = answer.json()?;
        Ok(json!({
            "status": answer.status.as_u16(),
            "headers": headers,
            "json": json,
            "text": answer.text(),
        }))
    }
}

impl Sender for SameCallsRunner {
    async fn send(&mut self) -> Result<()> {
        let delivery = Delivery::read(payload(&self.prefix, self.next, false).as_bytes())?;
        self.next += 1;
        let (run, key) = (delivery.run, delivery.key.clone());
        self.calls.writer.write(Change::Accept(delivery)).await?;
        for number in (0_u8..).take(STEP_NAMES.len()) {
            let response = self.act(run, &key, number).await?;
            let key = key.clone();
            let change = Change::Settle {
                run,
                key,
                number,
                response,
            };
            self.calls.writer.write(change).await?;
        }
        Ok(())
    }
}
