//! Live releases that are not proven: named, shown, never in the way of going back, and rehearsed in
//! the background.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use semel_api::types::{KeptConnection, Promote, PushFlow, PutConnection, UnprovenFlow};
use semel_engine::{Actor, Engine};
use semel_model::{Connection, FlowName};
use semel_server::{ServerOptions, serve};
use semel_store::{Cell, CellOptions, namespaces};
use semel_testkit::until;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::rehearsals::{FLOW, rehearse};
use crate::world::World;

/// What a server is that looks all the time.
const OFTEN: Duration = Duration::from_millis(100);

/// What a server is that never looks by itself.
const NEVER: Duration = Duration::from_secs(3_600);

fn options(prove_every: Duration) -> ServerOptions {
    ServerOptions {
        require_rehearsal: true,
        prove_every,
        ..ServerOptions::default()
    }
}

/// A destination that honours keys for so long.
fn bank(window: &str) -> Result<Connection> {
    let connection = json!({
        "to": { "http": { "base_url": "https://bank.example" } },
        "idempotency_keys": { "window": window }
    });
    Ok(serde_json::from_value(connection)?)
}

async fn connect(world: &World, window: &str) -> Result<KeptConnection> {
    let put = PutConnection {
        connection: bank(window)?,
        replace: true,
    };
    let name = "bank".parse()?;
    let kept = world.client.put_connection(&name, &put, None).await?;
    Ok(kept.body)
}

/// Publishes a text as the next release, proves it, and makes it live.
async fn go_live(world: &World, number: u8, source: &str) -> Result<FlowName> {
    let flow: FlowName = "charge".parse()?;
    let push = PushFlow {
        source: source.to_owned(),
    };
    world.client.push_flow(&flow, &push).await?;
    let key = format!("publish {number}");
    world.client.publish_flow(&flow, &key).await?;
    let rehearsal = rehearse(&world.client, number, source).await?;
    ensure!(rehearsal.state == "passed", "{rehearsal:?}");
    let proof = promote(world, i32::from(number), &key).await?;
    ensure!(proof == "proven", "{proof}");
    Ok(flow)
}

async fn promote(world: &World, release: i32, key: &str) -> Result<String> {
    let promote = Promote {
        release,
        override_reason: None,
    };
    let flow = "charge".parse()?;
    let promoted = world.client.promote_flow(&flow, &promote, key).await?;
    Ok(promoted.body.proof.unwrap_or_default())
}

async fn live_proof(world: &World) -> Result<String> {
    let shown = world.client.get_flow(&"charge".parse()?).await?;
    shown.flow.proof.context("a live release")
}

async fn until_proof(world: &World, wanted: &str) -> Result<()> {
    let look = async || live_proof(world).await;
    until(&format!("the proof to be {wanted}"), look, |proof| {
        proof == wanted
    })
    .await?;
    Ok(())
}

/// Waits until a server that looks [`OFTEN`] has gone through the live releases once more, from the beginning to the
/// end. Before it does, it drops schemas that crashed rehearsals left: between two such drops it went through all.
async fn until_gone_through(world: &World) -> Result<()> {
    let client = world.database.connect().await?;
    for number in 0..2 {
        let schema = format!("semel_rehearsal_{number}_00000000");
        let leave = format!("CREATE SCHEMA {schema}");
        client.batch_execute(&leave).await?;
        let left = "SELECT count(*) FROM pg_namespace WHERE nspname = $1";
        let look = async || Ok(client.query_one(left, &[&schema]).await?.get::<_, i64>(0));
        until("a look at the live releases", look, |left| *left == 0).await?;
    }
    Ok(())
}

/// How many rehearsals the servers asked for by themselves.
async fn count_background(world: &World) -> Result<i64> {
    let client = world.database.connect().await?;
    let count = "SELECT count(*) FROM rehearsals WHERE asked_by = 'semel'";
    Ok(client.query_one(count, &[]).await?.get(0))
}

/// Another server on the same database.
async fn start_another(world: &World, options: ServerOptions) -> Result<(Engine, DropGuard)> {
    let cell = Cell::connect(&world.database.url(), CellOptions::default()).await?;
    let engine = Engine::start(cell, world.engine.options().clone()).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let down = CancellationToken::new();
    tokio::spawn(serve(listener, engine.clone(), options, down.clone()));
    Ok((engine, down.drop_guard()))
}

#[tokio::test]
async fn a_changed_connection_names_the_live_releases_and_has_them_rehearsed_once() -> Result<()> {
    let world = World::start_with(options(OFTEN)).await?;
    ensure!(connect(&world, "5d").await?.unproven.is_empty());
    go_live(&world, 1, FLOW).await?;

    let kept = connect(&world, "6d").await?;

    let named = UnprovenFlow {
        flow: "charge".to_owned(),
        release: 1,
    };
    assert_eq!(kept.unproven, [named]);
    until_proof(&world, "proven").await?;
    // What was proven with these facts before is proven.
    ensure!(connect(&world, "5d").await?.unproven.is_empty());
    assert_eq!(live_proof(&world).await?, "proven");
    ensure!(connect(&world, "5d").await?.unproven.is_empty());
    until_gone_through(&world).await?;
    assert_eq!(count_background(&world).await?, 1, "once, and not again");
    Ok(())
}

#[tokio::test]
async fn going_back_is_never_refused_and_takes_less_than_two_seconds() -> Result<()> {
    let world = World::start_with(options(NEVER)).await?;
    connect(&world, "5d").await?;
    go_live(&world, 1, FLOW).await?;
    go_live(&world, 2, &FLOW.replace("/notes", "/notices")).await?;
    change_behind(&world, "6d").await?;

    let proof = promote(&world, 1, "back").await?;

    // A rehearsal that it waited for would have proven it.
    assert_eq!(proof, "not proven: connection changed");
    let client = world.database.connect().await?;
    let audited =
        "SELECT subject, reason FROM audit WHERE action = 'flow.promote' ORDER BY id DESC";
    let row = &client.query(audited, &[]).await?[0];
    let (subject, reason): (String, Option<String>) = (row.get(0), row.get(1));
    assert_eq!(subject, "charge r1");
    let reason = reason.context("a reason")?;
    ensure!(reason.contains("not proven"), "{reason}");
    until_proof(&world, "proven").await?;
    // The release that was live is rehearsed too where its server heard of the change before it went.
    let rehearsed = count_background(&world).await?;
    assert!((1..=2).contains(&rehearsed), "{rehearsed} afterwards");
    Ok(())
}

/// Changes the connection without this server's knowledge, as another server would.
async fn change_behind(world: &World, window: &str) -> Result<()> {
    let (home, main) = (world.engine.cell().home(), "main".parse()?);
    let by = Actor {
        namespace_id: namespaces::ensure(home, &main).await?,
        actor: "test",
    };
    let changed = world
        .engine
        .replace_connection(by, "bank", &bank(window)?)
        .await;
    changed.map_err(|error| anyhow::anyhow!("{error:?}"))?;
    Ok(())
}

/// Leaves a rehearsal behind whose server died.
async fn leave_dead(world: &World, window: &str) -> Result<()> {
    let leave = "
        INSERT INTO rehearsals (id, namespace_id, flow, digest, facts, whole, asked_by, state, seen_at)
        SELECT gen_random_uuid(), namespace_id, flow, digest, replace(facts, '5d', $1), true, 'semel',
               'running', moment() - interval '1 hour'
          FROM rehearsals WHERE state = 'passed' AND facts LIKE '%5d%' LIMIT 1";
    let client = world.database.connect().await?;
    ensure!(client.execute(leave, &[&window]).await? == 1, "5d in facts");
    Ok(())
}

#[tokio::test]
async fn what_a_dead_server_left_is_rehearsed_by_another_and_not_for_ever() -> Result<()> {
    let world = World::start_with(options(NEVER)).await?;
    connect(&world, "5d").await?;
    go_live(&world, 1, FLOW).await?;
    change_behind(&world, "6d").await?;
    assert_eq!(live_proof(&world).await?, "not proven: connection changed");
    let listed = world.client.list_flows().await?.items;
    let shown = listed[0].proof.as_deref();
    assert_eq!(shown, Some("not proven: connection changed"));
    leave_dead(&world, "6d").await?;

    let (engine, down) = start_another(&world, options(OFTEN)).await?;
    until_proof(&world, "proven").await?;

    assert_eq!(count_background(&world).await?, 2);
    // Three servers died over the same: it is left to people.
    for _ in 0..3 {
        leave_dead(&world, "7d").await?;
    }
    change_behind(&world, "7d").await?;
    until_gone_through(&world).await?;
    assert_eq!(live_proof(&world).await?, "not proven: connection changed");
    assert_eq!(count_background(&world).await?, 5, "no fourth try");
    drop(down);
    engine.shutdown().await;
    Ok(())
}
