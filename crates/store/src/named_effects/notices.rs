//! The `named_effect_notices` table: what runs came to at named effects that may not know yet.
//!
//! A row commits with the outcome of its run. The process that wrote it notifies the named effect
//! and removes the row; if that process is gone, another one finds the row and does the same. The
//! notices of one run about one name are delivered in their order. A notice that is delivered twice
//! changes nothing the second time: it carries the token of its hold.

use semel_model::{NamedEffectId, RunId};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;

use super::report::{NamedReport, NamedResult, ReportedHold, Reporter};
use super::{NamedHolder, reports, undo};
use crate::cell::{Cell, ReadError, SlotCell};
use crate::column_text::ColumnText;

/// A write that is submitted twice leaves one row.
pub(crate) const NOTE: &str = "
    INSERT INTO named_effect_notices (run_id, effect_id, seq, namespace_id, step, generation, token,
                                      outcome, result, external_id, status, fault, at, next_at)
    SELECT t.run_id, t.effect_id, t.seq, t.namespace_id, t.step, t.generation, t.token, t.outcome,
           t.result::json, t.external_id, t.status, t.fault::json, p.now,
           p.now + interval '2 seconds'
      FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::int4[], $5::text[], $6::int4[],
                  $7::int8[], $8::text[], $9::text[], $10::text[], $11::int2[], $12::text[])
        AS t (run_id, effect_id, seq, namespace_id, step, generation, token, outcome, result,
              external_id, status, fault)
     CROSS JOIN (SELECT moment() AS now) p
        ON CONFLICT (run_id, effect_id, seq) DO NOTHING";

const LIST: &str = "
    SELECT run_id, effect_id, seq, namespace_id, step, generation, token, outcome, result,
           external_id, status, fault
      FROM named_effect_notices
     WHERE run_id = $1 AND effect_id = $2
     ORDER BY seq";

const REMOVE: &str = "/* commits alone: named effect notice */
    DELETE FROM named_effect_notices WHERE run_id = $1 AND effect_id = $2 AND seq = $3";

/// What cannot be delivered is tried again ever less often.
const OVERDUE: &str = "/* commits alone: named effect notices overdue */
    WITH late AS (
        SELECT run_id, effect_id, seq
          FROM named_effect_notices
         WHERE next_at <= (SELECT moment())
         ORDER BY next_at
         LIMIT $1
           FOR UPDATE SKIP LOCKED)
    UPDATE named_effect_notices d
       SET tries = d.tries + 1,
           next_at = (SELECT moment()) + make_interval(secs => least(2 ^ least(d.tries, 9), 300))
      FROM late
     WHERE (d.run_id, d.effect_id, d.seq) = (late.run_id, late.effect_id, late.seq)
 RETURNING d.run_id, d.effect_id, d.tries";

pub(crate) const STATEMENTS: &[&str] = &[NOTE, LIST, REMOVE, OVERDUE];

/// The most rows that one pass handles.
const OVERDUE_MAX: i64 = 256;

/// What a run came to at a named effect.
#[derive(Clone, Debug, PartialEq)]
pub struct NameNotice {
    /// The named effect.
    pub name: NamedEffectId,
    /// The path of the run's step.
    pub step: String,
    /// The generation of the run's own effect.
    pub generation: u32,
    /// The token of the run's hold; absent where the run may hold the name and does not know.
    pub token: Option<i64>,
    /// What it came to.
    pub outcome: NameOutcome,
}

/// What a named effect came to in a run.
#[derive(Clone, Debug, PartialEq)]
pub enum NameOutcome {
    /// It happened.
    Done {
        /// What the run has to show for it.
        happened: NamedResult,
        /// The HTTP status, where there is one.
        status: Option<u16>,
    },
    /// It did not happen.
    Failed(Value),
    /// Whether it happened is unknown.
    InDoubt(Value),
    /// Nothing was sent, and the run no longer needs the name.
    Freed,
    /// It happened and was undone: it counts as not done.
    Undone,
    /// The run ended while it was undoing it, and it stands.
    Kept,
    /// The run ended while it was undoing it, and nobody can tell whether it stands.
    UndoInDoubt(Value),
    /// It happened, and an operator corrected what the run has to show for it.
    Amended(NamedResult),
}

impl NameOutcome {
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Done { .. } => "done",
            Self::Failed(_) => "failed",
            Self::InDoubt(_) => "in_doubt",
            Self::Freed => "freed",
            Self::Undone => "undone",
            Self::Kept => "kept",
            Self::UndoInDoubt(_) => "undo_in_doubt",
            Self::Amended(_) => "amended",
        }
    }
}

/// A notice on its way to its named effect.
#[derive(Clone, Debug)]
pub struct DueNotice {
    /// The run that wrote it.
    pub run: RunId,
    /// What it says.
    pub notice: NameNotice,
    seq: i32,
    namespace_id: i32,
}

/// The row of a run's journal that a notice is committed with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoticeOrigin {
    pub(crate) run: RunId,
    pub(crate) seq: i32,
    pub(crate) namespace_id: i32,
}

/// Notices of a batch, by column.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    runs: Vec<Uuid>,
    names: Vec<Uuid>,
    seqs: Vec<i32>,
    namespaces: Vec<i32>,
    steps: Vec<&'a str>,
    generations: Vec<i32>,
    tokens: Vec<Option<i64>>,
    outcomes: Vec<&'static str>,
    results: Vec<Option<String>>,
    external_ids: Vec<Option<ColumnText<'a>>>,
    statuses: Vec<Option<i16>>,
    faults: Vec<Option<String>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn push(&mut self, origin: NoticeOrigin, notice: &'a NameNotice) {
        let (mut result, mut external_id, mut of_status, mut of_fault) = (None, None, None, None);
        match &notice.outcome {
            NameOutcome::Done { happened, status } => {
                result = happened.result.as_ref().map(Value::to_string);
                external_id = happened.stored_external_id();
                of_status = status.and_then(|status| i16::try_from(status).ok());
            }
            NameOutcome::Failed(fault)
            | NameOutcome::InDoubt(fault)
            | NameOutcome::UndoInDoubt(fault) => {
                of_fault = Some(fault.to_string());
            }
            NameOutcome::Amended(corrected) => {
                result = corrected.result.as_ref().map(Value::to_string);
                external_id = corrected.stored_external_id();
            }
            NameOutcome::Freed | NameOutcome::Undone | NameOutcome::Kept => {}
        }
        self.runs.push(*origin.run.as_uuid());
        self.names.push(*notice.name.as_uuid());
        self.seqs.push(origin.seq);
        self.namespaces.push(origin.namespace_id);
        self.steps.push(&notice.step);
        self.generations
            .push(i32::try_from(notice.generation).unwrap_or(i32::MAX));
        self.tokens.push(notice.token);
        self.outcomes.push(notice.outcome.as_str());
        self.results.push(result);
        self.external_ids.push(external_id);
        self.statuses.push(of_status);
        self.faults.push(of_fault);
    }

    pub(crate) fn values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.runs.is_empty()).then(|| {
            vec![
                &self.runs as &(dyn ToSql + Sync),
                &self.names,
                &self.seqs,
                &self.namespaces,
                &self.steps,
                &self.generations,
                &self.tokens,
                &self.outcomes,
                &self.results,
                &self.external_ids,
                &self.statuses,
                &self.faults,
            ]
        })
    }
}

/// Lists what a run still has to say about a name, in order.
pub async fn list_notices(
    cell: SlotCell<'_>,
    run: RunId,
    name: NamedEffectId,
) -> Result<Vec<DueNotice>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(LIST, &[run.as_uuid(), name.as_uuid()]).await?;
    rows.iter().map(read_notice).collect()
}

/// Removes a notice whose named effect knows.
pub async fn remove_notice(cell: SlotCell<'_>, due: &DueNotice) -> Result<(), ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [due.run.as_uuid(), due.notice.name.as_uuid(), &due.seq];
    cell.reader().await?.execute(REMOVE, &values).await?;
    Ok(())
}

/// Takes the names about which runs have had something to say for a while, and how often that was
/// tried.
pub async fn take_overdue_notices(
    cell: &Cell,
) -> Result<Vec<(RunId, NamedEffectId, u32)>, ReadError> {
    let client = cell.reader().await?;
    let rows = client.query(OVERDUE, &[&OVERDUE_MAX]).await?;
    let read = |row: &Row| {
        let (run, name) = (RunId::from_uuid(row.get(0)), row.get(1));
        let tries = row.get::<_, i32>(2).unsigned_abs();
        (run, NamedEffectId::from_uuid(name), tries)
    };
    Ok(rows.iter().map(read).collect())
}

/// Reports to a named effect what a run came to at it.
pub async fn deliver(cell: SlotCell<'_>, due: &DueNotice) -> Result<NamedReport, ReadError> {
    let NameNotice {
        name,
        step,
        generation,
        token,
        outcome,
    } = &due.notice;
    let (namespace_id, name) = (due.namespace_id, *name);
    let Some(token) = *token else {
        let holder = NamedHolder::Run {
            run: due.run,
            step: step.clone(),
            item: String::new(),
            generation: *generation,
        };
        return reports::release(cell, (namespace_id, name), &holder, due.seq).await;
    };
    let hold = ReportedHold {
        namespace_id,
        id: name,
        token,
        by: Reporter::Run,
    };
    match outcome {
        NameOutcome::Done { happened, status } => {
            reports::done_with(cell, hold, happened, *status).await
        }
        NameOutcome::Failed(fault) => reports::fail(cell, hold, fault).await,
        NameOutcome::InDoubt(fault) => reports::doubt(cell, hold, fault).await,
        NameOutcome::Freed => reports::free(cell, hold).await,
        NameOutcome::Undone => reports::undone(cell, hold).await,
        NameOutcome::Kept => undo::kept(cell, hold, (due.run, due.seq)).await,
        NameOutcome::UndoInDoubt(fault) => {
            undo::undo_in_doubt(cell, hold, (due.run, due.seq), fault).await
        }
        NameOutcome::Amended(corrected) => reports::amend(cell, hold, corrected).await,
    }
}

/// A word that this build does not know is an error: a server of a later build wrote it, and delivers
/// it.
fn read_notice(row: &Row) -> Result<DueNotice, ReadError> {
    let json = |index: usize| row.get::<_, Option<Json<Value>>>(index).map(|Json(it)| it);
    let fault = || json(11).unwrap_or_default();
    let happened = || NamedResult {
        result: json(8),
        external_id: row.get(9),
    };
    let outcome = match row.get::<_, &str>(7) {
        "done" => NameOutcome::Done {
            happened: happened(),
            status: row.get::<_, Option<i16>>(10).map(i16::unsigned_abs),
        },
        "failed" => NameOutcome::Failed(fault()),
        "in_doubt" => NameOutcome::InDoubt(fault()),
        "undone" => NameOutcome::Undone,
        "kept" => NameOutcome::Kept,
        "undo_in_doubt" => NameOutcome::UndoInDoubt(fault()),
        "freed" => NameOutcome::Freed,
        "amended" => NameOutcome::Amended(happened()),
        word => return Err(ReadError::Unreadable(format!("a notice says {word}"))),
    };
    Ok(DueNotice {
        run: RunId::from_uuid(row.get(0)),
        notice: NameNotice {
            name: NamedEffectId::from_uuid(row.get(1)),
            step: row.get(4),
            generation: row.get::<_, i32>(5).unsigned_abs(),
            token: row.get(6),
            outcome,
        },
        seq: row.get(2),
        namespace_id: row.get(3),
    })
}
