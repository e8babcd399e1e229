//! Gates as people see them: who waits behind whom, and what came too late.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use semel_testkit::{Client, Process, Program};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::first_minutes::run;

/// What anything on this machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

const CALM: &str = "flow: calm
trigger: { api: { key: input.id }, manual: { key: input.id } }
overlap: { key: input.customer, policy: queue }
steps:
  - id: answer
    wait: { callback: true, within: 1h }
";

const SYNC: &str = "flow: sync
trigger:
  webhook:
    auth: none
    key: input.id
    order: { object: input.order, version: input.version }
steps:
  - id: keep
    kv: { set: 'order/${{ input.order }}', value: '${{ input.version }}' }
";

/// `semel dev` in a folder of its own, with both flows live.
struct Desk {
    folder: TempDir,
    url: String,
    token: String,
    _dev: Process,
}

impl Desk {
    async fn open() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        for (name, text) in [("calm", CALM), ("sync", SYNC)] {
            std::fs::write(folder.path().join(format!("{name}.flow.yaml")), text)?;
        }
        let dev = Program::semel()?
            .arg("dev")
            .current_dir(folder.path())
            .start()?;
        dev.until_line("semel is ready at", PATIENCE).await?;
        let desk = Self {
            url: kept(folder.path(), "url")?,
            token: kept(folder.path(), "token")?,
            folder,
            _dev: dev,
        };
        for name in ["calm", "sync"] {
            desk.until_said("semel flow list", name).await?;
        }
        Ok(desk)
    }

    async fn say(&self, line: &str) -> Result<String> {
        let (url, token) = (&self.url, &self.token);
        let line = format!("export SEMEL_URL='{url}' SEMEL_TOKEN='{token}'; {line}");
        run(self.folder.path(), &line).await
    }

    async fn data(&self, line: &str) -> Result<Value> {
        let said: Value = serde_json::from_str(&self.say(&format!("{line} --json")).await?)?;
        Ok(said["data"].clone())
    }

    async fn until_said(&self, line: &str, wanted: &str) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.say(line).await {
                Ok(said) if said.contains(wanted) => return Ok(said),
                other => ensure!(Instant::now() < deadline, "{line}: {other:?}"),
            }
        }
    }

    async fn start(&self, id: &str) -> Result<String> {
        let input = json!({ "id": id, "customer": "c-1" });
        let line = format!("semel run start calm --input '{input}'");
        let started = self.data(&line).await?;
        let run = started["run"].as_str();
        Ok(run.with_context(|| started.to_string())?.to_owned())
    }
}

fn kept(folder: &Path, name: &str) -> Result<String> {
    let text = std::fs::read_to_string(folder.join(".semel").join(name))?;
    Ok(text.trim().to_owned())
}

#[tokio::test]
async fn a_run_that_waits_says_behind_whom_and_goes_on_when_its_turn_comes() -> Result<()> {
    let desk = Desk::open().await?;

    let first = desk.start("1").await?;
    desk.until_said("semel wait list", "answer").await?;
    let second = desk.start("2").await?;
    let show = format!("semel run show {second}");
    let waiting = desk.until_said(&show, "waits at").await?;
    let third = desk.start("3").await?;
    let behind = desk
        .until_said(&format!("semel run show {third}"), "1 before it in line")
        .await?;
    let listed = desk.say("semel run list").await?;
    let waits = desk.data("semel wait list").await?;
    let wait = waits["items"][0]["id"].as_str().context("a wait")?;
    desk.say(&format!("semel wait complete {wait}")).await?;
    let after = desk.until_said(&show, "let in by").await?;

    let held = format!("at `overlap`, behind {first}");
    assert!(waiting.contains(&held), "{waiting}");
    assert!(behind.contains(&held), "{behind}");
    assert!(listed.contains("waiting"), "{listed}");
    assert!(!after.contains("  waits     at"), "{after}");
    Ok(())
}

#[tokio::test]
async fn a_delivery_that_came_too_late_is_answered_so_and_listed() -> Result<()> {
    let desk = Desk::open().await?;
    let authority = desk.url.trim_start_matches("http://").to_owned();
    let hook = Client::new(authority, 1);
    let deliver = async |version: u64| {
        let body = json!({ "id": format!("e-{version}"), "order": "o-1", "version": version });
        let answer = hook.post("/hooks/default/sync", body.to_string()).await?;
        Ok::<_, anyhow::Error>((answer.status.as_u16(), answer.json::<Value>()?))
    };

    let (first_status, first) = deliver(7).await?;
    let (late_status, late) = deliver(6).await?;
    let listed = desk.say("semel duplicate list").await?;
    let of_key = desk.data("semel duplicate list --key e-6").await?;

    assert_eq!((first_status, late_status), (202, 200), "{first} {late}");
    let told = (&late["stale"], &late["version"], &late["newest"]);
    assert_eq!(told, (&json!(true), &json!("6"), &json!("7")), "{late}");
    assert_eq!(late["run"], first["run"], "the run of the newest answers");
    assert!(listed.contains("stale"), "{listed}");
    assert!(listed.contains("6 of o-1, 7 was accepted"), "{listed}");
    assert_eq!(of_key["items"][0]["order"]["object"], "o-1", "{of_key}");
    Ok(())
}
