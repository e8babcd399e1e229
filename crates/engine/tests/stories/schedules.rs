//! Schedules: one run per instant, whatever servers, clocks and releases do.

mod hand;
mod resumed;

use anyhow::Result;
use jiff::Timestamp;
use semel_engine::{FireError, Moment};
use semel_model::{FlowName, NamespaceName, RunId, ScheduleId};
use semel_store::runs::{self, RunFilter, RunView};
use semel_store::schedules::{self, Schedule, TickVerdict, TickView};
use semel_testkit::until;

use crate::world::World;

fn names() -> Result<(NamespaceName, FlowName)> {
    Ok(("default".parse()?, "story".parse()?))
}

fn at(text: &str) -> Result<Timestamp> {
    Ok(text.parse()?)
}

/// Publishes a flow with a schedule, and makes it live.
async fn schedule(world: &World, schedule: &str) -> Result<()> {
    let source = format!(
        "flow: story\ntrigger:\n  schedule: {{ {schedule} }}\nsteps:\n  - id: count\n    \
         kv: {{ add: ticks }}\nresult: '{{\"at\": trigger.nominal, \"kind\": trigger.kind}}'\n"
    );
    world.publish_source(&source).await
}

/// Sets the clock, to and fro.
async fn set_clock(world: &World, to: &str) -> Result<()> {
    world.set_clock(at(to)?).await
}

async fn ticks(world: &World) -> Result<Vec<TickView>> {
    let (namespace, flow) = names()?;
    let id = ScheduleId::derive(&namespace, &flow);
    let mut ticks = schedules::list_ticks(world.engine.cell().of(id), id, None, 500).await?;
    ticks.reverse();
    Ok(ticks)
}

async fn list_runs(world: &World) -> Result<Vec<RunView>> {
    let filter = RunFilter {
        flow: Some("story".to_owned()),
        ..RunFilter::default()
    };
    let cell = world.engine.cell();
    let listed = runs::list(cell.every(), world.namespace_id, &filter, 500).await?;
    Ok(listed.items)
}

/// Waits until everything up to an instant is decided and every run has ended.
async fn until_decided(world: &World, to: &str) -> Result<Vec<String>> {
    let to = at(to)?;
    let look = async || {
        let decided_to = find(world, "story").await?.map(|row| row.decided_to);
        let runs = list_runs(world).await?;
        let open = runs.iter().filter(|run| !run.state.is_ended()).count();
        Ok((decided_to, open))
    };
    let what = format!("everything up to {to} to be decided, and its runs to end");
    until(&what, look, |(decided_to, open)| {
        *open == 0 && decided_to.is_some_and(|decided_to| decided_to >= to)
    })
    .await?;
    told(world).await
}

/// The schedule of a flow.
async fn find(world: &World, flow: &str) -> Result<Option<Schedule>> {
    let rows = schedules::list(world.engine.cell().every()).await?;
    Ok(rows.into_iter().find(|row| row.flow == flow))
}

/// Gives another flow a schedule, and waits until that is decided. Whatever else was due by then is decided as well:
/// schedules that are due are decided together.
async fn until_another_is_decided(world: &World, flow: &str) -> Result<()> {
    let source = format!(
        "flow: {flow}\ntrigger: {{ schedule: {{ every: 1d }} }}\nsteps: [{{ id: one, function: '1' }}]\n"
    );
    world.publish_source(&source).await?;
    let what = format!("the schedule of {flow} to be decided");
    until(
        &what,
        async || find(world, flow).await,
        |found| {
            // A new one is due at once.
            let due = found.as_ref().map(|row| (row.due_at, row.now));
            due.is_some_and(|(due_at, now)| due_at.is_some_and(|due_at| due_at > now))
        },
    )
    .await?;
    Ok(())
}

/// What is recorded, in short: `+` fired, `-` skipped and why.
async fn told(world: &World) -> Result<Vec<String>> {
    let ticks = ticks(world).await?;
    Ok(ticks.iter().map(tell).collect())
}

fn tell(view: &TickView) -> String {
    let tick = &view.tick;
    match &tick.verdict {
        TickVerdict::Fired { by: None, .. } => format!("+{}", tick.nominal),
        TickVerdict::Fired { by: Some(by), .. } => format!("+{} by {by}", tick.nominal),
        TickVerdict::Skipped { reason } => format!("-{} {} {reason}", tick.nominal, tick.instants),
    }
}

/// The keys of all runs, and that each fired instant has the run that it names.
async fn keys(world: &World) -> Result<Vec<String>> {
    let runs = list_runs(world).await?;
    for view in ticks(world).await? {
        if let TickVerdict::Fired { run, .. } = view.tick.verdict {
            let found = runs.iter().find(|one| one.id == run);
            let key = found.map(|one| one.key.text());
            assert_eq!(key, Some(format!("story@{}", view.tick.nominal)));
        }
    }
    let mut keys: Vec<String> = runs.iter().map(|run| run.key.text()).collect();
    keys.sort();
    Ok(keys)
}

#[tokio::test]
async fn an_instant_has_one_run_that_knows_its_nominal_time() -> Result<()> {
    let world = World::start().await?;
    set_clock(&world, "2027-01-10T02:30:00Z").await?;
    schedule(&world, "cron: '0 3 * * *', input: { full: true }").await?;
    until_decided(&world, "2027-01-10T02:30:00Z").await?;

    set_clock(&world, "2027-01-10T03:00:01Z").await?;
    let told = until_decided(&world, "2027-01-10T03:00:00Z").await?;

    assert_eq!(told, ["+2027-01-10T03:00:00Z"]);
    assert_eq!(keys(&world).await?, ["story@2027-01-10T03:00:00Z"]);
    let result = list_runs(&world).await?[0].result.clone();
    assert_eq!(
        result.as_deref(),
        Some(r#"{"at":"2027-01-10T03:00:00Z","kind":"schedule"}"#)
    );
    Ok(())
}

#[tokio::test]
async fn two_servers_give_every_instant_one_run() -> Result<()> {
    let world = World::start().await?;
    let other = world.start_another().await?;
    set_clock(&world, "2027-01-10T00:00:30Z").await?;
    schedule(&world, "every: 1m, missed: all, most: 1000").await?;
    until_decided(&world, "2027-01-10T00:00:30Z").await?;

    for hour in 1..5 {
        set_clock(&world, &format!("2027-01-10T0{hour}:00:30Z")).await?;
        let now = format!("2027-01-10T0{hour}:00:30Z");
        until_decided(&world, &now).await?;
    }

    assert_eq!(keys(&world).await?.len(), 240, "one for each minute");
    assert_eq!(ticks(&world).await?.len(), 240);
    let counted = world.kv("ticks").await?;
    assert_eq!(counted, 240, "and each counted once");
    other.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn missed_instants_follow_the_policy_and_are_recorded() -> Result<()> {
    let expected: [(&str, &[&str]); 4] = [
        ("skip", &["-2027-01-10T01:00:00Z 5 missed"]),
        (
            "once",
            &["-2027-01-10T01:00:00Z 4 missed", "+2027-01-10T05:00:00Z"],
        ),
        (
            "all, most: 2",
            &[
                "-2027-01-10T01:00:00Z 3 capped",
                "+2027-01-10T04:00:00Z",
                "+2027-01-10T05:00:00Z",
            ],
        ),
        (
            "all",
            &[
                "+2027-01-10T01:00:00Z",
                "+2027-01-10T02:00:00Z",
                "+2027-01-10T03:00:00Z",
                "+2027-01-10T04:00:00Z",
                "+2027-01-10T05:00:00Z",
            ],
        ),
    ];
    for (missed, expected) in expected {
        let world = World::start().await?;
        set_clock(&world, "2027-01-10T00:30:00Z").await?;
        schedule(&world, &format!("every: 1h, missed: {missed}")).await?;
        until_decided(&world, "2027-01-10T00:30:00Z").await?;

        set_clock(&world, "2027-01-10T05:30:00Z").await?;
        let told = until_decided(&world, "2027-01-10T05:30:00Z").await?;

        assert_eq!(told, expected, "missed: {missed}");
        keys(&world).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_month_without_a_server_or_in_a_pause_is_decided_in_goes() -> Result<()> {
    let world = World::start().await?;
    let (namespace, flow) = names()?;
    set_clock(&world, "2027-01-01T00:00:30Z").await?;
    schedule(&world, "every: 1m, missed: once").await?;
    until_decided(&world, "2027-01-01T00:00:30Z").await?;

    set_clock(&world, "2027-01-31T00:00:30Z").await?;
    until_decided(&world, "2027-01-31T00:00:30Z").await?;
    let missed = ticks(&world).await?;
    let by = world.by();
    let engine = &world.engine;
    engine.pause_schedule(by, &namespace, &flow, None).await?;
    set_clock(&world, "2027-03-02T00:00:30Z").await?;
    let by = world.by();
    engine.resume_schedule(by, &namespace, &flow, None).await?;
    let paused = ticks(&world).await?.split_off(missed.len());

    let instants = |ticks: &[TickView], reason: &str| -> i64 {
        let is = |view: &&TickView| tell(view).ends_with(reason);
        ticks.iter().filter(is).map(|view| view.tick.instants).sum()
    };
    assert_eq!(instants(&missed, "missed"), 30 * 1_440 - 1);
    assert_eq!(
        missed.last().map(tell).as_deref(),
        Some("+2027-01-31T00:00:00Z")
    );
    assert_eq!(instants(&paused, "paused"), 30 * 1_440);
    assert!(missed.len() > 2 && paused.len() > 1, "one go took it all");
    Ok(())
}

#[tokio::test]
async fn a_clock_that_goes_back_decides_nothing_twice() -> Result<()> {
    let world = World::start().await?;
    set_clock(&world, "2027-01-10T00:30:00Z").await?;
    schedule(&world, "every: 1h, missed: all").await?;
    until_decided(&world, "2027-01-10T00:30:00Z").await?;
    set_clock(&world, "2027-01-10T03:30:00Z").await?;
    let before = until_decided(&world, "2027-01-10T03:30:00Z").await?;

    set_clock(&world, "2027-01-10T00:10:00Z").await?;
    until_another_is_decided(&world, "beside").await?;
    set_clock(&world, "2027-01-10T04:00:01Z").await?;
    let after = until_decided(&world, "2027-01-10T04:00:00Z").await?;

    assert_eq!(before.len(), 3);
    assert_eq!(after[..3], before);
    assert_eq!(after[3..], ["+2027-01-10T04:00:00Z"]);
    assert_eq!(keys(&world).await?.len(), 4);
    Ok(())
}

#[tokio::test]
async fn a_night_without_and_a_night_with_two_past_twos_have_one_run_each() -> Result<()> {
    let world = World::start().await?;
    set_clock(&world, "2027-03-27T12:00:00Z").await?;
    schedule(
        &world,
        "cron: '30 2 * * *', zone: Europe/Berlin, missed: all",
    )
    .await?;
    until_decided(&world, "2027-03-27T12:00:00Z").await?;

    // In spring the clocks go from 02:00 to 03:00, which is 01:00 in UTC.
    set_clock(&world, "2027-03-28T12:00:00Z").await?;
    let spring = until_decided(&world, "2027-03-28T12:00:00Z").await?;

    assert_eq!(spring, ["+2027-03-28T01:00:00Z"]);
    let world = World::start().await?;
    set_clock(&world, "2027-10-30T12:00:00Z").await?;
    schedule(
        &world,
        "cron: '30 2 * * *', zone: Europe/Berlin, missed: all",
    )
    .await?;
    until_decided(&world, "2027-10-30T12:00:00Z").await?;

    // In autumn they go from 03:00 to 02:00: half past two comes twice, at 00:30 and at 01:30.
    set_clock(&world, "2027-10-31T00:45:00Z").await?;
    until_decided(&world, "2027-10-31T00:30:00Z").await?;
    for hour in 1..4 {
        set_clock(&world, &format!("2027-10-31T0{hour}:45:00Z")).await?;
        until_another_is_decided(&world, &format!("beside-{hour}")).await?;
    }

    assert_eq!(told(&world).await?, ["+2027-10-31T00:30:00Z"]);
    assert_eq!(keys(&world).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_paused_schedule_starts_nothing_and_records_skips_when_resumed() -> Result<()> {
    let world = World::start().await?;
    let (namespace, flow) = names()?;
    let engine = &world.engine;
    set_clock(&world, "2027-01-10T00:30:00Z").await?;
    schedule(&world, "every: 1h, missed: all").await?;
    until_decided(&world, "2027-01-10T00:30:00Z").await?;

    let first = engine
        .pause_schedule(world.by(), &namespace, &flow, None)
        .await?;
    let again = engine
        .pause_schedule(world.by(), &namespace, &flow, None)
        .await?;
    set_clock(&world, "2027-01-10T03:30:00Z").await?;
    until_another_is_decided(&world, "beside").await?;
    let meanwhile = told(&world).await?;
    let resumed = engine
        .resume_schedule(world.by(), &namespace, &flow, None)
        .await?;
    let twice = engine
        .resume_schedule(world.by(), &namespace, &flow, None)
        .await?;
    set_clock(&world, "2027-01-10T04:00:01Z").await?;
    let after = until_decided(&world, "2027-01-10T04:00:00Z").await?;

    assert!(first && !again && resumed && !twice);
    assert!(meanwhile.is_empty(), "{meanwhile:?}");
    assert_eq!(
        after,
        ["-2027-01-10T01:00:00Z 3 paused", "+2027-01-10T04:00:00Z"]
    );
    Ok(())
}

#[tokio::test]
async fn another_release_takes_over_where_the_former_one_stood() -> Result<()> {
    let world = World::start().await?;
    set_clock(&world, "2027-01-10T00:30:00Z").await?;
    schedule(&world, "every: 1h, missed: all").await?;
    until_decided(&world, "2027-01-10T00:30:00Z").await?;
    set_clock(&world, "2027-01-10T01:30:00Z").await?;
    until_decided(&world, "2027-01-10T01:30:00Z").await?;

    schedule(&world, "cron: '45 * * * *', missed: all").await?;
    set_clock(&world, "2027-01-10T03:10:00Z").await?;
    until_decided(&world, "2027-01-10T03:10:00Z").await?;
    let source = "flow: story\ntrigger: { manual: {} }\nsteps: [{ id: a, kv: { add: a } }]\n";
    world.publish_source(source).await?;
    set_clock(&world, "2027-01-10T06:00:00Z").await?;
    let release = async || Ok(find(&world, "story").await?.and_then(|row| row.release_id));
    until("no schedule to be live", release, Option::is_none).await?;
    schedule(&world, "every: 1h, missed: all").await?;
    set_clock(&world, "2027-01-10T07:10:00Z").await?;
    let told = until_decided(&world, "2027-01-10T07:10:00Z").await?;

    assert_eq!(
        told,
        [
            "+2027-01-10T01:00:00Z",
            "+2027-01-10T01:45:00Z",
            "+2027-01-10T02:45:00Z",
            "+2027-01-10T07:00:00Z",
        ],
        "none of the hours in which no schedule was live"
    );
    Ok(())
}
