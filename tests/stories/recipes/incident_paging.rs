//! Incident paging.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::house::House;
use super::signatures::pagerduty;

const FIRST: &str = "+4915550001";
const SECOND: &str = "+4915550002";

fn triggered(event: &str, number: i64) -> Value {
    json!({ "event": {
        "id": event,
        "event_type": "incident.triggered",
        "occurred_at": "2026-01-01T10:00:00.000Z",
        "data": {
            "id": format!("P{number}"), "number": number,
            "title": "Checkout answers slowly", "service": { "id": "PF9KMXH" },
        },
    } })
}

#[tokio::test]
async fn an_incident_pages_one_engineer_and_the_next_only_where_the_first_does_not_take_it()
-> Result<()> {
    let mut house = House::open("incident-paging").await?;
    let rota = json!({ "first": { "phone": FIRST }, "second": { "phone": SECOND } });
    let rota = json!({ "/rota/on-call/PF9KMXH": rota });
    house.providers().hold(&rota).await?;
    house
        .providers()
        .refuse("POST", "/sms/messages", 503)
        .await?;

    let run = house
        .deliver_twice(&pagerduty(&triggered("PD1", 1))?)
        .await?;
    let asked = house.approval_of(&run).await?;
    let link = link(&house).await?;
    // The phone shows a preview, and the engineer opens it twice.
    let page = house.open_link(&link).await?;
    house.open_link(&link).await?;
    assert!(page.contains("Checkout answers slowly"), "{page}");
    house.until_state(&run, "waiting").await?;
    decide(&house, &link, &asked, true).await?;
    decide(&house, &link, &asked, true).await?;
    let taken = house.until_state(&run, "succeeded").await?;

    assert_eq!(taken["result"]["taken"], true);
    assert_eq!(paged(&house).await?, [FIRST]);
    let sent = house.providers().requests("POST", "/sms/messages").await?;
    assert_eq!(sent.len(), 2, "the gateway refused the first request");
    assert_eq!(sent[0].key, sent[1].key, "one key");
    let held = house.providers().held().await?;
    let note = &held["/chat/rooms/incident-1/notes/paging"];
    assert_eq!(note["by"], "noa (by link, unverified)");

    let passed = house
        .deliver_twice(&pagerduty(&triggered("PD2", 2))?)
        .await?;
    let asked = house.approval_of(&passed).await?;
    decide(&house, &self::link(&house).await?, &asked, false).await?;
    house.until_state(&passed, "succeeded").await?;
    assert_eq!(
        paged(&house).await?,
        [FIRST, FIRST, SECOND],
        "passed on at once"
    );

    let silent = house
        .deliver_twice(&pagerduty(&triggered("PD3", 3))?)
        .await?;
    house.approval_of(&silent).await?;
    house.sleep_for("11 minutes").await?;
    let silent = house.until_state(&silent, "succeeded").await?;

    assert_eq!(silent["result"]["taken"], false);
    let all = [FIRST, FIRST, SECOND, FIRST, SECOND];
    assert_eq!(paged(&house).await?, all, "the deadline outlasts a restart");
    Ok(())
}

/// The phones that got a message, in order.
async fn paged(house: &House) -> Result<Vec<String>> {
    let effects = house.providers().effects().await?;
    let sent = effects.iter().filter(|one| one.path == "/sms/messages");
    let phone = |one: &Value| one["to"].as_str().unwrap_or_default().to_owned();
    Ok(sent.map(|one| phone(&one.body)).collect())
}

/// The link in the latest message.
async fn link(house: &House) -> Result<String> {
    let effects = house.providers().effects().await?;
    let mut sent = effects
        .iter()
        .rev()
        .filter(|one| one.path == "/sms/messages");
    let text = sent.next().context("a message")?.body["body"].to_string();
    let (_, link) = text.rsplit_once(' ').context("a link")?;
    Ok(link.trim_end_matches('"').to_owned())
}

async fn decide(house: &House, link: &str, asked: &Value, approved: bool) -> Result<()> {
    let decision = json!({ "approved": approved, "digest": asked["digest"], "name": "noa" });
    house.post(link, &decision).await?;
    Ok(())
}
