//! Wires that break before, at and after the commit.

use std::time::Duration;

use anyhow::Result;
use semel_model::Span;
use semel_testkit::{Cut, Proxy, patience};
use serde_json::json;

use crate::db::world::{World, done, failed, in_doubt, key, order, request};

#[tokio::test]
async fn a_server_that_refuses_the_connection_was_sent_nothing() -> Result<()> {
    let world = World::new().await?;
    let proxy = Proxy::start(world.database.server().address()).await?;
    proxy.refuse();

    let to = world.destination_at(proxy.address());
    let fault = failed(world.caller.run(&order(1), &to, key("a")).await);

    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("no-connection", true)
    );
    assert_eq!(world.orders().await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_server_that_never_greets_was_sent_nothing() -> Result<()> {
    let world = World::new().await?;
    let proxy = Proxy::start(world.database.server().address()).await?;
    proxy.hold_answers();
    let mut request = order(1);
    request.timeout = Span::from_millis(300);

    let to = world.destination_at(proxy.address());
    let fault = failed(world.caller.run(&request, &to, key("a")).await);

    assert_eq!((fault.code.as_str(), fault.retryable), ("timeout", true));
    assert_eq!(world.orders().await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_wire_that_breaks_before_the_commit_leaves_nothing() -> Result<()> {
    let world = World::new().await?;
    let proxy = Proxy::start(world.database.server().address()).await?;
    let to = world.destination_at(proxy.address());
    let slow = request("INSERT INTO orders (id) SELECT 1 FROM pg_sleep(0.4)", &[]);

    let cutting = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        proxy.cut(Cut::Reset);
    };
    let (outcome, ()) = tokio::join!(world.caller.run(&slow, &to, key("a")), cutting);
    let again = done(world.caller.run(&slow, &to, key("a")).await);

    let fault = failed(outcome);
    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("no-connection", true)
    );
    assert_eq!(again["repeated"], json!(false));
    assert_eq!(world.orders().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_a_doubt_that_a_repeat_settles() -> Result<()> {
    let world = World::new().await?;
    let proxy = Proxy::start(world.database.server().address()).await?;
    proxy.hold_commits();

    let to = world.destination_at(proxy.address());
    let request = order(1);
    let cutting = async {
        proxy.until_held(1, patience()).await.unwrap();
        proxy.cut(Cut::Reset);
    };
    let (outcome, ()) = tokio::join!(world.caller.run(&request, &to, key("a")), cutting);
    proxy.resume();
    let again = done(world.caller.run(&request, &to, key("a")).await);

    assert_eq!(in_doubt(outcome).code, "no-answer");
    assert_eq!(
        again["repeated"],
        json!(true),
        "the marker tells that it happened"
    );
    assert_eq!(world.orders().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_commit_that_is_not_answered_in_time_is_a_doubt() -> Result<()> {
    let world = World::new().await?;
    let proxy = Proxy::start(world.database.server().address()).await?;
    proxy.hold_commits();
    let mut request = order(1);
    request.timeout = Span::from_secs(2);

    let to = world.destination_at(proxy.address());
    let outcome = world.caller.run(&request, &to, key("a")).await;

    assert_eq!(in_doubt(outcome).code, "no-answer");
    assert_eq!(world.orders().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_commit_that_never_arrived_is_performed_by_the_repeat() -> Result<()> {
    let world = World::new().await?;
    let slow = request("INSERT INTO orders (id) SELECT 1 FROM pg_sleep(0.3)", &[]);
    let proxy = Proxy::start(world.database.server().address()).await?;
    let to = world.destination_at(proxy.address());

    // What the wire still carries is less than the rest of the exchange: it breaks somewhere
    // between the statement and the commit, each time a few bytes later.
    let mut doubts = 0;
    for budget in (0..200).step_by(20) {
        let name = format!("budget {budget}");
        let cutting = async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            proxy.cut_requests_after(budget, Cut::Reset);
        };
        let (outcome, ()) = tokio::join!(world.caller.run(&slow, &to, key(&name)), cutting);
        proxy.resume();
        let before = world.orders().await?;
        let again = done(world.caller.run(&slow, &to, key(&name)).await);
        let happened = again["repeated"] == json!(true);
        match outcome {
            semel_model::Outcome::Done(_) => assert!(happened, "{name}"),
            semel_model::Outcome::Failed(_) => {
                assert!(!happened, "{name}: known not to have happened")
            }
            semel_model::Outcome::InDoubt(_) => doubts += 1,
        }
        assert_eq!(
            world.orders().await?,
            before + i64::from(!happened),
            "{name}"
        );
    }

    assert_eq!(world.orders().await?, 10, "each effect happened once");
    assert!(doubts < 10, "most breaks are before the commit");
    Ok(())
}

#[tokio::test]
async fn a_backend_that_is_ended_meanwhile_leaves_nothing() -> Result<()> {
    let world = World::new().await?;
    let slow = request("INSERT INTO orders (id) SELECT 1 FROM pg_sleep(5)", &[]);

    let ending = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let admin = world.database.connect().await.unwrap();
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE application_name = 'semel' AND datname = current_database()";
        admin.execute(end, &[]).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(world.perform(&slow, key("a")), ending);

    let fault = failed(outcome);
    assert_eq!((fault.code.as_str(), fault.retryable), ("sql-57P01", true));
    assert_eq!(world.orders().await?, 0);
    Ok(())
}

#[tokio::test]
async fn an_abandoned_attempt_leaves_no_open_transaction() -> Result<()> {
    let world = World::new().await?;
    let slow = request("INSERT INTO orders (id) SELECT 1 FROM pg_sleep(1)", &[]);
    let destination = world.destination();

    let given_up = tokio::time::timeout(
        Duration::from_millis(200),
        world.caller.run(&slow, &destination, key("a")),
    );
    assert!(given_up.await.is_err());
    let next = done(world.perform(&order(2), key("b")).await);

    assert_eq!(next["repeated"], json!(false));
    assert_eq!(
        world.orders().await?,
        1,
        "the first was not committed with the second"
    );
    Ok(())
}
