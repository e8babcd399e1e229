//! The `queue` table: who holds each run that has not ended, and when it is due.
//!
//! Workers poll by due time, in batches, one poller per process. A million sleeping runs sort
//! behind the end of the index that is read, so they cost nothing. Namespaces take turns (`fair.rs`).

mod backlog;
mod cancel;
mod depth;
mod fair;
mod load;
mod look;
mod lost;
mod returned;
mod seeded_bug;
mod stranded;
mod stuck;
mod wake;

pub use backlog::count_backlog;
pub use cancel::{ask_cancel, ask_cancel_by};
pub use depth::{DEPTH_MAX, Depth, depth};
pub use fair::NamespaceRoom;
pub(crate) use fair::last_served;
pub use load::TAKE_BYTES_MAX;
pub use look::Look;
pub use lost::{RECOVER_MAX, recover, recover_strays};
pub use returned::{HeldRun, ReturnCause, list_held_besides, put_back, return_runs};
pub use stranded::wake_stranded;
pub use stuck::{defer, quarantine};
pub use wake::{give_head_start, wake_at_gate};

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use semel_model::{Key, RunId, SessionId};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use crate::cell::{Cell, ReadError, SlotCell};
use crate::runs::Stage;
use crate::writer::connection::{PreparedClient, WriterConnection};
use crate::{clock, journal, late_responses, waits};
use fair::{NEXT_DUE, TAKE, TAKE_ALONE, TAKE_EARLY};
use returned::give_back;
use seeded_bug::mistaken;

const TAKE_ONE: &str = "/* commits alone: take one */
    UPDATE queue
       SET holder = $1, epoch = epoch + 1
     WHERE run_id = $2 AND holder IS NULL
       AND EXISTS (SELECT 1 FROM sessions
                        WHERE id = $1 AND lost_at IS NULL AND expires_at > (SELECT moment()))
 RETURNING run_id, epoch, seq, stalled_takes, cancel, partition_date";

const ABOUT: &str = "
    SELECT r.id, r.namespace_id, r.release_id, r.key, r.state = 'quarantined'
      FROM unnest($1::uuid[]) AS t (id)
      JOIN runs r ON r.id = t.id";

/// Nothing happened, so nothing is written to the journal. What came meanwhile has left its mark.
const SLEEP_ON: &str = give_back!(
    "/* commits alone: sleep on */",
    "stage = $5::text::queue_stage, stalled_takes = 0, suspects = 0, woken = false,
           due_at = CASE WHEN woken OR (cancel AND NOT $6) THEN moment()
                         ELSE coalesce($4::timestamptz, 'infinity') END"
);

pub(crate) const STATEMENTS: &[&str] = &[
    TAKE,
    TAKE_ALONE,
    TAKE_EARLY,
    TAKE_ONE,
    stuck::TAKE_SUSPECTS,
    stuck::DEFER,
    stuck::QUARANTINE,
    NEXT_DUE,
    ABOUT,
    lost::RECOVER,
    lost::RECOVER_STRAYS,
    returned::RETURN,
    returned::HELD_BESIDES,
    returned::PUT_BACK,
    SLEEP_ON,
    cancel::CANCEL,
    stranded::WAKE_STRANDED,
    wake::WAKE_AT_GATE,
    wake::HEAD_START,
    depth::DEPTH,
    backlog::BACKLOG,
    look::LOOK,
];

/// The most runs of one take.
pub const TAKE_MAX: usize = 256;

/// A run that a worker holds, with all that deciding needs.
#[derive(Debug)]
pub struct Taken {
    /// The run.
    pub run: RunId,
    /// The lease under which it may be written to.
    pub epoch: i64,
    /// The number of its journal's last row.
    pub seq: i32,
    /// Takes since the last progress, this one included.
    pub takes: i16,
    /// Whether this take is among them.
    pub charged: bool,
    /// Whether an operator asked for its end.
    pub cancel: bool,
    /// The partition of its journal and effects.
    pub partition_date: Date,
    /// Whether the record says that it is quarantined.
    pub quarantined: bool,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The release that it started on.
    pub release_id: i32,
    /// Its key.
    pub key: Key,
    /// Its journal, in order.
    pub journal: Vec<journal::JournalRow>,
    /// Callbacks that came.
    pub answers: Vec<waits::WaitAnswer>,
    /// Responses that lost workers recorded.
    pub late_responses: Vec<late_responses::StoredResponse>,
}

/// What one take found.
#[derive(Debug)]
pub struct TakenRuns {
    /// The runs, loaded.
    pub taken: Vec<Taken>,
    /// The database's time.
    pub now: Timestamp,
    /// How long until the next run is due, where one is known.
    pub next_due: Option<Duration>,
}

/// The connection that a process takes runs through.
pub struct Taker {
    connection: WriterConnection,
    /// How many runs the next take asks for at most: as many as fitted into memory lately.
    fits: usize,
    bytes_max: usize,
    /// The namespace that was served last: the next take begins behind it.
    last_namespace: i32,
    /// The only namespace that there is, where the last look found one.
    only_namespace: Option<i32>,
}

impl Taker {
    /// A taker of a cell.
    pub fn new(cell: &Cell) -> Self {
        Self {
            connection: WriterConnection::new(cell),
            fits: TAKE_MAX,
            bytes_max: TAKE_BYTES_MAX,
            last_namespace: 0,
            only_namespace: None,
        }
    }

    /// Loads at most so many bytes of journals and answers at a time, beyond the last run's.
    #[must_use]
    pub fn with_bytes_max(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    /// Takes up to `limit` runs that are due, and loads them.
    pub async fn take(&mut self, session: SessionId, limit: usize) -> Result<TakenRuns, Error> {
        self.take_fairly(session, limit, &[]).await
    }

    /// As [`Self::take`], where some namespaces have another weight or less room than all have.
    pub async fn take_fairly(
        &mut self,
        session: SessionId,
        limit: usize,
        rooms: &[NamespaceRoom],
    ) -> Result<TakenRuns, Error> {
        let limit = limit.min(self.fits) as i64;
        let (bytes_max, last) = (self.bytes_max, self.last_namespace);
        let only = self.only_namespace.filter(|_| rooms.is_empty());
        let (namespaces, weights, left) = fair::columns(rooms);
        let ready = self.prepared().await?;
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![session.as_uuid(), &limit];
        let text = match &only {
            Some(only) => {
                values.push(only);
                TAKE_ALONE
            }
            None => {
                values.extend([&last as &(dyn ToSql + Sync), &namespaces, &weights, &left]);
                TAKE
            }
        };
        let take = ready.statement(mistaken(text));
        let rows = ready.client.query(take, &values).await?;
        let next_due: Option<f64> = match rows.is_empty() {
            true => {
                let due = ready.client.query_one(ready.statement(NEXT_DUE), &[]);
                due.await?.get(0)
            }
            false => None,
        };
        let next_due = next_due.map(|secs| Duration::from_secs_f64(secs.max(0.0)));
        let (mut taken, now, put_back) = load::load(ready, &rows, bytes_max).await?;
        taken.iter_mut().for_each(|taken| taken.charged = true);
        if !put_back.is_empty() {
            load::put_back(ready, session, &put_back, 1).await?;
        }
        self.fits = match put_back.is_empty() {
            true => (self.fits * 2).min(TAKE_MAX),
            false => taken.len().max(1),
        };
        self.last_namespace = fair::last_served(last, rows.iter().map(|row| row.get(6)));
        Ok(TakenRuns {
            taken,
            now,
            next_due,
        })
    }

    /// Takes up to `limit` runs that gave way to others by at most `secs`, and loads them. `rooms` is what a namespace
    /// may have.
    pub async fn take_early(
        &mut self,
        session: SessionId,
        limit: usize,
        secs: f64,
        rooms: &[NamespaceRoom],
    ) -> Result<Vec<Taken>, Error> {
        let limit = limit.min(self.fits) as i64;
        let (namespaces, _, left) = fair::columns(rooms);
        let bytes_max = self.bytes_max;
        self.prepared().await?;
        let ready = self.connection.prepare(&[TAKE_EARLY]).await?;
        let values: [&(dyn ToSql + Sync); 5] =
            [session.as_uuid(), &limit, &secs, &namespaces, &left];
        let rows = ready
            .client
            .query(ready.statement(TAKE_EARLY), &values)
            .await?;
        let (mut taken, _, put_back) = load::load(ready, &rows, bytes_max).await?;
        taken.iter_mut().for_each(|taken| taken.charged = true);
        if !put_back.is_empty() {
            load::put_back(ready, session, &put_back, 1).await?;
        }
        Ok(taken)
    }

    /// Takes one run that no worker holds, due or not, for an operator's command.
    pub async fn take_one(
        &mut self,
        session: SessionId,
        run: RunId,
    ) -> Result<Option<(Taken, Timestamp)>, Error> {
        let ready = self.prepared().await?;
        let rows = ready
            .client
            .query(
                ready.statement(TAKE_ONE),
                &[session.as_uuid(), run.as_uuid()],
            )
            .await?;
        let (mut taken, now, left) = load::load(ready, &rows, usize::MAX).await?;
        if !left.is_empty() {
            load::put_back(ready, session, &left, 0).await?;
        }
        Ok(taken.pop().map(|taken| (taken, now)))
    }

    /// Closes the connection after an error, and pauses for a moment.
    pub async fn recover_link(&mut self) {
        self.connection.give_up();
        self.connection.rest().await;
    }

    async fn prepared(&mut self) -> Result<PreparedClient<'_>, Error> {
        let texts = [
            mistaken(TAKE),
            mistaken(TAKE_ALONE),
            TAKE_ONE,
            NEXT_DUE,
            ABOUT,
            clock::READ,
            journal::LOAD,
            waits::LOAD,
            late_responses::LOAD,
            returned::PUT_BACK,
        ];
        self.connection.prepare(&texts).await
    }
}

/// Lets a run sleep on that was taken for nothing; it is due at once if something has woken it
/// since. False when the lease is another's.
pub async fn sleep_on(
    cell: SlotCell<'_>,
    run: RunId,
    epoch: i64,
    session: SessionId,
    (due_at, stage): (Option<Timestamp>, Stage),
    saw_cancel: bool,
) -> Result<bool, ReadError> {
    let stage = stage.as_str();
    let (runs, epochs) = ([*run.as_uuid()], [epoch]);
    let values: [&(dyn ToSql + Sync); 6] = [
        &runs.as_slice(),
        &epochs.as_slice(),
        session.as_uuid(),
        &due_at,
        &stage,
        &saw_cancel,
    ];
    let client = cell.reader().await?;
    Ok(client.execute(mistaken(SLEEP_ON), &values).await? == 1)
}
