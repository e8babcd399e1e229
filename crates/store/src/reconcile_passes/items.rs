//! The items of a pass that are more than known.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use semel_model::{RunId, ScheduleId};
use tokio_postgres::Row;
use uuid::Uuid;

use super::ReconcilePass;
use crate::cell::{ReadError, SlotCell};

pub(super) const ADD: &str = "
    INSERT INTO reconcile_items (schedule_id, nominal, page, index, verdict, key, run_id, note)
    SELECT $1, $2, $3, t.index, t.verdict, t.key, t.run_id, t.note
      FROM unnest($4::int4[], $5::text[], $6::text[], $7::uuid[], $8::text[])
        AS t (index, verdict, key, run_id, note)
     ORDER BY t.index
     LIMIT greatest($9::int8 - (SELECT count(*) FROM reconcile_items
                                 WHERE schedule_id = $1 AND nominal = $2), 0)
        ON CONFLICT (schedule_id, nominal, page, index) DO NOTHING";

pub(super) const LIST: &str = "
    SELECT index, verdict, key, run_id, note
      FROM reconcile_items
     WHERE schedule_id = $1 AND nominal = $2
     ORDER BY page, index
     LIMIT $3";

/// How many items of a pass are kept; the others are counted nevertheless.
const ITEMS_MAX: i64 = 2_000;

/// What a pass found about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemVerdict {
    /// It has started a run.
    Started,
    /// It would start one, were this no dry run.
    WouldStart,
    /// It differs from the result of its run.
    Differing,
    /// It has no usable key, time or input.
    Unreadable,
}

impl ItemVerdict {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::WouldStart => "would_start",
            Self::Differing => "differing",
            Self::Unreadable => "unreadable",
        }
    }

    fn read(word: &str) -> Self {
        match word {
            "started" => Self::Started,
            "would_start" => Self::WouldStart,
            "differing" => Self::Differing,
            "unreadable" => Self::Unreadable,
            other => unreachable!("no item is {other}"),
        }
    }
}

/// An item that is more than known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconcileItem {
    /// Its position in the page.
    pub index: i32,
    /// What the pass found.
    pub verdict: ItemVerdict,
    /// Its key, where it has one.
    pub key: Option<String>,
    /// Its run.
    pub run: Option<RunId>,
    /// What was wrong with it.
    pub note: Option<String>,
}

/// Adds the items of a page, as many as the pass still has room for.
pub(super) async fn add(
    tx: &Transaction<'_>,
    pass: &ReconcilePass,
    items: &[ReconcileItem],
) -> Result<(), ReadError> {
    if items.is_empty() {
        return Ok(());
    }
    let room = usize::try_from(ITEMS_MAX).unwrap_or(usize::MAX);
    let items = &items[..items.len().min(room)];
    let indices: Vec<i32> = items.iter().map(|item| item.index).collect();
    let verdicts: Vec<&str> = items.iter().map(|item| item.verdict.as_str()).collect();
    let keys: Vec<Option<&str>> = items.iter().map(|item| item.key.as_deref()).collect();
    let runs: Vec<Option<Uuid>> = items
        .iter()
        .map(|item| item.run.map(|run| *run.as_uuid()))
        .collect();
    let notes: Vec<Option<&str>> = items.iter().map(|item| item.note.as_deref()).collect();
    let (id, nominal) = (pass.new.id.as_uuid(), &pass.new.nominal);
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 9] = [
        id, nominal, &pass.page, &indices, &verdicts, &keys, &runs, &notes, &ITEMS_MAX,
    ];
    tx.execute(ADD, &values).await?;
    Ok(())
}

/// Lists the items of a pass that are more than known, in the order of the source's list.
pub async fn list_items(
    cell: SlotCell<'_>,
    (id, nominal): (ScheduleId, Timestamp),
    limit: u16,
) -> Result<Vec<ReconcileItem>, ReadError> {
    let client = cell.reader().await?;
    let limit = i64::from(limit);
    let rows = client
        .query(LIST, &[id.as_uuid(), &nominal, &limit])
        .await?;
    let read = |row: &Row| ReconcileItem {
        index: row.get(0),
        verdict: ItemVerdict::read(row.get(1)),
        key: row.get(2),
        run: row.get::<_, Option<Uuid>>(3).map(RunId::from_uuid),
        note: row.get(4),
    };
    Ok(rows.iter().map(read).collect())
}
