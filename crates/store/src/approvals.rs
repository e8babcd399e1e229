//! The `approvals` table: what people are asked, and what they decided.
//!
//! An approval leaves `open` once: the first decision, timeout or withdrawal wins. A decision, its
//! audit record and the waking of its run are one commit: that of [`DecisionBatch`]. Locks on `queue`
//! come before locks on `approvals`. Statements that name approvals write `state IS NOT DISTINCT
//! FROM`, which fits no index, so that PostgreSQL finds the rows by their identity.

use std::collections::HashMap;

use futures_util::future::try_join5;
use jiff::Timestamp;
use semel_model::approval::{ApprovalDecision, ApprovalState, Digest};
use semel_model::{InSlot, RunId, SeededBug, Slot, WaitId};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use crate::audit::origin::ActOrigin;
use crate::cell::{Cell, ReadError, SlotCell};
use crate::writer::connection::WriterConnection;
use crate::writer::{Batch, Writer};

mod changes;
mod views;

pub use changes::ApprovalChange;
pub(crate) use changes::{DEFER, ELAPSE, HEAR, OPEN, Rows, WITHDRAW};
pub(crate) use views::STATEMENTS as VIEWS;
pub use views::{ApprovalView, find, find_by_link, list, list_of_run};

const LOCK_RUNS: &str = "
    SELECT run_id FROM queue WHERE run_id = ANY ($1) ORDER BY run_id FOR UPDATE";

// Crosses slots (V4): the decision's record commits with it, and `audit` has no slot. A second cell has
// a table of its own.

/// A decision applies to the round that its maker saw, must come in time, and the first one stands. The time
/// stands still while the run sleeps for a pause.
/// The name of its maker is written with it.
const DECIDE: &str = "
    WITH decided AS (
        UPDATE approvals a
           SET state = 'decided', approved = t.approved, decided_by = t.who, comment = t.comment,
               ended_at = (SELECT moment())
          FROM unnest($1::uuid[], $2::text[], $3::bool[], $4::text[], $5::text[], $6::text[],
                      $7::int4[], $8::uuid[], $9::text[])
            AS t (id, digest, approved, who, comment, actor, round, token_id, address)
         WHERE a.id = t.id AND a.state IS NOT DISTINCT FROM 'open' AND a.digest = t.digest
           AND a.round = t.round
           AND (a.until IS NULL OR a.until > (SELECT moment())
                OR (SELECT 1 FROM paused_runs p WHERE p.run_id = ANY (ARRAY[a.run_id]) LIMIT 1) = 1)
     RETURNING a.id, a.run_id, a.namespace_id, t.approved, t.comment, t.actor, t.token_id, t.address),
    audited AS (
        INSERT INTO audit (namespace_id, actor, action, subject, reason, run_id, token_id, address)
        SELECT namespace_id, actor,
               CASE WHEN approved THEN 'approval.approve' ELSE 'approval.reject' END,
               'wait_' || replace(id::text, '-', ''), comment, run_id, token_id, address
          FROM decided)
    SELECT id FROM decided";

const RECORDED: &str = "
    SELECT id,
           CASE WHEN state = 'open' AND until <= moment()
                     AND (SELECT 1 FROM paused_runs p
                           WHERE p.run_id = ANY (ARRAY[approvals.run_id]) LIMIT 1) IS NULL
                THEN 'elapsed' ELSE state::text END,
           digest, approved, decided_by, comment, ended_at
      FROM approvals
     WHERE id = ANY ($1)";

const LOOK: &str = "
    SELECT approved, decided_by, comment, ended_at
      FROM approvals
     WHERE id = $1 AND state = 'decided'";

pub(crate) const STATEMENTS: &[&str] = &[
    OPEN, DEFER, ELAPSE, WITHDRAW, HEAR, LOCK_RUNS, DECIDE, RECORDED, LOOK,
];

/// A decision on its way in.
#[derive(Clone, Debug)]
pub struct DecisionRequest {
    /// The approval.
    pub wait: WaitId,
    /// Its run.
    pub run: RunId,
    /// The digest of what its maker saw.
    pub digest: Digest,
    /// Yes or no.
    pub approved: bool,
    /// Which round of asking it is about.
    pub round: i32,
    /// Who decides: the name of a token, or the name that the holder of the link gave.
    pub by: String,
    /// What they say about it.
    pub comment: Option<String>,
    /// Who it was, for the audit record.
    pub actor: String,
    /// Its token and address, for the audit record.
    pub origin: ActOrigin,
}

/// The result of a decision.
#[derive(Clone, Debug)]
pub enum DecisionResult {
    /// It holds.
    First(ApprovalDecision),
    /// Another one holds.
    Decided(ApprovalDecision),
    /// It is about something other than what is shown.
    Differs,
    /// The approval has ended without a decision, or there is none.
    Over,
}

/// The batch of one commit of decisions.
pub struct DecisionBatch;

/// Starts the writer that all decisions of a process go through.
pub fn start_deciding(cell: &Cell) -> Writer<DecisionBatch> {
    Writer::start(cell, || DecisionBatch)
}

impl Batch for DecisionBatch {
    type Item = DecisionRequest;
    type Answer = DecisionResult;
    type Gathered = ();

    const LANES: usize = 1;

    fn slot(item: &DecisionRequest) -> Slot {
        item.run.slot()
    }

    async fn write(
        &mut self,
        connection: &mut WriterConnection,
        items: &mut Vec<DecisionRequest>,
    ) -> Result<Vec<DecisionResult>, Error> {
        let decide = SeededBug::SecondDecisionWins.in_text(
            DECIDE,
            "AND a.state IS NOT DISTINCT FROM 'open'",
            "",
        );
        let decide =
            SeededBug::DecisionDigestIgnored.in_text(decide, "AND a.digest = t.digest", "");
        let ready = connection
            .prepare(&[LOCK_RUNS, decide, HEAR, RECORDED])
            .await?;
        let firsts = firsts(items);
        let mut chosen: Vec<&DecisionRequest> =
            firsts.values().map(|index| &items[*index]).collect();
        chosen.sort_unstable_by_key(|item| item.run);
        let ids: Vec<Uuid> = chosen.iter().map(|item| *item.wait.as_uuid()).collect();
        let runs: Vec<Uuid> = chosen.iter().map(|item| *item.run.as_uuid()).collect();
        let digests: Vec<&str> = chosen.iter().map(|item| item.digest.as_str()).collect();
        let verdicts: Vec<bool> = chosen.iter().map(|item| item.approved).collect();
        let people: Vec<&str> = chosen.iter().map(|item| item.by.as_str()).collect();
        let comments: Vec<Option<&str>> =
            chosen.iter().map(|item| item.comment.as_deref()).collect();
        let actors: Vec<&str> = chosen.iter().map(|item| item.actor.as_str()).collect();
        let rounds: Vec<i32> = chosen.iter().map(|item| item.round).collect();
        let client = ready.client;
        let tokens = chosen.iter().map(|item| item.origin.token);
        let tokens: Vec<Option<Uuid>> = tokens.map(|it| it.map(|it| *it.as_uuid())).collect();
        let addresses = chosen.iter().map(|item| item.origin.address_text());
        let addresses: Vec<Option<String>> = addresses.collect();
        let values: [&(dyn ToSql + Sync); 9] = [
            &ids, &digests, &verdicts, &people, &comments, &actors, &rounds, &tokens, &addresses,
        ];
        let written = try_join5(
            client.batch_execute("BEGIN"),
            client.query(ready.statement(LOCK_RUNS), &[&runs]),
            client.query(ready.statement(decide), &values),
            client.execute(ready.statement(HEAR), &[&ids]),
            client.query(ready.statement(RECORDED), &[&ids]),
        )
        .await;
        let (_, _, decided, _, recorded) = match written {
            Ok(rows) => rows,
            Err(error) => {
                let _ = client.batch_execute("ROLLBACK").await;
                return Err(error);
            }
        };
        client.batch_execute("COMMIT").await?;
        let won: Vec<Uuid> = decided.iter().map(|row| row.get(0)).collect();
        let recorded: HashMap<Uuid, &Row> = recorded.iter().map(|row| (row.get(0), row)).collect();
        Ok(items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                let id = item.wait.as_uuid();
                let first = firsts.get(&(item.wait, &item.digest)) == Some(&index);
                match recorded.get(id) {
                    Some(row) => reply(row, item, first && won.contains(id)),
                    None => DecisionResult::Over,
                }
            })
            .collect())
    }
}

/// The first click of each approval and digest speaks for the others of the batch.
fn firsts(items: &[DecisionRequest]) -> HashMap<(WaitId, &Digest), usize> {
    let mut firsts = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        firsts.entry((item.wait, &item.digest)).or_insert(index);
    }
    firsts
}

fn reply(row: &Row, item: &DecisionRequest, won: bool) -> DecisionResult {
    let state: ApprovalState = match row.get::<_, &str>(1).parse() {
        Ok(state) => state,
        Err(_) => unreachable!("the record has no such approval state"),
    };
    match (state, read_decision(row, 3)) {
        (ApprovalState::Decided, Some(decision)) if won => DecisionResult::First(decision),
        (ApprovalState::Decided, Some(decision)) => DecisionResult::Decided(decision),
        (ApprovalState::Open, _) if row.get::<_, &str>(2) != item.digest.as_str() => {
            DecisionResult::Differs
        }
        (
            ApprovalState::Open
            | ApprovalState::Decided
            | ApprovalState::Elapsed
            | ApprovalState::Withdrawn,
            _,
        ) => DecisionResult::Over,
    }
}

/// A decision, from its first column on.
fn read_decision(row: &Row, from: usize) -> Option<ApprovalDecision> {
    let approved: Option<bool> = row.get(from);
    let by: Option<String> = row.get(from + 1);
    let at: Option<Timestamp> = row.get(from + 3);
    Some(ApprovalDecision {
        approved: approved?,
        by: by?,
        comment: row.get(from + 2),
        at: at?,
    })
}

/// Looks for the decision that a run waits for.
pub async fn look(cell: SlotCell<'_>, wait: WaitId) -> Result<Option<ApprovalDecision>, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_opt(LOOK, &[wait.as_uuid()]).await?;
    Ok(row.and_then(|row| read_decision(&row, 0)))
}
