//! A rehearsal, through the binary: a wrong flow fails with a command that repeats the case, and a
//! release goes live once it has passed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use semel_testkit::program::Finished;
use semel_testkit::{Cluster, Options, Process, Program, semel};
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

/// A server that promotes only what was rehearsed, and a shell that speaks to it.
struct World {
    _cluster: Cluster,
    _server: Process,
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
        let program = Program::semel()?.env("SEMEL_REQUIRE_REHEARSAL", "true");
        let (server, listens) = semel::serve(program, &address, "127.0.0.1:0", &[]).await?;
        Ok(Self {
            _cluster: cluster,
            _server: server,
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
            .run(Duration::from_secs(60))
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
