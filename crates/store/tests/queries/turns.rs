//! Turns of namespaces at what is taken one by one, or a few at a time.

use std::collections::BTreeMap;

use anyhow::Result;
use jiff::Timestamp;
use semel_model::Span;
use semel_store::broadcasts::Broadcast;
use semel_store::turns::NamespaceTurns;
use semel_store::{broadcasts, reconcile_passes, replay_plans, run_jobs};

use crate::world::World;

const LEASE: Span = Span::from_const_secs(600);

/// So many rows of a namespace `$1`, a second apart, the last of them due now.
const BROADCASTS: &str = "
    INSERT INTO broadcasts (event_id, namespace_id, run_id, event, data, emitted_at, begun_at, due_at)
    SELECT gen_random_uuid(), $1, gen_random_uuid(), 'order.paid', '{}', t.at, t.at, t.at
      FROM (SELECT moment() - make_interval(secs => n) AS at
              FROM generate_series(0, $2::int4 - 1) AS n) AS t";

const JOBS: &str = "
    INSERT INTO run_jobs (id, namespace_id, flow, verb, digest, actor, reason, due_at)
    SELECT gen_random_uuid(), $1, 'orders', 'cancel', 'd', 'token:ada', 'r', moment() - make_interval(secs => n)
      FROM generate_series(0, $2::int4 - 1) AS n";

const PLANS: &str = "
    INSERT INTO replay_plans (id, namespace_id, flow, release, state, per_second, actor, due_at)
    SELECT gen_random_uuid(), $1, 'orders', 1, CASE WHEN n % 2 = 0 THEN 'running' ELSE 'previewing' END, 1,
           'token:ada', moment() - make_interval(secs => n)
      FROM generate_series(0, $2::int4 - 1) AS n";

const PASSES: &str = "
    INSERT INTO reconcile_passes (schedule_id, nominal, namespace_id, flow, release_id, window_start, dry_run,
                                  due_at)
    SELECT gen_random_uuid(), now(), $1, 'orders', 1, now(), false, moment() - make_interval(secs => n)
      FROM generate_series(0, $2::int4 - 1) AS n";

/// Many of the first namespace, which are due longest, and one of each other.
const MANY: [(i32, i32); 3] = [(1, 60), (2, 1), (3, 1)];

async fn fill(world: &World, text: &str, counts: &[(i32, i32)]) -> Result<()> {
    let client = world.connect().await?;
    for (namespace_id, count) in counts {
        client.execute(text, &[namespace_id, count]).await?;
    }
    Ok(())
}

/// How many broadcasts of each namespace.
fn counts(taken: &[Broadcast]) -> BTreeMap<i32, usize> {
    let mut counts = BTreeMap::new();
    for one in taken {
        *counts.entry(one.event.namespace_id).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn a_few_broadcasts_do_not_wait_behind_many_of_another_namespace() -> Result<()> {
    let world = World::start().await?;
    fill(&world, BROADCASTS, &[(1, 60), (2, 1)]).await?;

    let turns = &mut NamespaceTurns::default();
    let taken = broadcasts::take(&world.cell, turns, 4, LEASE).await?;

    assert_eq!(counts(&taken), BTreeMap::from([(1, 2), (2, 1)]));
    let oldest = taken.iter().map(|it| it.event.emitted_at).min();
    let client = world.connect().await?;
    let first = "SELECT min(emitted_at) FROM broadcasts";
    let first: Option<Timestamp> = client.query_one(first, &[]).await?.get(0);
    assert_eq!(first, oldest);
    Ok(())
}

#[tokio::test]
async fn where_more_namespaces_have_broadcasts_than_there_are_places_they_take_turns() -> Result<()>
{
    let world = World::start().await?;
    fill(&world, BROADCASTS, &[1, 2, 3, 4, 5, 6].map(|id| (id, 2))).await?;

    let turns = &mut NamespaceTurns::default();
    let mut served = Vec::new();
    for _ in 0..3 {
        let taken = broadcasts::take(&world.cell, turns, 4, LEASE).await?;
        served.push(counts(&taken).into_keys().collect::<Vec<_>>());
    }

    assert_eq!(served, [[1, 2, 3, 4], [1, 2, 5, 6], [3, 4, 5, 6]]);
    Ok(())
}

#[tokio::test]
async fn a_job_does_not_wait_behind_many_jobs_of_another_namespace() -> Result<()> {
    let world = World::start().await?;
    fill(&world, JOBS, &MANY).await?;

    let turns = &mut NamespaceTurns::default();
    let mut served = Vec::new();
    for _ in 0..5 {
        let taken = run_jobs::take(world.cell.home(), turns).await?;
        served.extend(taken.map(|job| job.namespace_id));
    }

    assert_eq!(served, [1, 2, 3, 1, 1]);
    Ok(())
}

#[tokio::test]
async fn a_replay_plan_does_not_wait_behind_many_plans_of_another_namespace() -> Result<()> {
    let world = World::start().await?;
    fill(&world, PLANS, &MANY).await?;

    let turns = &mut NamespaceTurns::default();
    let mut served = Vec::new();
    for _ in 0..5 {
        let taken = replay_plans::take(world.cell.home(), turns).await?;
        served.extend(taken.map(|plan| plan.namespace_id));
    }

    assert_eq!(served, [1, 2, 3, 1, 1]);
    Ok(())
}

#[tokio::test]
async fn a_reconcile_pass_does_not_wait_behind_many_passes_of_another_namespace() -> Result<()> {
    let world = World::start().await?;
    fill(&world, PASSES, &MANY).await?;

    let turns = &mut NamespaceTurns::default();
    let mut served = Vec::new();
    for _ in 0..5 {
        let taken = reconcile_passes::take(world.cell.every(), turns, &[], LEASE).await?;
        served.extend(taken.map(|pass| pass.new.namespace_id));
    }

    assert_eq!(served, [1, 2, 3, 1, 1]);
    Ok(())
}

#[tokio::test]
async fn a_namespace_that_has_its_share_of_the_passes_leaves_places_to_the_others() -> Result<()> {
    let world = World::start().await?;
    fill(&world, PASSES, &MANY).await?;

    let turns = &mut NamespaceTurns::default();
    let mut served = Vec::new();
    for _ in 0..3 {
        let taken = reconcile_passes::take(world.cell.every(), turns, &[1], LEASE).await?;
        served.push(taken.map(|pass| pass.new.namespace_id));
    }

    assert_eq!(served, [Some(2), Some(3), None]);
    Ok(())
}
