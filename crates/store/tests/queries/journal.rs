//! Journals that are read together: the small ones, however long another is.

use anyhow::Result;
use jiff::civil::Date;
use semel_model::RunId;
use semel_store::journal;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::world::World;

const FILL: &str = "
    INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
    SELECT '2026-01-01', $1, n, 1, now(), json_build_array(encode(sha256(n::text::bytea), 'hex'))
      FROM generate_series(1, $2::int4) AS n";

#[tokio::test]
async fn a_long_journal_is_left_out_and_hides_no_other() -> Result<()> {
    let world = World::start().await?;
    let client = world.connect().await?;
    let date: Date = "2026-01-01".parse()?;
    let mut runs = Vec::new();
    // One with too many rows stands first, then one with too many bytes.
    for (number, rows) in [(1, 501_i32), (2, 500), (3, 3), (4, 100)] {
        let id = Uuid::from_u128(number);
        let values: [&(dyn ToSql + Sync); 2] = [&id, &rows];
        client.execute(FILL, &values).await?;
        runs.push((date, RunId::from_uuid(id)));
    }

    let found = journal::read_small(world.cell.every(), &runs, 20_000).await?;

    let rows = |number: usize| found.get(&runs[number].1).map(Vec::len);
    assert_eq!((rows(0), rows(1)), (None, None), "too long");
    assert_eq!((rows(2), rows(3)), (Some(3), Some(100)));
    let enough = journal::read_small(world.cell.every(), &runs, 1 << 20).await?;
    assert_eq!(enough.get(&runs[1].1).map(Vec::len), Some(500));
    assert!(!enough.contains_key(&runs[0].1), "501 rows are too many");
    Ok(())
}
