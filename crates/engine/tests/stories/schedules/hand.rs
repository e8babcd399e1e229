//! Instants that an operator fires, and runs beside the schedule.

use super::*;

#[tokio::test]
async fn an_instant_that_is_fired_by_hand_keeps_that_run() -> Result<()> {
    let world = World::start().await?;
    let (namespace, flow) = names()?;
    let engine = &world.engine;
    set_clock(&world, "2027-01-10T00:30:00Z").await?;
    schedule(&world, "every: 1h, missed: skip").await?;
    set_clock(&world, "2027-01-10T02:30:00Z").await?;
    until_decided(&world, "2027-01-10T02:30:00Z").await?;
    let fire = async |text: &str| {
        let moment = Moment::At(at(text)?);
        let fired = engine.fire_schedule(world.by(), &namespace, &flow, &moment);
        anyhow::Ok(fired.await?)
    };

    let missed = fire("2027-01-10T01:00:00Z").await?;
    let again = fire("2027-01-10T01:00:00Z").await?;
    let early = fire("2027-01-10T03:00:00Z").await?;
    let odd = Moment::At(at("2027-01-10T03:07:00Z")?);
    let odd = engine
        .fire_schedule(world.by(), &namespace, &flow, &odd)
        .await;
    set_clock(&world, "2027-01-10T03:00:01Z").await?;
    let told = until_decided(&world, "2027-01-10T03:00:00Z").await?;

    assert!(!missed.replayed && again.replayed && missed.run == again.run);
    assert!(matches!(odd, Err(FireError::NotNamed { .. })), "{odd:?}");
    assert_eq!(
        told,
        [
            "-2027-01-10T01:00:00Z 2 missed",
            "+2027-01-10T01:00:00Z by test",
            "+2027-01-10T03:00:00Z by test",
        ]
    );
    let runs: Vec<RunId> = list_runs(&world).await?.iter().map(|run| run.id).collect();
    assert_eq!(runs.len(), 2);
    assert!(runs.contains(&early.run));
    Ok(())
}

#[tokio::test]
async fn a_run_beside_the_schedule_is_one_per_key() -> Result<()> {
    let world = World::start().await?;
    let (namespace, flow) = names()?;
    schedule(&world, "cron: '0 3 1 1 *'").await?;
    let fire = async |key: &str| {
        let moment = Moment::Now(key.to_owned());
        let fired = world
            .engine
            .fire_schedule(world.by(), &namespace, &flow, &moment);
        anyhow::Ok(fired.await?)
    };

    let first = fire("trial-1").await?;
    let again = fire("trial-1").await?;
    let other = fire("trial-2").await?;

    assert_eq!(first.run, again.run);
    assert_ne!(first.run, other.run);
    assert!(
        told(&world).await?.is_empty(),
        "the schedule names none of them"
    );
    Ok(())
}

#[tokio::test]
async fn an_instant_whose_key_expired_keeps_its_run() -> Result<()> {
    let world = World::start().await?;
    let (namespace, flow) = names()?;
    set_clock(&world, "2027-01-10T00:30:00Z").await?;
    let source = "flow: story\nkeep: 1h\ntrigger: { schedule: { every: 1d } }\n\
                  steps: [{ id: a, kv: { add: a } }]\n";
    world.publish_source(source).await?;
    let moment = Moment::At(at("2027-01-11T00:00:00Z")?);
    let early = world
        .engine
        .fire_schedule(world.by(), &namespace, &flow, &moment)
        .await?;

    // A key does not expire before its run has ended.
    until(
        "the run to end",
        async || list_runs(&world).await,
        |runs| !runs.is_empty() && runs.iter().all(|run| run.state.is_ended()),
    )
    .await?;
    set_clock(&world, "2027-01-10T23:00:00Z").await?;
    // The engine may have been first.
    let key = semel_model::Key::new(b"story@2027-01-11T00:00:00Z".to_vec())?;
    let space = semel_model::KeySpace::Schedule;
    let claim = semel_model::ClaimId::derive_in(space, &namespace, &flow, &key);
    let held = async || {
        let cell = world.engine.cell();
        semel_store::retention::forget_keys(cell.every()).await?;
        let held = semel_store::claims::find(cell.of(claim), claim).await?;
        Ok(held.is_some())
    };
    until("the key to expire", held, |held| !held).await?;
    set_clock(&world, "2027-01-11T00:00:01Z").await?;
    until_decided(&world, "2027-01-11T00:00:00Z").await?;

    let runs = list_runs(&world).await?;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].id, early.run);
    Ok(())
}
