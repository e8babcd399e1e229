//! What people said of a doubt while they look into it: whose it is, a note, and until when it is put off.
//!
//! It stands with the doubt and goes with it. What was said is in the audit record.

use std::collections::HashMap;

use jiff::Timestamp;
use semel_model::EffectId;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::audit::{self, AuditEntry};
use crate::cell::{EveryCell, ReadError, SlotCell};

macro_rules! change {
    ($column:literal) => {
        concat!(
            "
    UPDATE attention
       SET ",
            $column,
            " = $3
     WHERE subject_id = $1 AND kind = 'doubt' AND namespace_id = $2
 RETURNING subject_id, assignee, note, snoozed_until"
        )
    };
}

const ASSIGN: &str = change!("assignee");
const NOTE: &str = change!("note");
const SNOOZE: &str = change!("snoozed_until");

const FIND: &str = "
    SELECT subject_id, assignee, note, snoozed_until
      FROM attention
     WHERE subject_id = ANY ($1) AND kind = 'doubt' AND namespace_id = $2";

pub(super) const STATEMENTS: [&str; 4] = [ASSIGN, NOTE, SNOOZE, FIND];

/// What people said of a doubt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttendedDoubt {
    /// Who looks into it.
    pub assignee: Option<String>,
    /// What they found so far.
    pub note: Option<String>,
    /// Until when it is put off.
    pub snoozed_until: Option<Timestamp>,
}

/// What is said of a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubtRemark<'a> {
    /// Who looks into it; nobody.
    Assign(Option<&'a str>),
    /// What they found so far; nothing.
    Note(Option<&'a str>),
    /// Until when it is put off; not at all.
    Snooze(Option<Timestamp>),
}

/// Says something of a doubt, and records the act in the same commit. Returns everything that is said of
/// it; nothing where the effect is not in doubt.
pub async fn remark(
    cell: SlotCell<'_>,
    namespace_id: i32,
    effect: EffectId,
    remark: DoubtRemark<'_>,
    act: &AuditEntry,
) -> Result<Option<AttendedDoubt>, ReadError> {
    let (text, value): (&str, &(dyn ToSql + Sync)) = match &remark {
        DoubtRemark::Assign(name) => (ASSIGN, name),
        DoubtRemark::Note(note) => (NOTE, note),
        DoubtRemark::Snooze(until) => (SNOOZE, until),
    };
    let values = [
        effect.as_uuid() as &(dyn ToSql + Sync),
        &namespace_id,
        value,
    ];
    let row = audit::query_opt(cell, text, &values, act).await?;
    Ok(row.as_ref().map(|row| read(row).1))
}

/// What is said of those of these effects that are in doubt.
pub async fn list_attended(
    cell: EveryCell<'_>,
    namespace_id: i32,
    effects: &[EffectId],
) -> Result<HashMap<EffectId, AttendedDoubt>, ReadError> {
    if effects.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<Uuid> = effects.iter().map(|effect| *effect.as_uuid()).collect();
    let client = cell.reader().await?;
    let rows = client.query(FIND, &[&ids, &namespace_id]).await?;
    Ok(rows.iter().map(read).collect())
}

fn read(row: &Row) -> (EffectId, AttendedDoubt) {
    let attended = AttendedDoubt {
        assignee: row.get(1),
        note: row.get(2),
        snoozed_until: row.get(3),
    };
    (EffectId::from_uuid(row.get(0)), attended)
}
