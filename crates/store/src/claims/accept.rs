//! Accepting: many deliveries, one statement, one commit, and a verdict for each.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use jiff::Timestamp;
use semel_model::claim::{Claim, Held};
use semel_model::run::State;
use semel_model::{ClaimId, DeliveryId, Fingerprint, RunId, Slot, Verdict};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{Delivery, Met};
use crate::cell::Cell;
use crate::clock::PRESENT;
use crate::link::{COMMITS_ALONE, Link};
use crate::runs;
use crate::writer::{Batch, Writer};

/// Claims what is free, and makes run, queue entry, first journal row and first entry of the
/// ledger of each fresh claim: one statement, one commit.
///
/// `IS TRUE` keeps the look-up a hashed one: as a join it would be nested, for want of any other
/// kind in a writer's session.
const ACCEPT: &str = ",
    arrived AS MATERIALIZED (
        SELECT *
          FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::float8[], $5::int4[], $6::int4[],
                      $7::bytea[], $8::uuid[], $9::uuid[], $10::text[]{columns})
            AS t (claim_id, run_id, fingerprint, keep_secs, namespace_id, release_id, key,
                  delivery_id, holder, events{names})),
    claimed AS (
        INSERT INTO claims (id, run_id, fingerprint, expires_at)
        SELECT t.claim_id, t.run_id, t.fingerprint,
               date_trunc('minute', p.now + make_interval(secs => t.keep_secs + 60))
          FROM arrived t, present p
            ON CONFLICT (id) DO NOTHING
     RETURNING id),
    fresh AS MATERIALIZED (
        SELECT t.*, p.now, (p.now AT TIME ZONE 'UTC')::date AS born
          FROM arrived t, present p
         WHERE (t.claim_id IN (SELECT id FROM claimed)) IS TRUE),
    made AS (
        INSERT INTO runs (id, claim_id, namespace_id, release_id, key, delivery_id, accepted_at,
                          born)
        SELECT run_id, claim_id, namespace_id, release_id, key, delivery_id, now, born
          FROM fresh),
    queued AS (
        INSERT INTO queue (run_id, due_at, holder, epoch, seq, born)
        SELECT run_id, now, holder, 1, 1, born FROM fresh),
    written AS (
        INSERT INTO journal (born, run_id, seq, epoch, at, events)
        SELECT born, run_id, 1, 1, now, events::json FROM fresh){entered}
    SELECT (SELECT now FROM present), ARRAY(SELECT id FROM claimed)";

/// The first effects of runs whose first move goes down with their claim.
const ENTERED: &str = ",
    entered AS (
        INSERT INTO effects (born, id, run_id, namespace_id, step, kind, guard, state, attempt,
                             intended_at)
        SELECT born, effect_id, run_id, namespace_id, step, kind, guard, 'pending', 1, now
          FROM fresh
         WHERE effect_id IS NOT NULL)";

/// The statement for deliveries of which some, or none, bring a first effect.
fn accept_text(has_effects: bool) -> &'static str {
    static TEXTS: [OnceLock<String>; 2] = [const { OnceLock::new() }; 2];
    TEXTS[usize::from(has_effects)].get_or_init(|| {
        let (columns, names, entered) = match has_effects {
            true => (
                ", $11::uuid[], $12::text[], $13::text[], $14::text[]",
                ", effect_id, step, kind, guard",
                ENTERED,
            ),
            false => ("", "", ""),
        };
        let text = ACCEPT
            .replace("{columns}", columns)
            .replace("{names}", names)
            .replace("{entered}", entered);
        format!("{COMMITS_ALONE}{PRESENT}{text}")
    })
}

/// The statements that accept, for the test that prepares them.
pub(crate) fn examples() -> [&'static str; 2] {
    [accept_text(false), accept_text(true)]
}

pub(super) const MEET: &str = "
    SELECT c.id, c.run_id, c.fingerprint, r.delivery_id, r.state::text, r.result, r.fault,
           r.accepted_at
      FROM unnest($1::uuid[]) AS t (id)
      JOIN claims c ON c.id = t.id
      JOIN runs r ON r.id = c.run_id";

/// How many times a key may have been forgotten before accept stops looking for its next run.
const INCARNATIONS_MAX: u32 = 10_000;

/// The batch of one accept.
pub struct Accept;

/// Starts the writer that all deliveries of a process go through.
pub fn start_accepting(cell: &Cell) -> Writer<Accept> {
    Writer::start(cell, || Accept)
}

impl Batch for Accept {
    type Item = Delivery;
    type Answer = Met;

    const LANES: usize = 2;

    fn slot(item: &Delivery) -> Slot {
        item.claim.slot()
    }

    async fn write(
        &mut self,
        link: &mut Link,
        items: &mut Vec<Delivery>,
    ) -> Result<Vec<Met>, Error> {
        // Repeats inside the batch are answered from the first of their claim.
        let mut firsts: Vec<&Delivery> = Vec::with_capacity(items.len());
        let mut seen = HashSet::with_capacity(items.len());
        for item in items.iter() {
            if seen.insert(item.claim) {
                firsts.push(item);
            }
        }
        firsts.sort_unstable_by_key(|delivery| delivery.claim);
        let known = accept(link, &firsts).await?;
        Ok(items.iter().map(|item| answer(item, &known)).collect())
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

/// Accepts deliveries of distinct claims.
async fn accept(link: &mut Link, firsts: &[&Delivery]) -> Result<HashMap<ClaimId, Known>, Error> {
    let mut known = HashMap::with_capacity(firsts.len());
    let seem_known: Vec<&Delivery> = firsts.iter().copied().filter(|it| it.seems_known).collect();
    meet(link, &seem_known, &mut known).await?;
    // A claim may vanish between two statements: it was just forgotten, so it is free now.
    while known.len() < firsts.len() {
        let left: Vec<&Delivery> = firsts
            .iter()
            .copied()
            .filter(|first| !known.contains_key(&first.claim))
            .collect();
        match accept_once(link, &left, 0, &mut known).await {
            Err(error) if is_run_taken(&error) => {
                accept_one_by_one(link, &left, &mut known).await?;
            }
            accepted => accepted?,
        }
    }
    Ok(known)
}

/// Some run of the batch exists already although its key was free: that key was forgotten before.
/// The others go on as they are, and it goes on under its next incarnation.
async fn accept_one_by_one(
    link: &mut Link,
    firsts: &[&Delivery],
    known: &mut HashMap<ClaimId, Known>,
) -> Result<(), Error> {
    for first in firsts {
        let mut incarnation = 0;
        while !known.contains_key(&first.claim) {
            match accept_once(link, std::slice::from_ref(first), incarnation, known).await {
                Err(error) if is_run_taken(&error) && incarnation < INCARNATIONS_MAX => {
                    incarnation += 1;
                }
                accepted => accepted?,
            }
        }
    }
    Ok(())
}

/// Whether the database refused because there is a run of that identity already.
fn is_run_taken(error: &Error) -> bool {
    // Claims themselves never conflict: theirs is `ON CONFLICT DO NOTHING`.
    error.code() == Some(&SqlState::UNIQUE_VIOLATION)
}

/// Claims what is free of distinct claims, and reads what is not.
async fn accept_once(
    link: &mut Link,
    firsts: &[&Delivery],
    incarnation: u32,
    known: &mut HashMap<ClaimId, Known>,
) -> Result<(), Error> {
    let (now, fresh) = claim(link, firsts, incarnation).await?;
    let mut others = Vec::new();
    for first in firsts {
        match fresh.contains(first.claim.as_uuid()) {
            true => drop(known.insert(first.claim, new(first, incarnation, now))),
            false => others.push(*first),
        }
    }
    meet(link, &others, known).await
}

/// Reads claims that exist, and how their runs stand.
async fn meet(
    link: &mut Link,
    deliveries: &[&Delivery],
    known: &mut HashMap<ClaimId, Known>,
) -> Result<(), Error> {
    if deliveries.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = deliveries.iter().map(|it| *it.claim.as_uuid()).collect();
    let ready = link.prepare(&[MEET]).await?;
    let rows = ready.client.query(ready.statement(MEET), &[&ids]).await?;
    known.extend(rows.iter().map(read_known));
    Ok(())
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
    link: &mut Link,
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
    let moves = FirstMoves::of(firsts, incarnation);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![
        &claims,
        &runs,
        &fingerprints,
        &keeps,
        &namespaces,
        &releases,
        &keys,
        &deliveries,
        &holders,
        &moves.events,
    ];
    let has_effects = moves.effects.iter().any(Option::is_some);
    if has_effects {
        values.extend([
            &moves.effects as &(dyn ToSql + Sync),
            &moves.steps,
            &moves.kinds,
            &moves.guards,
        ]);
    }
    let text = accept_text(has_effects);
    let ready = link.prepare(&[text]).await?;
    let row = ready
        .client
        .query_one(ready.statement(text), &values)
        .await?;
    let fresh: Vec<Uuid> = row.get(1);
    Ok((row.get(0), fresh.into_iter().collect()))
}

/// What runs do first, one array per column.
#[derive(Default)]
struct FirstMoves<'a> {
    events: Vec<&'a str>,
    effects: Vec<Option<Uuid>>,
    steps: Vec<Option<&'a str>>,
    kinds: Vec<Option<&'static str>>,
    guards: Vec<Option<&'static str>>,
}

impl<'a> FirstMoves<'a> {
    fn of(firsts: &[&'a Delivery], incarnation: u32) -> Self {
        let mut moves = Self::default();
        for first in firsts {
            let first_move = first.first_move.as_ref().filter(|_| incarnation == 0);
            let effect = first_move.and_then(|it| it.effect.as_ref());
            let events = first_move.map_or(&first.events, |it| &it.events);
            moves.events.push(events);
            moves.effects.push(effect.map(|it| *it.effect.as_uuid()));
            moves.steps.push(effect.map(|it| it.step.as_str()));
            moves.kinds.push(effect.map(|it| it.kind));
            moves.guards.push(effect.map(|it| it.guard.as_str()));
        }
        moves
    }
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
