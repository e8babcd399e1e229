//! Held deliveries that come again: after their key was freed, beside many others, or behind nothing.

use anyhow::{Context, Result, ensure};
use semel_api::types::{DropKey, Started};
use semel_api::{ClientError, Code};
use semel_model::{Key, Span};
use semel_store::audit::AuditEntry;
use semel_store::duplicates::{self, HeldDecision};
use semel_store::namespaces;
use semel_testkit::until_some;
use serde_json::{Value, json};

use crate::authentic::SECRETS;
use crate::held::{HOOK, ORDERS, count_runs, held_order, said, the_held, under};
use crate::signing::sign;
use crate::world::{World, refused};

/// Frees a key as soon as its run has ended.
async fn drop_key(world: &World, key: &str) -> Result<()> {
    let (flow, drop) = (
        "orders".parse()?,
        DropKey {
            reason: "a test".to_owned(),
            new_intent: false,
        },
    );
    let freed = async || match world.client.drop_key(&flow, key, &drop, "drop").await {
        Err(ClientError::Problem(problem)) if problem.code() == Some(Code::RunNotEnded) => Ok(None),
        dropped => Ok(Some(dropped?)),
    };
    until_some("the run of the key to end", freed).await?;
    Ok(())
}

async fn order(world: &World, total: u32) -> Result<Started> {
    let body = json!({ "id": "1", "total": total });
    world.bare.post(HOOK, body.to_string()).await?.json()
}

#[tokio::test]
async fn a_delivery_that_got_a_run_after_its_key_was_freed_gets_no_second_one() -> Result<()> {
    let world = World::start().await?;
    let (_, id) = held_order(&world).await?;
    drop_key(&world, "1").await?;
    let own = order(&world, 7).await?;

    let accepted = world.client.accept_as_new(id, &under("1-b"), "a").await;

    ensure!(!own.held);
    let Err(ClientError::Problem(problem)) = accepted else {
        anyhow::bail!("taken: {accepted:?}");
    };
    assert_eq!(problem.code(), Some(Code::HeldNotAccepted));
    ensure!(problem.detail.contains(&own.run.to_string()), "{problem:?}");
    assert_eq!(count_runs(&world).await?, 2);
    Ok(())
}

#[tokio::test]
async fn a_payload_that_was_only_counted_is_kept_once_it_is_held() -> Result<()> {
    let world = World::start().await?;
    world.publish("orders", ORDERS).await?;
    for _ in 0..2 {
        order(&world, 5).await?;
    }
    world.client.list_duplicates(None).await?;
    drop_key(&world, "1").await?;
    order(&world, 7).await?;

    let again = order(&world, 5).await?;
    let (id, held) = the_held(&world).await?;
    let accepted = world.client.accept_as_new(id, &under("1-b"), "a").await?;

    ensure!(again.held);
    assert_eq!(held.payload, Some(json!({ "id": "1", "total": 5 })));
    assert!(accepted.body.run.is_some());
    Ok(())
}

/// Only the first few payloads of a key are kept; the others are one row.
#[tokio::test]
async fn a_decision_about_many_that_are_counted_together_hides_none_that_comes_later() -> Result<()>
{
    let world = World::start().await?;
    world.publish("orders", ORDERS).await?;
    for total in 0..8 {
        order(&world, total).await?;
    }
    let counted = |items: Vec<semel_api::types::Duplicate>| {
        let mut without = items.into_iter().filter(|it| it.payload.is_none());
        (without.next(), without.next().is_none())
    };
    let (together, alone) = counted(world.client.list_held(None).await?.items);
    let id = together.and_then(|it| it.duplicate).context("one row")?;

    world.client.dismiss_held(id, &said("tests"), "a").await?;
    let (dismissed, _) = counted(world.client.list_held(None).await?.items);
    order(&world, 8).await?;
    let (reopened, _) = counted(world.client.list_held(None).await?.items);

    ensure!(alone, "the others have payloads");
    assert_eq!(dismissed, None);
    let reopened = reopened.context("what came later waits for a decision")?;
    assert_eq!((reopened.duplicate, reopened.decision), (Some(id), None));
    Ok(())
}

#[tokio::test]
async fn a_body_that_started_nothing_has_no_run_to_be_a_repeat_of() -> Result<()> {
    let world = World::start().await?;
    world
        .set_secret("hook", SECRETS[0], Span::from_secs(0))
        .await?;
    let flow = "trigger:\n  webhook:\n    provider: github\n    secret: hook\n    \
                order: { object: '\"all\"', version: input.issue }\n\
                steps:\n  - { id: note, kv: { add: seen } }\n";
    world.publish("hook", flow).await?;
    let at = world.now().await?;
    let issue = |id| sign("github", SECRETS[0], "/hooks/main/hook", id, at);
    world.send(&issue(2)).await?;
    let late: Value = world.send(&issue(1)).await?.json()?;
    let again = issue(1).with("x-github-delivery", "second");
    let again: Value = world.send(&again).await?.json()?;

    let (id, _) = the_held(&world).await.context(again)?;
    let repeat = world.client.accept_as_repeat(id, &said("x"), "a").await;

    assert_eq!(late["stale"], json!(true), "{late}");
    assert_eq!(refused(repeat)?, Code::HeldNotAccepted);
    assert_eq!(count_runs(&world).await?, 1);
    Ok(())
}

/// Between the run and its note, the record is deleted, or another decision is made.
#[tokio::test]
async fn a_run_whose_decision_is_gone_or_another_is_reported_as_a_conflict() -> Result<()> {
    let gone = "DELETE FROM duplicates";
    let other =
        "UPDATE duplicates SET decision = 'dismissed', decision_key = NULL, decided_by = 'ann',
                                       decided_at = moment(), decided_run = NULL";
    for (change, said) in [
        (gone, "its record was deleted"),
        (other, "ann dismissed it"),
    ] {
        let world = World::start().await?;
        let (_, id) = held_order(&world).await?;
        let client = world.database.connect().await?;
        let trigger = format!(
            "CREATE FUNCTION overtake() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN {change}; RETURN NULL; END $$;
             CREATE TRIGGER overtake AFTER INSERT ON runs
                FOR EACH ROW EXECUTE FUNCTION overtake()"
        );
        client.batch_execute(&trigger).await?;

        let accepted = world.client.accept_as_new(id, &under("1-b"), "a").await;

        let Err(ClientError::Problem(problem)) = accepted else {
            anyhow::bail!("reported as done: {accepted:?}");
        };
        assert_eq!(problem.code(), Some(Code::HeldDecided));
        ensure!(problem.detail.contains(said), "{}", problem.detail);
        ensure!(problem.detail.contains("run_"), "{}", problem.detail);
        assert_eq!(count_runs(&world).await?, 2);
    }
    Ok(())
}

/// A decision that a crash cut short can be completed or taken back, whatever became of its flow.
#[tokio::test]
async fn a_delivery_of_a_flow_that_is_not_live_is_refused_and_strands_no_decision() -> Result<()> {
    let world = World::start().await?;
    let (_, id) = held_order(&world).await?;
    let cell = world.engine.cell();
    let namespace_id = namespaces::ensure(cell.home(), &"main".parse()?).await?;
    let client = world.database.connect().await?;
    let retire = "UPDATE flows SET live_release = NULL, live_at = NULL;
                  UPDATE config_version SET version = version + 1";
    client.batch_execute(retire).await?;
    let not_live = async || {
        let answer = world.bare.post(HOOK, r#"{"id":"1","total":5}"#).await?;
        Ok((answer.status == 404).then_some(()))
    };
    until_some("the flow to be retired", not_live).await?;

    let refused_first = world.client.accept_as_new(id, &under("1-b"), "a").await;
    let (_, undecided) = the_held(&world).await?;
    // What a server leaves that dies after the decision and before the run.
    let held = duplicates::find_held(cell.of(id), namespace_id, id).await?;
    let held = held.context("it is there")?;
    let decision = HeldDecision::NewKey(Key::new(*b"1-b")?);
    let act = AuditEntry::new(namespace_id, "token:ann", "duplicate.accept new-key", "x");
    ensure!(duplicates::decide(cell.of(id), &held, &decision, &act).await?);
    let refused_later = world.client.accept_as_new(id, &under("1-b"), "b").await;
    let (_, reopened) = the_held(&world).await?;
    let dismissed = world.client.dismiss_held(id, &said("no flow"), "c").await?;

    for refused in [refused_first, refused_later] {
        let Err(ClientError::Problem(problem)) = refused else {
            anyhow::bail!("taken: {refused:?}");
        };
        assert_eq!(problem.code(), Some(Code::HeldNotAccepted));
        ensure!(problem.detail.contains("no live release"), "{problem:?}");
    }
    assert_eq!((undecided.decision, reopened.decision), (None, None));
    assert_eq!(dismissed.body.decision, "dismissed");
    assert_eq!(count_runs(&world).await?, 1);
    Ok(())
}

/// A provider that gets 202 does not send it again.
#[tokio::test]
async fn a_delivery_that_is_answered_as_held_is_on_record_and_any_other_gets_an_error() -> Result<()>
{
    let world = World::start().await?;
    let flow = world.publish("orders", ORDERS).await?;
    let other = world.publish("others", ORDERS).await?;
    let body = |total: u8| format!(r#"{{"id":"z\u0000z","total":{total}}}"#);
    world.bare.post(HOOK, body(5)).await?;

    let held = world.bare.post(HOOK, body(7)).await?;
    let (_, shown) = the_held(&world).await?;
    let client = world.database.connect().await?;
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'this value is refused' USING ERRCODE = '22021'; END $$;
                  CREATE TRIGGER refuse BEFORE INSERT ON duplicates
                    FOR EACH ROW EXECUTE FUNCTION refuse()";
    client.batch_execute(refuse).await?;
    let refused = world.bare.post(HOOK, body(8)).await?;
    client
        .batch_execute("DROP TRIGGER refuse ON duplicates")
        .await?;
    let again = world.bare.post(HOOK, body(8)).await?;

    assert_eq!(held.status, 202);
    assert!(held.json::<Started>()?.held);
    assert_eq!(
        shown.came_as.as_deref(),
        Some("z\0z"),
        "any bytes are a key"
    );
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(again.status, 202);
    let count =
        async |flow| -> Result<usize> { Ok(world.client.list_held(Some(flow)).await?.items.len()) };
    assert_eq!((count(&flow).await?, count(&other).await?), (2, 0));
    Ok(())
}
