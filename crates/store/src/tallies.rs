//! The `tallies` table: how much of what happened, by minute and by hour.
//!
//! Counting rows costs a scan, so nothing counts them. Each server counts in memory what it does, and
//! adds that here every few seconds; a run writes nothing for it. A server that is killed loses what it
//! counted since, so the figures are approximate. The ledger is exact.

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::cell::{HomeCell, ReadError};

/// By minute and by hour at once, so that a day is read from a few rows; what is counted by step, by hour
/// alone. In one order, so that two servers that add at the same time do not wait for each other.
const ADD: &str = "
    INSERT INTO tallies AS t (namespace_id, is_hour, minute, flow_id, step, what, count)
    SELECT a.namespace_id, s.is_hour, date_trunc(s.unit, p.now, 'UTC'), a.flow_id, a.step, a.what::tally_kind,
           a.count
      FROM (SELECT moment() AS now) AS p,
           (VALUES (false, 'minute'), (true, 'hour')) AS s (is_hour, unit),
           unnest($1::int4[], $2::int4[], $3::text[], $4::text[], $5::int8[])
             AS a (namespace_id, flow_id, step, what, count)
     WHERE s.is_hour OR a.step = ''
     ORDER BY 1, 2, 3, 4, 5, 6
        ON CONFLICT (namespace_id, is_hour, minute, flow_id, step, what) DO UPDATE
       SET count = t.count + EXCLUDED.count";

/// From the first whole minute or hour of a stretch of time that ends now. One row says when that was,
/// also where nothing happened.
macro_rules! summed {
    ($condition:literal) => {
        concat!(
            "
    SELECT s.since, f.name, t.what::text, t.count
      FROM (SELECT date_trunc($3, moment() - make_interval(secs => $4), 'UTC') AS since) AS s
      LEFT JOIN (LATERAL (SELECT flow_id, what, sum(count)::int8 AS count
                            FROM tallies
                           WHERE namespace_id = $1 AND is_hour = $2 AND minute >= s.since AND step = ''",
            $condition,
            "
                           GROUP BY flow_id, what) AS t
                 JOIN flows f ON f.id = t.flow_id) ON true
     ORDER BY f.name, t.what"
        )
    };
}

const SUM: &str = summed!("");
const SUM_OF_FLOW: &str = summed!(
    "
                             AND flow_id = (SELECT id FROM flows WHERE namespace_id = $1 AND name = $5)"
);

/// Attempts by step, of one flow, in the latest whole hours.
const SUM_OF_STEPS: &str = "
    SELECT s.since, t.step, t.what::text, t.count
      FROM (SELECT date_trunc('hour', moment() - make_interval(secs => $3), 'UTC') AS since) AS s
      LEFT JOIN LATERAL (SELECT step, what, sum(count)::int8 AS count
                           FROM tallies
                          WHERE namespace_id = $1 AND is_hour AND minute >= s.since AND step <> ''
                            AND flow_id = (SELECT id FROM flows WHERE namespace_id = $1 AND name = $2)
                          GROUP BY step, what) AS t ON true
     ORDER BY t.step, t.what";

/// Everything stretch by stretch, of all flows together: so many of them that the last, which is not over, ends a
/// time of this length. The rows of steps, of which there are many more, are in another index.
macro_rules! series {
    ($unit:literal, $condition:literal) => {
        concat!(
            "
    SELECT s.since, t.at, t.what::text, t.count
      FROM (SELECT date_bin(e.every, moment() - make_interval(secs => $2), TIMESTAMPTZ 'epoch') + e.every AS since, e.every
              FROM (SELECT make_interval(secs => $3) AS every) AS e) AS s
      LEFT JOIN LATERAL (SELECT date_bin(s.every, minute, TIMESTAMPTZ 'epoch') AS at, what, sum(count)::int8 AS count
                           FROM tallies
                          WHERE namespace_id = $1 AND minute >= s.since AND step = '' AND ",
            $unit,
            $condition,
            "
                          GROUP BY 1, what) AS t ON true
     ORDER BY t.at, t.what"
        )
    };
}

const BY_MINUTE: &str = series!("NOT is_hour", "");
const BY_MINUTE_OF_FLOW: &str = series!(
    "NOT is_hour",
    "
                            AND flow_id = (SELECT id FROM flows WHERE namespace_id = $1 AND name = $4)"
);
const BY_HOUR: &str = series!("is_hour", "");
const BY_HOUR_OF_FLOW: &str = series!(
    "is_hour",
    "
                            AND flow_id = (SELECT id FROM flows WHERE namespace_id = $1 AND name = $4)"
);

const FORGET: &str = "
    DELETE FROM tallies
     WHERE (namespace_id, is_hour, minute, flow_id, step, what) IN
           (SELECT namespace_id, is_hour, minute, flow_id, step, what FROM tallies
             WHERE is_hour = $1 AND minute < (SELECT moment()) - make_interval(hours => $2)
             ORDER BY minute LIMIT $3 FOR UPDATE SKIP LOCKED)";

pub(crate) const STATEMENTS: &[&str] = &[
    ADD,
    SUM,
    SUM_OF_FLOW,
    SUM_OF_STEPS,
    BY_MINUTE,
    BY_MINUTE_OF_FLOW,
    BY_HOUR,
    BY_HOUR_OF_FLOW,
    FORGET,
];

/// For how long there are minutes, and for how long hours, in hours.
const MINUTES_KEPT_HOURS: i32 = 48;
const HOURS_KEPT_HOURS: i32 = 90 * 24;

/// The longest stretch that is summed by the minute, in seconds.
const BY_MINUTE_SECS_MAX: u64 = 2 * 3_600;

/// How long the stretches of a series are, by the longest time that each is for, in seconds: about sixty of
/// them are a picture that can be read.
const STRETCHES: [(u64, u64); 3] = [
    (BY_MINUTE_SECS_MAX, MINUTE_SECS),
    (2 * DAY_SECS, HOUR_SECS),
    (7 * DAY_SECS, 3 * HOUR_SECS),
];

const MINUTE_SECS: u64 = 60;
const HOUR_SECS: u64 = 3_600;
const DAY_SECS: u64 = 24 * HOUR_SECS;

/// The most rows that one statement removes.
const FORGET_MAX: i64 = 5_000;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TallyKind {
    /// A delivery that made a run.
    Accepted,
    /// A repeat of a delivery, which made none.
    Repeat,
    /// A known key with another payload.
    Mismatch,
    /// A delivery that was older than what was accepted of its object.
    Stale,
    /// A run that succeeded.
    Succeeded,
    /// A run that failed.
    Failed,
    /// A run that was cancelled.
    Cancelled,
    /// A run that another one took the place of.
    Superseded,
    /// A run that stopped until an operator acts.
    Stopped,
    /// An effect that happened.
    EffectDone,
    /// An attempt at an effect that is known not to have happened.
    EffectFailed,
    /// An attempt at an effect that may have happened.
    EffectDoubted,
}

impl TallyKind {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Repeat => "repeat",
            Self::Mismatch => "mismatch",
            Self::Stale => "stale",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Superseded => "superseded",
            Self::Stopped => "stopped",
            Self::EffectDone => "effect_done",
            Self::EffectFailed => "effect_failed",
            Self::EffectDoubted => "effect_doubted",
        }
    }
}

/// So much of something, of one flow or of one of its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TallyRow {
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// The flow.
    pub flow_id: i32,
    /// The step; empty where the whole flow is meant.
    pub step: String,
    /// What.
    pub what: TallyKind,
    /// How much.
    pub count: i64,
}

/// The sum of something, of one flow or of one of its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TallySum {
    /// The flow.
    pub flow: String,
    /// The step; none where the whole flow is meant.
    pub step: Option<String>,
    /// What, as a word.
    pub what: String,
    /// How much.
    pub count: i64,
}

/// Sums of one stretch of time after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesSums {
    /// When the first stretch began.
    pub since: Timestamp,
    /// How long each is, in seconds.
    pub every_secs: u64,
    /// The sums, the earliest first.
    pub sums: Vec<StretchSum>,
}

/// The sum of something in one stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StretchSum {
    /// When the stretch began.
    pub at: Timestamp,
    /// What, as a word.
    pub what: String,
    /// How much.
    pub count: i64,
}

/// Adds what a server counted.
pub async fn add(cell: HomeCell<'_>, rows: &[TallyRow]) -> Result<(), ReadError> {
    let namespaces: Vec<i32> = rows.iter().map(|row| row.namespace_id).collect();
    let flows: Vec<i32> = rows.iter().map(|row| row.flow_id).collect();
    let steps: Vec<&str> = rows.iter().map(|row| row.step.as_str()).collect();
    let words: Vec<&str> = rows.iter().map(|row| row.what.as_str()).collect();
    let counts: Vec<i64> = rows.iter().map(|row| row.count).collect();
    let values: [&(dyn ToSql + Sync); 5] = [&namespaces, &flows, &steps, &words, &counts];
    cell.reader().await?.execute(ADD, &values).await?;
    Ok(())
}

/// Sums what happened in the last so many seconds, of a flow where one is named. Also returns from when
/// on it counts: a whole minute, or a whole hour where the stretch is long.
pub async fn sum(
    cell: HomeCell<'_>,
    namespace_id: i32,
    secs: u64,
    flow: Option<&str>,
) -> Result<(Timestamp, Vec<TallySum>), ReadError> {
    let is_hour = secs > BY_MINUTE_SECS_MAX;
    let unit = if is_hour { "hour" } else { "minute" };
    let client = cell.reader().await?;
    let back = secs as f64;
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &is_hour, &unit, &back];
    let text = match &flow {
        Some(flow) => {
            values.push(flow);
            SUM_OF_FLOW
        }
        None => SUM,
    };
    let rows = client.query(text, &values).await?;
    let since = rows.first().map_or(Timestamp::UNIX_EPOCH, |row| row.get(0));
    let read = |row: &Row| {
        Some(TallySum {
            flow: row.get::<_, Option<String>>(1)?,
            step: None,
            what: row.get(2),
            count: row.get(3),
        })
    };
    Ok((since, rows.iter().filter_map(read).collect()))
}

/// Sums the attempts at each step of a flow in the last so many seconds. Also returns from which whole hour
/// on it counts.
pub async fn sum_of_steps(
    cell: HomeCell<'_>,
    namespace_id: i32,
    flow: &str,
    secs: u64,
) -> Result<(Timestamp, Vec<TallySum>), ReadError> {
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 3] = [&namespace_id, &flow, &(secs as f64)];
    let rows = client.query(SUM_OF_STEPS, &values).await?;
    let since = rows.first().map_or(Timestamp::UNIX_EPOCH, |row| row.get(0));
    let read = |row: &Row| {
        Some(TallySum {
            flow: flow.to_owned(),
            step: Some(row.get::<_, Option<String>>(1)?),
            what: row.get(2),
            count: row.get(3),
        })
    };
    Ok((since, rows.iter().filter_map(read).collect()))
}

/// Sums what happened in each stretch of the last so many seconds, the one that is not over included, of a flow
/// where one is named. The longer the time, the longer its stretches.
pub async fn sum_series(
    cell: HomeCell<'_>,
    namespace_id: i32,
    secs: u64,
    flow: Option<&str>,
) -> Result<SeriesSums, ReadError> {
    let fits = STRETCHES.iter().find(|(most, _)| secs <= *most);
    let every_secs = fits.map_or(DAY_SECS, |(_, every)| *every);
    let client = cell.reader().await?;
    let (back, every) = (secs as f64, every_secs as f64);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &back, &every];
    values.extend(flow.iter().map(|flow| flow as &(dyn ToSql + Sync)));
    let text = match (every_secs < HOUR_SECS, flow.is_some()) {
        (true, false) => BY_MINUTE,
        (true, true) => BY_MINUTE_OF_FLOW,
        (false, false) => BY_HOUR,
        (false, true) => BY_HOUR_OF_FLOW,
    };
    let rows = client.query(text, &values).await?;
    let since = rows.first().map_or(Timestamp::UNIX_EPOCH, |row| row.get(0));
    let read = |row: &Row| {
        Some(StretchSum {
            at: row.get::<_, Option<Timestamp>>(1)?,
            what: row.get(2),
            count: row.get(3),
        })
    };
    Ok(SeriesSums {
        since,
        every_secs,
        sums: rows.iter().filter_map(read).collect(),
    })
}

/// Removes minutes after two days and hours after ninety. Returns how many rows there were, as far as
/// one statement goes.
pub async fn forget(cell: HomeCell<'_>) -> Result<u64, ReadError> {
    let client = cell.reader().await?;
    let minutes = client
        .execute(FORGET, &[&false, &MINUTES_KEPT_HOURS, &FORGET_MAX])
        .await?;
    let hours = client
        .execute(FORGET, &[&true, &HOURS_KEPT_HOURS, &FORGET_MAX])
        .await?;
    Ok(minutes + hours)
}
