//! A server that crashes between a tick's run and its record.
//!
//! There are two commits: the run's, and the schedule's. A server is killed, or frozen, before the
//! first, between the two, and another decides the instant again.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use semel_testkit::{Cluster, Connection, Options};
use tokio::time::sleep;

use crate::harness::Harness;
use crate::servers::{Home, Served};

/// How long anything here may take; a frozen server's transaction times out after ten seconds.
const PATIENCE: Duration = Duration::from_secs(30);

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
    for point in POINTS {
        let world = World::start().await?;
        let mut server = world.serve().await?;
        world.publish(&server).await?;

        let watch = world.harness.arm(point, Some(KEY));
        world.set_clock("2027-01-10T01:00:01Z").await?;
        let held = watch.until_held(PATIENCE).await?;
        server.process.sigkill()?;
        drop(held);
        let _other = world.serve().await?;

        world.until_recorded(point).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_paused_between_a_tick_and_its_record_is_too_late() -> Result<()> {
    for point in POINTS {
        let world = World::start().await?;
        let server = world.serve().await?;
        world.publish(&server).await?;

        let watch = world.harness.arm(point, Some(KEY));
        world.set_clock("2027-01-10T01:00:01Z").await?;
        let held = watch.until_held(PATIENCE).await?;
        server.process.sigstop()?;
        let _other = world.serve().await?;
        world.until_recorded(point).await?;
        held.let_go().await;
        server.process.sigcont()?;
        world.set_clock("2027-01-10T02:00:01Z").await?;

        let second = "SELECT count(*) FROM ticks WHERE nominal = '2027-01-10T02:00:00Z'";
        world.until(second, 1, point).await?;
        world.until("SELECT count(*) FROM runs", 2, point).await?;
        let counted = "SELECT count(*) FROM kv WHERE entry = 'ticks' AND value::text = '2'";
        world.until(counted, 1, point).await?;
        world.check(2, point).await?;
    }
    Ok(())
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
        self.until(seen, 1, "the schedule is seen").await
    }

    async fn set_clock(&self, to: &str) -> Result<()> {
        let set = format!("UPDATE clock SET time_offset = '{to}'::timestamptz - clock_timestamp()");
        self.client.batch_execute(&set).await?;
        Ok(())
    }

    /// Waits until the instant is recorded and its run has ended, and counts both.
    async fn until_recorded(&self, point: &str) -> Result<()> {
        self.until("SELECT count(*) FROM ticks", 1, point).await?;
        let ended = "SELECT count(*) FROM runs WHERE state = 'succeeded'";
        self.until(ended, 1, point).await?;
        self.check(1, point).await
    }

    /// This many instants have one run each, the recorded one.
    async fn check(&self, instants: i64, point: &str) -> Result<()> {
        let runs = self.count("SELECT count(*) FROM runs").await?;
        let fired = "SELECT count(*) FROM ticks t JOIN runs r ON r.id = t.run_id
                      WHERE t.verdict = 'fired'
                        AND convert_from(r.key, 'UTF8') = 'hourly@'
                            || to_char(t.nominal AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')";
        let fired = self.count(fired).await?;
        ensure!(
            runs == instants,
            "{point}: {runs} runs for {instants} instants"
        );
        ensure!(
            fired == instants,
            "{point}: {fired} of {instants} instants have their run"
        );
        let done = "SELECT count(*) FROM effects WHERE state = 'done'";
        let done = self.count(done).await?;
        ensure!(
            done == instants,
            "{point}: {done} effects for {instants} instants"
        );
        Ok(())
    }

    async fn until(&self, sql: &str, wanted: i64, what: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.count(sql).await?;
            if found == wanted {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{what}: {found} instead of {wanted}: {sql}"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn count(&self, sql: &str) -> Result<i64> {
        Ok(self.client.query_one(sql, &[]).await?.get(0))
    }
}
