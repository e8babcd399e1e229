//! Taking fairly: namespaces that have due runs take turns.
//!
//! The index has the runs of each namespace by due time. A take steps from the first run of a
//! namespace to the first run of the next one, which costs one look into the index each, however many
//! runs they have. Those whose first run is due divide the room of the server by their weights, and
//! each gives its oldest runs. Where there is less room than there are namespaces, the next take begins
//! behind the namespace that was served last.
//!
//! A take costs one look into the index for each namespace with runs that no worker holds. Where there
//! is one namespace, it costs what it would cost without turns.

/// The first run of each namespace that no worker holds. A statement says what else is asked of it.
macro_rules! first_runs {
    ($also:literal) => {
        concat!(
            "
    WITH RECURSIVE firsts AS (
        (SELECT q.namespace_id, q.due_at
           FROM queue q
          WHERE q.holder IS NULL AND q.namespace_id >= 0",
            $also,
            "
          ORDER BY q.namespace_id, q.due_at
          LIMIT 1)
         UNION ALL
        SELECT n.namespace_id, n.due_at
          FROM firsts f
         CROSS JOIN LATERAL (SELECT q.namespace_id, q.due_at
                               FROM queue q
                              WHERE q.holder IS NULL AND q.namespace_id > f.namespace_id",
            $also,
            "
                              ORDER BY q.namespace_id, q.due_at
                              LIMIT 1) n)"
        )
    };
}

pub(super) use first_runs;

/// By the place of the row, not by its identity: the index of a million sleeping runs is deep. What
/// was taken twice without progress is left to `TAKE_SUSPECTS`.
pub(super) const TAKE: &str = concat!(
    "/* commits alone: take */",
    first_runs!(""),
    ",
    present AS MATERIALIZED (SELECT moment() AS now),
    open AS MATERIALIZED (
        SELECT f.namespace_id, coalesce(x.weight, 1) AS weight, coalesce(x.room, $2) AS room
          FROM firsts f
          LEFT JOIN unnest($4::int4[], $5::int4[], $6::int8[]) AS x (namespace_id, weight, room)
            ON x.namespace_id = f.namespace_id
         WHERE f.due_at <= (SELECT now FROM present) AND coalesce(x.room, 1) > 0
           AND EXISTS (SELECT 1 FROM sessions
                        WHERE id = $1 AND lost_at IS NULL AND expires_at > (SELECT now FROM present))),
    shares AS MATERIALIZED (
        SELECT namespace_id,
               least(room, ceil($2::float8 * weight / sum(weight) OVER ())::int8) AS share
          FROM open
         ORDER BY namespace_id <= $3, namespace_id),
    due AS (
        SELECT t.place
          FROM shares s
         CROSS JOIN LATERAL (SELECT q.ctid AS place
                               FROM queue q
                              WHERE q.holder IS NULL AND q.namespace_id = s.namespace_id
                                AND q.due_at <= (SELECT now FROM present) AND q.stalled_takes < 2
                              ORDER BY q.due_at
                              LIMIT s.share
                                FOR UPDATE OF q SKIP LOCKED) t
         LIMIT $2)
    UPDATE queue q
       SET holder = $1, epoch = q.epoch + 1, stalled_takes = q.stalled_takes + 1
     WHERE q.ctid = ANY (ARRAY(SELECT place FROM due))
 RETURNING q.run_id, q.epoch, q.seq, q.stalled_takes, q.cancel, q.partition_date, q.namespace_id"
);

/// As [`TAKE`], of the only namespace that there is: no other has to be looked for.
pub(super) const TAKE_ALONE: &str = "/* commits alone: take */
    WITH due AS (
        SELECT q.ctid AS place
          FROM queue q
         WHERE q.holder IS NULL AND q.namespace_id = $3
           AND q.due_at <= (SELECT moment()) AND q.stalled_takes < 2
           AND EXISTS (SELECT 1 FROM sessions
                        WHERE id = $1 AND lost_at IS NULL AND expires_at > (SELECT moment()))
         ORDER BY q.due_at
         LIMIT $2
           FOR UPDATE OF q SKIP LOCKED)
    UPDATE queue q
       SET holder = $1, epoch = q.epoch + 1, stalled_takes = q.stalled_takes + 1
     WHERE q.ctid = ANY (ARRAY(SELECT place FROM due))
 RETURNING q.run_id, q.epoch, q.seq, q.stalled_takes, q.cancel, q.partition_date, q.namespace_id";

/// Takes runs that give way to all others that are due, once no other is. A namespace without a limit of its own has
/// that of the take.
pub(super) const TAKE_EARLY: &str = concat!(
    "/* commits alone: take early */",
    first_runs!(""),
    ",
    due AS (
        SELECT t.place
          FROM firsts f
          LEFT JOIN unnest($4::int4[], $5::int8[]) AS x (namespace_id, room)
            ON x.namespace_id = f.namespace_id
         CROSS JOIN LATERAL (SELECT q.ctid AS place
                               FROM queue q
                              WHERE q.holder IS NULL AND q.namespace_id = f.namespace_id
                                AND q.stage = 'ready' AND q.seq = 1 AND q.stalled_takes < 2
                                AND q.due_at > (SELECT moment())
                                AND q.due_at <= (SELECT moment()) + make_interval(secs => $3)
                                AND EXISTS (SELECT 1 FROM sessions
                                             WHERE id = $1 AND lost_at IS NULL
                                               AND expires_at > (SELECT moment()))
                              ORDER BY q.due_at
                              LIMIT least($2, x.room)
                                FOR UPDATE OF q SKIP LOCKED) t
         LIMIT $2)
    UPDATE queue q
       SET holder = $1, epoch = q.epoch + 1, stalled_takes = q.stalled_takes + 1
     WHERE q.ctid = ANY (ARRAY(SELECT place FROM due))
 RETURNING q.run_id, q.epoch, q.seq, q.stalled_takes, q.cancel, q.partition_date"
);

/// Nothing if no run sleeps. `greatest` would make a zero of that, and the poller would spin. Nor does
/// what is left to `TAKE_SUSPECTS` count.
pub(super) const NEXT_DUE: &str = concat!(
    first_runs!(" AND q.stalled_takes < 2"),
    "
    SELECT extract(epoch FROM min(due_at) - moment())::float8
      FROM firsts
     WHERE due_at < 'infinity'"
);

/// What a take has to know of a namespace that is not like the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceRoom {
    /// The namespace.
    pub namespace_id: i32,
    /// Its share, where others have one.
    pub weight: i32,
    /// How many of its runs may be taken at the most.
    pub room: usize,
}

/// The columns of what a take has to know.
pub(super) fn columns(rooms: &[NamespaceRoom]) -> (Vec<i32>, Vec<i32>, Vec<i64>) {
    let mut columns = (Vec::new(), Vec::new(), Vec::new());
    for room in rooms {
        columns.0.push(room.namespace_id);
        columns.1.push(room.weight);
        columns.2.push(i64::try_from(room.room).unwrap_or(i64::MAX));
    }
    columns
}

/// The namespace that a take served last, in the order that begins behind `last`.
pub(crate) fn last_served(last: i32, served: impl Iterator<Item = i32>) -> i32 {
    served
        .max_by_key(|namespace| (*namespace <= last, *namespace))
        .unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_served_last_is_the_last_one_of_the_round() {
        assert_eq!(last_served(0, [1, 2, 3].into_iter()), 3);
        assert_eq!(last_served(2, [1, 3].into_iter()), 1, "after the highest");
        assert_eq!(last_served(2, [3].into_iter()), 3);
        assert_eq!(last_served(2, [2].into_iter()), 2);
        assert_eq!(last_served(2, std::iter::empty()), 2);
    }
}
