//! Servers that send more than fits, before the commit and after it.

use anyhow::Result;
use semel_model::{Looked, Outcome};
use semel_steps::db::{RESULT_BYTES_MAX, WIRE_BYTES_MAX};
use serde_json::json;

use crate::db::world::{World, done, failed, in_doubt, key, order, request};

/// Raises a notice that is larger than everything that a server may send.
const FLOOD: &str = "
    CREATE FUNCTION flood() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE NOTICE '%', repeat('x', BYTES); RETURN NULL; END $$";

/// At the end of the statement.
const AT_ONCE: &str =
    "CREATE TRIGGER flood AFTER INSERT ON orders FOR EACH STATEMENT EXECUTE FUNCTION flood()";

/// While the transaction commits.
const AT_COMMIT: &str = "CREATE CONSTRAINT TRIGGER flood AFTER INSERT ON orders
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION flood()";

/// A database that sends too much whenever an order is added.
async fn flooding(trigger: &str) -> Result<World> {
    let world = World::new().await?;
    let admin = world.database.connect().await?;
    let bytes = (2 * WIRE_BYTES_MAX).to_string();
    admin.batch_execute(&FLOOD.replace("BYTES", &bytes)).await?;
    admin.batch_execute(trigger).await?;
    Ok(world)
}

#[tokio::test]
async fn a_row_that_is_too_large_is_cut_on_the_wire_and_nothing_happened() -> Result<()> {
    let world = World::new().await?;
    let size = 16 * WIRE_BYTES_MAX;
    let large = format!("repeat('x', {size})");
    let insert = format!("INSERT INTO orders VALUES (1) RETURNING {large}");
    let insert = request(&insert, &[]);
    let select = request(&format!("SELECT {large}"), &[]);

    let effect = failed(world.perform(&insert, key("a")).await);
    let read = failed(world.caller.query(&select, &world.destination()).await);
    let next = done(world.perform(&order(2), key("b")).await);

    for fault in [&effect, &read] {
        assert_eq!(
            (fault.code.as_str(), fault.retryable),
            ("result-too-large", false)
        );
        // Counted on the wire: a row that was held whole is said to exceed the result's size.
        let most = WIRE_BYTES_MAX.to_string();
        assert!(fault.message.contains(&most), "{fault:?}");
    }
    assert_eq!(effect.looked, Looked::AtMarker, "it did not happen before");
    assert_eq!(next["repeated"], json!(false));
    assert_eq!(world.orders().await?, 1);
    Ok(())
}

#[tokio::test]
async fn notices_before_the_commit_count_as_well() -> Result<()> {
    let world = flooding(AT_ONCE).await?;

    let fault = failed(world.perform(&order(1), key("a")).await);

    assert_eq!(fault.code, "result-too-large", "{fault:?}");
    assert_eq!(world.orders().await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_flood_in_answer_to_the_commit_is_a_doubt() -> Result<()> {
    let world = flooding(AT_COMMIT).await?;

    let doubt = in_doubt(world.perform(&order(1), key("a")).await);
    let admin = world.database.connect().await?;
    world.until_idle().await?;
    admin.batch_execute("DROP TRIGGER flood ON orders").await?;
    let again = done(world.perform(&order(1), key("a")).await);

    assert_eq!(doubt.code, "no-answer", "{doubt:?}");
    assert_eq!(again["rows"], json!(1));
    assert_eq!(world.orders().await?, 1, "once, whether it was committed");
    Ok(())
}

#[tokio::test]
async fn answers_that_fit_are_read_for_as_long_as_a_server_is_used() -> Result<()> {
    let world = World::new().await?;
    let size = RESULT_BYTES_MAX - 1024;
    let select = request(&format!("SELECT repeat('x', {size})"), &[]);

    // More in all than one connection may bring.
    for _ in 0..20 {
        let outcome = world.caller.query(&select, &world.destination()).await;
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }
    Ok(())
}

/// Its driver keeps the room of the answer for as long as the connection stands.
#[tokio::test]
async fn a_connection_over_which_a_large_answer_came_is_closed_behind_it() -> Result<()> {
    let world = World::new().await?;
    let size = RESULT_BYTES_MAX / 2;
    let large = request(&format!("SELECT repeat('x', {size})"), &[]);
    let who = request("SELECT pg_backend_pid() AS pid", &[]);
    let ask = async || {
        let answer = world.caller.query(&who, &world.destination()).await;
        done(answer)["records"][0]["pid"].clone()
    };

    let before = [ask().await, ask().await];
    done(world.caller.query(&large, &world.destination()).await);
    let behind = ask().await;

    assert!(before[0].is_number(), "{before:?}");
    assert_eq!(before[0], before[1], "a small answer leaves it open");
    assert_ne!(before[1], behind);
    Ok(())
}
