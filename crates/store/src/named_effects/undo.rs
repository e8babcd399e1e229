//! Undoing a done named effect, which other runs may have reused.
//!
//! Before the intent of its undo the name turns from `done` to `undoing`: whoever asks for it from then on
//! waits until the undo is settled. `undo_run` is the run that undoes it: its holder, or a later run of that
//! one's key. `undo_seq` is the length of that run's journal when the undo began, so that what is said of an
//! undo twice is no news of a later one.

use semel_model::{NamedEffectId, NamedEffectState, RunId};
use serde_json::Value;
use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;

use super::BEGIN_TRIES;
use super::report::{NamedReport, Report, ReportedHold};
use super::waiters::Waking;
use crate::attention;
use crate::cell::{ReadError, SlotCell};

/// One that others reused is undone only where that is accepted (`$5`). A repeat finds it `undoing`.
const BEGIN: &str = "
    UPDATE named_effects n
       SET state = 'undoing', undo_run = $6, heartbeat_at = moment(), settled_at = NULL,
           undo_seq = CASE WHEN n.undo_run = $6 THEN greatest(n.undo_seq, $4) ELSE $4 END,
           settled_by = NULL, expires_at = NULL
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3 AND n.holder_run IS NOT NULL
       AND (n.state = 'undoing'
            OR (n.state = 'in_doubt' AND n.undo_seq IS NOT NULL)
            OR (n.state = 'done' AND (n.reuse_count = 0 OR $5::bool)))";

const FOUND: &str = "
    SELECT state::text, reuse_count, reused_by FROM named_effects
     WHERE id = $1 AND namespace_id = $2 AND token = $3";

/// The run ended, and its effect stands.
const KEPT: &str = "
    UPDATE named_effects n
       SET state = 'done', undo_seq = NULL, fault = NULL, settled_at = p.now,
           expires_at = p.now + make_interval(secs => n.keep_ms / 1e3)
      FROM (SELECT moment() AS now) p
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3 AND n.holder_token IS NOT DISTINCT FROM $4
       AND n.state = 'undoing' AND n.undo_seq < $5 AND n.undo_run = $6";

/// The run ended, and nobody can tell whether its effect stands.
const DOUBT: &str = "
    UPDATE named_effects n
       SET state = 'in_doubt', fault = $6
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3 AND n.holder_token IS NOT DISTINCT FROM $4
       AND n.state = 'undoing' AND n.undo_seq < $5 AND n.undo_run = $7";

pub(crate) const STATEMENTS: &[&str] = &[BEGIN, FOUND, KEPT, DOUBT];

/// An undo that a run is about to begin.
#[derive(Clone, Copy, Debug)]
pub struct UndoBegin {
    /// The namespace that owns the effect.
    pub namespace_id: i32,
    /// The effect.
    pub id: NamedEffectId,
    /// The token of the hold under which it was performed.
    pub token: i64,
    /// The run that undoes it.
    pub run: RunId,
    /// The length of that run's journal.
    pub seq: i32,
    /// Whether it is undone although others reused it.
    pub always: bool,
}

/// Answers to an undo that is about to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoBegun {
    /// Whoever asks for the name waits from now on.
    Begun,
    /// Other runs reused the effect.
    Shared {
        /// How often.
        count: u32,
        /// The first of them.
        by: Vec<RunId>,
    },
    /// The name is another holder's by now, or remembers nothing: nobody reuses the effect any more.
    Gone,
}

/// Begins to undo a named effect. A repeat gives the same answer.
pub async fn begin_undo(cell: SlotCell<'_>, asked: UndoBegin) -> Result<UndoBegun, ReadError> {
    let UndoBegin {
        namespace_id,
        id,
        token,
        run,
        seq,
        always,
    } = asked;
    let run = run.as_uuid();
    let values: [&(dyn ToSql + Sync); 6] =
        [id.as_uuid(), &namespace_id, &token, &seq, &always, run];
    let mut client = cell.reader().await?;
    for _ in 0..BEGIN_TRIES {
        let tx = client.transaction().await?;
        if tx.execute(BEGIN, &values).await? > 0 {
            attention::named::compare(&tx, id).await?;
            tx.commit().await?;
            return Ok(UndoBegun::Begun);
        }
        let Some(row) = tx.query_opt(FOUND, &values[..3]).await? else {
            return Ok(UndoBegun::Gone);
        };
        let count = row.get::<_, i32>(1).unsigned_abs();
        match row.get::<_, &str>(0).parse::<NamedEffectState>() {
            Ok(NamedEffectState::Done) if count > 0 => {
                let by = row.get::<_, Vec<Uuid>>(2).into_iter();
                let by = by.map(RunId::from_uuid).collect();
                return Ok(UndoBegun::Shared { count, by });
            }
            // It became so between the two statements.
            Ok(NamedEffectState::Done | NamedEffectState::Undoing) => {}
            // Nobody reuses what is not done; an absent one has no word.
            Ok(
                NamedEffectState::Pending | NamedEffectState::InDoubt | NamedEffectState::Failed,
            )
            | Err(_) => return Ok(UndoBegun::Gone),
        }
    }
    Err(ReadError::Slow)
}

/// Records that the run which was undoing the effect ended without having undone it.
pub(super) async fn kept(
    cell: SlotCell<'_>,
    hold: ReportedHold,
    (run, seq): (RunId, i32),
) -> Result<NamedReport, ReadError> {
    let report = Report {
        hold,
        same: &|_| false,
        late: String::new(),
        waking: Waking::All,
    };
    report.write(cell, KEPT, &[&seq, run.as_uuid()]).await
}

/// Records that nobody can tell whether the effect was undone.
pub(super) async fn undo_in_doubt(
    cell: SlotCell<'_>,
    hold: ReportedHold,
    (run, seq): (RunId, i32),
    fault: &Value,
) -> Result<NamedReport, ReadError> {
    let report = Report {
        hold,
        same: &|view| view.state == NamedEffectState::InDoubt,
        late: String::new(),
        waking: Waking::All,
    };
    let fault = Json(fault);
    let values: [&(dyn ToSql + Sync); 3] = [&seq, &fault, run.as_uuid()];
    report.write(cell, DOUBT, &values).await
}
