//! What recorded deliveries say about a flow's keys. Reads only; for audits, not for the hot path.

use std::pin::pin;

use futures_util::TryStreamExt as _;
use semel_model::{FlowName, Key, RunId, Span};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Transaction};

use crate::cell::{EveryCell, ReadError};

/// An audit reads everything there is of a flow, and may take its time.
const PATIENCE: &str = "
    SET LOCAL statement_timeout = '60s'; SET LOCAL work_mem = '128MB'";

const RELEASES: &str = "
    SELECT array_agg(l.id)
      FROM releases l
      JOIN flows f ON f.id = l.flow_id
     WHERE f.namespace_id = $1 AND f.name = $2";

const TOTALS: &str = "
    SELECT (SELECT count(*) FROM runs WHERE release_id = ANY ($1)),
           (SELECT coalesce(sum(d.count), 0)::int8
              FROM duplicates d
              JOIN runs r ON r.id = d.run_id
             WHERE d.stopped_by = 'claim' AND r.release_id = ANY ($1))";

const DIFFERING: &str = "
    SELECT r.key, d.count, d.payload::text, j.events::text
      FROM duplicates d
      JOIN runs r ON r.id = d.run_id
      JOIN journal j ON j.partition_date = r.partition_date AND j.run_id = r.id AND j.seq = 1
     WHERE d.stopped_by = 'claim' AND d.verdict <> 'repeat' AND d.payload IS NOT NULL
       AND r.release_id = ANY ($1)";

// Crosses slots (V9): keys of all slots are grouped by fingerprint. With a second cell, each cell groups
// its own, and the groups are merged by ranges of the fingerprint.

/// Two passes: the groups are found by fingerprint alone, and only the largest are looked up.
const SHARED: &str = "
    WITH shared AS (
        SELECT c.fingerprint, count(*) AS keys
          FROM claims c
          JOIN runs r ON r.id = c.run_id
         WHERE r.release_id = ANY ($1) AND c.expires_at IS NOT NULL
         GROUP BY c.fingerprint
        HAVING count(*) > 1),
    largest AS (
        SELECT fingerprint, keys, count(*) OVER () AS payloads, (sum(keys) OVER ())::int8 AS runs
          FROM shared
         ORDER BY keys DESC, fingerprint
         LIMIT $2)
    SELECT g.payloads, g.runs, g.keys,
           (array_agg(r.key ORDER BY r.accepted_at, r.key))[1:3]
      FROM largest g
      JOIN claims c ON c.fingerprint = g.fingerprint AND c.expires_at IS NOT NULL
      JOIN runs r ON r.id = c.run_id AND r.release_id = ANY ($1)
     GROUP BY g.fingerprint, g.payloads, g.runs, g.keys
     ORDER BY g.keys DESC, g.fingerprint";

const LATE: &str = "
    SELECT count(*) OVER (), r.key, r.id, sum(d.count)::int8,
           extract(epoch FROM max(d.last_at) - r.accepted_at)::float8
      FROM duplicates d
      JOIN runs r ON r.id = d.run_id
     WHERE d.stopped_by = 'claim' AND r.release_id = ANY ($1)
     GROUP BY r.id
    HAVING max(d.last_at) > r.accepted_at + make_interval(secs => $2)
     ORDER BY max(d.last_at) - r.accepted_at DESC
     LIMIT $3";

pub(crate) const STATEMENTS: &[&str] = &[RELEASES, TOTALS, DIFFERING, SHARED, LATE];

/// How many examples are read of each finding.
const EXAMPLES_MAX: i64 = 20;

/// What is recorded of a flow's deliveries.
#[derive(Clone, Debug, Default)]
pub struct DeliveryStats {
    /// Runs, which is keys.
    pub runs: i64,
    /// Repeats that were stopped.
    pub repeats: i64,
    /// Payloads that came under more than one key.
    pub shared: SharedPayloads,
    /// Keys that came again later than they should.
    pub late: LateRepeats,
}

/// Payloads that came under more than one key.
#[derive(Clone, Debug, Default)]
pub struct SharedPayloads {
    /// How many payloads.
    pub payloads: i64,
    /// How many runs they made.
    pub runs: i64,
    /// The largest: how many keys, and some of them.
    pub examples: Vec<(i64, Vec<Key>)>,
}

/// Keys that came again later than they should.
#[derive(Clone, Debug, Default)]
pub struct LateRepeats {
    /// How many keys.
    pub count: i64,
    /// The latest.
    pub examples: Vec<LateRepeat>,
}

/// A key that came again late.
#[derive(Clone, Debug)]
pub struct LateRepeat {
    /// The key.
    pub key: Key,
    /// The run that answered.
    pub run: RunId,
    /// How often it came again.
    pub count: i64,
    /// How long after the first the last one came.
    pub after: Span,
}

/// A repeat that brought another payload.
#[derive(Clone, Debug)]
pub struct Differing {
    /// The key.
    pub key: Key,
    /// How often it came.
    pub count: i64,
    /// The payload, as JSON text.
    pub payload: String,
    /// The journal's first row, which holds the first payload.
    pub first_row: String,
}

/// Reads what is recorded of a flow, and passes every repeat with another payload to `each`.
/// Nothing if there is no such flow.
pub async fn read(
    cell: EveryCell<'_>,
    namespace_id: i32,
    flow: &FlowName,
    window: Span,
    mut each: impl FnMut(Differing) + Send,
) -> Result<Option<DeliveryStats>, ReadError> {
    let mut client = cell.reader().await?;
    let transaction = client.build_transaction().read_only(true).start().await?;
    transaction.batch_execute(PATIENCE).await?;
    let row = transaction
        .query_one(RELEASES, &[&namespace_id, &flow.as_str()])
        .await?;
    let Some(releases) = row.get::<_, Option<Vec<i32>>>(0) else {
        return Ok(None);
    };
    let totals = transaction.query_one(TOTALS, &[&releases]).await?;
    let differing = [&releases as &(dyn ToSql + Sync)];
    let rows = transaction.query_raw(DIFFERING, differing).await?;
    let mut rows = pin!(rows);
    while let Some(row) = rows.try_next().await? {
        each(Differing {
            key: read_key(row.get(0)),
            count: row.get(1),
            payload: row.get(2),
            first_row: row.get(3),
        });
    }
    Ok(Some(DeliveryStats {
        runs: totals.get(0),
        repeats: totals.get(1),
        shared: read_shared(&transaction, &releases).await?,
        late: read_late(&transaction, &releases, window).await?,
    }))
}

async fn read_shared(
    reader: &Transaction<'_>,
    releases: &[i32],
) -> Result<SharedPayloads, ReadError> {
    let rows = reader.query(SHARED, &[&releases, &EXAMPLES_MAX]).await?;
    let keys = |row: &Row| {
        row.get::<_, Vec<Vec<u8>>>(3)
            .into_iter()
            .map(read_key)
            .collect()
    };
    Ok(SharedPayloads {
        payloads: rows.first().map_or(0, |row| row.get(0)),
        runs: rows.first().map_or(0, |row| row.get(1)),
        examples: rows.iter().map(|row| (row.get(2), keys(row))).collect(),
    })
}

async fn read_late(
    reader: &Transaction<'_>,
    releases: &[i32],
    window: Span,
) -> Result<LateRepeats, ReadError> {
    let window = window.as_secs_f64();
    let rows = reader
        .query(LATE, &[&releases, &window, &EXAMPLES_MAX])
        .await?;
    let example = |row: &Row| LateRepeat {
        key: read_key(row.get(1)),
        run: RunId::from_uuid(row.get(2)),
        count: row.get(3),
        after: Span::from_secs(row.get::<_, f64>(4).max(0.0) as u64),
    };
    Ok(LateRepeats {
        count: rows.first().map_or(0, |row| row.get(0)),
        examples: rows.iter().map(example).collect(),
    })
}

fn read_key(bytes: Vec<u8>) -> Key {
    match Key::new(bytes) {
        Ok(key) => key,
        Err(_) => unreachable!("the record has only keys that were accepted"),
    }
}
