//! The statements of the checker. Each reads a page of one table behind an identity, and says of every row on it that
//! breaks an invariant what is the matter.
//!
//! A cause counts two seconds after it was recorded: until then its wake may be on the way. A run sleeps only while
//! its stage is `waiting`: what is stopped or quarantined waits for an operator, and a paused run for the end of its
//! pause. Nobody is blamed for work that waits for a server while none has lived for a minute.

/// What a page gives: how many rows it has, its last row, and, where `$3` asks for them, of each row that breaks the
/// invariant its identity and words about it.
macro_rules! scan {
    ($page:expr, $found:expr) => {
        concat!(
            "
    WITH page AS MATERIALIZED (",
            $page,
            "
         LIMIT $2),
    found AS MATERIALIZED (
        SELECT f.id, f.words
          FROM (",
            $found,
            ") AS f
         WHERE $3::bool)
    SELECT (SELECT count(*) FROM page), (SELECT id FROM page ORDER BY id DESC LIMIT 1),
           ARRAY(SELECT id FROM found ORDER BY id, words),
           ARRAY(SELECT words FROM found ORDER BY id, words)"
        )
    };
}

/// A page of the queue.
macro_rules! queue_page {
    () => {
        "
        SELECT q.run_id AS id, q.partition_date, q.seq, q.epoch, q.due_at, q.holder, q.stage
          FROM queue q
         WHERE q.run_id > $1
         ORDER BY q.run_id"
    };
}

/// Whether a server has lived for a minute, and does.
macro_rules! served {
    () => {
        "EXISTS (SELECT 1 FROM sessions v
                         WHERE v.lost_at IS NULL AND v.leaving_at IS NULL AND v.expires_at > moment()
                           AND v.started_at < moment() - interval '1 minute')"
    };
}

/// Whether the row `$run` of the queue sleeps.
macro_rules! sleeps {
    ($row:literal, $run:literal) => {
        concat!(
            $row,
            ".holder IS NULL AND ",
            $row,
            ".stage = 'waiting' AND ",
            $row,
            ".due_at > moment()
           AND NOT EXISTS (SELECT 1 FROM paused_runs s WHERE s.run_id = ",
            $run,
            ")"
        )
    };
}

/// When the last row of the journal of the queue's row `$row`, of the run `$run`, was written.
macro_rules! last_row_at {
    ($row:literal, $run:literal) => {
        concat!(
            "(SELECT j.at
                  FROM journal j
                 WHERE j.partition_date = ",
            $row,
            ".partition_date AND j.run_id = ",
            $run,
            " AND j.seq = ",
            $row,
            ".seq)"
        )
    };
}

/// Waits and child runs are found by their run. A parent has nothing to wait for once none of its child runs is left.
pub(super) const ASLEEP: &str = scan!(
    queue_page!(),
    concat!(
        "
        SELECT a.id, c.words
          FROM (SELECT p.id, ",
        last_row_at!("p", "p.id"),
        " AS since
                  FROM page p
                 WHERE ",
        sleeps!("p", "p.id"),
        ") AS a
         CROSS JOIN LATERAL (
               (SELECT format('sleeps although its wait at %s is answered', w.step) AS words
                  FROM waits w
                 WHERE w.run_id = a.id AND w.state = 'answered' AND w.opened_at IS NOT NULL
                   AND w.ended_at > a.since AND w.ended_at < moment() - interval '2 seconds'
                 LIMIT 1)
                UNION ALL
               (SELECT format('sleeps although each child run at %s has ended', e.step)
                  FROM child_runs e
                 WHERE e.parent_id = a.id AND e.ended_at > a.since
                   AND e.ended_at < moment() - interval '2 seconds'
                   AND NOT EXISTS (SELECT 1 FROM child_runs o
                                    WHERE o.parent_id = a.id AND o.state IN ('pending', 'open'))
                 LIMIT 1)) AS c
         UNION ALL
        SELECT p.id, 'is held by a session that is over'
          FROM page p
         WHERE p.holder IS NOT NULL AND ",
        served!(),
        "
           AND NOT EXISTS (SELECT 1 FROM sessions s
                            WHERE s.id = p.holder AND s.expires_at > moment() - interval '1 minute')"
    )
);

/// By the tasks, because the identity of a task is that of the first run of its key.
pub(super) const ASLEEP_OVER_TASK: &str = scan!(
    "
        SELECT t.id, t.run_id, t.step, t.state, t.ended_at
          FROM tasks t
         WHERE t.id > $1
         ORDER BY t.id",
    concat!(
        "
        SELECT p.run_id AS id, format('sleeps although its task at %s is over: %s', p.step, p.state) AS words
          FROM page p
          JOIN queue q ON q.run_id = p.run_id
         WHERE p.state IN ('done', 'failed', 'lost') AND p.ended_at < moment() - interval '2 seconds'
           AND ",
        sleeps!("q", "q.run_id"),
        "
           AND p.ended_at > ",
        last_row_at!("q", "q.run_id")
    )
);

/// By the approvals, for the same reason.
pub(super) const ASLEEP_OVER_APPROVAL: &str = scan!(
    "
        SELECT t.id, t.run_id, t.step, t.state, t.ended_at
          FROM approvals t
         WHERE t.id > $1
         ORDER BY t.id",
    concat!(
        "
        SELECT p.run_id AS id, format('sleeps although its approval at %s is decided', p.step) AS words
          FROM page p
          JOIN queue q ON q.run_id = p.run_id
         WHERE p.state = 'decided' AND p.ended_at < moment() - interval '2 seconds'
           AND ",
        sleeps!("q", "q.run_id"),
        "
           AND p.ended_at > ",
        last_row_at!("q", "q.run_id")
    )
);

/// The epoch grows with every take, and each row has the one under which it was written. A parent is taken at the end
/// of each of its child runs, and writes a row at the end of all.
pub(super) const TAKEN: &str = scan!(
    queue_page!(),
    "
        SELECT p.id, format('was taken %s times without a row', p.epoch - j.epoch) AS words
          FROM page p
          JOIN journal j ON j.partition_date = p.partition_date AND j.run_id = p.id AND j.seq = p.seq
         WHERE p.stage <> 'stopped' AND p.epoch - j.epoch > 500
           AND p.epoch - j.epoch > 500 + 2 * (SELECT count(*) FROM child_runs c WHERE c.parent_id = p.id)"
);

/// The pause before the next try grows with each, to a minute. What a newer version alone can read waits for that.
pub(super) const DISPATCHED: &str = scan!(
    "
        SELECT o.id, o.tries, o.unread
          FROM outbox o
         WHERE o.id > $1
         ORDER BY o.id",
    "
        SELECT p.id, format('was dispatched %s times, and a receiver does not have it', p.tries) AS words
          FROM page p
         WHERE p.unread IS NULL AND p.tries > 20"
);

/// The first events that are due for a minute and dispatched by nobody, unless a server that lives dispatches others.
pub(super) const OVERDUE_EVENTS: &str = concat!(
    "
    SELECT o.id
      FROM outbox o
     WHERE o.holder IS NULL AND o.due_at < moment() - interval '1 minute'
       AND NOT EXISTS (SELECT 1 FROM outbox i
                         JOIN sessions s ON s.id = i.holder
                        WHERE i.holder IS NOT NULL AND s.lost_at IS NULL AND s.expires_at > moment())
       AND ",
    served!(),
    "
     ORDER BY o.due_at, o.id
     LIMIT $1"
);

/// The first broadcasts that are due for a minute, unless a server answers waits: it moves the event ahead as it takes
/// it, and notes the page that it has answered.
pub(super) const OVERDUE_BROADCASTS: &str = concat!(
    "
    SELECT b.event_id
      FROM broadcasts b
     WHERE b.due_at < moment() - interval '1 minute'
       AND NOT EXISTS (SELECT 1 FROM broadcasts i
                        WHERE NOT i.pages_done
                          AND (i.due_at > moment()
                               OR i.path IS NOT NULL AND i.due_at > moment() - interval '1 minute'))
       AND ",
    served!(),
    "
     ORDER BY b.due_at, b.event_id
     LIMIT $1"
);

/// One line for a run.
pub(super) const NOTIFIED: &str = scan!(
    "
        SELECT n.run_id AS id, max(n.tries) AS tries
          FROM named_effect_notices n
         WHERE n.run_id > $1
         GROUP BY n.run_id
         ORDER BY n.run_id",
    "
        SELECT p.id, format('has told its business key %s times, in vain', p.tries) AS words
          FROM page p
         WHERE p.tries > 20"
);

/// The first two are made in the commit that answers a delivery, and the third in every other.
pub(super) const QUEUED: &str = scan!(
    queue_page!(),
    "
        SELECT p.id, 'is in the queue and has no record' AS words
          FROM page p
         WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = p.id)
         UNION ALL
        SELECT p.id, format('is at row %s of its journal, and the row is not there', p.seq)
          FROM page p
         WHERE NOT EXISTS (SELECT 1 FROM journal j
                            WHERE j.partition_date = p.partition_date AND j.run_id = p.id AND j.seq = p.seq)"
);

/// A run that has not ended is in the queue, whatever it waits for; one that waits for a person is listed, and so is each
/// of its effects in doubt. The commit that makes it so writes the row of the list, so that each snapshot has both. The
/// identity of an effect begins with the first eight bytes of its run's.
pub(super) const UNENDED: &str = scan!(
    "
        SELECT r.id, r.partition_date, r.state, r.ended_at
          FROM runs r
         WHERE r.id > $1
         ORDER BY r.id",
    "
        SELECT p.id, 'has not ended and is not in the queue' AS words
          FROM page p
         WHERE p.ended_at IS NULL AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.run_id = p.id)
         UNION ALL
        SELECT p.id, format('is %s and not listed for people', p.state)
          FROM page p
         WHERE p.state IN ('needs_review', 'quarantined')
           AND NOT EXISTS (SELECT 1 FROM attention a WHERE a.subject_id = p.id AND a.kind::text = p.state::text)
         UNION ALL
        SELECT p.id, format('is in doubt at %s and not listed for people', d.step)
          FROM page p
         CROSS JOIN LATERAL (
               SELECT e.step
                 FROM effects e
                WHERE e.partition_date = p.partition_date AND e.run_id = p.id AND e.state = 'in_doubt'
                  AND e.id BETWEEN (left(p.id::text, 18) || '-0000-000000000000')::uuid
                               AND (left(p.id::text, 18) || '-ffff-ffffffffffff')::uuid
                  AND NOT EXISTS (SELECT 1 FROM attention a
                                   WHERE a.subject_id = e.id AND a.kind = 'doubt'
                                     AND a.partition_date = e.partition_date)
               OFFSET 0) AS d"
);

pub(super) const DOUBTED_NAMES: &str = scan!(
    "
        SELECT n.id, n.state
          FROM named_effects n
         WHERE n.id > $1
         ORDER BY n.id",
    "
        SELECT p.id, 'is in doubt and not listed for people' AS words
          FROM page p
         WHERE p.state = 'in_doubt'
           AND NOT EXISTS (SELECT 1 FROM attention a WHERE a.subject_id = p.id AND a.kind = 'named_effect')"
);

/// A page of what is listed for people as of some kinds.
macro_rules! listed_page {
    ($kinds:literal) => {
        concat!(
            "
        SELECT a.subject_id AS id
          FROM attention a
         WHERE a.subject_id > $1 AND a.kind IN (",
            $kinds,
            ")
         GROUP BY a.subject_id
         ORDER BY a.subject_id"
        )
    };
}

/// What is listed as in doubt, and is not. The commit that ends a doubt removes its row.
pub(super) const LISTED_DOUBTS: &str = scan!(
    listed_page!("'doubt'"),
    "
        SELECT p.id, format('is listed for people as in doubt at %s, and is not', a.step) AS words
          FROM page p
          JOIN attention a ON a.subject_id = p.id AND a.kind = 'doubt'
         WHERE NOT EXISTS (SELECT 1 FROM effects e
                            WHERE e.partition_date = a.partition_date AND e.id = a.subject_id
                              AND e.state = 'in_doubt')"
);

pub(super) const LISTED_NAMES: &str = scan!(
    listed_page!("'named_effect'"),
    "
        SELECT p.id, 'is listed for people as in doubt, and is not' AS words
          FROM page p
         WHERE NOT EXISTS (SELECT 1 FROM named_effects n WHERE n.id = p.id AND n.state = 'in_doubt')"
);

pub(super) const LISTED_RUNS: &str = scan!(
    listed_page!("'needs_review', 'quarantined'"),
    "
        SELECT p.id, format('is listed for people as %s, and is not', a.kind) AS words
          FROM page p
          JOIN attention a ON a.subject_id = p.id AND a.kind IN ('needs_review', 'quarantined')
         WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = p.id AND r.state::text = a.kind::text)"
);

/// Of the last rows of a run, those which say only that its connection had no room for the attempt that it is at:
/// nothing was sent, and a run that waits writes one. They count from the last row that says anything else but an
/// intent, so that a run may have as many attempts as it likes. The text is searched and not decoded, because others wrote
/// parts of it.
pub(super) const ROWS: &str = scan!(
    queue_page!(),
    r#"
        SELECT p.id, format('wrote %s rows for one attempt, only because its connection had no room', h.count) AS words
          FROM page p
         CROSS JOIN LATERAL (
               SELECT count(*) FILTER (WHERE t.is_held AND t.others = 0) AS count
                 FROM (SELECT r.is_held,
                              count(*) FILTER (WHERE NOT r.is_held AND NOT r.is_intent)
                                 OVER (ORDER BY r.seq DESC) AS others
                         FROM (SELECT j.seq,
                                      j.events::text LIKE
                                        '[{"event":"failed"%"code":"destination-busy","kind":"held_back"%' AS is_held,
                                      j.events::text LIKE '[{"event":"intended"%' AS is_intent
                                 FROM journal j
                                WHERE j.partition_date = p.partition_date AND j.run_id = p.id
                                  AND j.seq > p.seq - 200) AS r) AS t) AS h
         WHERE p.seq > 6 AND h.count > 6"#
);

/// Silence counts from the last pass of any server, and no further back than a server has lived. The row of a duty that
/// is called otherwise by now stays: so a name counts that this build knows (`$1`), or that a server has made a pass of
/// since the first of those that live began.
pub(super) const DUTIES: &str = "
    SELECT d.duty, s.secs, d.late_after_ms::float8 / 1000
      FROM (SELECT min(v.started_at) AS since
              FROM sessions v
             WHERE v.lost_at IS NULL AND v.leaving_at IS NULL AND v.expires_at > moment()) AS l
     CROSS JOIN duties d
     CROSS JOIN LATERAL (
           SELECT extract(epoch FROM moment() - greatest(d.finished_at, d.covered_at, l.since))::float8 AS secs) AS s
     WHERE l.since IS NOT NULL
       AND (d.duty = ANY ($1::text[]) OR greatest(d.finished_at, d.covered_at, d.failed_at) > l.since)
     ORDER BY d.duty";

pub(super) const STATEMENTS: &[&str] = &[
    ASLEEP,
    ASLEEP_OVER_TASK,
    ASLEEP_OVER_APPROVAL,
    TAKEN,
    DISPATCHED,
    OVERDUE_EVENTS,
    OVERDUE_BROADCASTS,
    NOTIFIED,
    QUEUED,
    UNENDED,
    DOUBTED_NAMES,
    LISTED_DOUBTS,
    LISTED_NAMES,
    LISTED_RUNS,
    ROWS,
    DUTIES,
];
