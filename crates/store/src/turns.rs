//! Turns of namespaces: whoever takes one piece of work at a time, or a few, takes them from the namespaces in turn,
//! however much each has. Within a namespace the piece that is due longest is first.
//!
//! As in the queue (`queue/fair.rs`), a take steps from the first due row of a namespace to that of the next one: one
//! look into an index over `(namespace_id, due_at)` for each namespace that has work.

use crate::queue::last_served;

/// The beginning of a statement that takes rows of a table: `turns` has the namespaces that have due rows, in order,
/// and how many they are; `present` has the time. The order begins behind the namespace `$1`; the namespaces `$2` are left out. A table is
/// read as `t`, and the condition is that of its index.
macro_rules! turns {
    ($table:literal, $open:literal) => {
        concat!(
            "
    WITH RECURSIVE firsts AS (
        (SELECT t.namespace_id, t.due_at
           FROM ",
            $table,
            " t
          WHERE ",
            $open,
            " AND t.namespace_id >= 0
          ORDER BY t.namespace_id, t.due_at
          LIMIT 1)
         UNION ALL
        SELECT n.namespace_id, n.due_at
          FROM firsts f
         CROSS JOIN LATERAL (SELECT t.namespace_id, t.due_at
                               FROM ",
            $table,
            " t
                              WHERE ",
            $open,
            " AND t.namespace_id > f.namespace_id
                              ORDER BY t.namespace_id, t.due_at
                              LIMIT 1) n),
    present AS MATERIALIZED (SELECT moment() AS now),
    turns AS MATERIALIZED (
        SELECT f.namespace_id, count(*) OVER () AS namespace_count
          FROM firsts f
         WHERE f.due_at <= (SELECT now FROM present) AND f.namespace_id <> ALL ($2::int4[])
         ORDER BY f.namespace_id <= $1::int4, f.namespace_id)"
        )
    };
}

pub(crate) use turns;

/// Whose turn it is, as one process has served the namespaces. A new one begins with the first.
#[derive(Debug, Default)]
pub struct NamespaceTurns {
    last: i32,
}

impl NamespaceTurns {
    /// The namespace behind which the turns begin.
    pub(crate) fn last(&self) -> i32 {
        self.last
    }

    /// Notes which namespaces were served.
    pub(crate) fn note(&mut self, served: impl Iterator<Item = i32>) {
        self.last = last_served(self.last, served);
    }
}
