//! Rows of schedules and ticks, in and out.

use jiff::Timestamp;
use semel_model::{RunId, ScheduleId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{Schedule, Tick, TickVerdict, TickView};

/// Ticks, by column.
#[derive(Default)]
pub(super) struct Rows<'a> {
    schedules: Vec<Uuid>,
    nominals: Vec<Timestamp>,
    verdicts: Vec<&'static str>,
    lasts: Vec<Timestamp>,
    instants: Vec<i64>,
    reasons: Vec<Option<&'a str>>,
    runs: Vec<Option<Uuid>>,
    by: Vec<Option<&'a str>>,
    at: Vec<Option<Timestamp>>,
}

impl<'a> Rows<'a> {
    /// Ticks with the time that they were decided by; the present, where there is none.
    pub(super) fn of(
        ticks: impl Iterator<Item = (ScheduleId, &'a Tick, Option<Timestamp>)>,
    ) -> Self {
        let mut rows = Self::default();
        for (id, tick, at) in ticks {
            let (verdict, reason, run, by) = match &tick.verdict {
                TickVerdict::Fired { run, by } => {
                    ("fired", None, Some(*run.as_uuid()), by.as_deref())
                }
                TickVerdict::Skipped { reason } => ("skipped", Some(reason.as_str()), None, None),
            };
            rows.schedules.push(*id.as_uuid());
            rows.nominals.push(tick.nominal);
            rows.verdicts.push(verdict);
            rows.lasts.push(tick.last);
            rows.instants.push(tick.instants);
            rows.reasons.push(reason);
            rows.runs.push(run);
            rows.by.push(by);
            rows.at.push(at);
        }
        rows
    }

    pub(super) fn values(&self) -> [&(dyn ToSql + Sync); 9] {
        [
            &self.schedules,
            &self.nominals,
            &self.verdicts,
            &self.lasts,
            &self.instants,
            &self.reasons,
            &self.runs,
            &self.by,
            &self.at,
        ]
    }
}

pub(super) fn read_schedule(row: &Row) -> Schedule {
    Schedule {
        id: ScheduleId::from_uuid(row.get(0)),
        namespace_id: row.get(1),
        flow: row.get(2),
        release_id: row.get(3),
        version: row.get(4),
        zones: row.get(5),
        decided_to: row.get(6),
        due_at: row.get(7),
        paused_at: row.get(8),
        paused_by: row.get(9),
        now: row.get(10),
        leased_until: None,
    }
}

/// Reads a schedule that was taken.
pub(super) fn read_taken(row: &Row) -> Schedule {
    Schedule {
        leased_until: row.get(11),
        ..read_schedule(row)
    }
}

/// Reads a tick whose columns begin at `from`.
pub(super) fn read_tick(row: &Row, from: usize) -> TickView {
    let run: Option<Uuid> = row.get(from + 5);
    let verdict = match run {
        Some(run) => TickVerdict::Fired {
            run: RunId::from_uuid(run),
            by: row.get(from + 6),
        },
        None => TickVerdict::Skipped {
            reason: row.get::<_, Option<String>>(from + 4).unwrap_or_default(),
        },
    };
    TickView {
        tick: Tick {
            nominal: row.get(from),
            last: row.get(from + 2),
            instants: row.get(from + 3),
            verdict,
        },
        decided_at: row.get(from + 7),
    }
}
