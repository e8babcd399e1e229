//! Gates as the CLI shows them: which run waits for which, and what came too late.

use anyhow::{Context, Result};
use semel_testkit::Client;
use serde_json::{Value, json};

use crate::desk::Desk;

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

async fn start(desk: &Desk, id: &str) -> Result<String> {
    let input = json!({ "id": id, "customer": "c-1" });
    desk.start("calm", &input).await
}

async fn open() -> Result<Desk> {
    Desk::open(&[("calm", CALM), ("sync", SYNC)]).await
}

#[tokio::test]
async fn a_waiting_run_shows_the_run_ahead_and_continues_in_turn() -> Result<()> {
    let desk = open().await?;

    let first = start(&desk, "1").await?;
    desk.until_said("semel wait list", "answer").await?;
    let second = start(&desk, "2").await?;
    let show = format!("semel run show {second}");
    let waiting = desk.until_said(&show, "waiting at").await?;
    let third = start(&desk, "3").await?;
    let behind = desk
        .until_said(&format!("semel run show {third}"), "1 before it in line")
        .await?;
    let listed = desk.say("semel run list").await?;
    let waits = desk.data("semel wait list").await?;
    let wait = waits["items"][0]["wait"].as_str().context("a wait")?;
    desk.say(&format!("semel wait complete {wait}")).await?;
    let after = desk.until_said(&show, "admitted by").await?;

    let held = format!("at `overlap`, behind {first}");
    assert!(waiting.contains(&held), "{waiting}");
    assert!(behind.contains(&held), "{behind}");
    assert!(listed.contains("waiting"), "{listed}");
    assert!(!after.contains("  waits     at"), "{after}");
    Ok(())
}

#[tokio::test]
async fn a_stale_delivery_is_answered_as_stale_and_listed() -> Result<()> {
    let desk = open().await?;
    let authority = desk.url().trim_start_matches("http://").to_owned();
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
