//! The invariants of the tables: what must hold at every moment, whatever crashed, and the one checker of it.
//!
//! `semel doctor --deep` and the storms of the tests use it. It changes nothing. A table is read in pages, each in one
//! statement of at most a second, so that no snapshot is open for long; a page that takes longer is read in smaller
//! ones. Between two pages the world moves on, so each statement asks only what is true in every snapshot.
//!
//! Three outcomes: an invariant holds, it is broken, or a part could not be read in time and is not known.

mod lists;
mod statements;

use std::time::Duration;

use semel_model::{EffectId, NamedEffectId, RunId};
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{Cell, ReadError};
use statements as text;

pub(crate) const STATEMENTS: &[&str] = text::STATEMENTS;

/// How long one statement may take.
const SNAPSHOT_MAX: Duration = Duration::from_secs(1);

/// The most rows of a page.
const PAGE_MAX: i64 = 1_000;

/// The most rows of a table that are left out because one takes too long; then the rest is.
const LEFT_OUT_MAX: usize = 10;

/// How often a backlog that seems to stand still is looked at, and the pause between two looks. A server that
/// dispatches takes its next events within that time.
const LOOKS: usize = 5;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The most breaches of an invariant that are named; all are counted.
pub const BREACHES_MAX: usize = 100;

/// Something that must hold in every snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// No run sleeps while what it waits for is on record, and no worker that is gone holds one.
    Wakes,
    /// No run is taken, and no event dispatched, again and again without a row.
    Progress,
    /// A run that was answered for is in the queue with its journal until it ends. What waits for a person is listed,
    /// and nothing else is.
    Records,
    /// The rows that a run writes for one effect are bounded.
    Rows,
    /// No list ends with an error.
    Lists,
    /// No background duty is silent for three of its periods.
    Duties,
}

impl Invariant {
    /// All of them, in the order in which they are checked.
    pub const ALL: [Self; 6] = [
        Self::Wakes,
        Self::Progress,
        Self::Records,
        Self::Rows,
        Self::Lists,
        Self::Duties,
    ];

    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wakes => "wakes",
            Self::Progress => "progress",
            Self::Records => "records",
            Self::Rows => "rows",
            Self::Lists => "lists",
            Self::Duties => "duties",
        }
    }
}

/// Something that breaks an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The run, the event, the list or the duty.
    pub subject: String,
    /// What is the matter with it.
    pub found: String,
}

/// The state of an invariant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvariantReport {
    /// How many rows were looked at.
    pub looked_at: u64,
    /// How many of them break it.
    pub breach_count: u64,
    /// The first of these, [`BREACHES_MAX`] at most.
    pub breaches: Vec<Breach>,
    /// What could not be read in time, so that nothing is known of it.
    pub unknown: Vec<String>,
}

impl InvariantReport {
    fn add(&mut self, subject: String, found: String) {
        self.breach_count += 1;
        if self.breaches.len() < BREACHES_MAX {
            self.breaches.push(Breach { subject, found });
        }
    }
}

/// A table that is read page by page.
struct Scan {
    /// Its rows, for people.
    of: &'static str,
    /// What their identities are.
    kind: SubjectKind,
    text: &'static str,
}

/// What an identity of a page belongs to.
#[derive(Clone, Copy)]
enum SubjectKind {
    Run,
    /// Or an event, which is known by the effect that emitted it.
    Effect,
    NamedEffect,
}

impl SubjectKind {
    fn name(self, id: Uuid) -> String {
        match self {
            Self::Run => RunId::from_uuid(id).to_string(),
            Self::Effect => EffectId::from_uuid(id).to_string(),
            Self::NamedEffect => NamedEffectId::from_uuid(id).to_string(),
        }
    }
}

const fn of_runs(of: &'static str, text: &'static str) -> Scan {
    let kind = SubjectKind::Run;
    Scan { of, kind, text }
}

const fn of_effects(of: &'static str, text: &'static str) -> Scan {
    let kind = SubjectKind::Effect;
    Scan { of, kind, text }
}

const fn of_names(of: &'static str, text: &'static str) -> Scan {
    let kind = SubjectKind::NamedEffect;
    Scan { of, kind, text }
}

const WAKES: &[Scan] = &[
    of_runs("runs in the queue", text::ASLEEP),
    of_runs("tasks", text::ASLEEP_OVER_TASK),
    of_runs("approvals", text::ASLEEP_OVER_APPROVAL),
];

const PROGRESS: &[Scan] = &[
    of_runs("runs in the queue", text::TAKEN),
    of_effects("events", text::DISPATCHED),
    of_runs("notices to business keys", text::NOTIFIED),
];

/// Events that wait for a server, the first of them first. A long backlog is no breach while it moves.
struct Backlog {
    /// The events, for people.
    of: &'static str,
    text: &'static str,
    found: &'static str,
}

const BACKLOGS: &[Backlog] = &[
    Backlog {
        of: "events that are due",
        text: text::OVERDUE_EVENTS,
        found: "is due for more than a minute, and nobody dispatches it",
    },
    Backlog {
        of: "broadcasts that are due",
        text: text::OVERDUE_BROADCASTS,
        found: "is due for more than a minute, and nobody answers the waits for it",
    },
];

const RECORDS: &[Scan] = &[
    of_runs("runs in the queue", text::QUEUED),
    of_runs("runs", text::UNENDED),
    of_names("business keys", text::DOUBTED_NAMES),
    of_effects("listed doubts", text::LISTED_DOUBTS),
    of_names("listed business keys", text::LISTED_NAMES),
    of_runs("listed runs", text::LISTED_RUNS),
];

const ROWS: &[Scan] = &[of_runs("runs in the queue", text::ROWS)];

/// Checks an invariant. `duties` are the names of the duties that the caller's build knows. `progress` hears after each
/// page how many rows were looked at.
pub async fn check(
    cell: &Cell,
    invariant: Invariant,
    duties: &[&str],
    mut progress: impl FnMut(u64),
) -> Result<InvariantReport, ReadError> {
    // Its sessions cannot write, and what takes too long is cancelled.
    let cell = &cell.for_people();
    let mut report = InvariantReport::default();
    let scans: &[Scan] = match invariant {
        Invariant::Wakes => WAKES,
        Invariant::Progress => PROGRESS,
        Invariant::Records => RECORDS,
        Invariant::Rows => ROWS,
        Invariant::Lists => {
            lists::read_all(cell, &mut report, &mut progress).await?;
            &[]
        }
        Invariant::Duties => {
            find_silent(cell, duties, &mut report).await?;
            &[]
        }
    };
    for scan in scans {
        walk(cell, scan, &mut report, &mut progress).await?;
    }
    if invariant == Invariant::Progress {
        for backlog in BACKLOGS {
            find_standing(cell, backlog, &mut report).await?;
        }
    }
    Ok(report)
}

/// Finds the first events of a backlog that does not move between any two looks.
async fn find_standing(
    cell: &Cell,
    backlog: &Backlog,
    report: &mut InvariantReport,
) -> Result<(), ReadError> {
    let mut standing: Vec<Uuid> = Vec::new();
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let Some(overdue) = read_overdue(cell, backlog).await? else {
            report.unknown.push(backlog.of.to_owned());
            return Ok(());
        };
        // An event that left the backlog, or a server that dispatches others, is progress.
        if overdue.is_empty() || standing.iter().any(|id| !overdue.contains(id)) {
            return Ok(());
        }
        standing = overdue;
    }
    for id in standing {
        report.add(SubjectKind::Effect.name(id), backlog.found.to_owned());
    }
    Ok(())
}

/// The first events of a backlog; none if reading them took too long.
async fn read_overdue(cell: &Cell, backlog: &Backlog) -> Result<Option<Vec<Uuid>>, ReadError> {
    let client = cell.lister().await?;
    let most = i64::try_from(BREACHES_MAX).unwrap_or(i64::MAX);
    match timeout(SNAPSHOT_MAX, client.query(backlog.text, &[&most])).await {
        Ok(Ok(rows)) => Ok(Some(rows.iter().map(|row| row.get(0)).collect())),
        Ok(Err(error)) if error.code() == Some(&SqlState::QUERY_CANCELED) => Ok(None),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// Reads all pages of a table. A row that takes too long by itself is left out, so that nobody's run hides those behind it.
async fn walk(
    cell: &Cell,
    scan: &Scan,
    report: &mut InvariantReport,
    progress: &mut impl FnMut(u64),
) -> Result<(), ReadError> {
    let (mut after, mut size, mut left_out) = (Uuid::nil(), PAGE_MAX, 0);
    loop {
        match read_page(cell, scan, (after, size), true).await? {
            Some(page) => {
                report.looked_at += page.row_count.unsigned_abs();
                for (id, found) in page.ids.into_iter().zip(page.words) {
                    report.add(scan.kind.name(id), found);
                }
                progress(report.looked_at);
                match page.last {
                    Some(last) if page.row_count == size => after = last,
                    Some(_) | None => return Ok(()),
                }
                size = (size * 2).min(PAGE_MAX);
            }
            None if size > 1 => size = (size / 4).max(1),
            None => {
                let next = read_page(cell, scan, (after, size), false).await?;
                let next = next.and_then(|page| page.last);
                left_out += 1;
                if let Some(next) = next.filter(|_| left_out < LEFT_OUT_MAX) {
                    let row = scan.kind.name(next);
                    let unknown = format!("{} at {row}: it takes too long", scan.of);
                    report.unknown.push(unknown);
                    after = next;
                    continue;
                }
                let behind = scan.kind.name(after);
                let unknown = format!("{} behind {behind}: a row takes too long", scan.of);
                report.unknown.push(unknown);
                return Ok(());
            }
        }
    }
}

/// A page of a table.
struct Page {
    row_count: i64,
    last: Option<Uuid>,
    /// What breaks the invariant, and the words about each.
    ids: Vec<Uuid>,
    words: Vec<String>,
}

/// Nothing where it took too long. It has breaches where they are asked for.
async fn read_page(
    cell: &Cell,
    scan: &Scan,
    (after, size): (Uuid, i64),
    finds: bool,
) -> Result<Option<Page>, ReadError> {
    let client = cell.lister().await?;
    let values: [&(dyn ToSql + Sync); 3] = [&after, &size, &finds];
    match timeout(SNAPSHOT_MAX, client.query_one(scan.text, &values)).await {
        Ok(Ok(row)) => Ok(Some(read(&row))),
        Ok(Err(error)) if error.code() == Some(&SqlState::QUERY_CANCELED) => Ok(None),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

fn read(row: &Row) -> Page {
    Page {
        row_count: row.get(0),
        last: row.get(1),
        ids: row.get(2),
        words: row.get(3),
    }
}

/// A duty of which no server has said how long it may be silent is left out.
async fn find_silent(
    cell: &Cell,
    known: &[&str],
    report: &mut InvariantReport,
) -> Result<(), ReadError> {
    let client = cell.lister().await?;
    let values: [&(dyn ToSql + Sync); 1] = [&known];
    let asked = timeout(SNAPSHOT_MAX, client.query(text::DUTIES, &values));
    let Ok(rows) = asked.await else {
        report.unknown.push("duties".to_owned());
        return Ok(());
    };
    for row in rows? {
        report.looked_at += 1;
        let (silent, most): (f64, Option<f64>) = (row.get(1), row.get(2));
        if let Some(most) = most.filter(|most| silent > *most) {
            let found =
                format!("nobody has finished a pass for {silent:.0} s, more than {most:.0} s");
            report.add(row.get(0), found);
        }
    }
    Ok(())
}
