//! Tallies: added by minute, by hour and by day, summed, and removed when their time is over.

use std::time::Duration;

use anyhow::Result;
use semel_store::overview::WaitingKind;
use semel_store::tallies::{self, TallyKind, TallyRow};
use semel_store::{clock, overview};

use crate::world::World;

const HOUR: u64 = 3_600;

async fn flow(world: &World, name: &str) -> Result<i32> {
    let client = world.cell.reader().await?;
    let text = "WITH n AS (INSERT INTO namespaces (name) VALUES ('tallied')
                           ON CONFLICT (name) DO UPDATE SET name = EXCLUDED.name RETURNING id)
                INSERT INTO flows (namespace_id, name) SELECT id, $1 FROM n RETURNING id, namespace_id";
    Ok(client.query_one(text, &[&name]).await?.get(0))
}

async fn namespace(world: &World) -> Result<i32> {
    let client = world.cell.reader().await?;
    let text = "SELECT id FROM namespaces WHERE name = 'tallied'";
    Ok(client.query_one(text, &[]).await?.get(0))
}

#[tokio::test]
async fn what_two_servers_counted_is_summed_by_flow_and_kind() -> Result<()> {
    let world = World::start().await?;
    let (one, two) = (flow(&world, "one").await?, flow(&world, "two").await?);
    let namespace_id = namespace(&world).await?;
    let row = |flow_id, what, count| TallyRow {
        namespace_id,
        flow_id,
        step: String::new(),
        what,
        count,
    };
    let home = world.cell.home();

    tallies::add(
        home,
        &[
            row(one, TallyKind::Accepted, 3),
            row(two, TallyKind::Failed, 1),
        ],
    )
    .await?;
    tallies::add(home, &[row(one, TallyKind::Accepted, 4)]).await?;

    let found = async |secs, flow| -> Result<Vec<(String, String, i64)>> {
        let (_, sums) = tallies::sum(world.cell.home(), namespace_id, secs, flow).await?;
        Ok(sums
            .into_iter()
            .map(|it| (it.flow, it.what, it.count))
            .collect())
    };
    let accepted = ("one".to_owned(), "accepted".to_owned(), 7);
    let failed = ("two".to_owned(), "failed".to_owned(), 1);
    for secs in [HOUR, 24 * HOUR, 720 * HOUR] {
        assert_eq!(found(secs, None).await?, [accepted.clone(), failed.clone()]);
        assert_eq!(
            found(secs, Some("two")).await?,
            std::slice::from_ref(&failed)
        );
        assert!(found(secs, Some("none")).await?.is_empty());
    }
    let of_step = |step: &str, count| TallyRow {
        step: step.to_owned(),
        ..row(one, TallyKind::EffectDone, count)
    };
    let counted = [
        row(one, TallyKind::EffectDone, 3),
        of_step("a", 1),
        of_step("b", 2),
    ];
    tallies::add(home, &counted).await?;
    let (_, steps) = tallies::sum_of_steps(home, namespace_id, "one", 24 * HOUR).await?;
    let steps: Vec<_> = steps.into_iter().map(|it| (it.step, it.count)).collect();
    assert_eq!(
        steps,
        [(Some("a".to_owned()), 1), (Some("b".to_owned()), 2)]
    );
    let done = ("one".to_owned(), "effect_done".to_owned(), 3);
    for secs in [HOUR, 24 * HOUR] {
        let all = found(secs, Some("one")).await?;
        assert_eq!(
            all,
            [accepted.clone(), done.clone()],
            "steps are not counted twice"
        );
    }
    // By the minute, the hour, three hours and the day: so many that the last one is not over.
    for (secs, every_secs) in [
        (HOUR, 60),
        (24 * HOUR, HOUR),
        (7 * 24 * HOUR, 3 * HOUR),
        (30 * 24 * HOUR, 24 * HOUR),
    ] {
        let found = tallies::sum_series(home, namespace_id, secs, None).await?;
        let of = |what: &str| -> i64 {
            let same = found.sums.iter().filter(|it| it.what == what);
            same.map(|it| it.count).sum()
        };
        assert_eq!(
            (of("accepted"), of("failed"), of("effect_done")),
            (7, 1, 3),
            "all flows together, steps not twice"
        );
        assert_eq!(found.every_secs, every_secs);
        let back = found.sums[0].at.duration_since(found.since).as_secs() as u64;
        // What was counted may be of the interval before the one that is not over.
        let now = secs - every_secs;
        assert!((now - every_secs..=now).contains(&back), "{secs}: {back}");
        let of_two = tallies::sum_series(home, namespace_id, secs, Some("two")).await?;
        let kinds: Vec<_> = of_two.sums.iter().map(|it| it.what.as_str()).collect();
        assert_eq!(kinds, ["failed"]);
    }
    let none = tallies::sum_of_steps(home, namespace_id, "two", 24 * HOUR).await?;
    assert!(none.1.is_empty());
    let (_, foreign) = tallies::sum(home, namespace_id + 1, HOUR, None).await?;
    assert!(foreign.is_empty(), "another namespace sees nothing");
    Ok(())
}

#[tokio::test]
async fn minutes_hours_and_days_are_kept_for_their_time() -> Result<()> {
    let world = World::start().await?;
    let flow_id = flow(&world, "one").await?;
    let namespace_id = namespace(&world).await?;
    let row = TallyRow {
        namespace_id,
        flow_id,
        step: String::new(),
        what: TallyKind::Succeeded,
        count: 5,
    };
    tallies::add(world.cell.home(), &[row]).await?;
    let count = async || -> Result<i64> {
        let client = world.cell.reader().await?;
        Ok(client
            .query_one("SELECT count(*) FROM tallies", &[])
            .await?
            .get(0))
    };
    assert_eq!(
        (count().await?, tallies::forget(world.cell.home()).await?),
        (3, 0)
    );

    clock::move_ahead(&world.cell, Duration::from_secs(49 * HOUR)).await?;
    assert_eq!(tallies::forget(world.cell.home()).await?, 1, "the minute");
    let (_, sums) = tallies::sum(world.cell.home(), namespace_id, 72 * HOUR, None).await?;
    assert_eq!(sums[0].count, 5, "the hour is there");
    let (_, sums) = tallies::sum(world.cell.home(), namespace_id, 720 * HOUR, None).await?;
    assert_eq!(sums[0].count, 5, "and the day");

    clock::move_ahead(&world.cell, Duration::from_secs((90 * 24 - 49) * HOUR)).await?;
    assert_eq!(tallies::forget(world.cell.home()).await?, 0);
    let (_, sums) = tallies::sum(world.cell.home(), namespace_id, 90 * 24 * HOUR, None).await?;
    assert_eq!(sums[0].count, 5, "the first day of the longest time");

    clock::move_ahead(&world.cell, Duration::from_secs(49 * HOUR)).await?;
    assert_eq!(
        (tallies::forget(world.cell.home()).await?, count().await?),
        (2, 0)
    );
    Ok(())
}

#[tokio::test]
async fn what_waits_is_counted_up_to_a_limit_and_by_namespace() -> Result<()> {
    let world = World::start().await?;
    let client = world.cell.reader().await?;
    let text = "INSERT INTO attention (subject_id, kind, partition_date, namespace_id, run_id, flow_id, step,
                                       since, accepted_at, is_child)
                SELECT md5(n::text)::uuid, CASE WHEN n = 1 THEN 'quarantined' ELSE 'doubt' END::attention_kind,
                       current_date, 7, md5(n::text)::uuid, 1, '', now() - make_interval(secs => n), now(), false
                  FROM generate_series(1, 60) AS n";
    client.execute(text, &[]).await?;

    let text = "INSERT INTO refused_deliveries (namespace_id, flow, at, code, message)
                SELECT 7, 'one', now() - make_interval(hours => n), 'key-invalid', 'no key'
                  FROM unnest(ARRAY[30, 2, 1]) AS n";
    client.execute(text, &[]).await?;

    let text = "INSERT INTO webhook_deliveries (event_id, namespace_id, subscription, connection, event, state, body,
                                                emitted_at, due_at, settled_at)
                SELECT md5(n::text)::uuid, 7, 'shop', 'shop', 'e', s.state::webhook_delivery_state, '{}', now(), now(),
                       CASE WHEN s.state <> 'due' THEN now() - make_interval(hours => n) END
                  FROM unnest(ARRAY[30, 3, 2, 1], ARRAY['failed', 'failed', 'delivered', 'due']) AS s (n, state)";
    client.execute(text, &[]).await?;

    let (waiting, health) = overview::get_overview(world.cell.every(), 7).await?;
    assert_eq!(
        (
            health.servers,
            health.due,
            health.refused,
            health.undelivered
        ),
        (0, 0, 2, 1),
        "refusals of the last day, and what was not delivered in it"
    );
    assert!(health.undelivered_at.is_some());
    assert!(health.refused_at.is_some() && health.due_since.is_none());
    let of = |what: WaitingKind| {
        let found = waiting.iter().find(|it| it.what == what);
        found.map(|it| (it.count, it.since.is_some()))
    };
    assert_eq!(
        of(WaitingKind::Doubt),
        Some((overview::WAITING_MAX + 1, true))
    );
    assert_eq!(of(WaitingKind::Quarantined), Some((1, true)));
    assert_eq!(of(WaitingKind::Held), Some((0, false)));

    let (foreign, health) = overview::get_overview(world.cell.every(), 8).await?;
    assert!(foreign.iter().all(|it| it.count == 0), "{foreign:?}");
    assert_eq!(health, overview::NamespaceHealth::default());
    Ok(())
}
