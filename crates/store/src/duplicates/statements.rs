//! The statements that record counts.

use crate::alerts::raise;

/// What was held stays held: an operator decides it, whatever the trigger says later. A decision about
/// deliveries that are only counted together is about those that had come: a further one waits for
/// another. How many came in the latest minute and in the one before it is kept beside the count.
macro_rules! tally {
    () => {
        "
    INSERT INTO duplicates AS d (subject, stopped_by, fingerprint, namespace_id, run_id, verdict, count,
                                 first_at, last_at, payload, arrival, flow, minute, minute_count)
    SELECT t.subject, t.stopped_by, t.fingerprint, t.namespace_id, t.run_id, t.verdict, t.count,
           t.first_at, t.last_at, t.payload::json, t.arrival::json, t.flow,
           date_trunc('minute', t.last_at), t.count
      FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::int4[], $5::uuid[], $6::text[],
                  $7::int8[], $8::timestamptz[], $9::timestamptz[], $10::text[], $11::text[],
                  $12::text[])
        AS t (subject, stopped_by, fingerprint, namespace_id, run_id, verdict, count, first_at, last_at,
              payload, arrival, flow)
     ORDER BY t.subject, t.stopped_by, t.fingerprint
        ON CONFLICT (subject, stopped_by, fingerprint) DO UPDATE
       SET count = d.count + EXCLUDED.count, run_id = EXCLUDED.run_id,
           verdict = CASE WHEN d.verdict = 'held' THEN d.verdict ELSE EXCLUDED.verdict END,
           arrival = coalesce(d.arrival, EXCLUDED.arrival),
           flow = coalesce(d.flow, EXCLUDED.flow),
           payload = coalesce(d.payload, EXCLUDED.payload),
           (decision, decided_at, decided_by, decided_run) = (
               SELECT d.decision, d.decided_at, d.decided_by, d.decided_run
                WHERE d.fingerprint <> '00000000-0000-0000-0000-000000000000' OR EXCLUDED.verdict <> 'held'),
           first_at = least(d.first_at, EXCLUDED.first_at),
           last_at = greatest(d.last_at, EXCLUDED.last_at),
           minute = greatest(d.minute, EXCLUDED.minute),
           minute_count = CASE WHEN EXCLUDED.minute = d.minute THEN d.minute_count + EXCLUDED.count
                               WHEN EXCLUDED.minute > d.minute THEN EXCLUDED.count
                               ELSE d.minute_count END,
           minute_before = CASE WHEN EXCLUDED.minute = d.minute THEN d.minute_before
                                WHEN EXCLUDED.minute = d.minute + interval '1 minute' THEN d.minute_count
                                WHEN EXCLUDED.minute > d.minute THEN 0
                                WHEN EXCLUDED.minute = d.minute - interval '1 minute'
                                THEN d.minute_before + EXCLUDED.count
                                ELSE d.minute_before END"
    };
}

pub(super) const TALLY: &str = tally!();

/// The same for counts among which some differ or are held: people may have to learn of those. What is
/// held counts when it begins to wait for a decision, however often it comes again: a new row, one that
/// was only counted before, or one that is open again after a decision.
pub(super) const TALLY_AND_RAISE: &str = concat!(
    "WITH before AS (
    SELECT d.subject, d.stopped_by, d.fingerprint, d.verdict <> 'held' OR d.decision IS NOT NULL AS at_rest
      FROM unnest($1::uuid[], $2::text[], $3::uuid[]) AS t (subject, stopped_by, fingerprint)
      JOIN duplicates d USING (subject, stopped_by, fingerprint)),
         tallied AS (",
    tally!(),
    "
 RETURNING d.subject, d.stopped_by, d.fingerprint, d.namespace_id, d.run_id, d.verdict, d.xmax = 0 AS fresh,
           d.decision IS NULL AS open)
    ",
    raise!(
        "SELECT k.namespace_id, k.verdict AS kind, coalesce(f.name, '') AS flow, '' AS connection,
               '' AS step, k.run_id, CASE WHEN k.verdict = 'held' THEN 1 ELSE t.count END AS count
          FROM tallied k
          JOIN unnest($1::uuid[], $2::text[], $3::uuid[], $7::int8[])
            AS t (subject, stopped_by, fingerprint, count)
         USING (subject, stopped_by, fingerprint)
          LEFT JOIN before b USING (subject, stopped_by, fingerprint)
          LEFT JOIN runs r ON r.id = k.run_id
          LEFT JOIN releases e ON e.id = r.release_id
          LEFT JOIN flows f ON f.id = e.flow_id
         WHERE k.verdict = 'mismatch' OR (k.verdict = 'held' AND k.open AND (k.fresh OR b.at_rest))"
    )
);

/// Which differing payloads of some subjects are kept already.
pub(super) const KNOWN: &str = "
    SELECT t.subject, t.stopped_by, d.fingerprint
      FROM unnest($1::uuid[], $2::text[]) AS t (subject, stopped_by)
     CROSS JOIN LATERAL (
               SELECT k.fingerprint
                 FROM duplicates k
                WHERE k.subject = t.subject AND k.stopped_by = t.stopped_by AND k.payload IS NOT NULL
                LIMIT $3) AS d";
