//! Limits, unknown routes, health and metrics.

use anyhow::Result;
use hyper::Method;
use semel_api::Problem;
use semel_model::Right;
use semel_testkit::until_some;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::world::{World, add_token_with};

const ORDERS: &str = "trigger: { webhook: { auth: none, key: input.id } }\n\
    steps:\n  - id: note\n    kv: { add: orders }\n";

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() -> Result<()> {
    let world = World::start().await?;
    world.publish("orders", ORDERS).await?;
    let body = vec![b' '; 1024 * 1024 + 1];

    let answer = world.bare.post("/hooks/main/orders", body).await?;

    assert_eq!(answer.status, 413);
    assert_eq!(answer.json::<Problem>()?.code, "body-too-large");
    Ok(())
}

#[tokio::test]
async fn a_head_beyond_the_limit_is_refused() -> Result<()> {
    let world = World::start().await?;
    let long = "x".repeat(20 * 1024);

    let headers = [("x-long", long.as_str())];
    let answer = world
        .bare
        .send(Method::GET, "/healthz", &headers, "".into())
        .await?;

    assert_eq!(answer.status, 431);
    Ok(())
}

#[tokio::test]
async fn what_is_not_there_and_what_is_not_taken_are_problems() -> Result<()> {
    let world = World::start().await?;

    let nowhere = world.bare.get("/nowhere").await?;
    let nested = world.bare.get("/v1/nowhere").await?;
    let wrong = world.bare.post("/healthz", "").await?;
    let nested_wrong = world.bare.post("/v1/runs", "").await?;

    for answer in [&nowhere, &nested] {
        assert_eq!(answer.status, 404);
        assert_eq!(answer.json::<Problem>()?.code, "route-not-found");
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json")
        );
    }
    for answer in [&wrong, &nested_wrong] {
        assert_eq!(answer.status, 405);
        assert_eq!(answer.json::<Problem>()?.code, "method-not-allowed");
        assert_eq!(answer.header("allow"), Some("GET,HEAD"));
    }
    Ok(())
}

#[tokio::test]
async fn a_server_says_that_it_lives_is_ready_and_what_it_counted() -> Result<()> {
    let world = World::start().await?;

    let alive = world.bare.get("/healthz").await?;
    let ready = world.client.is_ready().await?;
    let metrics = world.metrics().await?;

    assert_eq!(alive.status, 200);
    assert!(ready);
    assert!(
        metrics.text().contains("semel_database_up 1"),
        "{}",
        metrics.text()
    );
    assert!(
        metrics
            .text()
            .contains("semel_hook_seconds_bucket{le=\"0.0005\"}")
    );
    Ok(())
}

#[tokio::test]
async fn metrics_need_a_token() -> Result<()> {
    let world = World::start().await?;

    let stranger = world.bare.get("/metrics").await?;
    let reader = add_token_with(world.engine.cell(), "reader", Right::Read.into()).await?;
    let bearer = format!("Bearer {reader}");
    let headers = [("authorization", bearer.as_str())];
    let reader = world
        .bare
        .send(Method::GET, "/metrics", &headers, "".into());
    let known = world.metrics().await?;

    assert_eq!(stranger.status, 401);
    assert_eq!(reader.await?.status, 403, "it tells of all namespaces");
    assert_eq!(known.status, 200);
    Ok(())
}

#[tokio::test]
async fn the_admin_listener_needs_no_token_and_serves_nothing_else() -> Result<()> {
    let (world, admin) = World::start_with_admin().await?;

    let metrics = admin.get("/metrics").await?;
    let ready = admin.get("/readyz").await?;
    let api = admin.get("/v1/runs").await?;
    let hook = admin.post("/hooks/main/orders", "{}").await?;
    drop(world);

    assert_eq!((metrics.status.as_u16(), ready.status.as_u16()), (200, 200));
    assert!(metrics.text().contains("semel_database_up 1"));
    assert_eq!((api.status.as_u16(), hook.status.as_u16()), (404, 404));
    Ok(())
}

#[tokio::test]
async fn the_outcomes_of_effects_are_counted() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "orders",
            "trigger: { webhook: { auth: none, key: input.id } }\n\
             steps:\n  - id: one\n    kv: { set: 'a/${{ input.id }}', value: 1 }\n\
             \x20 - id: two\n    kv: { add: total }\n\
             \x20 - id: three\n    http: { post: 'http://127.0.0.1:1/' }\n    retry: { attempts: 1 }\n",
        )
        .await?;

    let body = r#"{"id":"1"}"#;
    world.bare.post("/hooks/main/orders", body).await?;
    let counted = until_some("the failed effect to be counted", async || {
        let text = world.metrics().await?.text();
        Ok(text
            .contains("semel_effects_failed_total 1")
            .then_some(text))
    })
    .await?;

    assert!(counted.contains("semel_effects_done_total 2"), "{counted}");
    assert!(
        counted.contains("semel_effects_doubted_total 0"),
        "{counted}"
    );
    Ok(())
}

#[tokio::test]
async fn a_stranger_on_metrics_costs_the_database_nothing() -> Result<()> {
    let world = World::start().await?;
    let statements = async || -> Result<i64> {
        let client = world.database.connect().await?;
        let read = "SELECT xact_commit + xact_rollback FROM pg_stat_database
                     WHERE datname = current_database()";
        Ok(client.query_one(read, &[]).await?.get(0))
    };
    // What it does by itself from now on is to look whether the database answers, once a second.
    world.engine.suspend();
    let before = statements().await?;

    for _ in 0..1_000 {
        world.bare.get("/metrics").await?;
        world.bare.get("/readyz").await?;
    }
    let asked = statements().await? - before;

    // One transaction for each request of either kind would be a thousand.
    assert!(asked < 900, "{asked} transactions for 2000 requests");
    Ok(())
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_its_statement_and_its_connection() -> Result<()> {
    let world = World::start().await?;
    let client = world.database.connect().await?;
    client
        .batch_execute("BEGIN; LOCK TABLE refused_deliveries, duplicates IN ACCESS EXCLUSIVE MODE")
        .await?;
    let watcher = world.database.connect().await?;
    let waiting = "SELECT pid FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock'
                      AND query LIKE '%FROM duplicates d%'";

    let mut stream = TcpStream::connect(world.address).await?;
    let request = format!(
        "GET /v1/duplicates HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n",
        world.token
    );
    stream.write_all(request.as_bytes()).await?;
    let pid: i32 = until_some("the statement to wait", async || {
        let rows = watcher.query(waiting, &[]).await?;
        Ok(rows.first().map(|row| row.get(0)))
    })
    .await?;
    drop(stream);

    // Left to itself, the statement would time out after a second and leave its connection in the
    // pool.
    until_some("the connection to end", async || {
        let there = "SELECT 1 FROM pg_stat_activity WHERE pid = $1";
        let rows = watcher.query(there, &[&pid]).await?;
        Ok(rows.is_empty().then_some(()))
    })
    .await
}
