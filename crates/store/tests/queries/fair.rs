//! Fair taking: namespaces with due runs take turns, by their weights, and each gives its oldest.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use semel_model::{RunId, SessionId, Span};
use semel_store::claims::start_accepting;
use semel_store::queue::{NamespaceRoom, Taken, Taker};
use semel_store::{namespaces, queue, sessions};

use crate::world::{World, delivery};

async fn begin(world: &World) -> Result<(Taker, SessionId)> {
    let session = SessionId::generate();
    sessions::open(&world.cell, session, "test", Span::from_secs(60)).await?;
    Ok((Taker::new(&world.cell), session))
}

/// Accepts runs of a namespace, one after the other.
async fn accept(world: &World, namespace_id: i32, count: usize) -> Result<Vec<RunId>> {
    let accepting = start_accepting(&world.cell);
    let mut runs = Vec::new();
    for number in 0..count {
        let mut delivery = delivery(&format!("{namespace_id}-{number}"), "{}", None)?;
        delivery.namespace_id = namespace_id;
        runs.push(accepting.write(delivery).await?.run);
    }
    Ok(runs)
}

/// How many runs of each namespace.
fn counts(taken: &[Taken]) -> BTreeMap<i32, usize> {
    let mut counts = BTreeMap::new();
    for one in taken {
        *counts.entry(one.namespace_id).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn a_few_runs_do_not_wait_behind_many_of_another_namespace() -> Result<()> {
    let world = World::start().await?;
    let (mut taker, session) = begin(&world).await?;
    let many = accept(&world, 1, 60).await?;
    accept(&world, 2, 3).await?;

    let taken = taker.take(session, 20).await?.taken;

    assert_eq!(counts(&taken), BTreeMap::from([(1, 10), (2, 3)]));
    let of_many = taken.iter().filter(|it| it.namespace_id == 1);
    let of_many: BTreeSet<RunId> = of_many.map(|it| it.run).collect();
    assert_eq!(of_many, many[..10].iter().copied().collect(), "its oldest");
    Ok(())
}

#[tokio::test]
async fn a_weight_is_a_share() -> Result<()> {
    let world = World::start().await?;
    let (mut taker, session) = begin(&world).await?;
    accept(&world, 1, 40).await?;
    accept(&world, 2, 40).await?;
    let heavy = NamespaceRoom {
        namespace_id: 2,
        weight: 3,
        room: 1_000,
    };

    let taken = taker.take_fairly(session, 40, &[heavy]).await?.taken;

    assert_eq!(counts(&taken), BTreeMap::from([(1, 10), (2, 30)]));
    Ok(())
}

#[tokio::test]
async fn where_there_is_less_room_than_namespaces_they_take_turns() -> Result<()> {
    let world = World::start().await?;
    let (mut taker, session) = begin(&world).await?;
    for namespace_id in 1..=5 {
        accept(&world, namespace_id, 3).await?;
    }

    let mut turns = Vec::new();
    for _ in 0..10 {
        let taken = taker.take(session, 1).await?.taken;
        turns.extend(taken.iter().map(|it| it.namespace_id));
    }

    assert_eq!(turns, [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]);
    Ok(())
}

#[tokio::test]
async fn a_namespace_without_room_waits_and_the_others_do_not() -> Result<()> {
    let world = World::start().await?;
    let (mut taker, session) = begin(&world).await?;
    accept(&world, 1, 20).await?;
    accept(&world, 2, 20).await?;
    let full = |room| NamespaceRoom {
        namespace_id: 1,
        weight: 1,
        room,
    };

    let first = taker.take_fairly(session, 20, &[full(0)]).await?;
    let second = taker.take_fairly(session, 20, &[full(4)]).await?;

    assert_eq!(counts(&first.taken), BTreeMap::from([(2, 20)]));
    assert_eq!(counts(&second.taken), BTreeMap::from([(1, 4)]));
    Ok(())
}

#[tokio::test]
async fn of_a_namespace_without_room_nothing_is_taken_early_and_of_the_others_it_is() -> Result<()>
{
    let world = World::start().await?;
    let (mut taker, session) = begin(&world).await?;
    for namespace_id in [1, 2] {
        for run in accept(&world, namespace_id, 5).await? {
            queue::give_head_start(world.cell.of(run), run, -5_000.0).await?;
        }
    }
    let full = |room| NamespaceRoom {
        namespace_id: 1,
        weight: 1,
        room,
    };

    let none = taker.take_early(session, 20, 4_000.0, &[]).await?;
    let first = taker.take_early(session, 20, 9_000.0, &[full(0)]).await?;
    let second = taker.take_early(session, 20, 9_000.0, &[full(3)]).await?;

    assert!(none.is_empty());
    assert_eq!(counts(&first), BTreeMap::from([(2, 5)]));
    assert_eq!(counts(&second), BTreeMap::from([(1, 3)]));
    Ok(())
}

#[tokio::test]
async fn the_only_namespace_is_taken_in_the_order_of_time() -> Result<()> {
    let world = World::start().await?;
    let (mut taker, session) = begin(&world).await?;
    let only = namespaces::ensure(world.cell.home(), &"default".parse()?).await?;
    let runs = accept(&world, only, 30).await?;

    let look = taker.look().await?;
    let first = taker.take(session, 10).await?;
    let rest = taker.take(session, 100).await?;
    let none = taker.take(session, 100).await?;

    assert!(!look.has_several_namespaces);
    assert_eq!(look.sessions, [session]);
    let set = |taken: &[Taken]| -> BTreeSet<RunId> { taken.iter().map(|it| it.run).collect() };
    assert_eq!(set(&first.taken), runs[..10].iter().copied().collect());
    assert_eq!(set(&rest.taken), runs[10..].iter().copied().collect());
    assert!(none.taken.is_empty() && none.next_due.is_none());
    let depth = queue::depth(world.cell.every()).await?;
    assert_eq!((depth.held, depth.due), (30, 0));
    Ok(())
}

#[tokio::test]
async fn the_next_run_that_is_due_is_known_whichever_namespace_has_it() -> Result<()> {
    let world = World::start().await?;
    let (mut taker, session) = begin(&world).await?;
    for namespace_id in 1..=3 {
        accept(&world, namespace_id, 2).await?;
    }
    let client = world.connect().await?;
    let sleep =
        "UPDATE queue SET due_at = moment() + make_interval(hours => 10 - 2 * namespace_id)";
    client.execute(sleep, &[]).await?;

    let look = taker.look().await?;
    let taken = taker.take(session, 10).await?;

    assert!(taken.taken.is_empty());
    for next_due in [look.next_due, taken.next_due] {
        let hours = next_due.map_or(0.0, |due| due.as_secs_f64() / 3_600.0);
        assert!((3.0..=4.0).contains(&hours), "{hours}");
    }
    Ok(())
}
