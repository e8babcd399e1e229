//! The page of `reconcile` works as printed: its flow and its commands, with a real shop in the place
//! of the example's.

use std::process::Command;

use anyhow::{Context, Result};
use semel_testkit::Peer;
use serde_json::json;

use crate::desk::Desk;

#[tokio::test]
async fn the_page_of_reconcile_works_as_printed() -> Result<()> {
    let peer = Peer::start().await?;
    let desk = Desk::open(&[("orders", &flow_of_the_page(&peer)?)]).await?;
    let hook = format!("{}/hooks/default/orders", desk.url());
    let bring = |order: &str| format!("curl -sf -d '{order}' {hook}");
    desk.say(&bring(r#"{"id":"o-0","total":0}"#)).await?;
    desk.say(&bring(r#"{"id":"o-1","total":7}"#)).await?;
    desk.until_said("semel run list --state succeeded", "order/o-1")
        .await?;

    let dry = desk.data("semel reconcile run orders --dry-run").await?;
    let still = peer.count("/put/invoices/").await?.effects;
    let pass = desk.data("semel reconcile run orders --since 1d").await?;
    let passes = desk.data("semel reconcile list orders").await?;
    let nominal = pass["nominal"].as_str().context("a pass")?;
    let shown = desk
        .say(&format!("semel reconcile show orders {nominal}"))
        .await?;
    let refused = desk
        .say("semel reconcile run orders --since 31d --json || true")
        .await?;
    let unknown = desk.say("semel reconcile run other --json || true").await?;

    for found in [&dry, &pass] {
        assert_eq!(found["state"], "done", "{found}");
        assert_eq!(found["listed"], 6);
        assert_eq!(
            (&found["known"], &found["differing"]),
            (&json!(2), &json!(1))
        );
        assert_eq!(
            (&found["started"], &found["left_out"]),
            (&json!(3), &json!(1))
        );
    }
    assert_eq!(dry["items"][1]["verdict"], "would_start", "{dry}");
    assert_eq!(still, 2, "a dry run starts nothing");
    assert_eq!(passes["items"].as_array().map(Vec::len), Some(2));
    assert!(
        shown.contains("order/o-4") && shown.contains("differing"),
        "{shown}"
    );
    assert!(refused.contains("since-too-long"), "{refused}");
    assert!(unknown.contains("reconcile-not-found"), "{unknown}");
    desk.until_said("semel run list --state succeeded", "order/o-4")
        .await?;
    assert_eq!(peer.count("/put/invoices/").await?.effects, 5);
    Ok(())
}

/// The flow of the page, with five recent orders and an old one.
fn flow_of_the_page(peer: &Peer) -> Result<String> {
    let page = include_str!("../../docs/reconcile.md");
    let flow = page.split("```yaml\n").nth(1).context("a flow")?;
    let flow = flow.split("```").next().context("its end")?;
    let date = Command::new("date").arg("+%s").output()?;
    let now = String::from_utf8(date.stdout)?;
    let shop = peer.url(&format!("/shop/5/1/{}/orders?", now.trim()));
    Ok(flow
        .replace("https://shop.example/orders?", &shop)
        .replace("https://books.example", &peer.url("/put"))
        .replace("window: 7d", "window: 1d"))
}
