//! A server that crashes between a tick's run and its record.
//!
//! There are two commits: the run's, and the schedule's. A server is killed, or frozen, before the
//! first, between the two, and another decides the instant again.

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use semel_testkit::{Cluster, Connection, Options};

use crate::harness::Harness;
use crate::invariants;
use crate::queries::{SUCCEEDED, count, until_count};
use crate::servers::{Home, Served};

const FLOW: &str = "flow: hourly
trigger:
  schedule: { every: 1h }
steps:
  - id: count
    kv: { add: ticks }
";

const KEY: &str = "hourly@2027-01-10T01:00:00Z";

/// Where a server is held: before the run is there, after it, and before the record.
const POINTS: [&str; 3] = ["accept.before", "accept.after", "tick.accepted"];

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_between_a_tick_and_its_record_leaves_one_run() -> Result<()> {
    // Worlds wait for leases most of their time, so all points are played at once.
    let worlds = POINTS.map(|point| async move { dies_at(point).await.context(point) });
    try_join_all(worlds).await?;
    Ok(())
}

async fn dies_at(point: &'static str) -> Result<()> {
    let world = World::start().await?;
    let mut server = world.serve().await?;
    world.publish(&server).await?;

    let watch = world.harness.arm(point, Some(KEY));
    world.set_clock("2027-01-10T01:00:01Z").await?;
    let held = watch.until_held().await?;
    server.process.sigkill()?;
    drop(held);
    let other = world.serve().await?;

    world.until_recorded().await?;
    world.until_sound(&[&other]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_paused_between_a_tick_and_its_record_is_too_late() -> Result<()> {
    let worlds = POINTS.map(|point| async move { pauses_at(point).await.context(point) });
    try_join_all(worlds).await?;
    Ok(())
}

async fn pauses_at(point: &'static str) -> Result<()> {
    let world = World::start().await?;
    let server = world.serve().await?;
    world.publish(&server).await?;

    let watch = world.harness.arm(point, Some(KEY));
    world.set_clock("2027-01-10T01:00:01Z").await?;
    let held = watch.until_held().await?;
    server.process.sigstop()?;
    let other = world.serve().await?;
    world.until_recorded().await?;
    held.let_go().await;
    server.process.sigcont()?;
    world.home.until_live(&server).await?;
    world.set_clock("2027-01-10T02:00:01Z").await?;

    let second = "SELECT count(*) FROM ticks WHERE nominal = '2027-01-10T02:00:00Z'";
    until_count(&world.client, second, 1).await?;
    until_count(&world.client, "SELECT count(*) FROM runs", 2).await?;
    let counted = "SELECT count(*) FROM kv WHERE entry = 'ticks' AND value::text = '2'";
    until_count(&world.client, counted, 1).await?;
    world.check(2).await?;
    world.until_sound(&[&server, &other]).await
}

/// The clock leaps while a server accepts an instant: the next server records it as missed, so the first may not start it.
#[tokio::test(flavor = "multi_thread")]
async fn an_instant_recorded_as_missed_gets_no_run_from_a_server_that_lost_its_schedule()
-> Result<()> {
    let world = World::start().await?;
    let server = world.serve().await?;
    world.publish(&server).await?;

    let watch = world.harness.arm("accept.before", Some(KEY));
    world.set_clock("2027-01-10T01:00:01Z").await?;
    let held = watch.until_held().await?;
    server.process.sigstop()?;
    world.set_clock("2027-01-10T03:00:01Z").await?;
    let other = world.serve().await?;
    let missed = "SELECT count(*) FROM ticks
                   WHERE nominal = '2027-01-10T01:00:00Z' AND reason = 'missed' AND instants = 2";
    until_count(&world.client, missed, 1).await?;
    held.let_go().await;
    server.process.sigcont()?;
    world.home.until_live(&server).await?;
    world.set_clock("2027-01-10T04:00:01Z").await?;

    let fourth = "SELECT count(*) FROM ticks WHERE nominal = '2027-01-10T04:00:00Z'";
    until_count(&world.client, fourth, 1).await?;
    let counted = "SELECT count(*) FROM kv WHERE entry = 'ticks' AND value::text = '2'";
    until_count(&world.client, counted, 1).await?;
    until_count(&world.client, SUCCEEDED, 2).await?;
    world.check(2).await?;
    world.until_sound(&[&server, &other]).await
}

struct World {
    _cluster: Cluster,
    home: Home,
    harness: Harness,
    client: Connection,
}

impl World {
    async fn start() -> Result<Self> {
        let cluster = Cluster::start(Options::quick()).await?;
        let home = Home::found(cluster.server()).await?;
        let client = home.connect().await?;
        let world = Self {
            _cluster: cluster,
            harness: Harness::start()?,
            client,
            home,
        };
        world.set_clock("2027-01-10T00:30:00Z").await?;
        let tokens = "UPDATE tokens SET expires_at = moment() + interval '1 year'";
        world.client.batch_execute(tokens).await?;
        Ok(world)
    }

    async fn serve(&self) -> Result<Served> {
        self.harness.serve(&self.home, "2s").await
    }

    async fn publish(&self, server: &Served) -> Result<()> {
        self.home.publish(server, "hourly", FLOW).await?;
        let seen = "SELECT count(*) FROM schedules WHERE due_at > moment()";
        until_count(&self.client, seen, 1).await
    }

    async fn set_clock(&self, to: &str) -> Result<()> {
        let set = format!("UPDATE clock SET time_offset = '{to}'::timestamptz - clock_timestamp()");
        self.client.batch_execute(&set).await?;
        Ok(())
    }

    /// Waits until the instant is recorded and its run has ended, and counts both.
    async fn until_recorded(&self) -> Result<()> {
        until_count(&self.client, "SELECT count(*) FROM ticks", 1).await?;
        until_count(&self.client, SUCCEEDED, 1).await?;
        self.check(1).await
    }

    async fn until_sound(&self, servers: &[&Served]) -> Result<()> {
        invariants::hold_but(&self.home, servers, &["duties"]).await
    }

    /// This many instants have one run each, the recorded one.
    async fn check(&self, instants: usize) -> Result<()> {
        let runs = count(&self.client, "SELECT count(*) FROM runs").await?;
        let fired = "SELECT count(*) FROM ticks t JOIN runs r ON r.id = t.run_id
                      WHERE t.verdict = 'fired'
                        AND convert_from(r.key, 'UTF8') = 'hourly@'
                            || to_char(t.nominal AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')";
        let fired = count(&self.client, fired).await?;
        ensure!(runs == instants, "{runs} runs for {instants} instants");
        ensure!(
            fired == instants,
            "{fired} of {instants} instants have their run"
        );
        let done = "SELECT count(*) FROM effects WHERE state = 'done'";
        let done = count(&self.client, done).await?;
        ensure!(done == instants, "{done} effects for {instants} instants");
        Ok(())
    }
}
