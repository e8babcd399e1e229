//! The `reconcile_passes` and `reconcile_items` tables: comparisons of a source's list with the runs
//! of a flow.
//!
//! ```text
//! open ══▶ take (epoch + 1, due later) ──▶ read and start, elsewhere ══▶ record page ──▶ … ══▶ done
//!                                      ├─▶ its turn is over ══▶ due now, behind what is due longer
//!                                      └─▶ the read fails ══▶ due later, or failed
//! ```
//!
//! Namespaces take turns (`turns.rs`), and of each the pass that is due longest is first.
//!
//! `══▶` is a commit. A page is recorded under the epoch and the page number that it was taken with:
//! a server that was late changes nothing. Where a server dies between starting runs and recording
//! their page, the next reads the page again, and its items find their runs.

mod items;
mod rows;

pub use items::{ItemVerdict, ReconcileItem, list_items};

use jiff::Timestamp;
use semel_model::{ScheduleId, Span};
use uuid::Uuid;

use crate::audit::{self, AuditEntry};
use crate::cell::{EveryCell, ReadError, SlotCell};
use crate::turns::{NamespaceTurns, turns};
use rows::read_pass;

/// The columns that [`read_pass`] reads.
macro_rules! columns {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            " p.schedule_id, p.nominal, p.namespace_id, p.flow, p.release_id, p.window_start, p.dry_run,
           p.asked_by, p.state::text, p.epoch, p.due_at, p.attempt, p.page, p.next_page, p.listed,
           p.known, p.started, p.differing, p.unreadable, p.left_out, p.fault, p.opened_at, p.ended_at,
           p.marked_page, p.page_at ",
            $after
        )
    };
}

/// A recurrence has one open pass at a time: one that never ends does not pile up others. So have those who ask, of
/// each kind: `reconcile_passes_asked` is unique.
const OPEN: &str = "
    INSERT INTO reconcile_passes (schedule_id, nominal, namespace_id, flow, release_id, window_start,
                                  dry_run, asked_by, due_at)
    SELECT $1::uuid, $2::timestamptz, $3::int4, $4::text, $5::int4, $6::timestamptz, $7::boolean,
           $8::text, moment()
     WHERE $8::text IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM reconcile_passes
                        WHERE schedule_id = $1 AND nominal < $2 AND state = 'open'
                          AND asked_by IS NULL)
        ON CONFLICT DO NOTHING";

/// The open pass of a kind that somebody asked for.
const OPEN_ASKED: &str = columns!(
    "
    SELECT",
    "
      FROM reconcile_passes p
     WHERE p.schedule_id = $1 AND p.namespace_id = $2 AND p.dry_run = $3 AND p.state = 'open'
       AND p.asked_by IS NOT NULL"
);

const TAKE: &str = concat!(
    turns!("reconcile_passes", "t.due_at IS NOT NULL"),
    ",
    due AS (
        SELECT d.place
          FROM turns s
         CROSS JOIN LATERAL (SELECT p.ctid AS place
                               FROM reconcile_passes p
                              WHERE p.namespace_id = s.namespace_id
                                AND p.due_at <= (SELECT now FROM present)
                              ORDER BY p.due_at
                              LIMIT 1
                                FOR UPDATE OF p SKIP LOCKED) d
         LIMIT 1)",
    columns!(
        "
    UPDATE reconcile_passes p
       SET epoch = p.epoch + 1, due_at = moment() + make_interval(secs => $3)
     WHERE p.ctid = ANY (ARRAY(SELECT place FROM due))
 RETURNING",
        ""
    )
);

const HOLD: &str = "
    UPDATE reconcile_passes
       SET due_at = moment() + make_interval(secs => $4)
     WHERE schedule_id = $1 AND nominal = $2 AND epoch = $3 AND state = 'open'";

const GIVE_BACK: &str = "
    UPDATE reconcile_passes
       SET due_at = moment()
     WHERE schedule_id = $1 AND nominal = $2 AND epoch = $3 AND state = 'open'";

/// The page's number is a power of two where it shares no bit with the number before it.
const RECORD: &str = "
    UPDATE reconcile_passes
       SET page = page + 1, next_page = $5,
           marked_page = CASE WHEN (page + 1) & page = 0 THEN $5 ELSE marked_page END,
           page_at = moment(), attempt = 0, fault = NULL,
           listed = listed + $6, known = known + $7, started = started + $8,
           differing = differing + $9, unreadable = unreadable + $10, left_out = left_out + $11,
           state = CASE WHEN $5::text IS NULL THEN 'done' ELSE 'open' END::pass_state,
           due_at = CASE WHEN $5::text IS NOT NULL THEN moment() + make_interval(secs => $12) END,
           ended_at = CASE WHEN $5::text IS NULL THEN moment() END
     WHERE schedule_id = $1 AND nominal = $2 AND epoch = $3 AND page = $4 AND state = 'open'";

const POSTPONE: &str = "
    UPDATE reconcile_passes
       SET attempt = attempt + 1, fault = $4,
           state = CASE WHEN $5::float8 IS NULL THEN 'failed' ELSE 'open' END::pass_state,
           due_at = moment() + make_interval(secs => $5),
           ended_at = CASE WHEN $5::float8 IS NULL THEN moment() END
     WHERE schedule_id = $1 AND nominal = $2 AND epoch = $3 AND state = 'open'";

const LIST: &str = columns!(
    "
    SELECT",
    "
      FROM reconcile_passes p
     WHERE p.schedule_id = $1 AND p.namespace_id = $2
     ORDER BY p.nominal DESC
     LIMIT $3"
);

const FIND: &str = columns!(
    "
    SELECT",
    "
      FROM reconcile_passes p
     WHERE p.schedule_id = $1 AND p.namespace_id = $2 AND p.nominal = $3"
);

/// Of the passes that the recurrence named.
const LATEST: &str = "
    SELECT max(nominal) FROM reconcile_passes WHERE schedule_id = $1 AND asked_by IS NULL";

/// The latest that a recurrence named stays: it says up to where the recurrence is decided.
const FORGET: &str = "
    WITH old AS MATERIALIZED (
        SELECT o.schedule_id, o.nominal
          FROM reconcile_passes o
         WHERE o.ended_at < (SELECT moment()) - make_interval(secs => $1)
           AND EXISTS (SELECT 1 FROM reconcile_passes n
                        WHERE n.schedule_id = o.schedule_id AND n.nominal > o.nominal
                          AND n.asked_by IS NULL)
         ORDER BY o.ended_at
         LIMIT $2
           FOR UPDATE SKIP LOCKED),
    items AS (
        DELETE FROM reconcile_items i USING old
         WHERE i.schedule_id = old.schedule_id AND i.nominal = old.nominal)
    DELETE FROM reconcile_passes p USING old
     WHERE p.schedule_id = old.schedule_id AND p.nominal = old.nominal";

pub(crate) const STATEMENTS: &[&str] = &[
    OPEN,
    OPEN_ASKED,
    TAKE,
    HOLD,
    GIVE_BACK,
    RECORD,
    POSTPONE,
    LIST,
    FIND,
    LATEST,
    FORGET,
    items::ADD,
    items::LIST,
];

/// The most passes that one statement forgets.
const FORGET_MAX: i64 = 100;

/// A pass that is to be made.
#[derive(Clone, Debug)]
pub struct NewPass {
    /// The flow, as its schedule is known.
    pub id: ScheduleId,
    /// The instant.
    pub nominal: Timestamp,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The flow's name.
    pub flow: String,
    /// The live release.
    pub release_id: i32,
    /// Older items start nothing.
    pub window_start: Timestamp,
    /// Whether it only reports.
    pub dry_run: bool,
    /// The operator who asked for it.
    pub asked_by: Option<String>,
}

/// A pass, as far as it came.
#[derive(Clone, Debug)]
pub struct ReconcilePass {
    /// What it is.
    pub new: NewPass,
    /// Whether it is `open`, `done` or `failed`.
    pub state: String,
    /// How often a server took it.
    pub epoch: i64,
    /// How many reads of its page failed.
    pub attempt: i32,
    /// How many pages are compared.
    pub page: i32,
    /// The address of the next page.
    pub next_page: Option<String>,
    /// The address that followed the latest page whose number is a power of two. A list that runs in
    /// a circle, of any length, comes back to it.
    pub marked_page: Option<String>,
    /// When the page before the next one was recorded; for the first, when the pass was opened.
    pub page_at: Timestamp,
    /// What it found.
    pub counts: PassCounts,
    /// What went wrong last.
    pub fault: Option<String>,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// What a pass found, or a page of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassCounts {
    /// How many items the source listed.
    pub listed: i64,
    /// How many of them had a run.
    pub known: i64,
    /// How many started one; in a dry run, would have.
    pub started: i64,
    /// How many of the known ones differ from the result of their run.
    pub differing: i64,
    /// How many have no usable key, time or input.
    pub unreadable: i64,
    /// How many are too young, older than the window, or excluded.
    pub left_out: i64,
}

/// A page that was compared.
#[derive(Clone, Debug, Default)]
pub struct ComparedPage {
    /// What was found.
    pub counts: PassCounts,
    /// The items that are more than known.
    pub items: Vec<ReconcileItem>,
    /// The address of the next page; the pass is done, when absent.
    pub next: Option<String>,
}

/// Opens a pass. False where the instant has one already, or where one is still open: the recurrence's of
/// an earlier instant; for one that is asked for, one that was asked for and is a dry run as well, or none. If an operator asked for it, the act is
/// recorded in the same commit.
pub async fn open(
    cell: SlotCell<'_>,
    new: &NewPass,
    act: Option<&AuditEntry>,
) -> Result<bool, ReadError> {
    let NewPass { id, nominal, .. } = new;
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 8] = [
        id.as_uuid(),
        nominal,
        &new.namespace_id,
        &new.flow,
        &new.release_id,
        &new.window_start,
        &new.dry_run,
        &new.asked_by,
    ];
    let opened = match act {
        Some(act) => audit::execute(cell, OPEN, &values, act).await?,
        None => cell.reader().await?.execute(OPEN, &values).await?,
    };
    Ok(opened == 1)
}

/// The open pass of a flow that somebody asked for.
pub async fn find_open_asked(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: ScheduleId,
    dry_run: bool,
) -> Result<Option<ReconcilePass>, ReadError> {
    let client = cell.reader().await?;
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
        [id.as_uuid(), &namespace_id, &dry_run];
    let row = client.query_opt(OPEN_ASKED, &values).await?;
    Ok(row.as_ref().map(read_pass))
}

/// Takes a pass for so long: of the namespace whose turn it is, and which is not one of `full`, the pass that is
/// due longest.
pub async fn take(
    cell: EveryCell<'_>,
    turns: &mut NamespaceTurns,
    full: &[i32],
    lease: Span,
) -> Result<Option<ReconcilePass>, ReadError> {
    let client = cell.reader().await?;
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
        [&turns.last(), &full, &lease.as_secs_f64()];
    let row = client.query_opt(TAKE, &values).await?;
    let taken = row.as_ref().map(read_pass);
    turns.note(taken.iter().map(|pass| pass.new.namespace_id));
    Ok(taken)
}

/// Holds a pass that was taken for so long from now. False where another server took it meanwhile.
pub async fn hold(
    cell: SlotCell<'_>,
    pass: &ReconcilePass,
    lease: Span,
) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    let (id, nominal) = (pass.new.id.as_uuid(), &pass.new.nominal);
    let held = client
        .execute(HOLD, &[id, nominal, &pass.epoch, &lease.as_secs_f64()])
        .await?;
    Ok(held == 1)
}

/// Gives back a pass that was taken: it is due now, after those of its namespace that are due for longer.
pub async fn give_back(cell: SlotCell<'_>, pass: &ReconcilePass) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    let (id, nominal) = (pass.new.id.as_uuid(), &pass.new.nominal);
    client
        .execute(GIVE_BACK, &[id, nominal, &pass.epoch])
        .await?;
    Ok(())
}

/// Records a page that was compared, and holds the pass for so long again. False where another
/// server took the pass meanwhile: then nothing is written.
pub async fn record(
    cell: SlotCell<'_>,
    pass: &ReconcilePass,
    page: &ComparedPage,
    lease: Span,
) -> Result<bool, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let (id, counts): (&Uuid, _) = (pass.new.id.as_uuid(), &page.counts);
    let recorded = tx
        .execute(
            RECORD,
            &[
                id,
                &pass.new.nominal,
                &pass.epoch,
                &pass.page,
                &page.next,
                &counts.listed,
                &counts.known,
                &counts.started,
                &counts.differing,
                &counts.unreadable,
                &counts.left_out,
                &lease.as_secs_f64(),
            ],
        )
        .await?;
    if recorded != 1 {
        return Ok(false);
    }
    items::add(&tx, pass, &page.items).await?;
    tx.commit().await?;
    Ok(true)
}

/// Records that a page could not be compared: the pass is due again after a time, or has failed.
pub async fn postpone(
    cell: SlotCell<'_>,
    pass: &ReconcilePass,
    fault: &str,
    after: Option<Span>,
) -> Result<bool, ReadError> {
    let client = cell.reader().await?;
    let (id, nominal) = (pass.new.id.as_uuid(), &pass.new.nominal);
    let after = after.map(Span::as_secs_f64);
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [id, nominal, &pass.epoch, &fault, &after];
    Ok(client.execute(POSTPONE, &values).await? == 1)
}

/// Lists the passes of a flow, the latest first.
pub async fn list(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: ScheduleId,
    limit: u16,
) -> Result<Vec<ReconcilePass>, ReadError> {
    let client = cell.reader().await?;
    let limit = i64::from(limit);
    let rows = client
        .query(LIST, &[id.as_uuid(), &namespace_id, &limit])
        .await?;
    Ok(rows.iter().map(read_pass).collect())
}

/// The pass of an instant.
pub async fn find(
    cell: SlotCell<'_>,
    namespace_id: i32,
    (id, nominal): (ScheduleId, Timestamp),
) -> Result<Option<ReconcilePass>, ReadError> {
    let client = cell.reader().await?;
    let row = client
        .query_opt(FIND, &[id.as_uuid(), &namespace_id, &nominal])
        .await?;
    Ok(row.as_ref().map(read_pass))
}

/// The latest instant of a flow's recurrence that has a pass.
pub async fn find_latest(
    cell: SlotCell<'_>,
    id: ScheduleId,
) -> Result<Option<Timestamp>, ReadError> {
    let client = cell.reader().await?;
    Ok(client.query_one(LATEST, &[id.as_uuid()]).await?.get(0))
}

/// Forgets passes that ended longer ago than that. Gives how many.
pub async fn forget(cell: EveryCell<'_>, age: Span) -> Result<u64, ReadError> {
    let client = cell.reader().await?;
    Ok(client
        .execute(FORGET, &[&age.as_secs_f64(), &FORGET_MAX])
        .await?)
}
