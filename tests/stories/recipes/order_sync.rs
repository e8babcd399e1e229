//! Nightly order sync.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::house::House;

/// How many orders there are: several pages, and more text than a journal has room for.
const ORDERS: i64 = 40;

fn order(id: i64, version: i64, change: i64) -> Value {
    json!({
        "id": id, "version": version, "customer": format!("cus_{}", "x".repeat(2_000)),
        "total_cents": 900 * version, "state": "paid", "change": change,
    })
}

#[tokio::test]
async fn a_night_copies_what_changed_and_the_next_night_begins_where_it_ended() -> Result<()> {
    let mut house = House::open("order-sync").await?;
    let orders: Vec<Value> = (1..=ORDERS).map(|id| order(id, 2, 1_000 + id)).collect();
    let shop =
        json!({ "/shop/orders": orders, "/shop/changes/last": { "number": 1_000 + ORDERS } });
    house.providers().hold(&shop).await?;
    house.providers().refuse("GET", "/shop/orders", 503).await?;

    let fire = "semel schedule fire order-sync --next";
    let first = house.data(fire).await?;
    let again = house.data(fire).await?;
    let run = first["run"].as_str().context("a run")?;
    let done = house.until_state(run, "succeeded").await?;

    assert_eq!(again["run"], first["run"], "an instant has one run");
    assert_eq!(again["replayed"], true);
    assert_eq!(done["result"]["copied"], ORDERS);
    let warehouse = house.to.database()?.connect().await?;
    let sum = "SELECT count(*), sum(version)::bigint FROM orders";
    let copied = warehouse.query_one(sum, &[]).await?;
    assert_eq!((copied.get(0), copied.get(1)), (ORDERS, 2 * ORDERS));

    // One order has changed since, of another an older version comes late, and a third is old.
    let changed = [order(1, 3, 1_041), order(2, 1, 1_042), order(3, 2, 900)];
    let shop = json!({ "/shop/orders": changed, "/shop/changes/last": { "number": 1_042 } });
    house.providers().hold(&shop).await?;
    house.sleep_for("2 days").await?;
    let next = house.next_run("order-sync", run).await?;
    let next = house.until_state(&next, "succeeded").await?;

    assert_eq!(
        next["result"]["copied"], 2,
        "the night asks for what changed"
    );
    let asked = house.providers().requests("GET", "/shop/orders").await?;
    let asked = &asked.last().context("a request")?.query;
    assert_eq!(
        (&asked["after"], &asked["until"]),
        (&json!("940"), &json!("1042"))
    );
    let version = "SELECT version FROM orders WHERE id = $1";
    let newer: i64 = warehouse.query_one(version, &[&1_i64]).await?.get(0);
    let older: i64 = warehouse.query_one(version, &[&2_i64]).await?.get(0);
    assert_eq!(
        (newer, older),
        (3, 2),
        "an older version never replaces a newer one"
    );
    let copied = warehouse.query_one(sum, &[]).await?;
    assert_eq!((copied.get(0), copied.get(1)), (ORDERS, 2 * ORDERS + 1));
    Ok(())
}
