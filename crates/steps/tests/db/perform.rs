//! A statement is performed once, however often it is requested.

use anyhow::Result;
use futures_util::future::join_all;
use semel_model::{Looked, Outcome};
use serde_json::json;

use crate::db::world::{World, done, failed, key, order, request};

#[tokio::test]
async fn a_statement_is_committed_with_its_result() -> Result<()> {
    let world = World::new().await?;

    let response = done(world.perform(&order(42), key("a")).await);

    let expected = json!({"rows": 1, "records": [{"id": 42, "note": "paid"}], "repeated": false});
    assert_eq!(response, expected);
    assert_eq!(world.orders().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_repeat_gets_the_first_result_and_changes_nothing() -> Result<()> {
    let world = World::new().await?;
    done(world.perform(&order(42), key("a")).await);

    let again = done(world.perform(&order(42), key("a")).await);

    let expected = json!({"rows": 1, "records": [{"id": 42, "note": "paid"}], "repeated": true});
    assert_eq!(again, expected);
    assert_eq!(world.orders().await?, 1);
    Ok(())
}

#[tokio::test]
async fn another_key_is_another_effect() -> Result<()> {
    let world = World::new().await?;

    done(world.perform(&order(42), key("a")).await);
    done(world.perform(&order(42), key("b")).await);

    assert_eq!(world.orders().await?, 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_at_once_under_one_key_are_one_effect() -> Result<()> {
    let world = World::new().await?;
    let request = request("INSERT INTO orders (id) VALUES (1) RETURNING id", &[]);
    let holding = world.hold_orders().await?;

    let outcomes = join_all((0..20).map(|_| world.perform(&request, key("a"))));
    // One that performs, and one that waits for it.
    let letting_go = async {
        world.until_waiting(2).await.unwrap();
        holding.batch_execute("COMMIT").await.unwrap();
    };
    let (outcomes, ()) = tokio::join!(outcomes, letting_go);

    let responses: Vec<_> = outcomes.into_iter().map(done).collect();
    let repeated = responses
        .iter()
        .filter(|one| one["repeated"] == json!(true));
    assert_eq!(
        repeated.count(),
        19,
        "one performed and the others read its result"
    );
    assert!(
        responses
            .iter()
            .all(|one| one["records"] == json!([{"id": 1}]))
    );
    assert_eq!(world.orders().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_failed_statement_leaves_no_marker() -> Result<()> {
    let world = World::new().await?;
    let admin = world.database.connect().await?;
    admin
        .batch_execute("ALTER TABLE orders ADD UNIQUE (id)")
        .await?;
    admin
        .batch_execute("INSERT INTO orders VALUES (42)")
        .await?;

    let fault = failed(world.perform(&order(42), key("a")).await);
    admin.batch_execute("DELETE FROM orders").await?;
    let later = world.perform(&order(42), key("a")).await;

    assert_eq!((fault.code.as_str(), fault.retryable), ("sql-23505", false));
    assert_eq!(fault.looked, Looked::AtMarker, "no earlier attempt did it");
    assert_eq!(done(later)["repeated"], json!(false), "it is performed now");
    assert_eq!(world.orders().await?, 1);
    Ok(())
}

#[tokio::test]
async fn what_is_refused_before_the_marker_says_nothing_of_earlier_attempts() -> Result<()> {
    let world = World::unprepared().await?;

    let fault = failed(world.perform(&order(1), key("a")).await);

    assert_eq!(
        (fault.code.as_str(), fault.looked),
        ("marker-missing", Looked::AtNothing)
    );
    Ok(())
}

#[tokio::test]
async fn what_a_statement_leaves_in_its_session_does_not_lead_the_next_marker_elsewhere()
-> Result<()> {
    let world = World::new().await?;
    let admin = world.database.connect().await?;
    admin.batch_execute("CREATE SCHEMA elsewhere").await?;
    let lead = "SELECT set_config('search_path', 'elsewhere, public', false)";

    done(world.perform(&request(lead, &[]), key("lead")).await);
    admin
        .batch_execute("CREATE TABLE elsewhere.semel_effects (LIKE semel_effects INCLUDING ALL)")
        .await?;
    done(world.perform(&order(1), key("order")).await);

    let count = "SELECT count(*) FROM elsewhere.semel_effects";
    let led_away: i64 = admin.query_one(count, &[]).await?.get(0);
    assert_eq!(led_away, 0, "the marker stands where all markers stand");
    Ok(())
}

#[tokio::test]
async fn a_change_that_meets_other_rows_than_it_should_is_rolled_back() -> Result<()> {
    let world = World::new().await?;
    done(world.perform(&order(1), key("a")).await);
    done(world.perform(&order(2), key("b")).await);
    let mut delete = request("DELETE FROM orders", &[]);
    delete.rows = Some(1);

    let fault = failed(world.perform(&delete, key("c")).await);

    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("rows-unexpected", false)
    );
    assert!(fault.message.contains("affected 2 rows instead of 1"));
    assert_eq!(world.orders().await?, 2);
    Ok(())
}

#[tokio::test]
async fn a_constraint_that_is_checked_at_the_commit_is_a_failure() -> Result<()> {
    let world = World::new().await?;
    let admin = world.database.connect().await?;
    admin
        .batch_execute("ALTER TABLE orders ADD UNIQUE (id) DEFERRABLE INITIALLY DEFERRED")
        .await?;
    admin
        .batch_execute("INSERT INTO orders VALUES (42)")
        .await?;

    let fault = failed(world.perform(&order(42), key("a")).await);

    assert_eq!((fault.code.as_str(), fault.retryable), ("sql-23505", false));
    assert_eq!(world.orders().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_read_changes_nothing_and_cannot() -> Result<()> {
    let world = World::new().await?;
    done(world.perform(&order(42), key("a")).await);

    let read = request("SELECT id FROM orders WHERE id = $1", &[json!(42)]);
    let rows = done(world.caller.query(&read, &world.destination()).await);
    let write = world.caller.query(&order(43), &world.destination()).await;

    assert_eq!(rows, json!({"rows": 1, "records": [{"id": 42}]}));
    assert_eq!(failed(write).code, "sql-25006");
    assert_eq!(world.orders().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_connection_test_reports_the_version_and_a_missing_table() -> Result<()> {
    let world = World::unprepared().await?;

    let unmarked = world.perform(&order(1), key("a")).await;
    let before = world.caller.test(&world.destination()).await.unwrap();
    world.caller.prepare(&world.destination()).await.unwrap();
    world.caller.prepare(&world.destination()).await.unwrap();
    let after = world.caller.test(&world.destination()).await.unwrap();

    let fault = failed(unmarked);
    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("marker-missing", false)
    );
    assert!(fault.message.contains("semel connection prepare books"));
    assert!(
        before.starts_with("PostgreSQL 1") && before.contains("semel connection prepare books")
    );
    assert!(
        after.ends_with("as postgres; semel_effects exists"),
        "{after}"
    );
    assert_eq!(world.orders().await?, 0);
    Ok(())
}

#[tokio::test]
async fn nothing_is_sent_and_nothing_committed_once_the_lease_is_lost() -> Result<()> {
    let world = World::new().await?;
    let (request, holding) = (order(1), world.hold_orders().await?);

    let closing = async {
        world.until_waiting(1).await.unwrap();
        world.gate.close();
        holding.batch_execute("COMMIT").await.unwrap();
    };
    let (under_way, ()) = tokio::join!(world.perform(&request, key("a")), closing);
    let before = world.perform(&order(2), key("b")).await;

    for outcome in [under_way, before] {
        let Outcome::Failed(fault) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!((fault.code.as_str(), fault.retryable), ("lease-lost", true));
    }
    assert_eq!(world.orders().await?, 0);
    Ok(())
}
