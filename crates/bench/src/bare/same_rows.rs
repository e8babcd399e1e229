//! The rows that the promises need, by one small writer without an engine.
//!
//! A run of three `kv` sets leaves the same rows behind as with Semel, in tables with the same indexes, by two
//! commits, one after the other: claim, run, queue entry and first line of the journal, then the fence, the second
//! line, the ledger, the entry and the end. What lies between this and Semel is what the engine costs; what lies between this and bare is
//! what the promises cost.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use semel_testkit::Program;
use semel_testkit::semel::migrate;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::writer::{Commit, Writer};
use super::{Delivery, Rows, digest};
use crate::load::{Keys, Poster, Sender, Target, payload};

/// Who holds every run.
pub(super) const HOLDER: Uuid = Uuid::from_u128(1);

/// The steps of the flow.
const STEP_NAMES: [&str; 3] = ["paid", "packed", "sent"];

/// Claims what is free, and makes run, queue entry and first line of the journal of each.
pub(super) const ACCEPT: &str = "
    WITH arrived AS MATERIALIZED (
        SELECT *, (now() AT TIME ZONE 'UTC')::date AS partition_date
          FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[])
            AS t (claim_id, run_id, fingerprint, key, input)),
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
        SELECT partition_date, run_id, 1, 1, now(), input::json FROM fresh)
    SELECT run_id FROM claimed";

/// Whose the claims are that were not free.
pub(super) const MEET: &str = "
    SELECT c.id, c.run_id, c.fingerprint, r.state::text, r.result::text
      FROM unnest($1::uuid[]) AS t (id)
      JOIN claims c ON c.id = t.id
      JOIN runs r ON r.id = c.run_id";

/// Ends runs that are still held: fence, second line, ledger, entry, result. `IS NOT DISTINCT FROM` keeps the fence from
/// reading every held row once per move, as in the product.
const END: &str = "
    WITH moves AS MATERIALIZED (
        SELECT *, (now() AT TIME ZONE 'UTC')::date AS partition_date
          FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int2[]) AS t (run_id, events, entry, slot)),
    fenced AS (
        DELETE FROM queue q
         USING moves t
         WHERE q.run_id = ANY (ARRAY[t.run_id]) AND q.epoch = 1 AND q.seq = 1 AND q.holder IS NOT DISTINCT FROM $8
     RETURNING 1),
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT partition_date, run_id, 2, 1, now(), events::json FROM moves),
    entered AS (
        INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt,
                             intended_at, settled_at)
        SELECT (now() AT TIME ZONE 'UTC')::date, t.id, t.run_id, 1, t.step, 'kv', 'transaction', 'done', 1,
               now(), now()
          FROM unnest($5::uuid[], $6::uuid[], $7::text[]) AS t (run_id, id, step)),
    stored AS (
        INSERT INTO kv (slot, namespace_id, entry, value, version)
        SELECT slot, 1, entry, '\"sent\"', 3 FROM moves
            ON CONFLICT (namespace_id, slot, entry)
            DO UPDATE SET value = excluded.value, version = kv.version + 3),
    ended AS (
        UPDATE runs r SET state = 'succeeded', ended_at = now(), result = '{\"ok\":true}'
          FROM moves t WHERE r.id = t.run_id)
    SELECT count(*) FROM fenced";

/// What a run of a key left in the tables, and how many bytes its journal has.
const LEFT: &str = "
    WITH r AS (SELECT id, claim_id FROM runs WHERE key = convert_to($1, 'UTF8'))
    SELECT ARRAY[
             (SELECT count(*) FROM r),
             (SELECT count(*) FROM claims c JOIN r ON r.claim_id = c.id),
             (SELECT count(*) FROM queue q JOIN r ON r.id = q.run_id),
             (SELECT count(*) FROM journal j JOIN r ON r.id = j.run_id),
             (SELECT count(*) FROM effects e JOIN r ON r.id = e.run_id),
             (SELECT count(*) FROM kv WHERE entry = 'orders/' || $1)],
           (SELECT sum(octet_length(j.events::text)) FROM journal j JOIN r ON r.id = j.run_id)::int8";

/// How far the bytes of the two journals may be apart, in hundredths.
const BYTES_APART_MAX: i64 = 5;

/// Plays one run by the product and one by a writer of the same rows, whose keys begin with `tag`, and compares what
/// they leave.
pub(crate) async fn check<S: Sender>(
    (ours, product): (&Arc<Target>, &Client),
    (mut runners, own): (Vec<S>, &Client),
    tag: &str,
) -> Result<()> {
    let mut posters = Poster::crowd(ours, 1, Keys::Unique, tag).await?;
    posters.first_mut().context("a sender")?.send().await?;
    runners.first_mut().context("a runner")?.send().await?;
    same_left(product, own, &format!("{tag}-0-0")).await
}

/// Fails where a run of the same key left other numbers of rows in the two databases, or much more or less of a journal.
async fn same_left(product: &Client, own: &Client, key: &str) -> Result<()> {
    let left = async |client: &Client| -> Result<(Vec<i64>, i64)> {
        let row = client.query_one(LEFT, &[&key]).await?;
        Ok((row.get(0), row.get(1)))
    };
    let ((rows, bytes), (same_rows, same_bytes)) = (left(product).await?, left(own).await?);
    ensure!(
        rows == same_rows && (bytes - same_bytes).abs() * 100 <= bytes * BYTES_APART_MAX,
        "a run of {key} by the small writer leaves {same_rows:?} rows with {same_bytes} bytes of journal, and by the product {rows:?} with {bytes} \
         (runs, claims, queue, journal, effects, kv): change its statements to what the product writes now"
    );
    Ok(())
}

/// One transition of one run.
#[derive(Debug)]
enum Change {
    /// The key is claimed and the run made.
    Accept(Delivery),
    /// The three sets are made and the run ends.
    End { run: Uuid, key: String },
}

/// The callers' end of the writer.
#[derive(Clone)]
pub(crate) struct SameRows(Writer<Change>);

impl SameRows {
    /// Makes the product's tables in a database, and starts the writer on a connection of its own.
    pub(crate) async fn start(url: &str) -> Result<Self> {
        migrate(Program::semel()?, url).await?;
        let client = super::connect(url, Rows::Same).await?;
        let (accept, end) = (client.prepare(ACCEPT).await?, client.prepare(END).await?);
        let tables = Tables {
            client,
            accept,
            end,
        };
        Ok(Self(Writer::start(tables)))
    }

    /// So many runners of this writer. `tag` tells the keys of slices apart.
    pub(crate) fn crowd(&self, count: usize, tag: &str) -> Vec<SameRowsRunner> {
        let runner = |index| SameRowsRunner {
            writer: self.clone(),
            prefix: format!("{tag}-{index}"),
            next: 0,
        };
        (0..count).map(runner).collect()
    }
}

struct Tables {
    client: Client,
    accept: Statement,
    end: Statement,
}

impl Commit for Tables {
    type Change = Change;

    async fn commit(&self, changes: Vec<Change>) -> Result<()> {
        let (client, columns) = (&self.client, Columns::of(changes));
        let (begun, accepted, ended, committed) = futures_util::join!(
            client.batch_execute("BEGIN"),
            columns.accept(client, &self.accept),
            columns.end(client, &self.end),
            client.batch_execute("COMMIT"),
        );
        begun?;
        accepted?;
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
    inputs: Vec<String>,
    ended: Vec<Uuid>,
    events: Vec<String>,
    entries: Vec<String>,
    slots: Vec<i16>,
    effect_runs: Vec<Uuid>,
    effects: Vec<Uuid>,
    steps: Vec<&'static str>,
}

impl Columns {
    fn of(changes: Vec<Change>) -> Self {
        let mut columns = Self::default();
        for change in changes {
            match change {
                Change::Accept(delivery) => columns.add_accepted(delivery),
                Change::End { run, key } => columns.add_ended(run, &key),
            }
        }
        columns
    }

    fn add_accepted(&mut self, delivery: Delivery) {
        let Delivery {
            claim,
            run,
            fingerprint,
            key,
            input,
        } = delivery;
        let (effect, entry) = (effect_of(run, 0), format!("orders/{key}"));
        let intended = intended(STEP_NAMES[0], effect, &entry);
        self.claims.push(claim);
        self.claimed_runs.push(run);
        self.fingerprints.push(fingerprint);
        self.inputs.push(format!(
            r#"[{{"event":"accepted","trigger":"api","input":{input}}},{intended}]"#
        ));
        self.keys.push(key);
    }

    fn add_ended(&mut self, run: Uuid, key: &str) {
        let entry = format!("orders/{key}");
        let mut events = String::with_capacity(1_024);
        for (number, step) in (0_u8..).zip(STEP_NAMES) {
            let effect = effect_of(run, number);
            if number > 0 {
                events.push_str(&intended(step, effect, &entry));
                events.push(',');
            }
            events.push_str(&format!(
                r#"{{"event":"done","step":"{step}","by":"commit","result":"{step}"}},"#
            ));
            self.effect_runs.push(run);
            self.effects.push(effect);
            self.steps.push(step);
        }
        self.ended.push(run);
        self.events.push(format!(
            r#"[{events}{{"event":"ended","state":"succeeded","result":{{"ok":true}}}}]"#
        ));
        let [first, second, ..] = *run.as_bytes();
        self.slots.push(i16::from_be_bytes([first & 0x0f, second]));
        self.entries.push(entry);
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
                    &self.inputs,
                ],
            )
            .await?;
        all_free(rows.len(), self.claims.len())
    }

    async fn end(&self, client: &Client, statement: &Statement) -> Result<()> {
        if self.ended.is_empty() {
            return Ok(());
        }
        let row = client
            .query_one(
                statement,
                &[
                    &self.ended,
                    &self.events,
                    &self.entries,
                    &self.slots,
                    &self.effect_runs,
                    &self.effects,
                    &self.steps,
                    &HOLDER,
                ],
            )
            .await?;
        all_held(row.get(0), self.ended.len())
    }
}

/// Fails where a key was claimed before.
pub(super) fn all_free(claimed: usize, arrived: usize) -> Result<()> {
    ensure!(claimed == arrived, "a key was not free");
    Ok(())
}

/// Fails where the fence did not find every run.
pub(super) fn all_held(fenced: i64, moved: usize) -> Result<()> {
    ensure!(usize::try_from(fenced)? == moved, "a run was not held");
    Ok(())
}

/// The journal of a run that was accepted and has not begun.
pub(super) fn accepted(input: &str) -> String {
    format!(r#"[{{"event":"accepted","trigger":"webhook","input":{input}}}]"#)
}

/// An effect's identity begins as its run's does, as in the product: the effects of a run are neighbours in the index.
pub(super) fn effect_of(run: Uuid, number: u8) -> Uuid {
    let mut bytes = *digest(run.as_bytes(), &[number]).as_bytes();
    bytes[..8].copy_from_slice(&run.as_bytes()[..8]);
    Uuid::from_bytes(bytes)
}

fn intended(step: &str, effect: Uuid, entry: &str) -> String {
    format!(
        r#"{{"event":"intended","step":"{step}","effect":"eff_{}","attempt":1,"request":{{"local":{{"kv":{{"entry":"{entry}","verb":"set","value":"{step}","if_absent":false,"ttl":null}}}}}}}}"#,
        effect.simple()
    )
}

/// Carries one run at a time.
pub(crate) struct SameRowsRunner {
    writer: SameRows,
    prefix: String,
    next: u64,
}

impl Sender for SameRowsRunner {
    async fn send(&mut self) -> Result<()> {
        let delivery = Delivery::read(payload(&self.prefix, self.next, false).as_bytes())?;
        self.next += 1;
        let (run, key) = (delivery.run, delivery.key.clone());
        self.writer.0.write(Change::Accept(delivery)).await?;
        self.writer.0.write(Change::End { run, key }).await
    }
}
