//! Lists that never end, run in a circle, come late, or hold what a column of text cannot.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_engine::ReconcileError;
use semel_model::{FlowName, Span};
use semel_store::reconcile_passes as passes;
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until};

use super::{
    FLOW, ask, ask_of, find, now, reconcile, seen, until_ended, until_seen, world_of_orders,
};
use crate::world::World;

/// A flow whose list never ends, at a path of the peer.
async fn publish_endless(world: &World, name: &str, path: &str) -> Result<FlowName> {
    let source = FLOW
        .replace("flow: orders", &format!("flow: {name}"))
        .replace("PEER/shop/RECENT/OLD/NOW/orders", &world.peer.url(path))
        .replace("EVERY", "300d");
    world.publish_source(&source).await?;
    Ok(name.parse()?)
}

#[tokio::test]
async fn slow_lists_without_end_delay_no_other_flow() -> Result<()> {
    let world = world_of_orders(5, 0).await?;
    let mut endless = Vec::new();
    // As many as a server makes at a time, and more.
    for number in 0..5 {
        let name = format!("endless-{number}");
        let flow = publish_endless(&world, &name, "/slow/50/endless/0").await?;
        let nominal = ask_of(&world, &flow, None, false).await??;
        endless.push((flow, nominal));
    }
    let (flow, nominal) = &endless[0];
    let look = async || find(&world, flow, *nominal).await;
    until("the first pass to begin", look, |pass| pass.page > 0).await?;

    let pass = reconcile(&world, false).await?;

    assert_eq!((pass.state.as_str(), pass.counts.started), ("done", 5));
    // Every one of them has its turn, too.
    for (flow, nominal) in &endless {
        let look = async || find(&world, flow, *nominal).await;
        let what = format!("the second turn of {flow}");
        let pass = until(&what, look, |pass| pass.page > 20).await?;
        assert_eq!((pass.state.as_str(), pass.fault), ("open", None));
    }
    Ok(())
}

#[tokio::test]
async fn a_list_in_a_circle_of_any_length_ends_its_pass() -> Result<()> {
    let world = World::start().await?;
    for circle in [1, 2, 3, 7] {
        let path = format!("/endless/{circle}");
        publish_endless(&world, "orders", &path).await?;

        let pass = reconcile(&world, false).await?;

        assert_eq!(pass.state, "failed", "{circle}");
        let fault = pass.fault.context("a fault")?;
        assert!(fault.starts_with("list-repeats: "), "{circle}: {fault}");
        assert!(pass.page <= 4 * circle, "{circle}: {} pages", pass.page);
    }
    Ok(())
}

#[tokio::test]
async fn a_key_with_a_zero_is_reported_like_any_other() -> Result<()> {
    let world = World::start().await?;
    let source = r#"
flow: orders
trigger:
  webhook: { auth: none, key: '"o-" + string(input.id) + (input.id == 1 ? "\u0000" : "")' }
reconcile:
  every: 300d
  list: { http: { get: "PEER/list/4" } }
  key: '"o-" + string(item.id) + (item.id == 1 ? "\u0000" : "")'
  at: 'item.id == 2 ? "soon" : "NOW"'
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
    let again = reconcile(&world, false).await?;

    let counts = (pass.counts.started, pass.counts.unreadable);
    assert_eq!((pass.state.as_str(), counts), ("done", (3, 1)), "{pass:?}");
    assert_eq!(again.counts.known, 3);
    let id = pass.new.id;
    let cell = world.engine.cell().of(id);
    let items = passes::list_items(cell, (id, pass.new.nominal), 10).await?;
    let keys: Vec<&str> = items
        .iter()
        .filter_map(|item| item.key.as_deref())
        .collect();
    assert_eq!(keys, ["o-0", "o-1\u{fffd}", "o-2", "o-3"]);
    until_seen(&world.engine, 3).await
}

#[tokio::test]
async fn whoever_asks_again_while_a_pass_is_open_gets_it_and_opens_no_other() -> Result<()> {
    let world = world_of_orders(5, 5).await?;
    let held = Behaviour::HoldBeforeAnswer;
    world.peer.next_times("/shop/", 2, held).await?;

    let nominal = ask(&world, None, false).await??;
    world.peer.until_held(1, patience()).await?;
    let mut again = Vec::new();
    for _ in 0..20 {
        again.push(ask(&world, None, false).await??);
    }
    let dry = ask(&world, Some(Span::from_secs(60)), true).await??;
    let less_far = ask(&world, Some(Span::from_secs(30)), true).await??;
    let further = ask(&world, Some(Span::from_secs(600)), true).await?;
    world.peer.until_held(2, patience()).await?;
    world.peer.let_go().await?;
    let pass = until_ended(&world, nominal).await?;
    until_ended(&world, dry).await?;

    assert_eq!(again, [nominal; 20]);
    assert_ne!(dry, nominal, "a dry run is another pass");
    assert_eq!(less_far, dry);
    assert!(
        matches!(further, Err(ReconcileError::UnderWay)),
        "{further:?}"
    );
    assert_eq!(pass.counts.started, 5);
    Ok(())
}

#[tokio::test]
async fn a_pass_that_is_late_starts_nothing_that_keys_are_no_longer_kept_for() -> Result<()> {
    let world = world_of_orders(5, 5).await?;
    let day = Duration::from_secs(86_400);
    let held = Behaviour::HoldBeforeAnswer;
    world.peer.next_times("/shop/", 2, held).await?;

    // In the window when the pass was opened; older than `keep` when the answer comes. The first turn
    // is lost meanwhile, and another one has begun.
    let nominal = ask(&world, None, false).await??;
    world.peer.until_held(1, patience()).await?;
    world.move_clock(day).await?;
    let clock = async || Ok(world.engine.now());
    until("the engine to know the day", clock, |now| {
        *now >= nominal + day
    })
    .await?;
    world.peer.until_held(2, patience()).await?;
    world.peer.let_go().await?;
    let pass = until_ended(&world, nominal).await?;

    assert_eq!((pass.counts.started, pass.counts.left_out), (0, 10));
    assert_eq!(seen(&world.engine).await?, (0, 0));
    Ok(())
}
