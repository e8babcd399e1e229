//! Limits, unknown routes, health and metrics.

use anyhow::Result;
use hyper::Method;
use semel_api::Problem;

use crate::world::World;

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() -> Result<()> {
    let world = World::start().await?;
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
    let metrics = world.bare.get("/metrics").await?;

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
