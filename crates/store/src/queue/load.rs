//! Loading runs that were taken. A take is bounded by bytes as well as by number: runs whose journals
//! do not fit go back.

use std::collections::HashMap;
use std::pin::pin;

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
use crate::writer::connection::PreparedClient;
use crate::{clock, journal, late_responses, waits};

/// The most bytes of journals that one take loads, beyond its last run.
pub const TAKE_BYTES_MAX: usize = 32 << 20;

/// Runs that were loaded, the database's time, and runs whose journals did not fit.
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
    let (now, about, journals, (answers, late)) = try_join4(
        now,
        client.query(ready.statement(ABOUT), &[&ids]),
        read(ready, &ids, &partition_date, bytes_max),
        try_join(
            client.query(ready.statement(waits::LOAD), &[&ids, &lows, &highs]),
            client.query(ready.statement(late_responses::LOAD), &[&ids]),
        ),
    )
    .await?;

    let mut taken: HashMap<Uuid, Taken> = HashMap::with_capacity(rows.len());
    let about: HashMap<Uuid, &Row> = about.iter().map(|row| (row.get(0), row)).collect();
    let mut left = Vec::new();
    for row in rows {
        let id: Uuid = row.get(0);
        if !journals.has(id) {
            left.push((id, row.get(1)));
            continue;
        }
        // A run's row outlives its queue entry, so this is always found.
        if let Some(about) = about.get(&id) {
            taken.insert(id, read_taken(row, about));
        }
    }
    for row in &journals.lines {
        if let Some(run) = taken.get_mut(&row.get(0)) {
            run.journal.push(journal::read_line(row));
        }
    }
    for row in &answers {
        if let Some(run) = taken.get_mut(&row.get(0)) {
            run.answers.push(waits::read_answer(row));
        }
    }
    for row in &late {
        if let Some(run) = taken.get_mut(&row.get(0)) {
            run.late_responses.push(late_responses::read_late(row));
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

/// Journals that were read, and whether all of them were.
struct Journals {
    lines: Vec<Row>,
    /// The first run, in order, whose journal was not read.
    cut_at: Option<Uuid>,
}

impl Journals {
    /// Whether a run's journal was read.
    fn has(&self, run: Uuid) -> bool {
        self.cut_at.is_none_or(|cut| run < cut)
    }
}

/// Reads journals in the order of their runs, until they are too many bytes.
async fn read(
    ready: PreparedClient<'_>,
    ids: &Vec<Uuid>,
    partition_date: &Vec<Date>,
    bytes_max: usize,
) -> Result<Journals, Error> {
    let values: [&(dyn ToSql + Sync); 2] = [ids, partition_date];
    let statement = ready.statement(journal::LOAD);
    let mut rows = pin!(ready.client.query_raw(statement, values).await?);
    let mut journals = Journals {
        lines: Vec::new(),
        cut_at: None,
    };
    let (mut bytes, mut current) = (0_usize, None::<Uuid>);
    while let Some(row) = rows.try_next().await? {
        let run: Uuid = row.get(0);
        if current != Some(run) && bytes > bytes_max {
            // What the server still sends is thrown away as it comes.
            journals.cut_at = Some(run);
            break;
        }
        current = Some(run);
        bytes = bytes.saturating_add(row.get::<_, &str>(3).len());
        journals.lines.push(row);
    }
    Ok(journals)
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
