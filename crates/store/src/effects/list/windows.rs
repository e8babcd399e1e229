//! How a page of the ledger is read: by windows of time, or by the runs of the namespace.

use jiff::{SignedDuration, Timestamp};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::FEW_RUNS;
use crate::cell::ReadError;
use crate::listed::{NEWEST, Position};

/// How far back each window reaches, in seconds; behind the last, to the beginning.
const WINDOWS_SECS: [i64; 4] = [2, 120, 7_200, 432_000];

/// How many effects of all namespaces the windows of one page may have, about: so many are in a
/// thousand blocks or less.
const LOOK_MAX: f64 = 20_000.0;

/// A ledger whose windows would reach further back than this is read to its beginning.
const LEDGER_SECS_MAX: f64 = 90.0 * 86_400.0;

/// The time, how many effects a second has in the month of a position, as far as statistics say, how
/// many runs the namespace has, one more than a few at most, and when its first was accepted: no effect
/// is older. Where a month is split into days, its statistics are those of the day and of the day before.
pub(super) const DENSITY: &str = "
    SELECT p.now,
           (SELECT coalesce(max(greatest(c.reltuples, 0)::float8
                                / greatest(extract(epoch FROM least(p.now, u.since + u.length) - u.since), 1)::float8), 0)
              FROM (SELECT f.format, f.length, date_trunc(f.unit, least(p.now, $1), 'UTC') - f.back AS since
                      FROM (VALUES ('month', '_YYYY_MM', interval '1 month', interval '0'),
                                   ('day', '_YYYY_MM_DD', interval '1 day', interval '0'),
                                   ('day', '_YYYY_MM_DD', interval '1 day', interval '1 day'))
                           AS f (unit, format, length, back)) AS u
              JOIN pg_class c ON c.oid = to_regclass('effects' || to_char(u.since AT TIME ZONE 'UTC', u.format))),
           (SELECT count(*) FROM (SELECT 1 FROM runs r WHERE r.namespace_id = $2 AND r.parent_id IS NULL
                                   ORDER BY r.accepted_at DESC, r.id DESC LIMIT $3::int8 + 1) AS few),
           (SELECT r.accepted_at FROM runs r WHERE r.namespace_id = $2 AND r.parent_id IS NULL
             ORDER BY r.accepted_at, r.id LIMIT 1)
      FROM (SELECT moment() AS now) AS p";

/// How a page of a namespace is read.
pub(super) enum Way {
    /// By its runs, which are few.
    Runs,
    /// By windows of time.
    Windows(Windows),
}

/// Windows of time before a position, each from its beginning to its end.
pub(super) struct Windows {
    pub(super) all: Vec<(Timestamp, Position)>,
    /// Where they end, if that is not the beginning of the ledger.
    pub(super) end: Option<Position>,
}

impl Way {
    pub(super) async fn choose(
        client: &tokio_postgres::Client,
        namespace_id: i32,
        before: Option<Position>,
    ) -> Result<Self, ReadError> {
        let (at, _) = before.unwrap_or(NEWEST);
        let values: [&(dyn ToSql + Sync); 3] = [&at, &namespace_id, &FEW_RUNS];
        let row = client.query_one(DENSITY, &values).await?;
        let (now, density, runs): (Timestamp, f64, i64) = (row.get(0), row.get(1), row.get(2));
        let reach_secs = LOOK_MAX / density.max(f64::MIN_POSITIVE);
        let is_cut = reach_secs < LEDGER_SECS_MAX;
        if is_cut && runs <= FEW_RUNS {
            return Ok(Self::Runs);
        }
        // What is asked for from the future on begins now.
        let from = before.map_or(now, |(at, _)| at.min(now));
        let end = before.unwrap_or(NEWEST);
        let first: Option<Timestamp> = row.get(3);
        Ok(Self::Windows(match first.filter(|_| is_cut) {
            Some(first) => Windows::within(from, end, reach_secs, first),
            None => Windows::to_the_beginning(from, end),
        }))
    }
}

impl Windows {
    fn to_the_beginning(from: Timestamp, end: Position) -> Self {
        let mut windows = Self::of(from, end, WINDOWS_SECS.to_vec());
        let end = windows.end.take().unwrap_or(end);
        windows.all.push((Timestamp::UNIX_EPOCH, end));
        windows
    }

    /// No further back than so many seconds, which is at least a second. Behind `first` there is nothing.
    fn within(from: Timestamp, end: Position, secs: f64, first: Timestamp) -> Self {
        let most = (secs as i64).max(1);
        let shorter = WINDOWS_SECS.into_iter().filter(|secs| *secs < most);
        let mut windows = Self::of(from, end, shorter.chain([most]).collect());
        windows.end = windows.end.filter(|(start, _)| *start > first);
        windows
    }

    fn of(from: Timestamp, mut end: Position, reaches: Vec<i64>) -> Self {
        let mut all = Vec::with_capacity(reaches.len() + 1);
        for secs in reaches {
            let Ok(start) = from.checked_sub(SignedDuration::from_secs(secs)) else {
                continue;
            };
            all.push((start, end));
            // What began at the instant itself is in the window that was read.
            end = (start, Uuid::nil());
        }
        Self {
            all,
            end: Some(end),
        }
    }
}
