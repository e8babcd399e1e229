//! Many keys that are kept, made by PostgreSQL itself.
//!
//! The table is emptied and filled in one transaction, without its indexes. A server with `wal_level = minimal` writes
//! no log for that: it syncs the files when it commits. So a hundred million keys take minutes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;
use tokio_postgres::Client;

use crate::fill::{indexes, space};

/// How many keys one statement makes.
const STRETCH: i64 = 5_000_000;

/// Keys `$1` to `$2` of `$3`, in the order in which they expire, as they would have come in over thirty days. The
/// series is made row by row, and `OFFSET 0` keeps the digest from being computed three times.
const FILL: &str = "
    INSERT INTO claims (id, run_id, fingerprint, expires_at)
    SELECT k.id, k.id, k.id,
           date_trunc('minute', now() + interval '1 day' + interval '30 days' * (k.n::float8 / $3::int8))
      FROM (SELECT s.n, md5('kept-' || s.n)::uuid AS id
              FROM (SELECT generate_series($1::int8, $2::int8) AS n) AS s
            OFFSET 0) AS k";

const SIZES: &str = "
    SELECT pg_table_size('claims'), pg_relation_size('claims_pkey'), pg_relation_size('claims_by_expiry')";

/// What a key takes with its indexes, with what sorting them takes, and with the log of its pages' first change.
const BYTES_EACH: u64 = 215;

/// What a second of accepting takes: rows of every table, and the log.
const BYTES_PER_SEC: u64 = 22 << 20;

/// What the databases take before their first row.
const BYTES_MIN: u64 = 300 << 20;

/// What one key takes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct BytesEach {
    pub(super) heap: f64,
    pub(super) primary_key: f64,
    pub(super) by_expiry: f64,
}

/// How much disk so many keys and so long a load take.
fn needed(rows: i64, load: Duration) -> u64 {
    BYTES_MIN + rows.unsigned_abs() * BYTES_EACH + load.as_secs() * BYTES_PER_SEC
}

/// Says what is needed, and refuses to begin what would fill the disk.
pub(super) fn check_space(rows: i64, load: Duration) -> Result<()> {
    let (needed, directory) = (needed(rows, load), std::env::temp_dir());
    let gigabytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let Some(free) = space::free(&directory) else {
        eprintln!(
            "{:.1} GB are needed: see to the room yourself",
            gigabytes(needed)
        );
        return Ok(());
    };
    eprintln!(
        "{:.1} GB are needed in {}, {:.1} GB are free",
        gigabytes(needed),
        directory.display(),
        gigabytes(free)
    );
    ensure!(
        free >= needed,
        "there is no room: ask for fewer with --rows, for less time with --later, or set TMPDIR to another disk"
    );
    Ok(())
}

/// Fills the table, before a server uses it. Gives what one key takes, and how long it took.
pub(super) async fn fill(client: &Client, rows: i64) -> Result<(BytesEach, Duration)> {
    ensure!(rows > 0, "--rows must be above 0");
    let begun = Instant::now();
    client.batch_execute("BEGIN; TRUNCATE claims").await?;
    let definitions = indexes::take_off(client, &["claims"]).await?;
    let mut made = 0;
    while made < rows {
        let last = rows.min(made + STRETCH);
        client.execute(FILL, &[&(made + 1), &last, &rows]).await?;
        made = last;
        eprintln!(
            "{made} of {rows} keys, {:.0} s",
            begun.elapsed().as_secs_f64()
        );
    }
    indexes::put_back(client, &definitions).await?;
    client.batch_execute("COMMIT").await?;
    client.batch_execute("ANALYZE claims").await?;
    let took = begun.elapsed();
    eprintln!("filled in {:.0} s", took.as_secs_f64());
    let sizes = client.query_one(SIZES, &[]).await?;
    let each = |place: usize| sizes.get::<_, i64>(place) as f64 / rows as f64;
    let bytes = BytesEach {
        heap: each(0),
        primary_key: each(1),
        by_expiry: each(2),
    };
    Ok((bytes, took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_million_keys_and_a_quarter_of_an_hour_need_forty_gigabytes() {
        let needed = needed(100_000_000, Duration::from_secs(900)) >> 30;

        assert!((35..45).contains(&needed), "{needed} GB");
    }
}
