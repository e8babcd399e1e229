//! `reconcile`: what a shop lists and no webhook brought starts once, and nothing else does.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::try_join_all;
use jiff::Timestamp;
use semel_engine::{Engine, Intake, ReconcileError};
use semel_model::run::RunState;
use semel_model::{FlowName, NamespaceName, ScheduleId, Span};
use semel_store::reconcile_passes::{self as passes, ItemVerdict, PassCounts, ReconcilePass};
use semel_store::{duplicates, schedules};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until, until_some};

use crate::world::World;

mod hostile_lists;

/// Webhooks are delivered so many at a time.
const TOGETHER: usize = 64;

const FLOW: &str = r#"
flow: orders
keep: 1d
trigger:
  webhook: { auth: none, key: '"order/" + input.id' }
reconcile:
  every: EVERY
  list:
    http:
      get: "PEER/shop/RECENT/OLD/NOW/orders?since=${{ window.start }}&size=100"
      pages: { items: orders, cursor: next, query: page }
  key: '"order/" + item.id'
  at: item.created_at
  same: run.result == item.total
  window: 1d
steps:
  - id: seen
    kv: { add: '${{ input.id }}' }
result: input.total
"#;

/// A world with a shop that has so many recent and old orders.
async fn world_of_orders(recent: u32, old: u32) -> Result<World> {
    let world = World::start().await?;
    publish(&world, (recent, old), "300d").await?;
    Ok(world)
}

/// The database's time.
async fn now(world: &World) -> Result<Timestamp> {
    Ok(schedules::look(world.engine.cell()).await?.0)
}

async fn publish(world: &World, (recent, old): (u32, u32), every: &str) -> Result<()> {
    let now = now(world).await?.as_second();
    let source = FLOW
        .replace("PEER", &world.peer.url(""))
        .replace("RECENT", &recent.to_string())
        .replace("OLD", &old.to_string())
        .replace("NOW", &now.to_string())
        .replace("EVERY", every);
    world.publish_source(&source).await
}

/// The webhook of an order.
async fn bring(world: &World, order: u32, total: u32) -> Result<Intake> {
    let payload = format!(r#"{{"id":"o-{order}","total":{total}}}"#);
    let brought = world.deliver_to("orders", &payload).await?;
    Ok(Intake::Accepted(brought))
}

/// The webhooks of all orders but every `missed`th; the first `differing` have another total.
async fn bring_all(world: &World, orders: u32, missed: u32, differing: u32) -> Result<()> {
    let brought: Vec<u32> = (0..orders).filter(|order| order % missed != 1).collect();
    for (number, together) in brought.chunks(TOGETHER).enumerate() {
        let bring = together.iter().zip(0_u32..).map(|(order, place)| {
            let changed = number == 0 && place < differing;
            bring(world, *order, order + u32::from(changed))
        });
        try_join_all(bring).await?;
    }
    Ok(())
}

fn names() -> Result<(NamespaceName, FlowName)> {
    Ok(("default".parse()?, "orders".parse()?))
}

async fn ask(
    world: &World,
    since: Option<Span>,
    dry_run: bool,
) -> Result<Result<Timestamp, ReconcileError>> {
    let (_, flow) = names()?;
    ask_of(world, &flow, since, dry_run).await
}

async fn ask_of(
    world: &World,
    flow: &FlowName,
    since: Option<Span>,
    dry_run: bool,
) -> Result<Result<Timestamp, ReconcileError>> {
    let (namespace, _) = names()?;
    let of = (&namespace, flow);
    let asked = world.engine.ask_reconcile(world.by(), of, since, dry_run);
    Ok(asked.await)
}

/// Makes a pass and waits for its end.
async fn reconcile(world: &World, dry_run: bool) -> Result<ReconcilePass> {
    let nominal = ask(world, None, dry_run).await??;
    until_ended(world, nominal).await
}

async fn until_ended(world: &World, nominal: Timestamp) -> Result<ReconcilePass> {
    let (_, flow) = names()?;
    let look = async || find(world, &flow, nominal).await;
    until("the pass to end", look, |pass| pass.state != "open").await
}

/// A pass as it stands.
async fn find(world: &World, flow: &FlowName, nominal: Timestamp) -> Result<ReconcilePass> {
    let (namespace, _) = names()?;
    let id = ScheduleId::derive(&namespace, flow);
    let cell = world.engine.cell().of(id);
    let found = passes::find(cell, world.namespace_id, (id, nominal)).await?;
    found.context("the pass")
}

/// How often each order was seen, at most and in total.
async fn seen(engine: &Engine) -> Result<(i64, i64)> {
    let client = engine.cell().reader().await?;
    let counts =
        "SELECT coalesce(max(value::text::int8), 0), count(*) FROM kv WHERE entry LIKE 'o-%'";
    let row = client.query_one(counts, &[]).await?;
    Ok((row.get(0), row.get(1)))
}

async fn until_seen(engine: &Engine, orders: i64) -> Result<()> {
    let what = format!("{orders} orders to be seen");
    let found = until(
        &what,
        async || seen(engine).await,
        |(most, all)| *all == orders || *most > 1,
    )
    .await?;
    ensure!(found == (1, orders), "{found:?} instead of {orders}");
    Ok(())
}

#[tokio::test]
async fn what_no_webhook_brought_starts_once_and_what_differs_is_reported() -> Result<()> {
    // Every 34th order never comes: 30 of 1,000.
    thirty_never_came(1_000, 34).await
}

#[tokio::test]
#[ignore = "delivers ten thousand webhooks; the short variant runs always"]
async fn thirty_of_ten_thousand_orders_start_once() -> Result<()> {
    thirty_never_came(10_000, 334).await
}

/// All orders come but 30, five of them twice and twelve with another total.
async fn thirty_never_came(orders: u32, missed: u32) -> Result<()> {
    let world = world_of_orders(orders, 20).await?;
    bring_all(&world, orders, missed, 12).await?;
    for order in [100, 200, 300, 400, 500] {
        bring(&world, order, order).await?;
    }
    let all = i64::from(orders);
    until_seen(&world.engine, all - 30).await?;
    let found = |started, differing| PassCounts {
        listed: all + 20,
        known: all - started,
        started,
        differing,
        unreadable: 0,
        left_out: 20,
    };

    let dry = reconcile(&world, true).await?;
    let after_dry = seen(&world.engine).await?;
    let pass = reconcile(&world, false).await?;
    until_seen(&world.engine, all).await?;
    let again = reconcile(&world, false).await?;

    assert_eq!((dry.state.as_str(), dry.counts), ("done", found(30, 12)));
    assert_eq!(after_dry, (1, all - 30), "a dry run starts nothing");
    assert_eq!((pass.state.as_str(), pass.counts), ("done", found(30, 12)));
    assert_eq!(
        i64::from(pass.page),
        all / 100 + 1,
        "a page of 100 at a time"
    );
    assert_eq!(again.counts, found(0, 12));
    let id = pass.new.id;
    let cell = world.engine.cell().of(id);
    let items = passes::list_items(cell, (id, pass.new.nominal), 500).await?;
    let count = |verdict| items.iter().filter(|item| item.verdict == verdict).count();
    assert_eq!(count(ItemVerdict::Started), 30);
    assert_eq!(count(ItemVerdict::Differing), 12);
    assert!(
        items
            .iter()
            .all(|item| item.run.is_some() && item.key.is_some())
    );
    Ok(())
}

#[tokio::test]
async fn a_late_webhook_of_a_reconciled_order_is_a_duplicate_recorded_with_its_payload()
-> Result<()> {
    let world = world_of_orders(3, 0).await?;
    let pass = reconcile(&world, false).await?;
    until_seen(&world.engine, 3).await?;

    // The trigger would refuse another payload: here the two only look different.
    let late = world
        .deliver_to("orders", r#"{"id":"o-1","total":1}"#)
        .await?;
    let cell = world.engine.cell();
    let stopped = until_some("a repeat that was stopped", async || {
        let (all, _) = duplicates::list(cell.every(), world.namespace_id, None, 10, true).await?;
        Ok(all.into_iter().find(|one| one.run == late.run))
    })
    .await?;
    let other = world
        .deliver_to("orders", r#"{"id":"o-9","total":1}"#)
        .await?;
    let refused = world
        .deliver_to("orders", r#"{"id":"o-9","total":2}"#)
        .await;

    assert_eq!(pass.counts.started, 3);
    assert!(late.replayed && !other.replayed);
    assert_eq!(stopped.verdict, "mismatch");
    assert!(
        stopped
            .payload
            .is_some_and(|payload| payload.contains("o-1"))
    );
    assert!(
        refused.is_err(),
        "between two deliveries payloads are compared"
    );
    assert_eq!(seen(&world.engine).await?.0, 1);
    Ok(())
}

#[tokio::test]
async fn webhooks_that_arrive_during_a_pass_start_nothing_twice() -> Result<()> {
    let world = world_of_orders(600, 0).await?;

    let nominal = ask(&world, None, false).await??;
    let webhooks = bring_all(&world, 600, 7, 0);
    let (brought, pass) = tokio::join!(webhooks, until_ended(&world, nominal));

    brought?;
    let counts = pass?.counts;
    assert_eq!(counts.known + counts.started, 600, "{counts:?}");
    until_seen(&world.engine, 600).await
}

#[tokio::test]
async fn a_pass_that_fails_on_its_way_continues_at_its_page() -> Result<()> {
    let world = world_of_orders(250, 0).await?;
    world
        .peer
        .next_times("/shop/", 2, Behaviour::RefuseWith(503))
        .await?;

    let pass = reconcile(&world, false).await?;

    assert_eq!((pass.state.as_str(), pass.page), ("done", 3));
    assert_eq!(pass.counts.started, 250);
    assert!(pass.epoch >= 3, "taken again after each failure");
    until_seen(&world.engine, 250).await
}

#[tokio::test]
async fn a_pass_whose_source_refuses_fails_and_says_why() -> Result<()> {
    let world = world_of_orders(10, 0).await?;
    world
        .peer
        .next("/shop/", Behaviour::RefuseWith(403))
        .await?;

    let pass = reconcile(&world, false).await?;

    assert_eq!(pass.state, "failed");
    let fault = pass.fault.context("a fault")?;
    assert!(fault.contains("http-403"), "{fault}");
    assert_eq!(seen(&world.engine).await?, (0, 0));
    Ok(())
}

#[tokio::test]
async fn an_instant_has_one_pass_whichever_server_opens_it() -> Result<()> {
    let world = World::start().await?;
    publish(&world, (5, 0), "1h").await?;
    let other = world.start_another().await?;

    world.move_clock(Duration::from_secs(3_600)).await?;
    until_seen(&world.engine, 5).await?;
    let (namespace, flow) = names()?;
    let id = ScheduleId::derive(&namespace, &flow);
    let look = async || {
        let cell = world.engine.cell().of(id);
        Ok(passes::list(cell, world.namespace_id, id, 10).await?)
    };
    let all = until("every pass to be done", look, |all| {
        all.iter().all(|pass| pass.state == "done")
    })
    .await?;

    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].counts.started, 5);
    other.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_pass_never_looks_further_back_than_keys_are_kept() -> Result<()> {
    let world = world_of_orders(5, 5).await?;

    let refused = ask(&world, Some(Span::from_secs(3 * 86_400)), false).await?;

    let Err(ReconcileError::TooFarBack { keep }) = refused else {
        bail!("{refused:?}");
    };
    assert_eq!(keep, Span::from_secs(86_400));
    assert_eq!(seen(&world.engine).await?, (0, 0));
    Ok(())
}

#[tokio::test]
async fn an_item_that_cannot_be_read_is_reported_and_starts_nothing() -> Result<()> {
    let world = World::start().await?;
    let source = r#"
flow: orders
trigger:
  webhook: { auth: none, key: input.id }
input_schema: { type: object, required: [id], properties: { id: { type: integer } } }
reconcile:
  every: 300d
  list: { http: { get: "PEER/list/3" } }
  key: 'item.id == 0 ? null : item.id'
  at: 'item.id == 1 ? "soon" : "NOW"'
  grace: 0s
  window: 1d
steps:
  - { id: seen, kv: { add: 'o-${{ input.id }}' } }
"#;
    let now = now(&world).await?.to_string();
    let source = source
        .replace("PEER", &world.peer.url(""))
        .replace("NOW", &now);
    world.publish_source(&source).await?;

    let pass = reconcile(&world, false).await?;

    let PassCounts {
        started,
        unreadable,
        ..
    } = pass.counts;
    assert_eq!((started, unreadable), (1, 2), "{pass:?}");
    until_seen(&world.engine, 1).await
}

#[tokio::test]
async fn a_run_that_was_reconciled_knows_what_started_it() -> Result<()> {
    let world = World::start().await?;
    publish(&world, (1, 0), "300d").await?;

    let pass = reconcile(&world, false).await?;
    let id = pass.new.id;
    let cell = world.engine.cell();
    let items = passes::list_items(cell.of(id), (id, pass.new.nominal), 10).await?;
    let run = items[0].run.context("a run")?;
    let end = world.engine.await_end(run, patience()).await?;

    assert_eq!(end.context("the run")?.state, RunState::Succeeded);
    let rows = semel_store::runs::find(cell.of(run), world.namespace_id, run).await?;
    let day = rows.context("the run")?.partition_date;
    let first = semel_store::journal::read_first(cell.of(run), day, run).await?;
    let events = first.context("a row")?.events;
    assert!(events.contains(r#""trigger":"reconcile""#), "{events}");
    Ok(())
}
