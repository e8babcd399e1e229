//! Lists of the ledger: whole where it is small, and a stretch at a time where others fill it.

use anyhow::{Result, ensure};
use semel_model::effect::EffectState;
use semel_store::effects;
use semel_store::listed::Position;
use uuid::Uuid;

use crate::world::World;

/// Runs of a namespace, a minute apart, each with one effect; every tenth effect failed.
const FILL: &str = "
    WITH numbered AS (
        SELECT n, md5($1::int4 || ' ' || n)::uuid AS id, now() - make_interval(mins => n) AS at
          FROM generate_series(1, $2::int4) AS n),
    made AS (
        INSERT INTO runs (id, claim_id, namespace_id, release_id, partition_date, key, delivery_id, accepted_at)
        SELECT id, id, $1, 1, (at AT TIME ZONE 'UTC')::date, 'k', id, at FROM numbered)
    INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt, intended_at,
                         settled_at)
    SELECT (at AT TIME ZONE 'UTC')::date, id, id, $1, 's', 'kv', 'transaction',
           CASE WHEN n % 10 = 0 THEN 'failed' ELSE 'done' END::effect_state, 1, at + interval '1 second',
           at + interval '1 second'
      FROM numbered";

/// Statistics that say that others made 200 effects in every second of this month and the one before.
const CROWD: &str = "
    UPDATE pg_class c
       SET reltuples = 200 * extract(epoch FROM least(now(), m.month + interval '1 month') - m.month)
      FROM generate_series(0, 1) AS back
     CROSS JOIN LATERAL (SELECT date_trunc('month', now(), 'UTC') - make_interval(months => back) AS month) AS m
     WHERE c.relname = 'effects' || to_char(m.month AT TIME ZONE 'UTC', '_YYYY_MM')";

const PARTITIONS: &str = "
    DO $$
    DECLARE month date;
    BEGIN
        FOR back IN 0..1 LOOP
            month := date_trunc('month', now() AT TIME ZONE 'UTC') - make_interval(months => back);
            EXECUTE format('CREATE TABLE IF NOT EXISTS effects_%s PARTITION OF effects FOR VALUES FROM (%L) TO (%L)',
                           to_char(month, 'YYYY_MM'), month, month + interval '1 month');
        END LOOP;
    END $$";

async fn fill(world: &World, namespace: i32, runs: i32) -> Result<()> {
    let client = world.cell.reader().await?;
    client.batch_execute(PARTITIONS).await?;
    client.execute(FILL, &[&namespace, &runs]).await?;
    Ok(())
}

async fn crowd(world: &World) -> Result<()> {
    let client = world.cell.reader().await?;
    ensure!(client.execute(CROWD, &[]).await? == 2, "two months");
    Ok(())
}

/// Every page until the last: the identities in order, and how many pages there were.
async fn read_all(
    world: &World,
    namespace: i32,
    state: Option<EffectState>,
) -> Result<(Vec<Uuid>, usize)> {
    let (mut seen, mut pages) = (Vec::new(), 0);
    let mut before: Option<Position> = None;
    loop {
        let every = world.cell.every();
        let page = effects::list(every, namespace, state, before, 20).await?;
        pages += 1;
        ensure!(pages < 1_000, "the pages have no end");
        let times: Vec<_> = page.items.iter().map(|it| it.intended_at).collect();
        ensure!(times.is_sorted_by(|one, next| one >= next), "{times:?}");
        seen.extend(page.items.iter().map(|it| *it.id.as_uuid()));
        match page.next {
            Some(next) => before = Some(next),
            None => return Ok((seen, pages)),
        }
    }
}

/// Whatever the statistics say, each effect is on one page, and the pages have an end.
#[tokio::test]
async fn a_ledger_that_others_fill_is_searched_a_stretch_at_a_time() -> Result<()> {
    let world = World::start().await?;
    fill(&world, 1, 150).await?;
    let (all, few_pages) = read_all(&world, 1, None).await?;
    assert_eq!(all.len(), 150);

    // So many that a page reaches back a few minutes.
    crowd(&world).await?;
    let (found, pages) = read_all(&world, 1, None).await?;
    assert_eq!(found, all, "the same effects in the same order");
    assert!(pages > few_pages, "{pages} pages, and {few_pages} before");

    let (failed, _) = read_all(&world, 1, Some(EffectState::Failed)).await?;
    assert_eq!(failed.len(), 15);
    Ok(())
}

/// A page of a namespace with few runs is full, however much others do.
#[tokio::test]
async fn a_namespace_with_few_runs_is_read_by_its_runs() -> Result<()> {
    let world = World::start().await?;
    fill(&world, 1, 150).await?;
    fill(&world, 2, 30).await?;
    crowd(&world).await?;

    let every = world.cell.every();
    let first = effects::list(every, 2, None, None, 20).await?;
    assert_eq!(first.items.len(), 20);
    let (found, pages) = read_all(&world, 2, None).await?;
    assert_eq!((found.len(), pages), (30, 2));
    let (failed, pages) = read_all(&world, 2, Some(EffectState::Failed)).await?;
    assert_eq!((failed.len(), pages), (3, 1));
    let (none, pages) = read_all(&world, 3, None).await?;
    assert_eq!(
        (none.len(), pages),
        (0, 1),
        "a namespace without runs has an end at once"
    );
    Ok(())
}
