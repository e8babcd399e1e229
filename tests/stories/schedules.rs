//! A schedule, through the binary: listed, paused, resumed, fired by hand, and shown as JSON.

use anyhow::{Context, Result, ensure};
use semel_testkit::{Cluster, Connection, Options, Process, Program, patience, semel, until};
use serde_json::Value;

const FLOW: &str = r#"flow: nightly
trigger:
  schedule:
    cron: "30 2 * * *"
    zone: Europe/Berlin
    missed: all
    most: 3
    input: { full: true }
steps:
  - id: count
    kv: { add: nights }
result: trigger.nominal
"#;

/// The clock of the story: the night in which the clocks go ahead is to come.
const START: &str = "2027-03-26T12:00:00Z";

/// A server, its database, and a shell that speaks to it.
struct World {
    _cluster: Cluster,
    _server: Process,
    client: Connection,
    url: String,
    token: String,
    home: tempfile::TempDir,
}

impl World {
    async fn start() -> Result<Self> {
        let cluster = Cluster::start(Options::durable()).await?;
        let admin = cluster.server().connect("postgres").await?;
        admin.batch_execute("CREATE DATABASE semel").await?;
        let database = cluster.server().url("semel");
        let token = semel::migrate(Program::semel()?, &database).await?;
        let client = cluster.server().connect("semel").await?;
        set_clock(&client, START).await?;
        // Tokens count by the clock too.
        client
            .batch_execute("UPDATE tokens SET expires_at = moment() + interval '1 year'")
            .await?;
        let program = Program::semel()?;
        let (server, address) = semel::serve(program, &database, "127.0.0.1:0", &[]).await?;
        Ok(Self {
            _cluster: cluster,
            _server: server,
            client,
            url: format!("http://{address}"),
            token,
            home: tempfile::tempdir()?,
        })
    }

    /// Runs a command, and gives its one object.
    async fn semel(&self, arguments: &[&str]) -> Result<Value> {
        let finished = Program::semel()?
            .args(arguments)
            .arg("--json")
            .env("SEMEL_URL", &self.url)
            .env("SEMEL_TOKEN", &self.token)
            .current_dir(self.home.path())
            .run(patience())
            .await?;
        serde_json::from_str(&finished.stdout)
            .with_context(|| format!("{arguments:?}: {}{}", finished.stdout, finished.stderr))
    }

    /// Runs a command that has to succeed, and gives its data.
    async fn done(&self, arguments: &[&str]) -> Result<Value> {
        let answer = self.semel(arguments).await?;
        ensure!(answer["ok"] == true, "{arguments:?}: {answer:#}");
        Ok(answer["data"].clone())
    }

    /// Waits until this many ticks are recorded, the latest first.
    async fn until_ticks(&self, count: usize) -> Result<Vec<Value>> {
        let look = async || {
            let shown = self.done(&["schedule", "show", "nightly"]).await?;
            let ticks = shown["ticks"]["items"].as_array();
            Ok(ticks.context("ticks")?.clone())
        };
        until(&format!("{count} ticks"), look, |ticks| {
            ticks.len() >= count
        })
        .await
    }
}

async fn set_clock(client: &Connection, to: &str) -> Result<()> {
    let set = format!("UPDATE clock SET time_offset = '{to}'::timestamptz - clock_timestamp()");
    client.batch_execute(&set).await?;
    Ok(())
}

#[tokio::test]
async fn schedules_are_listed_paused_and_fired_by_the_cli() -> Result<()> {
    let world = World::start().await?;
    std::fs::write(world.home.path().join("nightly.flow.yaml"), FLOW)?;
    let none = world.semel(&["schedule", "show", "nightly"]).await?;
    assert_eq!(none["error"]["code"], "schedule-not-found");

    world.done(&["flow", "push", "nightly.flow.yaml"]).await?;
    world.done(&["flow", "publish", "nightly"]).await?;
    world.done(&["flow", "promote", "nightly"]).await?;
    let next = world
        .done(&["schedule", "next", "nightly", "--count", "3"])
        .await?;
    set_clock(&world.client, "2027-03-29T12:00:00Z").await?;
    let ticks = world.until_ticks(3).await?;

    // On the 28th the clocks go from two to three: half past two is when the gap ends.
    let instants: Vec<&str> = ticks
        .iter()
        .filter_map(|one| one["nominal"].as_str())
        .collect();
    assert_eq!(
        instants,
        [
            "2027-03-29T00:30:00Z",
            "2027-03-28T01:00:00Z",
            "2027-03-27T01:30:00Z"
        ]
    );
    assert_eq!(next["items"][1]["at"], "2027-03-28T01:00:00Z");
    assert_eq!(next["items"][1]["local"], "Sun 2027-03-28 03:00:00 CEST");

    let paused = world
        .done(&["schedule", "pause", "nightly", "--reason", "a holiday"])
        .await?;
    let again = world.done(&["schedule", "pause", "nightly"]).await?;
    assert_eq!(
        (&paused["changed"], &again["changed"]),
        (&true.into(), &false.into())
    );
    set_clock(&world.client, "2027-03-31T12:00:00Z").await?;
    let resumed = world.done(&["schedule", "resume", "nightly"]).await?;
    assert_eq!(resumed["changed"], true);
    let ticks = world.until_ticks(4).await?;
    assert_eq!(ticks[0]["verdict"], "skipped");
    assert_eq!(ticks[0]["reason"], "paused");
    assert_eq!(ticks[0]["instants"], 2);

    let fire = [
        "schedule",
        "fire",
        "nightly",
        "--at",
        "2027-03-30T00:30:00Z",
    ];
    let fired = world.done(&fire).await?;
    let twice = world.done(&fire).await?;
    assert_eq!(fired["run"], twice["run"], "an instant has one run");
    assert_eq!(fired["key"], "nightly@2027-03-30T00:30:00Z");
    assert_eq!(twice["replayed"], true);
    let odd = [
        "schedule",
        "fire",
        "nightly",
        "--at",
        "2027-03-30T00:31:00Z",
    ];
    let odd = world.semel(&odd).await?;
    assert_eq!(odd["error"]["code"], "instant-not-scheduled");
    let beside = ["schedule", "fire", "nightly", "--now", "--key", "trial-1"];
    let beside = world.done(&beside).await?;
    assert_eq!(beside["key"], "nightly@now/trial-1");

    let run = beside["run"].as_str().context("a run")?;
    world.done(&["run", "watch", run]).await?;
    let ahead = ["schedule", "fire", "nightly", "--next"];
    let (ahead, same) = (world.done(&ahead).await?, world.done(&ahead).await?);
    assert_eq!(ahead["run"], same["run"], "the next one is named once");
    let next = world.done(&["schedule", "next", "nightly"]).await?;
    let listed = next["items"].to_string();
    let nominal = ahead["nominal"].as_str().context("an instant")?;
    ensure!(
        !listed.contains(nominal),
        "what is decided is not next: {listed}"
    );
    let runs = world.done(&["run", "list"]).await?;
    assert_eq!(runs["items"].as_array().map(Vec::len), Some(6));
    let audited = "SELECT string_agg(action, ' ' ORDER BY id) FROM audit WHERE action LIKE 'sch%'";
    let audited: String = world.client.query_one(audited, &[]).await?.get(0);
    assert_eq!(
        audited,
        "schedule.pause schedule.resume schedule.fire schedule.fire schedule.fire"
    );
    Ok(())
}
