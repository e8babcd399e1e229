//! Accepting: many deliveries, one statement, one commit, and a verdict for each.

mod columns;
mod found_again;
mod statement;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use jiff::Timestamp;
use semel_model::claim::{Claim, Held};
use semel_model::run::RunState;
use semel_model::{ClaimId, ClaimVerdict, DeliveryId, Event, Fingerprint, InSlot, RunId, Slot};
use tokio_postgres::Error;
use uuid::Uuid;

use columns::{FirstEffectRows, FreeKey, LeaseRows, continued, follows};
pub(super) use found_again::MOVED;
pub(crate) use statement::examples;
use statement::{ClaimMode, accept_text};

use super::{AcceptResult, Delivery};
use crate::cell::Cell;
use crate::runs;
use crate::writer::connection::{ErrorClass, WriterConnection, classify};
use crate::writer::rows::{Column, sent};
use crate::writer::{Batch, Writer};

pub(super) const MEET: &str = "
    SELECT c.id, c.run_id, c.fingerprint, r.delivery_id, r.state::text, r.result, r.fault,
           r.accepted_at, c.expires_at IS NULL, coalesce(c.run_number, 0), coalesce(c.intent, 0),
           c.dropped_at IS NOT NULL
      FROM unnest($1::uuid[]) AS t (id)
      JOIN claims c ON c.id = t.id
      LEFT JOIN runs r ON r.id = c.run_id";

/// How often accept looks again at a claim that others take and free at the same moment.
const ROUNDS_MAX: usize = 16;

/// Refuses a batch that gets nowhere; its deliveries then go down one by one.
pub(super) const REFUSE: &str = "SELECT all_or_nothing(0, 1)";

/// The batch of one accept.
pub struct Accept;

/// Starts the writer that all deliveries of a process go through.
pub fn start_accepting(cell: &Cell) -> Writer<Accept> {
    Writer::start(cell, || Accept)
}

impl Batch for Accept {
    type Item = Delivery;
    type Answer = AcceptResult;
    type Gathered = ();

    const LANES: usize = 2;
    /// Measured: `docs/decisions/0005-one-writer-per-process.md`.
    const SECOND_LANE_BESIDE: usize = 48;

    fn callers_beside(cell: &Cell) -> Arc<AtomicUsize> {
        cell.recording().clone()
    }

    fn slot(item: &Delivery) -> Slot {
        item.claim.slot()
    }

    fn bytes(item: &Delivery) -> usize {
        let first_move = item.first_effect.as_ref().map(|it| it.events.len());
        item.key.as_bytes().len() + first_move.unwrap_or(item.events.len())
    }

    async fn write(
        &mut self,
        connection: &mut WriterConnection,
        items: &mut Vec<Delivery>,
    ) -> Result<Vec<AcceptResult>, Error> {
        // Repeats inside the batch are answered from the first of their claim that may make the most runs.
        let mut by_claim: HashMap<ClaimId, &Delivery> = HashMap::with_capacity(items.len());
        for item in items.iter() {
            let first = by_claim.entry(item.claim).or_insert(item);
            if first.reach() < item.reach() {
                *first = item;
            }
        }
        let mut firsts: Vec<&Delivery> = by_claim.into_values().collect();
        firsts.sort_unstable_by_key(|delivery| delivery.claim);
        let mut undecided = HashSet::new();
        let accepted = accept(connection, &firsts, &mut undecided).await;
        // Also where the answer was lost: the batch is submitted again.
        for item in items.iter_mut() {
            if let Some(first) = &mut item.first_effect {
                first.is_stale |= undecided.contains(&item.claim);
            }
        }
        let known = accepted?;
        let found = found_again::list_undecided(connection, items, &known).await?;
        let answers = items.iter().map(|item| answer(item, &known, &found));
        Ok(answers.collect())
    }
}

/// A claim as accept found or made it.
struct Known {
    fingerprint: Fingerprint,
    delivery: DeliveryId,
    /// Whether it was there before this submission.
    is_found: bool,
    met: AcceptResult,
}

/// `found_undecided` are the claims of runs that were found again and are decided from their journal.
fn answer(
    item: &Delivery,
    known: &HashMap<ClaimId, Known>,
    found_undecided: &HashSet<ClaimId>,
) -> AcceptResult {
    let Some(found) = known.get(&item.claim) else {
        unreachable!("accept answers every claim of its batch");
    };
    let mut met = found.met.clone();
    if item.delivery != found.delivery {
        let claim = Claim::<Held>::held(item.claim, met.run, found.fingerprint);
        met.verdict = claim.judge(item.fingerprint);
    }
    met.undecided = match found.is_found {
        true => found_undecided.contains(&item.claim),
        false => item.first_effect.as_ref().is_some_and(|it| it.is_stale),
    };
    met
}

/// Accepts deliveries of distinct claims.
///
/// Each round claims what is new and meets the rest; what it meets free is taken over. So a batch
/// costs at most three statements, however often its keys came before; a further round is needed
/// only where another server or lane frees or takes a key between two of them.
async fn accept(
    connection: &mut WriterConnection,
    firsts: &[&Delivery],
    undecided: &mut HashSet<ClaimId>,
) -> Result<HashMap<ClaimId, Known>, Error> {
    let mut known = HashMap::with_capacity(firsts.len());
    let seem_known: Vec<&Delivery> = firsts.iter().copied().filter(|it| it.seems_known).collect();
    let mut free = meet(connection, &seem_known, &mut known).await?;
    for _ in 0..ROUNDS_MAX {
        let unclaimed = |first: &&Delivery| {
            !known.contains_key(&first.claim) && !free.contains_key(&first.claim)
        };
        let left = firsts.iter().copied().filter(unclaimed);
        let (instants, left): (Vec<&Delivery>, Vec<&Delivery>) =
            left.partition(|first| first.lease.is_some());
        let mut others = claim_new(connection, &left, undecided, &mut known).await?;
        let unmade = claim_new(connection, &instants, undecided, &mut known).await?;
        others.extend(unmade.iter().copied());
        free.extend(meet(connection, &others, &mut known).await?);
        // Read after the lease was found lost, so a run that the taker of the schedule made is there.
        for instant in unmade {
            known
                .entry(instant.claim)
                .or_insert_with(|| without_lease(instant));
        }
        let again: Vec<&Delivery> = firsts
            .iter()
            .copied()
            .filter(|first| free.contains_key(&first.claim))
            .collect();
        // A delivery that lost here finds the winner in the next round.
        claim(connection, &again, &free, undecided, &mut known).await?;
        free.clear();
        if known.len() == firsts.len() {
            return Ok(known);
        }
    }
    let ready = connection.prepare(&[REFUSE]).await?;
    ready.client.query_one(ready.statement(REFUSE), &[]).await?;
    unreachable!("a batch that gets nowhere is refused")
}

/// Claims keys for the first time; gives those that it could not claim.
async fn claim_new<'a>(
    connection: &mut WriterConnection,
    firsts: &[&'a Delivery],
    undecided: &mut HashSet<ClaimId>,
    known: &mut HashMap<ClaimId, Known>,
) -> Result<Vec<&'a Delivery>, Error> {
    let none = HashMap::new();
    let claimed = claim(connection, firsts, &none, undecided, known).await;
    match claimed {
        // Something was paused or resumed: the runs begin without their first effect.
        Err(error) if classify(&error) == ErrorClass::Fenced => {
            undecided.extend(firsts.iter().map(|first| first.claim));
            claim(connection, firsts, &none, undecided, known).await
        }
        claimed => claimed,
    }
}

/// Reads claims that exist, and how their runs stand. Gives those that are free.
async fn meet(
    connection: &mut WriterConnection,
    deliveries: &[&Delivery],
    known: &mut HashMap<ClaimId, Known>,
) -> Result<HashMap<ClaimId, FreeKey>, Error> {
    let mut free = HashMap::new();
    if deliveries.is_empty() {
        return Ok(free);
    }
    let ids: Vec<Uuid> = deliveries.iter().map(|it| *it.claim.as_uuid()).collect();
    let limits = deliveries
        .iter()
        .filter_map(|it| Some((it.claim, it.run_max?)));
    let limits: HashMap<ClaimId, i32> = limits.collect();
    let ready = connection.prepare(&[MEET]).await?;
    for row in ready.client.query(ready.statement(MEET), &[&ids]).await? {
        let id = ClaimId::from_uuid(row.get(0));
        let is_spent = limits
            .get(&id)
            .is_some_and(|most| row.get::<_, i32>(9) >= *most);
        match row.get(8) {
            true if is_spent => drop(known.insert(id, read_spent(&row))),
            true => {
                let (number, intent, dropped) = (row.get(9), row.get(10), row.get(11));
                let key = FreeKey {
                    number,
                    intent,
                    dropped,
                };
                free.insert(id, key);
            }
            false => known.extend(read_known(&row).map(|found| (id, found))),
        }
    }
    Ok(free)
}

fn new(delivery: &Delivery, run: Uuid, now: Timestamp, follows: Option<Event>) -> Known {
    Known {
        fingerprint: delivery.fingerprint,
        delivery: delivery.delivery,
        is_found: false,
        met: AcceptResult {
            verdict: ClaimVerdict::New,
            run: RunId::from_uuid(run),
            state: RunState::Active,
            result: None,
            fault: None,
            accepted_at: now,
            follows,
            undecided: false,
            lost_lease: false,
        },
    }
}

/// Claims what it can of distinct claims and makes what belongs to it; gives those that it could
/// not claim. `free` has the keys that are taken over.
async fn claim<'a>(
    connection: &mut WriterConnection,
    firsts: &[&'a Delivery],
    free: &HashMap<ClaimId, FreeKey>,
    undecided: &HashSet<ClaimId>,
    known: &mut HashMap<ClaimId, Known>,
) -> Result<Vec<&'a Delivery>, Error> {
    if firsts.is_empty() {
        return Ok(Vec::new());
    }
    let column = |value: fn(&Delivery) -> Uuid| -> Vec<Uuid> {
        firsts.iter().map(|first| value(first)).collect()
    };
    let claims = column(|first| *first.claim.as_uuid());
    let fingerprints = column(|first| *first.fingerprint.as_uuid());
    let deliveries = column(|first| *first.delivery.as_uuid());
    let next = |first: &&Delivery| {
        free.get(&first.claim)
            .map_or((0, 0), |free| free.next(first))
    };
    let (numbers, intents): (Vec<i32>, Vec<i32>) = firsts.iter().map(next).unzip();
    let numbered = firsts.iter().zip(&numbers);
    let runs: Vec<Uuid> = numbered
        .map(|(first, number)| *RunId::derive(first.claim, number.unsigned_abs()).as_uuid())
        .collect();
    let keeps: Vec<f64> = firsts
        .iter()
        .map(|first| first.keep.as_secs_f64())
        .collect();
    let namespaces: Vec<i32> = firsts.iter().map(|first| first.namespace_id).collect();
    let releases: Vec<i32> = firsts.iter().map(|first| first.release_id).collect();
    let keys: Vec<&[u8]> = firsts.iter().map(|first| first.key.as_bytes()).collect();
    let holders: Vec<Option<Uuid>> = firsts
        .iter()
        .map(|first| first.holder.map(|session| *session.as_uuid()))
        .collect();
    let follows: Vec<Option<Event>> = follows(firsts, &numbers, &intents);
    let continued = continued(firsts, &follows);
    let moves = FirstEffectRows::of(firsts, &continued, undecided);
    let mut columns: Vec<&dyn Column> = vec![
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
    let opens = moves.pause_versions.iter().any(Option::is_some);
    // Either all deliveries of a call have a lease or none has.
    let leases = LeaseRows::of(firsts);
    let kind = match (free.is_empty(), opens) {
        (false, _) => ClaimMode::Again,
        (true, _) if !leases.schedules.is_empty() => ClaimMode::UnderLease,
        (true, true) => ClaimMode::FirstWithEffects,
        (true, false) => ClaimMode::First,
    };
    match kind {
        ClaimMode::First => {}
        ClaimMode::FirstWithEffects => columns.extend([
            &moves.effects as &dyn Column,
            &moves.steps,
            &moves.kinds,
            &moves.guards,
            &moves.pause_versions,
        ]),
        ClaimMode::Again => columns.extend([&numbers as &dyn Column, &intents]),
        ClaimMode::UnderLease => columns.extend([
            &moves.effects as &dyn Column,
            &moves.steps,
            &moves.kinds,
            &moves.guards,
            &moves.pause_versions,
            &leases.schedules,
            &leases.holders,
            &leases.until,
        ]),
    }
    let one_row = firsts.len() == 1;
    let text = accept_text(kind, one_row);
    let values = sent(&columns, one_row);
    let ready = connection.prepare(&[text]).await?;
    let row = ready
        .client
        .query_one(ready.statement(text), &values)
        .await?;
    let (now, fresh): (Timestamp, Vec<Uuid>) = (row.get(0), row.get(1));
    let fresh: HashSet<Uuid> = fresh.into_iter().collect();
    let mut others = Vec::new();
    for ((first, run), follows) in firsts.iter().zip(runs).zip(follows) {
        match fresh.contains(first.claim.as_uuid()) {
            true => drop(known.insert(first.claim, new(first, run, now, follows))),
            false => others.push(*first),
        }
    }
    Ok(others)
}

/// The result for an instant that has no run and whose session lost the lease of the schedule.
fn without_lease(delivery: &Delivery) -> Known {
    let run = *RunId::derive(delivery.claim, 0).as_uuid();
    let mut known = new(delivery, run, Timestamp::UNIX_EPOCH, None);
    known.met.lost_lease = true;
    known
}

/// A key that is free, of a delivery that may make no further run: it answers with the last run that it had. Where that is
/// gone from the records, its claim is what is left of it.
fn read_spent(row: &tokio_postgres::Row) -> Known {
    read_known(row).unwrap_or_else(|| Known {
        fingerprint: Fingerprint::from_uuid(row.get(2)),
        delivery: DeliveryId::from_uuid(Uuid::nil()),
        is_found: true,
        met: AcceptResult {
            verdict: ClaimVerdict::New,
            run: RunId::from_uuid(row.get(1)),
            state: RunState::Succeeded,
            result: None,
            fault: None,
            accepted_at: Timestamp::UNIX_EPOCH,
            follows: None,
            undecided: false,
            lost_lease: false,
        },
    })
}

/// Nothing if the claim names a run that does not exist: such a key is refused.
fn read_known(row: &tokio_postgres::Row) -> Option<Known> {
    let state: Option<&str> = row.get(4);
    let known = Known {
        fingerprint: Fingerprint::from_uuid(row.get(2)),
        delivery: DeliveryId::from_uuid(row.get::<_, Option<Uuid>>(3)?),
        is_found: true,
        met: AcceptResult {
            // Our own delivery, found again after a lost answer, is still the first.
            verdict: ClaimVerdict::New,
            run: RunId::from_uuid(row.get(1)),
            state: runs::read_state(state?),
            result: runs::read_json(row, 5),
            fault: runs::read_json(row, 6),
            accepted_at: row.get(7),
            follows: None,
            undecided: false,
            lost_lease: false,
        },
    };
    Some(known)
}
