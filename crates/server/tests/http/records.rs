//! What is recorded: operators' actions, repeats of callbacks, and deliveries without a key.

use anyhow::{Context, Result};
use semel_api::types::{Cancel, DropKey, Resume, RunStatus, Settle, StartRun, Verdict};
use semel_model::{FlowName, RunId};
use semel_testkit::peer::Behaviour;
use semel_testkit::{Peer, until_some};
use serde_json::Value;

use crate::world::{World, patience_span};

fn keyed(key: &str) -> StartRun {
    StartRun {
        key: Some(key.to_owned()),
        ..StartRun::default()
    }
}

async fn start(world: &World, flow: &FlowName, key: &str) -> Result<RunId> {
    let patience = Some(patience_span());
    let started = world.client.start_run(flow, &keyed(key), patience).await?;
    Ok(started.body.run)
}

/// Who did what to what, and why, in order.
async fn acts(world: &World) -> Result<Vec<(String, String, String, Option<String>)>> {
    let database = world.database.connect().await?;
    let text = "SELECT actor, action, subject, reason FROM audit
                 WHERE action ~ '^(run|doubt|key)[.]' ORDER BY id";
    let rows = database.query(text, &[]).await?;
    let act = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3)));
    Ok(act.collect())
}

#[tokio::test]
async fn operator_actions_are_recorded_with_who_and_why() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let steps = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    http: {{ post: '{}', json: {{ n: 1 }}, timeout: 1s }}\n",
        bank.url("/plain/charges")
    );
    let flow = world.publish("charging", &steps).await?;
    let waiting =
        "trigger: { api: {} }\nsteps:\n  - id: answer\n    wait: { callback: true, within: 1h }\n";
    let waiting = world.publish("waiting", waiting).await?;

    // A doubt that an operator fails; the run that is resumed, and its doubt settled; the key that
    // is freed.
    bank.next("/plain/", Behaviour::CloseBeforeEffect).await?;
    let run = start(&world, &flow, "k").await?;
    let effect = world
        .client
        .list_doubts()
        .await?
        .items
        .pop()
        .context("a doubt")?;
    let settle = Settle {
        verdict: Verdict::Fail,
        external_id: None,
        result: None,
        attempt: None,
        reason: "it is not there".to_owned(),
    };
    world.client.settle_effect(effect.id, &settle, "s").await?;
    world.until_state(run, RunStatus::Failed).await?;
    let resume = Resume {
        reason: "it is back".to_owned(),
        ask_again: false,
    };
    world.client.resume_run(run, &resume, "r").await?;
    world.until_state(run, RunStatus::InDoubt).await?;
    let settle = Settle {
        verdict: Verdict::Happened,
        reason: "found after all".to_owned(),
        ..settle
    };
    world.client.settle_effect(effect.id, &settle, "t").await?;
    world.until_state(run, RunStatus::Succeeded).await?;
    let drop = DropKey {
        reason: "start over".to_owned(),
        new_intent: false,
    };
    world.client.drop_key(&flow, "k", &drop, "d").await?;
    // A run that is cancelled.
    let started = world.client.start_run(&waiting, &keyed("w"), None).await?;
    let ended = started.body.run;
    world.until_waiting(ended).await?;
    let cancel = Cancel {
        reason: "no longer wanted".to_owned(),
    };
    world.client.cancel_run(ended, &cancel, "c").await?;
    world.until_state(ended, RunStatus::Cancelled).await?;

    let expected = [
        (
            "doubt.settle fail",
            effect.id.to_string(),
            "it is not there",
        ),
        ("run.resume", run.to_string(), "it is back"),
        (
            "doubt.settle happened",
            effect.id.to_string(),
            "found after all",
        ),
        ("key.drop", "charging k".to_owned(), "start over"),
        ("run.cancel", ended.to_string(), "no longer wanted"),
    ];
    let acts = acts(&world).await?;
    assert_eq!(acts.len(), expected.len(), "{acts:?}");
    for ((who, action, subject, why), expected) in acts.iter().zip(&expected) {
        assert!(who.contains("test"), "the token's name: {who}");
        assert_eq!((action.as_str(), subject), (expected.0, &expected.1));
        assert_eq!(why.as_deref(), Some(expected.2));
    }
    Ok(())
}

#[tokio::test]
async fn repeats_of_a_callback_are_recorded_with_its_run() -> Result<()> {
    let world = World::start().await?;
    let steps = "trigger: { api: {} }\nsteps:\n\
        \x20 - id: tell\n    kv: { set: address, value: '${{ waits.answer.url }}' }\n\
        \x20 - id: answer\n    wait: { callback: true, within: 1h }\n";
    let flow = world.publish("asking", steps).await?;
    let started = world.client.start_run(&flow, &keyed("k"), None).await?;
    let run = started.body.run;
    world.until_waiting(run).await?;
    let url = world.kv("address").await?;
    let token = url.as_str().and_then(|url| url.rsplit('/').next());
    let path = format!("/callbacks/{}", token.context("an address")?);

    for payload in ["1", "1", "1", "2"] {
        let answer = world.bare.post(&path, payload).await?;
        assert_eq!(answer.status, 200);
    }

    // One was the answer, two brought the same again, one brought something else.
    let repeats = until_some("three repeats to be recorded", async || {
        let page = world.client.list_duplicates_of_key("k").await?;
        let total: i64 = page.items.iter().map(|one| one.count).sum();
        Ok((total == 3).then_some(page.items))
    })
    .await?;
    let mut counts: Vec<i64> = repeats.iter().map(|one| one.count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2], "{repeats:?}");
    for one in &repeats {
        assert_eq!((one.stopped_by.as_str(), one.run), ("wait", run));
        assert_eq!(one.flow.as_deref(), Some("asking"));
    }
    Ok(())
}

#[tokio::test]
async fn a_delivery_whose_key_cannot_be_computed_is_recorded_without_a_run() -> Result<()> {
    let world = World::start().await?;
    let steps = "trigger:\n  webhook: { auth: none, key: input.id }\n\
        steps:\n  - id: note\n    kv: { add: orders }\n";
    world.publish("orders", steps).await?;

    for payload in [r#"{"other":1}"#, r#"{"id":null}"#, r#"{"id":""}"#] {
        let answer = world.bare.post("/hooks/main/orders", payload).await?;
        let problem: Value = answer.json()?;
        assert_eq!(problem["code"], "key-failed", "{payload}");
    }

    let database = world.database.connect().await?;
    let text = "SELECT flow, code, message FROM refused_deliveries ORDER BY id";
    let rows = database.query(text, &[]).await?;
    assert_eq!(rows.len(), 3, "each refusal is recorded");
    for row in &rows {
        assert_eq!((row.get(0), row.get(1)), ("orders", "key-failed"));
        assert!(!row.get::<_, &str>(2).is_empty(), "it says why");
    }
    let runs: i64 = database
        .query_one("SELECT count(*) FROM runs", &[])
        .await?
        .get(0);
    assert_eq!(runs, 0);
    Ok(())
}
