//! A rehearsal, through the binary: a wrong flow fails with a command that repeats the case, and a
//! release goes live once it has passed.

use anyhow::{Context, Result, ensure};
use semel_testkit::program::Finished;
use semel_testkit::{Cluster, Options, Process, Program, patience, semel, until};
use serde_json::Value;

const FLOW: &str = r#"flow: paid
trigger:
  webhook: { auth: none, key: input.id }
keep: 30d
steps:
  - id: order
    http: { post: "https://shop.example/orders", json: { order: "${{ input.id }}" } }
    guard: GUARD
result: steps.order.result.id
examples:
  - name: one
    input: { id: a1 }
    answers:
      order: { status: 201, json: { id: o_1 } }
    result: o_1
"#;

/// A server as it is shipped, which promotes only what was rehearsed, and a shell that speaks to it.
struct World {
    cluster: Cluster,
    server: Process,
    url: String,
    token: String,
    home: tempfile::TempDir,
}

impl World {
    async fn start() -> Result<Self> {
        let cluster = Cluster::start(Options::durable()).await?;
        let admin = cluster.server().connect("postgres").await?;
        admin.batch_execute("CREATE DATABASE semel").await?;
        let address = cluster.server().url("semel");
        let token = semel::migrate(Program::semel()?, &address).await?;
        let program = Program::semel()?;
        let (server, listens) = semel::serve_gated(program, &address, "127.0.0.1:0", &[]).await?;
        Ok(Self {
            cluster,
            server,
            url: format!("http://{listens}"),
            token,
            home: tempfile::tempdir()?,
        })
    }

    /// Writes the flow with a guard.
    fn write(&self, guard: &str) -> Result<()> {
        let text = FLOW.replace("GUARD", guard);
        Ok(std::fs::write(
            self.home.path().join("paid.flow.yaml"),
            text,
        )?)
    }

    async fn semel(&self, arguments: &[&str]) -> Result<Finished> {
        Program::semel()?
            .args(arguments)
            .env("SEMEL_URL", &self.url)
            .env("SEMEL_TOKEN", &self.token)
            .current_dir(self.home.path())
            .run(patience())
            .await
    }

    async fn json(&self, arguments: &[&str]) -> Result<Value> {
        let finished = self.semel(&[arguments, &["--json"]].concat()).await?;
        serde_json::from_str(&finished.stdout)
            .with_context(|| format!("{arguments:?}: {}{}", finished.stdout, finished.stderr))
    }
}

#[tokio::test]
async fn a_wrong_flow_fails_and_a_right_one_goes_live() -> Result<()> {
    let world = World::start().await?;
    world.write("natural")?;
    let failed = world.json(&["rehearse", "paid.flow.yaml"]).await?;
    assert_eq!(failed["error"]["code"], "rehearsal-failed", "{failed:#}");
    let cases = failed["data"]["cases"].as_array().context("cases")?;
    let violated = cases.iter().find(|case| case["verdict"] == "violated");
    let violated = violated.context("a violated case")?;
    assert_eq!(violated["violations"][0]["code"], "effect-repeated");
    assert_eq!(violated["violations"][0]["step"], "order");
    let fault = violated["fault"].as_str().context("a fault")?;
    let repeat = [
        "rehearse",
        "paid.flow.yaml",
        "--example",
        "one",
        "--fault",
        fault,
    ];
    let again = world.json(&repeat).await?;
    assert_eq!(again["error"]["code"], "rehearsal-failed", "{again:#}");

    for command in [
        ["flow", "push", "paid.flow.yaml"],
        ["flow", "publish", "paid"],
    ] {
        let done = world.json(&command).await?;
        ensure!(done["ok"] == true, "{done:#}");
    }
    let refused = world.json(&["flow", "promote", "paid"]).await?;
    assert_eq!(refused["error"]["code"], "rehearsal-failed", "{refused:#}");

    world.write("review")?;
    for command in [
        ["flow", "push", "paid.flow.yaml"],
        ["flow", "publish", "paid"],
    ] {
        let done = world.json(&command).await?;
        ensure!(done["ok"] == true, "{done:#}");
    }
    let promoted = world.json(&["flow", "promote", "paid"]).await?;
    assert_eq!(promoted["data"]["proof"], "proven", "{promoted:#}");
    let tried = world.semel(&["flow", "try", "paid.flow.yaml"]).await?;
    ensure!(
        tried.stdout.contains("order: done with 201"),
        "{}",
        tried.stdout
    );
    Ok(())
}

#[tokio::test]
async fn a_release_without_examples_is_told_what_to_write_and_what_init_writes_goes_live()
-> Result<()> {
    let world = World::start().await?;
    world.write("review")?;
    let path = world.home.path().join("paid.flow.yaml");
    let text = std::fs::read_to_string(&path)?;
    let (bare, _) = text.split_once("examples:").context("examples")?;
    std::fs::write(&path, bare)?;
    for command in [
        ["flow", "push", "paid.flow.yaml"],
        ["flow", "publish", "paid"],
    ] {
        let done = world.json(&command).await?;
        ensure!(done["ok"] == true, "{done:#}");
    }

    let refused = world.json(&["flow", "promote", "paid"]).await?;

    assert_eq!(refused["error"]["code"], "flow-not-rehearsed", "{refused}");
    let hint = refused["error"]["hint"].as_str().context("a hint")?;
    ensure!(hint.contains("examples:\n  - name: first\n"), "{hint}");
    ensure!(
        hint.contains("order: { status: 200, json: {} }\n"),
        "{hint}"
    );
    // Other examples are no other release, and prove it.
    std::fs::write(&path, &text)?;
    for command in [
        ["flow", "push", "paid.flow.yaml"],
        ["flow", "publish", "paid"],
    ] {
        let done = world.json(&command).await?;
        ensure!(done["ok"] == true, "{done:#}");
    }
    let promoted = world.semel(&["flow", "promote", "paid"]).await?;
    ensure!(promoted.status.success(), "{}", promoted.stderr);
    ensure!(promoted.stdout.contains("paid r1 is live"));
    for command in [
        vec!["init", "first"],
        vec!["flow", "push", "first.flow.yaml"],
        vec!["flow", "publish", "first"],
    ] {
        let done = world.json(&command).await?;
        ensure!(done["ok"] == true, "{done:#}");
    }
    let promoted = world.semel(&["flow", "promote", "first"]).await?;
    ensure!(promoted.status.success(), "{}", promoted.stderr);
    ensure!(promoted.stdout.contains("first r1 is live"));
    ensure!(
        promoted.stderr.contains("rehearsed before it goes live"),
        "{}",
        promoted.stderr
    );
    Ok(())
}

/// How many schemas of rehearsals there are.
const SCHEMAS: &str = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'semel_rehearsal%'";

#[tokio::test]
async fn what_a_server_leaves_that_is_killed_in_a_rehearsal_is_dropped_after_an_hour() -> Result<()>
{
    let mut world = World::start().await?;
    world.write("review")?;
    let client = world.cluster.server().connect("semel").await?;
    let left = async || Ok::<i64, anyhow::Error>(client.query_one(SCHEMAS, &[]).await?.get(0));
    let mut rehearsing = Program::semel()?
        .args(["rehearse", "paid.flow.yaml"])
        .env("SEMEL_URL", &world.url)
        .env("SEMEL_TOKEN", &world.token)
        .current_dir(world.home.path())
        .start()?;
    until("the schema of a rehearsal", left, |count| *count > 0).await?;

    world.server.sigkill()?;
    rehearsing.sigkill()?;

    let database = world.cluster.server().url("semel");
    let program = Program::semel()?;
    let (server, listens) = semel::serve_gated(program, &database, "127.0.0.1:0", &[]).await?;
    world.server = server;
    world.url = format!("http://{listens}");
    let again = world.json(&["rehearse", "paid.flow.yaml"]).await?;
    ensure!(again["ok"] == true, "{again:#}");
    assert_eq!(left().await?, 1, "it may still be in use");
    let later = "UPDATE clock SET time_offset = time_offset + interval '61 minutes'";
    client.batch_execute(later).await?;
    let again = world.json(&["rehearse", "paid.flow.yaml"]).await?;
    ensure!(again["ok"] == true, "{again:#}");
    assert_eq!(left().await?, 0, "nothing is left");
    let live = "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM effects)";
    assert_eq!(client.query_one(live, &[]).await?.get::<_, i64>(0), 0);
    Ok(())
}
