//! Operators' actions: each commits together with its audit record, or not at all.

mod stage;

use anyhow::{Context, Result};
use hyper::Method;
use semel_testkit::until_some;
use serde_json::json;

use crate::world::World;
use stage::stage;

#[tokio::test]
async fn an_act_that_cannot_be_recorded_is_not_done() -> Result<()> {
    let stage = stage().await?;
    let client = stage.world.database.connect().await?;
    let refuse = "ALTER TABLE audit ADD CONSTRAINT none CHECK (false) NOT VALID";
    let allow = "ALTER TABLE audit DROP CONSTRAINT none";

    for (number, (action, method, path, body)) in stage.acts("a reason").into_iter().enumerate() {
        stage.rest().await?;
        client.batch_execute(refuse).await?;
        let (before, recorded) = (stage.state().await?, stage.recorded(action).await?);
        let refused = stage
            .send(&method, &path, &body, &format!("a{number}"))
            .await?;
        let after = stage.state().await?;
        assert_eq!(refused, 503, "{action}");
        assert_eq!(before, after, "{action} was not done");
        assert_eq!(stage.recorded(action).await?, recorded, "{action}");

        client.batch_execute(allow).await?;
        // A worker may still hold a run for a moment after it was resumed.
        let status = until_some("a worker to let the run go", async || {
            let status = stage
                .send(&method, &path, &body, &format!("b{number}"))
                .await?;
            Ok((status != 409).then_some(status))
        })
        .await?;
        assert!((200..300).contains(&status), "{action}: {status}");
        assert_eq!(stage.recorded(action).await?, recorded + 1, "{action}");
    }
    Ok(())
}

#[tokio::test]
async fn a_reason_that_cannot_be_recorded_is_refused_before_anything_is_done() -> Result<()> {
    let stage = stage().await?;
    stage.rest().await?;
    let before = stage.state().await?;

    for reason in ["a\u{0}b".to_owned(), "x".repeat(2_001), " ".to_owned()] {
        let reasoned = stage.acts(&reason).into_iter().take(6);
        for (number, (action, method, path, body)) in reasoned.enumerate() {
            let key = format!("{number} {}", reason.len());
            let status = stage.send(&method, &path, &body, &key).await?;

            assert_eq!(status, 422, "{action}");
            assert_eq!(stage.recorded(action).await?, 0, "{action}");
        }
    }

    assert_eq!(stage.state().await?, before, "nothing was done");
    Ok(())
}

#[tokio::test]
async fn the_record_of_acts_is_only_ever_added_to() -> Result<()> {
    let world = World::start().await?;
    let client = world.database.connect().await?;
    let count = "SELECT count(*) FROM audit";
    let before: i64 = client.query_one(count, &[]).await?.get(0);

    for change in [
        "UPDATE audit SET actor = 'nobody'",
        "DELETE FROM audit",
        "TRUNCATE audit",
        "SET session_replication_role = replica; DELETE FROM audit",
    ] {
        let refused = client.batch_execute(change).await;
        assert!(refused.is_err(), "{change}");
    }

    let after: i64 = client.query_one(count, &[]).await?.get(0);
    assert!(before > 0, "the token itself was recorded");
    assert_eq!(before, after);
    Ok(())
}

#[tokio::test]
async fn a_run_shows_who_did_what_to_it_and_why() -> Result<()> {
    let stage = stage().await?;
    let settle = json!({ "verdict": "happened", "reason": "seen in the books" });
    let path = format!("/v1/effects/{}/settle", stage.doubt);

    let shown = stage.world.client.get_effect(stage.doubt.parse()?).await?;
    stage.send(&Method::POST, &path, &settle, "s").await?;
    let cancel = format!("/v1/runs/{}/cancel", stage.waiting);
    stage
        .send(
            &Method::POST,
            &cancel,
            &json!({ "reason": "no longer wanted" }),
            "c",
        )
        .await?;
    let settled = stage.world.client.get_effect(stage.doubt.parse()?).await?;
    let cancelled = stage.world.client.get_run(stage.waiting).await?;

    let sent = shown.sent.context("what was sent")?;
    assert!(
        sent.what.starts_with("POST http") && sent.what.ends_with("/plain/c"),
        "{sent:?}"
    );
    assert_eq!(sent.body.as_deref(), Some(r#"{"n":1}"#));
    let source = shown.source.context("where it comes from")?;
    assert_eq!(
        (source.flow.as_str(), source.key.as_str()),
        ("charging", "k")
    );
    assert_eq!(shown.settled_at, None, "a doubt is not settled");
    assert!(settled.settled_at.is_some());
    let act = settled.acts.first().context("an act")?;
    assert_eq!(act.action, "doubt.settle happened");
    assert_eq!(act.actor, "token:test");
    assert_eq!(act.reason.as_deref(), Some("seen in the books"));
    let act = cancelled.acts.first().context("an act")?;
    assert_eq!(
        (act.action.as_str(), act.reason.as_deref()),
        ("run.cancel", Some("no longer wanted"))
    );
    Ok(())
}

#[tokio::test]
async fn a_failed_run_whose_history_is_gone_stays_as_it_is() -> Result<()> {
    let stage = stage().await?;
    // What dropping its month's partition leaves of it.
    let drop = "DELETE FROM journal WHERE run_id = $1";
    let id: uuid::Uuid = stage.failed.as_uuid().to_owned();
    let client = stage.world.database.connect().await?;
    client.execute(drop, &[&id]).await?;

    let path = format!("/v1/runs/{}/resume", stage.failed);
    let status = stage
        .send(&Method::POST, &path, &json!({ "reason": "again" }), "r")
        .await?;
    let run = "SELECT state::text, (SELECT count(*) FROM queue WHERE run_id = $1) FROM runs WHERE id = $1";
    let row = client.query_one(run, &[&id]).await?;

    assert_eq!(status, 409);
    assert_eq!((row.get::<_, &str>(0), row.get::<_, i64>(1)), ("failed", 0));
    assert_eq!(stage.recorded("run.resume").await?, 0);
    Ok(())
}
