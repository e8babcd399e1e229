//! Wires that break before, at and after the commit.

use anyhow::Result;
use semel_model::request::DbRequest;
use semel_model::{Outcome, Span};
use semel_testkit::{Cut, Proxy, patience};
use serde_json::json;

use crate::db::world::{World, done, failed, in_doubt, key, order, request};
use crate::enough_time::{is_in_doubt, with_enough_time};

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
    let (request, holding) = (order(1), world.hold_orders().await?);

    let cutting = async {
        world.until_waiting(1).await.unwrap();
        proxy.cut(Cut::Reset);
    };
    let (outcome, ()) = tokio::join!(world.caller.run(&request, &to, key("a")), cutting);
    holding.batch_execute("COMMIT").await?;
    let again = done(world.caller.run(&request, &to, key("a")).await);

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

    let to = world.destination_at(proxy.address());
    let attempt = async |timeout: Span| -> Result<Outcome> {
        let request = DbRequest {
            timeout,
            ..order(1)
        };
        Ok(world.caller.run(&request, &to, key("a")).await)
    };
    let outcome = with_enough_time(attempt, is_in_doubt).await?;
    proxy.until_held(1, patience()).await?;

    assert_eq!(in_doubt(outcome).code, "no-answer");
    assert_eq!(world.orders().await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_commit_that_never_arrived_is_performed_by_the_repeat() -> Result<()> {
    let world = World::new().await?;
    let request = request("INSERT INTO orders (id) VALUES (1)", &[]);
    let proxy = Proxy::start(world.database.server().address()).await?;
    let to = world.destination_at(proxy.address());

    // What the wire still carries is less than the rest of the exchange: it breaks somewhere
    // between the statement and the commit, each time a few bytes later.
    let mut doubts = 0;
    for budget in (0..200).step_by(20) {
        let name = format!("budget {budget}");
        let before = world.orders().await?;
        let holding = world.hold_orders().await?;
        let cutting = async {
            world.until_waiting(1).await.unwrap();
            proxy.cut_requests_after(budget, Cut::Reset);
            holding.batch_execute("COMMIT").await.unwrap();
        };
        let (outcome, ()) = tokio::join!(world.caller.run(&request, &to, key(&name)), cutting);
        proxy.resume();
        let again = done(world.caller.run(&request, &to, key(&name)).await);
        let happened = again["repeated"] == json!(true);
        match outcome {
            Outcome::Done(_) => assert!(happened, "{name}"),
            Outcome::Failed(_) => {
                assert!(!happened, "{name}: known not to have happened")
            }
            Outcome::InDoubt(_) => doubts += 1,
        }
        assert_eq!(world.orders().await?, before + 1, "{name}");
    }

    assert_eq!(world.orders().await?, 10, "each effect happened once");
    assert!(doubts < 10, "most breaks are before the commit");
    Ok(())
}

#[tokio::test]
async fn a_backend_that_is_ended_meanwhile_leaves_nothing() -> Result<()> {
    let world = World::new().await?;
    let (request, _holding) = (order(1), world.hold_orders().await?);

    let ending = async {
        world.until_waiting(1).await.unwrap();
        let admin = world.database.connect().await.unwrap();
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE application_name = 'semel' AND datname = current_database()";
        admin.execute(end, &[]).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(world.perform(&request, key("a")), ending);

    let fault = failed(outcome);
    assert_eq!((fault.code.as_str(), fault.retryable), ("sql-57P01", true));
    assert_eq!(world.orders().await?, 0);
    Ok(())
}

#[tokio::test]
async fn an_abandoned_attempt_leaves_no_open_transaction() -> Result<()> {
    let world = World::new().await?;
    let (request, holding) = (order(1), world.hold_orders().await?);
    let destination = world.destination();

    tokio::select! {
        ended = world.caller.run(&request, &destination, key("a")) => panic!("{ended:?}"),
        waiting = world.until_waiting(1) => waiting?,
    }
    holding.batch_execute("COMMIT").await?;
    let next = done(world.perform(&order(2), key("b")).await);

    assert_eq!(next["repeated"], json!(false));
    assert_eq!(
        world.orders().await?,
        1,
        "the first was not committed with the second"
    );
    Ok(())
}
