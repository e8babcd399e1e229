//! What is refused, and that nothing came of it.

use anyhow::Result;
use semel_model::{Fault, Span};
use semel_steps::{DbExecutor, Reach};
use semel_testkit::until;
use serde_json::json;

use crate::db::world::{World, done, failed, key, order, request};

#[tokio::test]
async fn a_text_of_two_statements_is_refused() -> Result<()> {
    let world = World::new().await?;
    let two = request("INSERT INTO orders VALUES (1); DELETE FROM orders", &[]);

    let fault = failed(world.perform(&two, key("a")).await);

    assert_eq!((fault.code.as_str(), fault.retryable), ("sql-42601", false));
    assert_eq!(world.orders().await?, 0);
    Ok(())
}

#[tokio::test]
async fn sql_in_a_value_is_a_value() -> Result<()> {
    let world = World::new().await?;
    let hostile = "'); DELETE FROM orders; --";
    done(world.perform(&order(1), key("a")).await);
    let insert = request(
        "INSERT INTO orders (note) VALUES ($1) RETURNING note",
        &[json!(hostile)],
    );
    let cast = request(
        "INSERT INTO orders (id) VALUES ($1)",
        &[json!("1); DROP TABLE orders; --")],
    );

    let kept = done(world.perform(&insert, key("b")).await);
    let refused = failed(world.perform(&cast, key("c")).await);

    assert_eq!(kept["records"], json!([{"note": hostile}]));
    assert_eq!(
        (refused.code.as_str(), refused.retryable),
        ("sql-22P02", false)
    );
    assert_eq!(world.orders().await?, 2);
    Ok(())
}

#[tokio::test]
async fn a_statement_cannot_end_its_own_transaction() -> Result<()> {
    let world = World::new().await?;

    for (index, text) in ["COMMIT", "/* hm */ rollback", "SET ROLE postgres"]
        .iter()
        .enumerate()
    {
        let fault = failed(
            world
                .perform(&request(text, &[]), key(&index.to_string()))
                .await,
        );
        assert_eq!(
            (fault.code.as_str(), fault.retryable),
            ("statement-refused", false)
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_statement_cannot_remove_its_own_marker() -> Result<()> {
    let world = World::new().await?;

    let fault = failed(
        world
            .perform(&request("DELETE FROM semel_effects", &[]), key("a"))
            .await,
    );

    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("marker-damaged", false)
    );
    Ok(())
}

#[tokio::test]
async fn answers_have_a_limit() -> Result<()> {
    let world = World::new().await?;
    let rows = request("SELECT generate_series(1, 10001)", &[]);
    let bytes = request("SELECT repeat('x', 2000000)", &[]);
    let most = request("SELECT generate_series(1, 10000) AS n", &[]);

    let too_many = failed(world.perform(&rows, key("a")).await);
    let too_long = failed(world.perform(&bytes, key("b")).await);
    let fits = done(world.perform(&most, key("c")).await);

    assert_eq!(
        (too_many.code.as_str(), too_many.retryable),
        ("result-too-large", false)
    );
    assert_eq!(
        (too_long.code.as_str(), too_long.retryable),
        ("result-too-large", false)
    );
    assert_eq!(fits["rows"], json!(10_000));
    Ok(())
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_known_not_to_have_happened() -> Result<()> {
    let world = World::new().await?;
    let mut slow = request("INSERT INTO orders (id) SELECT 1 FROM pg_sleep(600)", &[]);
    slow.timeout = Span::from_millis(300);

    let fault = failed(world.perform(&slow, key("a")).await);
    world.until_idle().await?;

    assert!(fault.retryable, "{fault:?}");
    assert!(
        ["timeout", "sql-57014"].contains(&fault.code.as_str()),
        "{fault:?}"
    );
    assert_eq!(world.orders().await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_lock_timeout_is_retryable() -> Result<()> {
    let world = World::new().await?;
    let admin = world.database.connect().await?;
    admin
        .batch_execute("BEGIN; LOCK TABLE orders IN EXCLUSIVE MODE")
        .await?;
    let mut timeout_ms = 200;
    let mut blocked = order(1);

    // The wait for the lock has half of the request's time: what comes before it may take the other half.
    let attempt = async || -> Result<Fault> {
        timeout_ms *= 2;
        blocked.timeout = Span::from_millis(timeout_ms);
        Ok(failed(world.perform(&blocked, key("a")).await))
    };
    let is_in_time = |fault: &Fault| fault.code != "timeout";
    let fault = until("a wait for a lock that ends in time", attempt, is_in_time).await?;
    admin.batch_execute("ROLLBACK").await?;
    let later = done(world.perform(&order(1), key("a")).await);

    assert_eq!((fault.code.as_str(), fault.retryable), ("sql-55P03", true));
    assert_eq!(later["repeated"], json!(false));
    assert_eq!(world.orders().await?, 1);
    Ok(())
}

#[tokio::test]
async fn an_address_that_flows_may_not_reach_is_not_reached() -> Result<()> {
    let world = World::new().await?;
    let strict = DbExecutor::new(world.gate.clone(), &Reach::default());

    let fault = failed(strict.run(&order(1), &world.destination(), key("a")).await);

    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("address-refused", false)
    );
    assert_eq!(world.orders().await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_server_without_tls_is_not_spoken_to_in_the_clear() -> Result<()> {
    let world = World::new().await?;
    let mut to = world.destination();
    if let semel_model::connection::Target::Postgres(target) = &mut to.connection.to {
        target.tls = semel_model::connection::Tls::Required;
    }
    to.version += 1;

    let fault = failed(world.caller.run(&order(1), &to, key("a")).await);

    assert_eq!(fault.code, "no-connection", "{fault:?}");
    assert_eq!(world.orders().await?, 0);
    Ok(())
}
