//! The gate in front of a run: the `claims` table, and what is made together with a claim.
//!
//! Accept takes many deliveries and makes one commit. Commit points: there is one, the `COMMIT`
//! behind the one statement of [`Accept`]; before it nothing of a delivery exists, after it claim,
//! run, first journal row and queue entry all do, and only then is a sender answered.
//!
//! Rows go in in the order of their identity, so that two servers that accept the same keys at the
//! same time wait for each other and never in a circle.

use std::collections::{HashMap, HashSet};

use futures_util::future::try_join3;
use jiff::Timestamp;
use semel_model::claim::{Claim, Held};
use semel_model::run::State;
use semel_model::{ClaimId, DeliveryId, Fingerprint, Key, RunId, SessionId, Span, Verdict};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{Cell, ReadError};
use crate::link::{Link, Ready, Trouble, trouble};
use crate::runs;
use crate::writer::{Batch, Writer};

/// Claims what is free, and makes run, queue entry and first journal row of each fresh claim: one
/// statement.
///
/// `IS TRUE` keeps the look-up a hashed one: as a join it would be nested, for want of any other
/// kind in a writer's session.
const ACCEPT: &str = "
    WITH clock AS MATERIALIZED (SELECT moment() AS now),
    arrived AS MATERIALIZED (
        SELECT *
          FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::float8[], $5::int4[], $6::int4[],
                      $7::bytea[], $8::uuid[], $9::uuid[], $10::text[])
            AS t (claim_id, run_id, fingerprint, keep_secs, namespace_id, release_id, key,
                  delivery_id, holder, events)),
    claimed AS (
        INSERT INTO claims (id, run_id, fingerprint, expires_at)
        SELECT t.claim_id, t.run_id, t.fingerprint,
               date_trunc('minute', c.now + make_interval(secs => t.keep_secs + 60))
          FROM arrived t, clock c
            ON CONFLICT (id) DO NOTHING
     RETURNING id),
    fresh AS MATERIALIZED (
        SELECT t.*, c.now, (c.now AT TIME ZONE 'UTC')::date AS born
          FROM arrived t, clock c
         WHERE (t.claim_id IN (SELECT id FROM claimed)) IS TRUE),
    made AS (
        INSERT INTO runs (id, claim_id, namespace_id, release_id, key, delivery_id, accepted_at,
                          born)
        SELECT run_id, claim_id, namespace_id, release_id, key, delivery_id, now, born
          FROM fresh
            ON CONFLICT (id) DO NOTHING
     RETURNING 1),
    queued AS (
        INSERT INTO queue (run_id, due_at, holder, epoch, seq, born)
        SELECT run_id, now, holder, 1, 1, born FROM fresh),
    written AS (
        INSERT INTO journal (born, run_id, seq, epoch, at, events)
        SELECT born, run_id, 1, 1, now, events::json FROM fresh)
    SELECT (SELECT now FROM clock), ARRAY(SELECT id FROM claimed),
           all_or_nothing((SELECT count(*) FROM made), (SELECT count(*) FROM claimed))";

const MEET: &str = "
    SELECT c.id, c.run_id, c.fingerprint, r.delivery_id, r.state::text, r.result, r.fault,
           r.accepted_at
      FROM unnest($1::uuid[]) AS t (id)
      JOIN claims c ON c.id = t.id
      JOIN runs r ON r.id = c.run_id";

const FIND: &str = "SELECT id, run_id, fingerprint, expires_at FROM claims WHERE id = $1";

const DROP: &str = "DELETE FROM claims WHERE id = $1 RETURNING run_id";

pub(crate) const STATEMENTS: &[&str] = &[ACCEPT, MEET, FIND, DROP];

/// How many times a key may have been forgotten before accept stops looking for its next run.
const INCARNATIONS_MAX: u32 = 10_000;

/// One arrival, verified and keyed, on its way to the gate.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The digest of namespace, flow and key.
    pub claim: ClaimId,
    /// The key, as it came.
    pub key: Key,
    /// The payload's fingerprint.
    pub fingerprint: Fingerprint,
    /// Whose it is.
    pub namespace_id: i32,
    /// The release that a new run starts on.
    pub release_id: i32,
    /// How long the key is remembered.
    pub keep: Span,
    /// This arrival.
    pub delivery: DeliveryId,
    /// The journal's first row, as JSON.
    pub events: String,
    /// The session that starts the run at once, where one has room.
    pub holder: Option<SessionId>,
}

/// What a delivery met at the gate.
#[derive(Clone, Debug)]
pub struct Met {
    /// New, duplicate or mismatch.
    pub verdict: Verdict,
    /// The run that answers for the key.
    pub run: RunId,
    /// What the record says of that run.
    pub state: State,
    /// Its result, as JSON text, once there is one.
    pub result: Option<String>,
    /// Its fault, as JSON text, once there is one.
    pub fault: Option<String>,
    /// When the first delivery was accepted.
    pub accepted_at: Timestamp,
}

/// The batch of one accept.
pub struct Accept;

/// Starts the writer that all deliveries of a process go through.
pub fn start_accepting(cell: &Cell) -> Writer<Accept> {
    Writer::start(cell, Accept)
}

impl Batch for Accept {
    type Item = Delivery;
    type Answer = Met;

    async fn write(
        &mut self,
        link: &mut Link,
        items: &mut Vec<Delivery>,
    ) -> Result<Vec<Met>, Error> {
        link.prepare(&[ACCEPT, MEET]).await?;
        // Repeats inside the batch are answered from the first of their claim.
        let mut firsts: Vec<&Delivery> = Vec::with_capacity(items.len());
        let mut seen = HashMap::with_capacity(items.len());
        for item in items.iter() {
            seen.entry(item.claim).or_insert_with(|| firsts.push(item));
        }
        firsts.sort_unstable_by_key(|delivery| delivery.claim);
        let met = accept(link, &firsts, 0).await?;
        Ok(items.iter().map(|item| answer(item, &met)).collect())
    }
}

/// A claim as accept found or made it.
struct Known {
    fingerprint: Fingerprint,
    delivery: DeliveryId,
    met: Met,
}

fn answer(item: &Delivery, known: &HashMap<ClaimId, Known>) -> Met {
    let Some(found) = known.get(&item.claim) else {
        unreachable!("accept answers every claim of its batch");
    };
    let mut met = found.met.clone();
    if item.delivery != found.delivery {
        let claim = Claim::<Held>::held(item.claim, met.run, found.fingerprint);
        met.verdict = claim.judge(item.fingerprint);
    }
    met
}

/// Accepts deliveries of distinct claims, trying `incarnation` for the run of each.
async fn accept(
    link: &mut Link,
    firsts: &[&Delivery],
    incarnation: u32,
) -> Result<HashMap<ClaimId, Known>, Error> {
    match accept_once(link, firsts, incarnation).await {
        Ok(known) if known.len() == firsts.len() => Ok(known),
        // A claim vanished between the two statements: it was just forgotten, so it is free now.
        Ok(_) => Box::pin(accept(link, firsts, incarnation)).await,
        Err(error) if trouble(&error) == Trouble::Fenced && incarnation < INCARNATIONS_MAX => {
            accept_one_by_one(link, firsts, incarnation).await
        }
        Err(error) => Err(error),
    }
}

/// Some run of the batch exists already although its key was free: that key was forgotten before.
/// The others go on as they are, and it goes on under its next incarnation.
async fn accept_one_by_one(
    link: &mut Link,
    firsts: &[&Delivery],
    incarnation: u32,
) -> Result<HashMap<ClaimId, Known>, Error> {
    let mut known = HashMap::with_capacity(firsts.len());
    for first in firsts {
        let alone = std::slice::from_ref(first);
        let mut next = incarnation;
        loop {
            match accept_once(link, alone, next).await {
                Ok(one) if one.is_empty() => {}
                Ok(one) => break known.extend(one),
                Err(error) if trouble(&error) == Trouble::Fenced && next < INCARNATIONS_MAX => {
                    next += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(known)
}

async fn accept_once(
    link: &mut Link,
    firsts: &[&Delivery],
    incarnation: u32,
) -> Result<HashMap<ClaimId, Known>, Error> {
    link.prepare(&[]).await?;
    let Some(ready) = link.ready() else {
        unreachable!("prepare connects")
    };
    let (now, fresh) = claim(ready, firsts, incarnation).await?;
    let mut known = HashMap::with_capacity(firsts.len());
    let mut others = Vec::new();
    for first in firsts {
        match fresh.contains(first.claim.as_uuid()) {
            true => drop(known.insert(first.claim, new(first, incarnation, now))),
            false => others.push(*first.claim.as_uuid()),
        }
    }
    if !others.is_empty() {
        let statement = ready.statement(MEET);
        let met = ready.client.query(statement, &[&others]).await?;
        known.extend(met.iter().map(read_known));
    }
    Ok(known)
}

fn new(delivery: &Delivery, incarnation: u32, now: Timestamp) -> Known {
    Known {
        fingerprint: delivery.fingerprint,
        delivery: delivery.delivery,
        met: Met {
            verdict: Verdict::New,
            run: RunId::derive(delivery.claim, incarnation),
            state: State::Active,
            result: None,
            fault: None,
            accepted_at: now,
        },
    }
}

/// Claims what is free and makes what belongs to it; says when, and which claims were free.
async fn claim(
    ready: Ready<'_>,
    firsts: &[&Delivery],
    incarnation: u32,
) -> Result<(Timestamp, HashSet<Uuid>), Error> {
    let column = |value: fn(&Delivery) -> Uuid| -> Vec<Uuid> {
        firsts.iter().map(|first| value(first)).collect()
    };
    let claims = column(|first| *first.claim.as_uuid());
    let fingerprints = column(|first| *first.fingerprint.as_uuid());
    let deliveries = column(|first| *first.delivery.as_uuid());
    let runs: Vec<Uuid> = firsts
        .iter()
        .map(|first| *RunId::derive(first.claim, incarnation).as_uuid())
        .collect();
    let keeps: Vec<f64> = firsts
        .iter()
        .map(|first| first.keep.as_millis() as f64 / 1e3)
        .collect();
    let namespaces: Vec<i32> = firsts.iter().map(|first| first.namespace_id).collect();
    let releases: Vec<i32> = firsts.iter().map(|first| first.release_id).collect();
    let keys: Vec<&[u8]> = firsts.iter().map(|first| first.key.as_bytes()).collect();
    let holders: Vec<Option<Uuid>> = firsts
        .iter()
        .map(|first| first.holder.map(|session| *session.as_uuid()))
        .collect();
    let events: Vec<&str> = firsts.iter().map(|first| first.events.as_str()).collect();
    let values: [&(dyn ToSql + Sync); 10] = [
        &claims,
        &runs,
        &fingerprints,
        &keeps,
        &namespaces,
        &releases,
        &keys,
        &deliveries,
        &holders,
        &events,
    ];
    // One flight. Where the statement is refused, so is what follows, and `COMMIT` rolls back.
    let (_, row, ()) = try_join3(
        ready.client.batch_execute("BEGIN"),
        ready.client.query_one(ready.statement(ACCEPT), &values),
        ready.client.batch_execute("COMMIT"),
    )
    .await?;
    let fresh: Vec<Uuid> = row.get(1);
    Ok((row.get(0), fresh.into_iter().collect()))
}

fn read_known(row: &tokio_postgres::Row) -> (ClaimId, Known) {
    let state: &str = row.get(4);
    let known = Known {
        fingerprint: Fingerprint::from_uuid(row.get(2)),
        delivery: DeliveryId::from_uuid(row.get(3)),
        met: Met {
            // Our own delivery, found again after a lost answer, is still the first.
            verdict: Verdict::New,
            run: RunId::from_uuid(row.get(1)),
            state: runs::read_state(state),
            result: runs::read_json(row, 5),
            fault: runs::read_json(row, 6),
            accepted_at: row.get(7),
        },
    };
    (ClaimId::from_uuid(row.get(0)), known)
}

/// A claim as people see it.
#[derive(Clone, Debug)]
pub struct ClaimView {
    /// The claim.
    pub id: ClaimId,
    /// The run that answers for the key.
    pub run: RunId,
    /// The payload of the first delivery.
    pub fingerprint: Fingerprint,
    /// When the key may be forgotten.
    pub expires_at: Timestamp,
}

/// Looks a claim up.
pub async fn find(cell: &Cell, claim: ClaimId) -> Result<Option<ClaimView>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(FIND, &[claim.as_uuid()]).await?;
    Ok(row.map(|row| ClaimView {
        id: ClaimId::from_uuid(row.get(0)),
        run: RunId::from_uuid(row.get(1)),
        fingerprint: Fingerprint::from_uuid(row.get(2)),
        expires_at: row.get(3),
    }))
}

/// Frees a key, and says whose run it was.
pub async fn drop_claim(cell: &Cell, claim: ClaimId) -> Result<Option<RunId>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(DROP, &[claim.as_uuid()]).await?;
    Ok(row.map(|row| RunId::from_uuid(row.get(0))))
}
