//! The statements of a visit: what is read of the gates, and what is written back.

use jiff::Timestamp;
use semel_model::gate::{AdmissionState, GateEntry};
use semel_model::{GateId, RunId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// Locks the gates, in order. A missing gate is created, so that there is a row to lock.
pub(super) const HOLD: &str = "
    INSERT INTO gates AS g (id)
    SELECT t.id FROM unnest($1::uuid[]) AS t (id) ORDER BY t.id
        ON CONFLICT (id) DO UPDATE SET id = g.id
 RETURNING g.id, g.concurrency, g.rate, g.per_ms, g.running, g.granted, g.start_count";

/// The visitors' own entries.
pub(super) const OWN: &str = "
    SELECT k.gate_id, k.run_id, k.place::text, k.accepted_at, k.after_seq, k.related_run, k.ready_at,
           k.wake_since IS NOT NULL
      FROM unnest($1::uuid[], $2::uuid[]) AS t (gate_id, run_id)
      JOIN gate_entries k ON k.gate_id = t.gate_id AND k.run_id = t.run_id";

/// The first runs in line, as many as there may be room for and one more.
pub(super) const LINE: &str = "
    SELECT k.gate_id, k.run_id, k.place::text, k.accepted_at, k.after_seq, k.related_run, k.ready_at,
           k.wake_since IS NOT NULL
      FROM unnest($1::uuid[]) AS t (id)
      JOIN gates g ON g.id = t.id
     CROSS JOIN LATERAL (
           SELECT * FROM gate_entries
            WHERE gate_id = g.id AND place = 'waiting'
            ORDER BY accepted_at, run_id
            LIMIT least(coalesce(g.concurrency::int8, $2::int8), $2::int8) + 1) AS k";

/// One or two of the running entries; and those that are granted or debouncing.
pub(super) const OTHERS: &str = "
    SELECT k.gate_id, k.run_id, k.place::text, k.accepted_at, k.after_seq, k.related_run, k.ready_at,
           k.wake_since IS NOT NULL
      FROM unnest($1::uuid[]) AS t (id)
     CROSS JOIN (VALUES ('running'::gate_place, 2), ('granted', 64), ('debouncing', 64)) AS p (place, most)
     CROSS JOIN LATERAL (
           SELECT * FROM gate_entries
            WHERE gate_id = t.id AND place = p.place
            ORDER BY accepted_at, run_id
            LIMIT p.most) AS k";

/// Runs that joined a run that leaves, and were not woken yet.
pub(super) const JOINED: &str = "
    SELECT k.gate_id, k.run_id, k.place::text, k.accepted_at, k.after_seq, k.related_run, k.ready_at,
           k.wake_since IS NOT NULL
      FROM unnest($1::uuid[], $2::uuid[]) AS t (gate_id, run_id)
     CROSS JOIN LATERAL (
           SELECT * FROM gate_entries
            WHERE gate_id = t.gate_id AND place = 'joining' AND related_run = t.run_id
              AND wake_since IS NULL
            LIMIT $3) AS k";

/// The starts that the next ones keep their distance from: as far back as the rate counts.
pub(super) const PAST: &str = "
    SELECT s.gate_id, (s.number - t.first)::int4, s.at
      FROM unnest($1::uuid[], $2::int8[], $3::int8[]) AS t (gate_id, first, past)
      JOIN gate_starts s ON s.gate_id = t.gate_id AND s.number >= t.first AND s.number < t.past";

pub(super) const PUT: &str = "
    INSERT INTO gate_entries AS k (gate_id, run_id, place, accepted_at, after_seq, related_run, ready_at,
                              wake_since)
    SELECT t.gate_id, t.run_id, t.place::gate_place, t.accepted_at, t.after_seq, t.related_run, t.ready_at,
           CASE WHEN t.summoned THEN greatest((SELECT moment()), t.ready_at) END
      FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::timestamptz[], $5::int4[],
                  $6::uuid[], $7::timestamptz[], $8::bool[])
        AS t (gate_id, run_id, place, accepted_at, after_seq, related_run, ready_at, summoned)
        ON CONFLICT (gate_id, run_id) DO UPDATE
       SET place = EXCLUDED.place, after_seq = EXCLUDED.after_seq, related_run = EXCLUDED.related_run, ready_at = EXCLUDED.ready_at,
           wake_since = EXCLUDED.wake_since";

pub(super) const REMOVE: &str = "
    DELETE FROM gate_entries k
     USING unnest($1::uuid[], $2::uuid[]) AS t (gate_id, run_id)
     WHERE k.gate_id = t.gate_id AND k.run_id = t.run_id";

pub(super) const KEEP: &str = "
    UPDATE gates g
       SET concurrency = t.concurrency, rate = t.rate, per_ms = t.per_ms, running = t.running,
           granted = t.granted, start_count = t.start_count,
           idle_at = CASE WHEN t.starts
                          THEN (SELECT moment()) + make_interval(secs => t.per_ms / 1e3::float8)
                          ELSE g.idle_at END
      FROM unnest($1::uuid[], $2::int4[], $3::int4[], $4::int8[], $5::int4[], $6::int4[],
                  $7::int8[], $8::bool[])
        AS t (id, concurrency, rate, per_ms, running, granted, start_count, starts)
     WHERE g.id = t.id";

/// A gate whose starts count is kept until they no longer do.
pub(super) const CLOSE: &str = "
    DELETE FROM gates WHERE id = ANY ($1) AND idle_at IS NULL";

pub(super) const START: &str = "
    INSERT INTO gate_starts (gate_id, number, at)
    SELECT t.gate_id, t.number, t.at
      FROM unnest($1::uuid[], $2::int8[], $3::timestamptz[]) AS t (gate_id, number, at)
        ON CONFLICT (gate_id, number) DO NOTHING";

/// Starts that no longer hold back another start.
pub(super) const PASS: &str = "
    DELETE FROM gate_starts s
     USING unnest($1::uuid[], $2::int8[]) AS t (gate_id, before)
     WHERE s.gate_id = t.gate_id AND s.number < t.before";

pub(super) const ALL: &[&str] = &[
    crate::clock::READ,
    HOLD,
    OWN,
    LINE,
    OTHERS,
    JOINED,
    PAST,
    PUT,
    REMOVE,
    KEEP,
    CLOSE,
    START,
    PASS,
];

/// Entries that changed, by column.
#[derive(Default)]
pub(super) struct GateEntryRows {
    gates: Vec<Uuid>,
    runs: Vec<Uuid>,
    places: Vec<&'static str>,
    accepted: Vec<Timestamp>,
    since: Vec<i32>,
    behind: Vec<Option<Uuid>>,
    ready: Vec<Option<Timestamp>>,
    summoned: Vec<bool>,
}

impl GateEntryRows {
    pub(super) fn push(&mut self, gate: GateId, ticket: &GateEntry) {
        self.gates.push(*gate.as_uuid());
        self.runs.push(*ticket.run.as_uuid());
        self.places.push(ticket.place.as_str());
        self.accepted.push(ticket.accepted_at);
        self.since.push(ticket.after_seq);
        self.behind
            .push(ticket.related_run.map(|run| *run.as_uuid()));
        self.ready.push(ticket.ready_at);
        self.summoned.push(ticket.needs_wake_up);
    }

    pub(super) fn values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.gates.is_empty()).then(|| {
            vec![
                &self.gates as &(dyn ToSql + Sync),
                &self.runs,
                &self.places,
                &self.accepted,
                &self.since,
                &self.behind,
                &self.ready,
                &self.summoned,
            ]
        })
    }
}

/// Pairs of gate and run.
#[derive(Default)]
pub(super) struct Pairs {
    pub(super) gates: Vec<Uuid>,
    pub(super) runs: Vec<Uuid>,
}

impl Pairs {
    pub(super) fn push(&mut self, gate: GateId, run: RunId) {
        self.gates.push(*gate.as_uuid());
        self.runs.push(*run.as_uuid());
    }

    pub(super) fn values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.gates.is_empty()).then(|| vec![&self.gates as &(dyn ToSql + Sync), &self.runs])
    }
}

/// Gates with at least one run, by column.
#[derive(Default)]
pub(super) struct Gates {
    ids: Vec<Uuid>,
    concurrency: Vec<Option<i32>>,
    rates: Vec<Option<i32>>,
    pers: Vec<Option<i64>>,
    inside: Vec<i32>,
    called: Vec<i32>,
    started: Vec<i64>,
    starts: Vec<bool>,
}

impl Gates {
    pub(super) fn push(&mut self, gate: GateId, book: &AdmissionState) {
        let whole = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        self.ids.push(*gate.as_uuid());
        self.concurrency.push(book.concurrency.map(whole));
        self.rates.push(book.rate.map(|rate| whole(rate.most)));
        let per = |millis: u64| i64::try_from(millis).unwrap_or(i64::MAX);
        self.pers
            .push(book.rate.map(|rate| per(rate.per.as_millis())));
        self.inside.push(whole(book.running));
        self.called.push(whole(book.granted));
        self.started.push(book.free_starts.started);
        self.starts.push(book.new_starts > 0);
    }

    pub(super) fn values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.ids.is_empty()).then(|| {
            vec![
                &self.ids as &(dyn ToSql + Sync),
                &self.concurrency,
                &self.rates,
                &self.pers,
                &self.inside,
                &self.called,
                &self.started,
                &self.starts,
            ]
        })
    }
}

/// Starts that happened, and how far back they count, by column.
#[derive(Default)]
pub(super) struct GateStartRows {
    gates: Vec<Uuid>,
    numbers: Vec<i64>,
    at: Vec<Timestamp>,
    counted: Vec<Uuid>,
    before: Vec<i64>,
}

impl GateStartRows {
    pub(super) fn push(&mut self, gate: GateId, book: &AdmissionState, now: Timestamp) {
        let Some(rate) = book.rate.filter(|_| book.new_starts > 0) else {
            return;
        };
        let first = book.free_starts.started - i64::from(book.new_starts);
        for number in first..book.free_starts.started {
            self.gates.push(*gate.as_uuid());
            self.numbers.push(number);
            self.at.push(now);
        }
        self.counted.push(*gate.as_uuid());
        self.before
            .push(book.free_starts.started - i64::from(rate.most));
    }

    pub(super) fn values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.gates.is_empty())
            .then(|| vec![&self.gates as &(dyn ToSql + Sync), &self.numbers, &self.at])
    }

    pub(super) fn passed(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.counted.is_empty()).then(|| vec![&self.counted as &(dyn ToSql + Sync), &self.before])
    }
}
