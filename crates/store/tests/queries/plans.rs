//! The plans of hot statements: whatever the statistics say, none reads more than it needs.
//!
//! Statistics are from the last ANALYZE, and that may have been in an hour without any work. So
//! each statement is explained in four states of its tables: never analysed; busy; beside sleeping
//! runs alone; and filled again after a quiet VACUUM and ANALYZE. In none of them may it scan a
//! table that grows, read an index from end to end, or read every row that some worker holds.

mod fill;
mod look;

use anyhow::{Context as _, Result};
use tokio_postgres::SimpleQueryMessage;

use crate::world::World;
use look::{Explained, Session};

/// The modules whose statements are made for runs, deliveries and workers, and in which sessions.
const HOT: &[(&str, &[Session])] = &[
    ("approvals", &[Session::Writer]),
    ("attention", &[Session::Writer]),
    ("broadcasts", &[Session::Reader]),
    ("claims", &[Session::Writer]),
    ("gate_exits", &[Session::Writer, Session::Reader]),
    ("late_responses", &[Session::Writer]),
    ("gates", &[Session::Writer]),
    ("journal", &[Session::Writer]),
    ("kv", &[Session::Writer]),
    ("event_waits", &[Session::Writer, Session::Reader]),
    ("locks", &[Session::Writer]),
    ("outbox", &[Session::Writer, Session::Reader]),
    ("webhook_deliveries", &[Session::Reader]),
    ("child_runs", &[Session::Writer, Session::Reader]),
    ("queue", &[Session::Writer, Session::Reader]),
    ("sessions", &[Session::Reader]),
    ("tasks", &[Session::Writer, Session::Reader]),
    ("object_versions", &[Session::Writer]),
    ("waits", &[Session::Writer]),
];

/// Statements of those modules that are not hot: (module, words of the statement, reason).
const COLD: &[(&str, &str, &str)] = &[
    (
        "approvals",
        "FROM approvals a\n",
        "a list or a page for people",
    ),
    (
        "attention",
        "FROM effects WHERE state = 'in_doubt'",
        "a comparison of everything, for tests",
    ),
    (
        "attention",
        "SELECT count(*) FROM",
        "a figure for people, every few seconds",
    ),
    (
        "gate_exits",
        "interval '2 seconds'",
        "once a second, and the table holds unfinished work only",
    ),
    (
        "gates",
        "interval '2 seconds'",
        "once a second, and the table holds unfinished work only",
    ),
    ("gates", "g.idle_at <", "retention, every half minute"),
    (
        "outbox",
        "/* commits alone: outbox free lost */",
        "every five seconds, and few events are leased",
    ),
    (
        "outbox",
        "AS damaged)",
        "a figure for people, every few seconds",
    ),
    (
        "webhook_deliveries",
        "interval '30 days'",
        "retention, every half minute",
    ),
    (
        "webhook_deliveries",
        "SELECT event_id, event, connection",
        "a list for people",
    ),
    (
        "child_runs",
        "UPDATE child_runs p SET state = 'open', ended_at",
        "an operator resumes a run",
    ),
    (
        "child_runs",
        "hashtextextended(p.key, 0)",
        "an operator looks for a key",
    ),
    (
        "queue",
        "(SELECT count(*) FROM queue WHERE holder IS NOT NULL)",
        "a figure for people, every few seconds",
    ),
    (
        "sessions",
        "DELETE FROM sessions s",
        "retention: one row for each process",
    ),
    (
        "sessions",
        "ORDER BY s.started_at DESC",
        "a list for people: one row for each process",
    ),
    ("tasks", "t.step, t.state::text", "a list for people"),
    (
        "object_versions",
        "FROM stale_deliveries",
        "a list for people, or retention",
    ),
    (
        "object_versions",
        "DELETE FROM object_versions",
        "retention, every half minute",
    ),
    (
        "waits",
        "FROM waits w\n      JOIN runs r",
        "a look-up for people",
    ),
    ("waits", "w.opened_at IS NOT NULL", "a list for people"),
];

/// What a plan may do all the same: (module, words of the statement, words of the finding, reason).
const ALLOWED: &[(&str, &str, &str, &str)] = &[
    (
        "queue",
        "min(due_at)",
        "queue_by_due",
        "the first entry of the index, and no more",
    ),
    (
        "tasks",
        "/* commits alone: task claim */",
        "a scan of pauses",
        "only of a task whose time is nearly over; the table is small where it is scanned",
    ),
    (
        "webhook_deliveries",
        "/* commits alone: webhook take */",
        "a scan of pauses",
        "once for each subscription and each delivery that is taken; the table is small where it is scanned",
    ),
    (
        "tasks",
        "/* commits alone: task renew */",
        "a scan of pauses",
        "only of a task whose time is nearly over; the table is small where it is scanned",
    ),
    (
        "queue",
        "/* commits alone: recover */",
        "queue_by_holder",
        "the runs of sessions that are lost are what it is for",
    ),
    (
        "queue",
        "/* commits alone: recover */",
        "a scan of queue",
        "once in a while, and only until the table is analysed for the first time",
    ),
    (
        "queue",
        "NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = q.holder)",
        "a scan of queue",
        "once in half a minute, and only until the table is analysed for the first time",
    ),
    (
        "queue",
        "NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = q.holder)",
        "queue_by_holder",
        "every held run is looked at, once in half a minute",
    ),
    (
        "queue",
        "NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = q.holder)",
        "queue_pkey",
        "every ten seconds, and only until the table is analysed for the first time",
    ),
    (
        "queue",
        "/* commits alone: wake stranded */",
        "a scan of journal",
        "partitions that are empty",
    ),
    (
        "queue",
        "/* commits alone: wake stranded */",
        "a scan of paused_runs",
        "only while the table is small",
    ),
    (
        "queue",
        "q.run_id <> ALL",
        "queue_by_holder",
        "what the session holds is what it is for; a process carries a thousand at the most",
    ),
    (
        "queue",
        "q.run_id <> ALL",
        "a scan of queue",
        "only until the table is analysed for the first time",
    ),
];

#[tokio::test]
async fn no_hot_statement_reads_more_than_it_needs_in_any_state_of_its_tables() -> Result<()> {
    let world = World::start().await?;
    let client = world.cell.reader().await?;
    let mut found = Vec::new();
    let mut explained = 0;
    for state in fill::STATES {
        fill::bring_to(&client, state).await?;
        for session in [Session::Reader, Session::Writer, Session::List] {
            let statements = match session {
                Session::Reader | Session::Writer => hot(session),
                Session::List => semel_store::list_statements(),
            };
            let plans = Explained::all(&client, session, &statements).await?;
            explained += plans.len();
            for plan in &plans {
                for finding in plan.findings() {
                    if !is_allowed(plan, &finding) {
                        let (module, text) = (plan.module, plan.text);
                        found.push(format!(
                            "{state:?}, {session:?}, {module}: {finding}\n{text}"
                        ));
                    }
                }
            }
        }
    }

    println!("{explained} plans");
    assert!(explained > 500, "{explained} plans are not all of them");
    assert!(
        found.is_empty(),
        "{} plans read too much:\n{}",
        found.len(),
        found.join("\n\n")
    );
    Ok(())
}

/// A key of items is looked for among the items of its own namespace, however many others have.
#[tokio::test]
async fn a_key_of_items_is_looked_for_within_its_namespace() -> Result<()> {
    let world = World::start().await?;
    let client = world.connect().await?;
    let all = semel_store::statements();
    let text = all
        .iter()
        .find(|(module, text)| *module == "child_runs" && text.contains("hashtextextended"))
        .map(|(_, text)| *text)
        .context("the look-up of a key")?;

    // An empty table would be read whole otherwise.
    let prepare = format!("SET enable_seqscan = off; PREPARE by_key AS {text}");
    client.batch_execute(&prepare).await?;
    let explain = "EXPLAIN EXECUTE by_key (1, 'k', 10)";
    let lines = client.simple_query(explain).await?;
    let lines = lines.iter().filter_map(|line| {
        let SimpleQueryMessage::Row(row) = line else {
            return None;
        };
        row.get(0)
    });
    let plan = lines.collect::<Vec<_>>().join("\n");

    assert!(plan.contains("child_runs_by_key"), "{plan}");
    assert!(plan.contains("Index Cond: ((namespace_id = "), "{plan}");
    Ok(())
}

/// Every exception still stands for a statement.
#[test]
fn every_exception_names_a_statement() {
    let all = semel_store::statements();
    let is_there = |module: &str, words: &str| {
        let mut texts = all.iter().filter(|(of, _)| *of == module);
        texts.any(|(_, text)| text.contains(words))
    };

    let cold = COLD.iter().map(|(module, words, _)| (module, words));
    let allowed = ALLOWED.iter().map(|(module, words, ..)| (module, words));
    let stale: Vec<_> = cold
        .chain(allowed)
        .filter(|(module, words)| !is_there(module, words))
        .collect();

    assert!(stale.is_empty(), "{stale:?}");
}

/// The statements that are made in such sessions again and again.
fn hot(session: Session) -> Vec<(&'static str, &'static str)> {
    let is_cold = |module: &str, text: &str| {
        let mut cold = COLD.iter().filter(|(of, ..)| *of == module);
        cold.any(|(_, words, _)| text.contains(words))
    };
    let is_hot = |module: &str| {
        let mut hot = HOT.iter();
        hot.any(|(of, sessions)| *of == module && sessions.contains(&session))
    };
    semel_store::statements()
        .into_iter()
        .filter(|(module, text)| is_hot(module) && !is_cold(module, text))
        .collect()
}

fn is_allowed(plan: &Explained, finding: &str) -> bool {
    ALLOWED.iter().any(|(module, words, what, _)| {
        *module == plan.module && plan.text.contains(words) && finding.contains(what)
    })
}
