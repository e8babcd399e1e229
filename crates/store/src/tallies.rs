//! The `tallies` table: how much of what happened, by minute, by hour and by day.
//!
//! Counting rows costs a scan, so nothing counts them. Each server counts in memory what it does, and
//! adds that here every few seconds; a run writes nothing for it. A server that is killed loses what it
//! counted since, so the figures are approximate. The ledger is exact.

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::cell::{HomeCell, ReadError};

/// By minute, hour and day at once, so that a month is read from a few rows; what is counted by step, by hour
/// alone. In one order, so that two servers that add at the same time do not wait for each other.
const ADD: &str = "
    INSERT INTO tallies AS t (namespace_id, unit, began_at, flow_id, step, what, count)
    SELECT a.namespace_id, s.unit, date_trunc(s.unit::text, p.now, 'UTC'), a.flow_id, a.step, a.what::tally_kind,
           a.count
      FROM (SELECT moment() AS now) AS p,
           unnest(enum_range(NULL::tally_unit)) AS s (unit),
           unnest($1::int4[], $2::int4[], $3::text[], $4::text[], $5::int8[])
             AS a (namespace_id, flow_id, step, what, count)
     WHERE s.unit = 'hour' OR a.step = ''
     ORDER BY 1, 2, 3, 4, 5, 6
        ON CONFLICT (namespace_id, unit, began_at, flow_id, step, what) DO UPDATE
       SET count = t.count + EXCLUDED.count";

/// What is of one flow, where one is named by this parameter.
macro_rules! of_flow {
    ($name:literal) => {
        concat!(
            "
                             AND flow_id = (SELECT id FROM flows WHERE namespace_id = $1 AND name = ",
            $name,
            ")"
        )
    };
}

/// From the first whole minute, hour or day of a interval that ends now. One row says when that was,
/// also where nothing happened.
macro_rules! summed {
    ($unit:literal, $condition:expr) => {
        concat!(
            "
    SELECT s.since, f.name, t.what::text, t.count
      FROM (SELECT date_trunc('",
            $unit,
            "', moment() - make_interval(secs => $2), 'UTC') AS since) AS s
      LEFT JOIN (LATERAL (SELECT flow_id, what, sum(count)::int8 AS count
                            FROM tallies
                           WHERE namespace_id = $1 AND began_at >= s.since AND step = '' AND unit = '",
            $unit,
            "'",
            $condition,
            "
                           GROUP BY flow_id, what) AS t
                 JOIN flows f ON f.id = t.flow_id) ON true
     ORDER BY f.name, t.what"
        )
    };
}

/// Attempts by step, of one flow, in the latest whole hours.
const SUM_OF_STEPS: &str = "
    SELECT s.since, t.step, t.what::text, t.count
      FROM (SELECT date_trunc('hour', moment() - make_interval(secs => $3), 'UTC') AS since) AS s
      LEFT JOIN LATERAL (SELECT step, what, sum(count)::int8 AS count
                           FROM tallies
                          WHERE namespace_id = $1 AND unit = 'hour' AND began_at >= s.since AND step <> ''
                            AND flow_id = (SELECT id FROM flows WHERE namespace_id = $1 AND name = $2)
                          GROUP BY step, what) AS t ON true
     ORDER BY t.step, t.what";

/// Everything interval by interval, of all flows together: so many of them that the last, which is not over, ends a
/// time of this length. The rows of steps, of which there are many more, are in another index.
macro_rules! series {
    ($unit:literal, $condition:expr) => {
        concat!(
            "
    SELECT s.since, t.at, t.what::text, t.count
      FROM (SELECT date_bin(e.every, moment() - make_interval(secs => $2), TIMESTAMPTZ 'epoch') + e.every AS since, e.every
              FROM (SELECT make_interval(secs => $3) AS every) AS e) AS s
      LEFT JOIN LATERAL (SELECT date_bin(s.every, began_at, TIMESTAMPTZ 'epoch') AS at, what, sum(count)::int8 AS count
                           FROM tallies
                          WHERE namespace_id = $1 AND began_at >= s.since AND step = '' AND unit = '",
            $unit,
            "'",
            $condition,
            "
                          GROUP BY 1, what) AS t ON true
     ORDER BY t.at, t.what"
        )
    };
}

/// Both ways to ask, of all flows and of one, by the unit of the rows that are read.
const SUM: [[&str; 2]; 3] = [
    [summed!("minute", ""), summed!("minute", of_flow!("$3"))],
    [summed!("hour", ""), summed!("hour", of_flow!("$3"))],
    [summed!("day", ""), summed!("day", of_flow!("$3"))],
];
const SERIES: [[&str; 2]; 3] = [
    [series!("minute", ""), series!("minute", of_flow!("$4"))],
    [series!("hour", ""), series!("hour", of_flow!("$4"))],
    [series!("day", ""), series!("day", of_flow!("$4"))],
];

const FORGET: &str = "
    DELETE FROM tallies
     WHERE (namespace_id, unit, began_at, flow_id, step, what) IN
           (SELECT namespace_id, unit, began_at, flow_id, step, what FROM tallies
             WHERE unit = $1::text::tally_unit AND began_at < (SELECT moment()) - make_interval(hours => $2)
             ORDER BY began_at LIMIT $3 FOR UPDATE SKIP LOCKED)";

pub(crate) const STATEMENTS: &[&str] = &[
    ADD,
    SUM[0][0],
    SUM[0][1],
    SUM[1][0],
    SUM[1][1],
    SUM[2][0],
    SUM[2][1],
    SUM_OF_STEPS,
    SERIES[0][0],
    SERIES[0][1],
    SERIES[1][0],
    SERIES[1][1],
    SERIES[2][0],
    SERIES[2][1],
    FORGET,
];

/// For how long there are rows of each unit, in hours: one unit longer than the longest time that is read from them,
/// which begins with a whole one.
const KEPT_HOURS: [(&str, i32); 3] = [("minute", 48), ("hour", 90 * 24 + 1), ("day", 91 * 24)];

/// The longest time that is read from the rows of minutes, and from those of hours.
const BY_MINUTE_SECS_MAX: u64 = 2 * HOUR_SECS;
const BY_HOUR_SECS_MAX: u64 = 7 * DAY_SECS;

/// How long the intervals of a series are, by the longest time that each is for, in seconds: about sixty of
/// them are a picture that can be read.
const INTERVALS: [(u64, u64); 3] = [
    (BY_MINUTE_SECS_MAX, MINUTE_SECS),
    (2 * DAY_SECS, HOUR_SECS),
    (BY_HOUR_SECS_MAX, 3 * HOUR_SECS),
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

/// Sums of one interval after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesSums {
    /// When the first interval began.
    pub since: Timestamp,
    /// How long each is, in seconds.
    pub every_secs: u64,
    /// The sums, the earliest first.
    pub sums: Vec<IntervalSum>,
}

/// The sum of something in one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntervalSum {
    /// When the interval began.
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

/// The rows that a time is read from, as the place of their statements, and the statement among those.
fn place(secs: u64, flow: Option<&str>) -> (usize, usize) {
    let unit = usize::from(secs > BY_MINUTE_SECS_MAX) + usize::from(secs > BY_HOUR_SECS_MAX);
    (unit, usize::from(flow.is_some()))
}

/// Sums what happened in the last so many seconds, of a flow where one is named. Also returns from when
/// on it counts: a whole minute, or a whole hour or day where the interval is long.
pub async fn sum(
    cell: HomeCell<'_>,
    namespace_id: i32,
    secs: u64,
    flow: Option<&str>,
) -> Result<(Timestamp, Vec<TallySum>), ReadError> {
    let (unit, way) = place(secs, flow);
    let client = cell.reader().await?;
    let back = secs as f64;
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &back];
    values.extend(flow.iter().map(|flow| flow as &(dyn ToSql + Sync)));
    let text = SUM[unit][way];
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

/// Sums what happened in each interval of the last so many seconds, the one that is not over included, of a flow
/// where one is named. The longer the time, the longer its intervals.
pub async fn sum_series(
    cell: HomeCell<'_>,
    namespace_id: i32,
    secs: u64,
    flow: Option<&str>,
) -> Result<SeriesSums, ReadError> {
    let fits = INTERVALS.iter().find(|(most, _)| secs <= *most);
    let every_secs = fits.map_or(DAY_SECS, |(_, every)| *every);
    let client = cell.reader().await?;
    let (back, every) = (secs as f64, every_secs as f64);
    let mut values: Vec<&(dyn ToSql + Sync)> = vec![&namespace_id, &back, &every];
    values.extend(flow.iter().map(|flow| flow as &(dyn ToSql + Sync)));
    let (unit, way) = place(secs, flow);
    let text = SERIES[unit][way];
    let rows = client.query(text, &values).await?;
    let since = rows.first().map_or(Timestamp::UNIX_EPOCH, |row| row.get(0));
    let read = |row: &Row| {
        Some(IntervalSum {
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

/// Removes minutes after two days, and hours and days after ninety. Returns how many rows there were, as far
/// as one statement for each goes.
pub async fn forget(cell: HomeCell<'_>) -> Result<u64, ReadError> {
    let client = cell.reader().await?;
    let mut removed = 0;
    for (unit, hours) in KEPT_HOURS {
        removed += client
            .execute(FORGET, &[&unit, &hours, &FORGET_MAX])
            .await?;
    }
    Ok(removed)
}
