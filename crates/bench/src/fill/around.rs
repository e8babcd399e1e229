//! What surrounds runs: namespaces with flows of their own, partitions of the past, and the records of
//! what operators did and senders were refused.

use std::collections::HashMap;

use anyhow::{Context, Result};
use jiff::civil::Date;
use semel_model::NamespaceName;
use tokio_postgres::Client;

use super::plan::{DAYS, NAMESPACES};

const NAMESPACE: &str = "
    INSERT INTO namespaces (name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET name = EXCLUDED.name
    RETURNING id";

/// Every namespace has the flows of the first.
const FLOWS: &str = "
    WITH made AS (
        INSERT INTO flows (namespace_id, name, draft, draft_at, live_release, live_at)
        SELECT $2, name, draft, draft_at, live_release, live_at FROM flows WHERE namespace_id = $1
     RETURNING id, name)
    INSERT INTO releases (flow_id, number, digest, source, published_at, first_live_at)
    SELECT m.id, l.number, l.digest, l.source, l.published_at, l.first_live_at
      FROM made m
      JOIN flows f ON f.namespace_id = $1 AND f.name = m.name
      JOIN releases l ON l.flow_id = f.id";

const RELEASES: &str = "
    SELECT f.namespace_id, f.name, f.id, l.id
      FROM flows f
      JOIN releases l ON l.flow_id = f.id
     ORDER BY l.number";

/// The months that the runs are spread over, and have no partition.
const MONTHS: &str = "
    SELECT m.month::date, (m.month + interval '1 month')::date, to_char(m.month, '_YYYY_MM')
      FROM generate_series(date_trunc('month', now() - make_interval(days => $1)), now() + interval '2 months',
                           interval '1 month') AS m (month)
     WHERE to_regclass('journal' || to_char(m.month, '_YYYY_MM')) IS NULL";

/// Records for people, `$2` of each, of namespace `$1`; one in a hundred of a rare kind.
const RECORDS: [&str; 4] = [
    "INSERT INTO audit (namespace_id, at, actor, action, subject, reason)
     SELECT $1::int4, now() - make_interval(secs => 60 * ($2::int4 - n)),
            CASE WHEN n % 100 = 0 THEN 'auditor' ELSE 'operator-' || n % 7 END,
            CASE WHEN n % 100 = 0 THEN 'key.drop' ELSE 'run.cancel' END, 'subject-' || n, 'a reason'
       FROM generate_series(1, $2::int4 / 4) AS n",
    "INSERT INTO refused_deliveries (namespace_id, flow, at, code, message)
     SELECT $1::int4, CASE WHEN n % 100 = 0 THEN 'seldom' ELSE 'orders' END,
            now() - make_interval(secs => 60 * ($2::int4 - n)),
            CASE WHEN n % 100 = 1 THEN 'signature-invalid' ELSE 'key-failed' END, 'what was wrong'
       FROM generate_series(1, $2::int4) AS n",
    "INSERT INTO tokens (id, namespace_id, name, digest, created_at, expires_at, role, rights)
     SELECT md5('token' || n)::uuid, $1::int4, 'robot-' || n, sha256(('robot' || n)::bytea),
            now() - make_interval(secs => n), now() + interval '30 days', 'observer', '{read}'
       FROM generate_series(1, $2::int4 / 10) AS n",
    "INSERT INTO resources (namespace_id, digest, bytes, media_type, name, created_at, expires_at)
     SELECT $1::int4, sha256(('resource' || n)::bytea), n, 'text/plain', 'file-' || n,
            now() - make_interval(secs => n), now() + interval '90 days'
       FROM generate_series(1, $2::int4) AS n",
];

/// Instants of the schedule of the flow `nightly`, of which every tenth was skipped.
const TICKS: &str = "
    INSERT INTO ticks (schedule_id, nominal, verdict, last, instants, reason, decided_at)
    SELECT s.id, t.at, CASE WHEN n % 10 = 0 THEN 'skipped' ELSE 'fired' END::tick_verdict, t.at, 1,
           CASE WHEN n % 10 = 0 THEN 'missed' END, t.at
      FROM schedules s, generate_series(1, $1::int4 / 10) AS n
     CROSS JOIN LATERAL (SELECT now() - make_interval(hours => n) AS at) AS t";

/// Counts of every minute of two days, and every hour and day of sixty, of every flow of namespace `$1`.
const TALLIES: &str = "
    INSERT INTO tallies (namespace_id, unit, began_at, flow_id, what, count)
    SELECT $1::int4, t.unit::tally_unit, t.at, f.id, w.what, 3
      FROM (SELECT 'minute' AS unit, date_trunc('minute', now(), 'UTC') - make_interval(mins => n) AS at
              FROM generate_series(0, 2879) AS n
             UNION ALL
            SELECT 'hour', date_trunc('hour', now(), 'UTC') - make_interval(hours => n)
              FROM generate_series(0, 1439) AS n
             UNION ALL
            SELECT 'day', date_trunc('day', now(), 'UTC') - make_interval(days => n)
              FROM generate_series(0, 59) AS n) AS t
     CROSS JOIN flows f
     CROSS JOIN unnest(ARRAY['accepted', 'repeat', 'succeeded', 'failed', 'effect_done']::tally_kind[]) AS w (what)
     WHERE f.namespace_id = $1
        ON CONFLICT DO NOTHING";

/// A flow's number and those of its releases, the first before the second.
pub(super) type Flows = HashMap<(usize, String), (i32, Vec<i32>)>;

/// A namespace that runs are made for.
pub(super) struct Namespace {
    pub(super) name: NamespaceName,
    pub(super) id: i32,
}

/// Makes the namespaces with their flows.
pub(super) async fn make_namespaces(client: &Client) -> Result<(Vec<Namespace>, Flows)> {
    let mut namespaces: Vec<Namespace> = Vec::new();
    for name in NAMESPACES {
        let id: i32 = client.query_one(NAMESPACE, &[&name]).await?.get(0);
        if let Some(first) = namespaces.first() {
            client.execute(FLOWS, &[&first.id, &id]).await?;
        }
        let name = name.parse()?;
        namespaces.push(Namespace { name, id });
    }
    let mut flows = Flows::new();
    for row in client.query(RELEASES, &[]).await? {
        let of: i32 = row.get(0);
        let place = namespaces.iter().position(|it| it.id == of);
        let place = place.context("a namespace that was not made here")?;
        let entry = flows.entry((place, row.get(1)));
        entry
            .or_insert_with(|| (row.get(2), Vec::new()))
            .1
            .push(row.get(3));
    }
    Ok((namespaces, flows))
}

/// Makes the partitions of the months behind us, which a server would have made in time.
pub(super) async fn make_partitions(client: &Client) -> Result<()> {
    for row in client.query(MONTHS, &[&(DAYS as i32 + 1)]).await? {
        let (from, to, name): (Date, Date, String) = (row.get(0), row.get(1), row.get(2));
        for (table, storage) in [("journal", ""), ("effects", " WITH (fillfactor = 70)")] {
            let text = format!(
                "CREATE TABLE {table}{name} PARTITION OF {table} FOR VALUES FROM ('{from}') TO ('{to}'){storage};
                 COMMENT ON TABLE {table}{name} IS 'Rows of runs that were accepted in this month.'"
            );
            client.batch_execute(&text).await?;
        }
    }
    Ok(())
}

/// Makes the records that people read.
pub(super) async fn make_records(client: &Client, first: i32, count: i32) -> Result<()> {
    for text in RECORDS {
        client.execute(text, &[&first, &count]).await?;
    }
    client.execute(TICKS, &[&count]).await?;
    client.execute(TALLIES, &[&first]).await?;
    Ok(())
}
