//! The statements that accept.

use std::sync::OnceLock;

use semel_model::SeededBug;

use crate::clock::PRESENT;
use crate::writer::rows::of_one_row;

/// Claims what is free, and makes run, queue entry, first journal row and first entry of the
/// ledger of each fresh claim: one statement, one commit.
///
/// `IS TRUE` keeps the look-up a hashed one: as a join it would be nested, for want of any other
/// kind in a writer's session.
const ACCEPT: &str = ",
    arrived AS MATERIALIZED (
        SELECT *
          FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::float8[], $5::int4[], $6::int4[],
                      $7::bytea[], $8::uuid[], $9::uuid[], $10::text[]{columns})
            AS t (claim_id, run_id, fingerprint, keep_secs, namespace_id, release_id, key,
                  delivery_id, holder, events{names})),{leased}
    claimed AS ({claimed}),
    fresh AS MATERIALIZED (
        SELECT t.*, p.now, (p.now AT TIME ZONE 'UTC')::date AS partition_date
          FROM arrived t, present p
         WHERE (t.claim_id IN (SELECT id FROM claimed)) IS TRUE),
    made AS (
        INSERT INTO runs (id, claim_id, namespace_id, release_id, key, delivery_id, accepted_at,
                          partition_date)
        SELECT run_id, claim_id, namespace_id, release_id, key, delivery_id, now, partition_date
          FROM fresh),
    queued AS (
        INSERT INTO queue (run_id, due_at, holder, epoch, seq, partition_date, namespace_id)
        SELECT run_id, now, holder, 1, 1, partition_date, namespace_id FROM fresh),
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT partition_date, run_id, 1, 1, now, events::json FROM fresh){entered}
    SELECT (SELECT now FROM present), ARRAY(SELECT id FROM claimed){decided}";

const CLAIMED: &str = "
        INSERT INTO claims (id, run_id, fingerprint, expires_at)
        SELECT t.claim_id, t.run_id, t.fingerprint,
               date_trunc('minute', p.now + make_interval(secs => t.keep_secs + 60))
          FROM arrived t, present p
            ON CONFLICT (id) DO NOTHING
     RETURNING id";

// Crosses slots (V5): the lease of a schedule is compared in the commit that accepts its instant, and the schedule is in
// another slot. With a second cell, the instant's cell keeps the token of the latest take.

/// The instants whose session still has the lease of their schedule. The schedule's row stays locked until the
/// commit: a session that takes the schedule later finds the run, and if one took it before, the instant is not here.
const LEASED: &str = "
    leased AS MATERIALIZED (
        SELECT t.claim_id
          FROM arrived t
         CROSS JOIN LATERAL (
               SELECT s.id
                 FROM schedules s
                WHERE s.id = t.schedule_id AND s.holder = t.leased_by
                  AND s.leased_until = t.leased_until
                  FOR SHARE) held),";

/// The same as `CLAIMED`, for instants of schedules.
const CLAIMED_UNDER_LEASE: &str = "
        INSERT INTO claims (id, run_id, fingerprint, expires_at)
        SELECT t.claim_id, t.run_id, t.fingerprint,
               date_trunc('minute', p.now + make_interval(secs => t.keep_secs + 60))
          FROM arrived t, present p
         WHERE (t.claim_id IN (SELECT claim_id FROM leased)) IS TRUE
            ON CONFLICT (id) DO NOTHING
     RETURNING id";

/// The next run of keys that are free. Of two who found the same key free, the second waits for the
/// first and then finds it held.
const TAKEN_OVER: &str = "
        UPDATE claims c
           SET run_id = t.run_id, run_number = t.run_number, fingerprint = t.fingerprint, dropped_at = NULL,
               intent = nullif(t.intent, 0),
               expires_at = date_trunc('minute', p.now + make_interval(secs => t.keep_secs + 60))
          FROM arrived t, present p
         WHERE c.id = t.claim_id AND c.expires_at IS NULL
           AND coalesce(c.run_number, 0) = t.run_number - 1
     RETURNING c.id";

/// The first effects of runs whose first move is written with their claim.
const ENTERED: &str = ",
    entered AS (
        INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt,
                             intended_at)
        SELECT partition_date, effect_id, run_id, namespace_id, step, kind, guard::effect_guard, 'pending', 1, now
          FROM fresh
         WHERE effect_id IS NOT NULL)";

/// Refuses the batch where a first effect would be written that was decided under another version of
/// what is paused.
const DECIDED: &str = ",
           all_or_nothing((SELECT count(*) FROM fresh t, present p
                            WHERE t.pause_version <> p.pause_version), 0)";

/// How a batch claims its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimMode {
    /// For the first time.
    First,
    /// For the first time, and some bring a first effect.
    FirstWithEffects,
    /// After they were freed.
    Again,
    /// For the first time, each under the lease of the schedule that named it; some may bring a first effect.
    UnderLease,
}

/// The statement of a kind of batch, or of one delivery.
pub(super) fn accept_text(kind: ClaimMode, one_row: bool) -> &'static str {
    static TEXTS: [OnceLock<String>; 8] = [const { OnceLock::new() }; 8];
    TEXTS[kind as usize * 2 + usize::from(one_row)].get_or_init(|| {
        let compared = || SeededBug::PauseNotCompared.in_text(DECIDED, "<>", "IS NULL AND NULL =");
        let (columns, names, claimed, entered, decided) = match kind {
            ClaimMode::First => ("", "", CLAIMED, "", ""),
            ClaimMode::FirstWithEffects => (
                ", $11::uuid[], $12::text[], $13::text[], $14::text[], $15::int8[]",
                ", effect_id, step, kind, guard, pause_version",
                CLAIMED,
                ENTERED,
                compared(),
            ),
            ClaimMode::Again => (
                ", $11::int4[], $12::int4[]",
                ", run_number, intent",
                TAKEN_OVER,
                "",
                "",
            ),
            ClaimMode::UnderLease => (
                ", $11::uuid[], $12::text[], $13::text[], $14::text[], $15::int8[], $16::uuid[], \
                 $17::uuid[], $18::timestamptz[]",
                ", effect_id, step, kind, guard, pause_version, schedule_id, leased_by, \
                 leased_until",
                CLAIMED_UNDER_LEASE,
                ENTERED,
                compared(),
            ),
        };
        let leased = match kind {
            ClaimMode::First | ClaimMode::FirstWithEffects | ClaimMode::Again => "",
            ClaimMode::UnderLease => LEASED,
        };
        let text = ACCEPT
            .replace("{columns}", columns)
            .replace("{names}", names)
            .replace("{leased}", leased)
            .replace("{claimed}", claimed)
            .replace("{entered}", entered)
            .replace("{decided}", decided);
        let text = format!("/* commits alone: accept */{PRESENT}{text}");
        match one_row {
            true => of_one_row(&text),
            false => text,
        }
    })
}

/// The statements that accept, for the test that prepares them.
pub(crate) fn examples() -> [&'static str; 8] {
    [
        (ClaimMode::First, false),
        (ClaimMode::FirstWithEffects, false),
        (ClaimMode::Again, false),
        (ClaimMode::UnderLease, false),
        (ClaimMode::First, true),
        (ClaimMode::FirstWithEffects, true),
        (ClaimMode::Again, true),
        (ClaimMode::UnderLease, true),
    ]
    .map(|(kind, one_row)| accept_text(kind, one_row))
}
