//! Loading runs that were taken. A take is bounded by bytes as well as by number: runs whose journals and
//! answers do not fit go back. The first one in the order of runs always fits, so that each take gets on.
//!
//! A journal that is longer than the row of the queue said belongs to a run that another server has had since:
//! this take was overtaken, and leaves the run alone.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::TryStreamExt as _;
use futures_util::future::{try_join, try_join4};
use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::{Key, RunId, SessionId};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::returned::PUT_BACK;
use super::{ABOUT, Taken};
use crate::journal::JournalRow;
use crate::late_responses::StoredResponse;
use crate::waits::WaitAnswer;
use crate::writer::connection::PreparedClient;
use crate::{clock, journal, late_responses, waits};

/// The most bytes of journals and answers that one take loads, beyond its last run.
pub const TAKE_BYTES_MAX: usize = 32 << 20;

/// Runs that were loaded, the database's time, and runs that did not fit or are another server's.
pub(super) type Loaded = (Vec<Taken>, Timestamp, Vec<(Uuid, i64)>);

/// Reads what belongs to runs that were just taken.
pub(super) async fn load(
    ready: PreparedClient<'_>,
    rows: &[Row],
    bytes_max: usize,
) -> Result<Loaded, Error> {
    let now = ready.client.query_one(ready.statement(clock::READ), &[]);
    if rows.is_empty() {
        return Ok((Vec::new(), now.await?.get(0), Vec::new()));
    }
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let partition_date: Vec<Date> = rows.iter().map(|row| row.get(5)).collect();
    let lows: Vec<Uuid> = ids
        .iter()
        .map(|id| RunId::from_uuid(*id).wait_range().0)
        .collect();
    let highs: Vec<Uuid> = ids
        .iter()
        .map(|id| RunId::from_uuid(*id).wait_range().1)
        .collect();
    let client = ready.client;
    let seqs: HashMap<Uuid, i32> = rows.iter().map(|row| (row.get(0), row.get(2))).collect();
    let bytes = TakeBytes::new(&ids, bytes_max);
    let (now, about, journals, (answers, late)) = try_join4(
        now,
        client.query(ready.statement(ABOUT), &[&ids]),
        read(
            ready,
            journal::LOAD,
            &[&ids, &partition_date],
            &bytes,
            read_line,
        ),
        try_join(
            read(
                ready,
                waits::LOAD,
                &[&ids, &lows, &highs],
                &bytes,
                read_answer,
            ),
            read(ready, late_responses::LOAD, &[&ids], &bytes, read_late),
        ),
    )
    .await?;

    let mut taken: HashMap<Uuid, Taken> = HashMap::with_capacity(rows.len());
    let about: HashMap<Uuid, &Row> = about.iter().map(|row| (row.get(0), row)).collect();
    let overtaken: HashSet<Uuid> = journals
        .lines
        .iter()
        .filter(|(run, line)| seqs.get(run).is_some_and(|seq| line.seq > *seq))
        .map(|(run, _)| *run)
        .collect();
    let mut left = Vec::new();
    for row in rows {
        let id: Uuid = row.get(0);
        let fits = journals.has(id) && answers.has(id) && late.has(id);
        if !fits || overtaken.contains(&id) {
            left.push((id, row.get(1)));
            continue;
        }
        // A run's row outlives its queue entry, so this is always found.
        if let Some(about) = about.get(&id) {
            taken.insert(id, read_taken(row, about));
        }
    }
    for (run, line) in journals.lines {
        if let Some(run) = taken.get_mut(&run) {
            run.journal.push(line);
        }
    }
    for (run, answer) in answers.lines {
        if let Some(run) = taken.get_mut(&run) {
            run.answers.push(answer);
        }
    }
    for (run, late) in late.lines {
        if let Some(run) = taken.get_mut(&run) {
            run.late_responses.push(late);
        }
    }
    Ok((taken.into_values().collect(), now.get(0), left))
}

fn read_taken(row: &Row, about: &Row) -> Taken {
    let key: &[u8] = about.get(3);
    let Ok(key) = Key::new(key) else {
        unreachable!("a run's key was a key when it came")
    };
    Taken {
        run: RunId::from_uuid(row.get(0)),
        epoch: row.get(1),
        seq: row.get(2),
        takes: row.get(3),
        charged: false,
        cancel: row.get(4),
        partition_date: row.get(5),
        quarantined: about.get(4),
        namespace_id: about.get(1),
        release_id: about.get(2),
        key,
        journal: Vec::new(),
        answers: Vec::new(),
        late_responses: Vec::new(),
    }
}

/// How many bytes the parts of one take have come to, all of them together.
struct TakeBytes {
    read: AtomicUsize,
    most: usize,
    /// The first run in order, which is loaded however large it is.
    first: Option<Uuid>,
}

impl TakeBytes {
    fn new(ids: &[Uuid], most: usize) -> Self {
        Self {
            read: AtomicUsize::new(0),
            most,
            first: ids.iter().min().copied(),
        }
    }

    fn add(&self, bytes: usize) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether a run is left whose first row came just now.
    fn leaves(&self, run: Uuid) -> bool {
        self.first != Some(run) && self.read.load(Ordering::Relaxed) > self.most
    }
}

/// One part of what belongs to runs, as far as it was read.
struct Part<T> {
    lines: Vec<(Uuid, T)>,
    /// The first run, in order, that was not read.
    cut_at: Option<Uuid>,
}

impl<T> Part<T> {
    /// Whether all of a run was read.
    fn has(&self, run: Uuid) -> bool {
        self.cut_at.is_none_or(|cut| run < cut)
    }
}

/// Reads rows in the order of their runs, until the take has too many bytes. `line` says how many one has.
async fn read<T>(
    ready: PreparedClient<'_>,
    text: &'static str,
    values: &[&(dyn ToSql + Sync)],
    bytes: &TakeBytes,
    line: fn(&Row) -> (usize, T),
) -> Result<Part<T>, Error> {
    let statement = ready.statement(text);
    let values = values.iter().copied();
    let mut rows = pin!(ready.client.query_raw(statement, values).await?);
    let mut part = Part {
        lines: Vec::new(),
        cut_at: None,
    };
    let mut current = None::<Uuid>;
    while let Some(row) = rows.try_next().await? {
        let run: Uuid = row.get(0);
        if current != Some(run) && bytes.leaves(run) {
            // What the server still sends is thrown away as it comes.
            part.cut_at = Some(run);
            break;
        }
        current = Some(run);
        let (size, line) = line(&row);
        bytes.add(size);
        part.lines.push((run, line));
    }
    Ok(part)
}

fn read_line(row: &Row) -> (usize, JournalRow) {
    let line = journal::read_line(row);
    (line.events.len(), line)
}

fn read_answer(row: &Row) -> (usize, WaitAnswer) {
    let answer = waits::read_answer(row);
    (answer.text().len(), answer)
}

fn read_late(row: &Row) -> (usize, StoredResponse) {
    let late = late_responses::read_late(row);
    (late.text().len(), late)
}

/// Puts runs back that were taken and not loaded; `charge` is what their take counted.
pub(super) async fn put_back(
    ready: PreparedClient<'_>,
    session: SessionId,
    left: &[(Uuid, i64)],
    charge: i16,
) -> Result<(), Error> {
    let mut left = left.to_vec();
    // In the one order in which rows of the queue are locked.
    left.sort_unstable();
    let (runs, epochs): (Vec<Uuid>, Vec<i64>) = left.into_iter().unzip();
    let rest = None::<f64>;
    let values: [&(dyn ToSql + Sync); 5] = [&runs, &epochs, session.as_uuid(), &charge, &rest];
    let statement = ready.statement(PUT_BACK);
    ready.client.execute(statement, &values).await?;
    Ok(())
}
