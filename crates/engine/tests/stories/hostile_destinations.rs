//! Hostile destinations: they act late, act and then refuse, answer slowly, or answer too much.
//!
//! What must hold whatever they do: an effect whose guard promises so happens once, and the ledger
//! never says *failed* of something that happened.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use semel_model::RunId;
use semel_model::effect;
use semel_model::run::RunState;
use semel_store::{effects, runs};
use semel_testkit::peer::Behaviour;
use semel_testkit::proxy::Cut;
use semel_testkit::{Proxy, patience, until, until_some};
use serde_json::json;

use crate::world::World;

const ASK: &str =
    "http: { get: 'PEER/items?id=${{ input.id }}' }, found: 'probe.json.items.size() > 0'";

fn call(path: &str, guard: &str) -> String {
    call_within("20s", path, guard)
}

fn call_within(timeout: &str, path: &str, guard: &str) -> String {
    format!(
        "steps:\n  - id: call\n    http: {{ post: 'PEER/{path}/x', json: {{ id: '${{{{ input.id }}}}' }}, timeout: {timeout} }}\n    {guard}\n"
    )
}

/// Waits until the destination was asked, and knew of nothing; gives what the ledger notes about the effect.
async fn until_absent(world: &World, run: RunId) -> Result<String> {
    let asked = async || Ok(world.peer.count("/items").await?.calls);
    until("the destination to be asked", asked, |calls| *calls > 0).await?;
    until_some("a note in the ledger", async || {
        let cell = world.engine.cell();
        let found = runs::find(cell.of(run), world.namespace_id, run).await?;
        let day = found.context("the run")?.partition_date;
        let listed = effects::list_of_run(cell.of(run), world.namespace_id, day, run).await?;
        Ok(listed.into_iter().find_map(|effect| effect.note))
    })
    .await
}

#[tokio::test]
async fn a_repeat_refused_before_the_key_is_looked_up_leaves_the_doubt() -> Result<()> {
    for status in [401, 403, 404, 429, 503] {
        let world = World::start().await?;
        world.publish(&call("keyed", "guard: key")).await?;
        world
            .peer
            .next("/keyed/", Behaviour::CloseWithoutAnswer)
            .await?;
        world
            .peer
            .next_times("/keyed/", 9, Behaviour::RefuseWith(status))
            .await?;

        let (_, end) = world.play(r#"{"id":"1"}"#).await?;

        assert_eq!(end.state, RunState::InDoubt, "{status}: {end:?}");
        assert_eq!(world.peer.count("/keyed/").await?.effects, 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_refusal_that_the_destination_stores_under_the_key_settles_the_doubt() -> Result<()> {
    let world = World::start().await?;
    world.publish(&call("keyed", "guard: key")).await?;
    world
        .peer
        .next("/keyed/", Behaviour::CloseBeforeEffect)
        .await?;
    world
        .peer
        .next("/keyed/", Behaviour::RefuseWith(422))
        .await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Failed, "{end:?}");
    Ok(())
}

#[tokio::test]
async fn an_unanswered_commit_stays_in_doubt_when_later_logins_are_refused() -> Result<()> {
    let world = World::start().await?;
    let server = world.database().server();
    let name = world.database().name();
    let admin = server.connect(name).await?;
    // Roles belong to the whole cluster, which tests share.
    let clerk = format!("clerk_of_{name}");
    let grant = "CREATE ROLE CLERK LOGIN; CREATE TABLE sales (id text);
        GRANT ALL ON sales TO CLERK; GRANT CREATE ON SCHEMA public TO CLERK";
    admin.batch_execute(&grant.replace("CLERK", &clerk)).await?;
    let proxy = Proxy::start(server.address()).await?;
    let to = json!({"postgres": {"host": "127.0.0.1", "port": proxy.address().port(),
        "database": name, "user": &clerk, "tls": "off"}});
    world.connect("shop", json!({"to": to})).await?;
    let prepared = world.engine.prepare_connection(world.by(), "shop").await?;
    ensure!(prepared.is_ok(), "{prepared:?}");
    world
        .publish("steps:\n  - id: sell\n    db: { connection: shop, execute: \"INSERT INTO sales VALUES ($1)\", values: ['${{ input.id }}'], timeout: 20s }\n")
        .await?;

    proxy.hold_commits();
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    proxy.until_held(1, patience()).await?;
    let closed = format!("ALTER ROLE {clerk} NOLOGIN");
    admin.batch_execute(&closed).await?;
    // The answers of commits stay held: only the wire of the first one is cut.
    proxy.cut(Cut::Reset);
    let end = world.engine.await_end(run, patience()).await?;
    let end = end.context("the run")?;
    let sold = admin.query_one("SELECT count(*) FROM sales", &[]).await?;

    assert_eq!(sold.get::<_, i64>(0), 1, "it was committed");
    assert_eq!(end.state, RunState::InDoubt, "{end:?}");
    Ok(())
}

/// What happened at the destination, and what the ledger says, once the run has come to rest.
async fn act_late(millis: u64, probe: &str) -> Result<()> {
    let world = World::start().await?;
    let guard = format!("guard: probe\n    probe: {{ {ASK}{probe} }}");
    world
        .publish(&call(&format!("late/{millis}/plain"), &guard))
        .await?;

    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    let end = world.engine.await_end(run, patience()).await?;
    let end = end.context("the run")?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/late/").await?.effects, 1, "it acts once");
    Ok(())
}

#[tokio::test]
async fn a_destination_that_acts_after_the_first_probe_acts_once() -> Result<()> {
    act_late(2_000, ", after: 100ms").await
}

#[tokio::test]
#[ignore = "waits for twelve seconds and more; the short variant runs always"]
async fn a_destination_that_acts_twelve_seconds_late_acts_once_by_default() -> Result<()> {
    act_late(12_000, "").await
}

#[tokio::test]
async fn absent_is_believed_once_nothing_can_arrive_any_more() -> Result<()> {
    let world = World::start().await?;
    let guard = format!("guard: probe\n    probe: {{ {ASK}, after: 100ms }}");
    world.publish(&call("plain", &guard)).await?;
    world
        .peer
        .next("/plain/", Behaviour::CloseBeforeEffect)
        .await?;

    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    let note = until_absent(&world, run).await?;
    let early = world.peer.count("/plain/").await?.effects;
    // The wait for room, the lease, the timeout and the margin make 113 seconds.
    world.move_clock(Duration::from_secs(120)).await?;
    let end = world.engine.await_end(run, patience()).await?;
    let end = end.context("the run")?;

    ensure!(note.contains("absent is believed from"), "{note}");
    assert_eq!(early, 0, "absent was not believed at once");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_connection_says_how_long_its_destination_may_still_act() -> Result<()> {
    let world = World::start().await?;
    let to = json!({"http": {"base_url": world.peer.url("")}});
    world
        .connect("slow", json!({"to": to, "acts_within": "1s"}))
        .await?;
    world
        .publish(&format!(
            "steps:\n  - id: call\n    http: {{ connection: slow, post: /plain/x, json: {{ id: '${{{{ input.id }}}}' }}, timeout: 20s }}\n    guard: probe\n    probe: {{ {ASK}, after: 100ms }}\n"
        ))
        .await?;
    world
        .peer
        .next("/plain/", Behaviour::CloseBeforeEffect)
        .await?;

    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    until_absent(&world, run).await?;
    let early = world.peer.count("/plain/").await?.effects;
    // Longer than the wait for room, the lease, the timeout and a second, and shorter than with the margin of other connections.
    world.move_clock(Duration::from_secs(60)).await?;
    let end = world.engine.await_end(run, patience()).await?;
    let end = end.context("the run")?;

    assert_eq!(early, 0, "absent was not believed at once");
    assert_eq!(
        end.state,
        RunState::Succeeded,
        "3 s + lease + timeout + 1 s is enough: {end:?}"
    );
    assert_eq!(world.peer.count("/plain/").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_response_with_a_huge_external_id_is_retried_no_more_than_any() -> Result<()> {
    let world = World::start().await?;
    let guard = "guard: key\n    external_id: result.id";
    world.publish(&call("long-id/6000/keyed", guard)).await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    ensure!(end.state != RunState::Active, "{end:?}");
    let counted = world.peer.count("/long-id/").await?;
    ensure!(counted.calls <= 3 && counted.effects == 1, "{counted:?}");
    Ok(())
}

#[tokio::test]
async fn a_response_that_drips_is_a_doubt_and_not_a_failure() -> Result<()> {
    let world = World::start().await?;
    let steps = call_within("1s", "drip/200/plain", "guard: review");
    world.publish(&steps).await?;

    let (accepted, end) = world.play(r#"{"id":"1"}"#).await?;
    let cell = world.engine.cell();
    let run = runs::find(cell.of(accepted.run), world.namespace_id, accepted.run).await?;
    let run = run.context("the run")?;
    let ledger = effects::list_of_run(
        cell.of(run.id),
        world.namespace_id,
        run.partition_date,
        run.id,
    )
    .await?;

    assert_eq!(end.state, RunState::InDoubt, "{end:?}");
    assert_eq!(ledger[0].state, effect::EffectState::InDoubt);
    assert_eq!(world.peer.count("/drip/").await?.effects, 1);
    Ok(())
}
