//! Replays: a body that was signed once runs once, under however many ids it comes.

use anyhow::Result;
use semel_api::types::Started;
use semel_model::{ClaimId, Key, Span};
use semel_store::namespaces;
use semel_store::seen_bodies::{self, Body};
use semel_store::{clock, retention};
use semel_testkit::patience;
use sha2::{Digest as _, Sha256};

use crate::authentic::{SECRETS, STEPS};
use crate::signing::{Signed, sign, webhook};
use crate::world::World;

const TARGET: &str = "/hooks/main/hook";
const ID: &str = "x-github-delivery";

/// A run that waits for most of a year.
const WAITS: &str = "steps:\n  - { id: pause, wait: { for: 300d } }\n";

/// A hook for GitHub, and a delivery to it.
async fn world(rest: &str) -> Result<(World, Signed)> {
    world_of(rest, STEPS).await
}

/// The same for a flow of these steps.
async fn world_of(rest: &str, steps: &str) -> Result<(World, Signed)> {
    let world = World::start().await?;
    world
        .set_secret("hook", SECRETS[0], Span::from_secs(0))
        .await?;
    let webhook = webhook("github", "hook").replace(" }", rest);
    let flow = format!("trigger:\n  webhook: {webhook}\n{steps}");
    world.publish("hook", &flow).await?;
    let signed = sign("github", SECRETS[0], TARGET, 1, world.now().await?);
    Ok((world, signed))
}

async fn count_runs(world: &World) -> Result<i64> {
    let client = world.database.connect().await?;
    let row = client.query_one("SELECT count(*) FROM runs", &[]).await?;
    Ok(row.get(0))
}

#[tokio::test]
async fn a_signed_body_under_another_id_is_held_for_an_operator() -> Result<()> {
    let (world, signed) = world(" }").await?;

    let first: Started = world.send(&signed).await?.json()?;
    let mut held = Vec::new();
    for id in ["forged-1", "forged-2"] {
        let answer = world.send(&signed.clone().with(ID, id)).await?;
        assert_eq!(answer.status, 202);
        held.push(answer.json::<Started>()?);
    }
    let again: Started = world.send(&signed).await?.json()?;

    assert!(!first.held && !again.held);
    assert_eq!(first.run, again.run);
    assert!(held.iter().all(|one| one.held && one.run == first.run));
    assert_eq!(count_runs(&world).await?, 1);
    let page = world.client.list_duplicates(Some(first.run)).await?;
    let replays = page.items.iter().filter(|one| one.stopped_by == "replay");
    let mut keys = Vec::new();
    for replay in replays {
        assert_eq!((replay.verdict.as_str(), replay.count), ("held", 1));
        assert_eq!(replay.payload.as_ref().unwrap()["issue"], 1);
        keys.extend(replay.came_as.as_deref());
    }
    keys.sort_unstable();
    assert_eq!(
        keys,
        ["forged-1", "forged-2"],
        "each key is decided by itself"
    );
    let metrics = world.metrics().await?.text();
    assert!(metrics.contains("semel_replays_total 2"), "{metrics}");
    Ok(())
}

#[tokio::test]
async fn of_many_ids_at_once_one_runs() -> Result<()> {
    let (world, signed) = world(" }").await?;

    let ids = (0..16).map(|n| signed.clone().with(ID, &format!("id-{n}")));
    let ids: Vec<Signed> = ids.collect();
    let answers = futures_util::future::try_join_all(ids.iter().map(|one| world.send(one))).await?;

    let mut free = 0;
    for answer in answers {
        assert_eq!(answer.status, 202, "{}", answer.text());
        free += usize::from(!answer.json::<Started>()?.held);
    }
    assert_eq!(free, 1);
    assert_eq!(count_runs(&world).await?, 1);
    // However many ids a captured body comes under, the first few are kept and the rest are one row.
    let held = world.client.list_held(None).await?.items;
    assert!(held.len() <= 6, "{} rows", held.len());
    assert_eq!(held.iter().map(|one| one.count).sum::<i64>(), 15);
    Ok(())
}

#[tokio::test]
async fn a_body_that_was_remembered_and_then_lost_is_accepted_when_it_comes_again() -> Result<()> {
    let (world, signed) = world(" }").await?;
    let cell = world.engine.cell();
    // What a crash between the two commits leaves behind.
    let claim = ClaimId::derive(
        &"main".parse()?,
        &"hook".parse()?,
        &Key::new(*b"delivery-1")?,
    );
    let body = Body {
        namespace_id: namespaces::ensure(cell.home(), &"main".parse()?).await?,
        flow: "hook",
        digest: &Sha256::digest(&signed.body).into(),
        claim,
        keep: Span::from_secs(3_600),
    };
    assert_eq!(
        seen_bodies::remember(cell.of(body), body).await?,
        Some(claim)
    );

    let forged: Started = world
        .send(&signed.clone().with(ID, "forged"))
        .await?
        .json()?;
    let lost: Started = world.send(&signed).await?.json()?;

    assert!(forged.held);
    assert!(!lost.held);
    assert_eq!(forged.run, lost.run, "it is held for the run to come");
    assert_eq!(count_runs(&world).await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_trigger_can_accept_replayed_bodies() -> Result<()> {
    let (world, signed) = world(", replay: accept }").await?;

    world.send(&signed).await?;
    let other: Started = world
        .send(&signed.clone().with(ID, "other"))
        .await?
        .json()?;

    assert!(!other.held);
    assert_eq!(count_runs(&world).await?, 2);
    Ok(())
}

/// The key counts from the end of its run, and so does the body.
#[tokio::test]
async fn a_body_is_not_forgotten_while_the_run_of_its_key_goes_on() -> Result<()> {
    let (world, signed) = world_of(" }", WAITS).await?;
    let cell = world.engine.cell();
    let first: Started = world.send(&signed).await?.json()?;

    for _ in 0..3 {
        clock::move_ahead(cell, std::time::Duration::from_secs(40 * 86_400)).await?;
        retention::forget_keys(cell.every()).await?;
        retention::sweep(cell.every()).await?;
    }
    let forged: Started = world
        .send(&signed.clone().with(ID, "forged"))
        .await?
        .json()?;

    assert!(forged.held, "{forged:?}");
    assert_eq!(forged.run, first.run);
    assert_eq!(count_runs(&world).await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_body_expires_with_its_key_and_not_before() -> Result<()> {
    let (world, signed) = world(" }").await?;
    let cell = world.engine.cell();
    let first: Started = world.send(&signed).await?.json()?;
    // The key counts from the end of its run.
    world.engine.await_end(first.run, patience()).await?;
    let month = std::time::Duration::from_secs(30 * 86_400);

    clock::move_ahead(cell, month).await?;
    retention::sweep(cell.every()).await?;
    let held: Started = world
        .send(&signed.clone().with(ID, "early"))
        .await?
        .json()?;
    clock::move_ahead(cell, std::time::Duration::from_secs(300)).await?;
    retention::forget_keys(cell.every()).await?;
    retention::sweep(cell.every()).await?;
    let free: Started = world.send(&signed.clone().with(ID, "late")).await?.json()?;

    assert!(held.held);
    assert!(!free.held);
    Ok(())
}
