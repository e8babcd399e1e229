//! Starts through the API: the same request twice makes one run.

use anyhow::Result;
use semel_api::types::{RunFilter, RunStatus, StartRun};
use semel_api::{ClientError, Code};
use semel_model::{Span, TriggerKind};
use serde_json::json;

use crate::world::{World, patience_span, refused};

const DOUBLE: &str = "trigger: { api: {}, manual: { key: input.id } }\n\
    steps:\n  - id: twice\n    function: input.n * 2\nresult: steps.twice.result\n";

fn order(key: &str, n: i64) -> StartRun {
    StartRun {
        input: json!({"id": "order-1", "n": n}),
        key: Some(key.to_owned()),
        trigger: None,
    }
}

fn patience() -> Option<Span> {
    Some(patience_span())
}

#[tokio::test]
async fn a_start_that_is_repeated_gets_the_first_run_and_its_result() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("double", DOUBLE).await?;

    let first = world
        .client
        .start_run(&flow, &order("k", 21), patience())
        .await?;
    let again = world.client.start_run(&flow, &order("k", 21), None).await?;

    assert!(!first.replayed && again.replayed);
    assert_eq!(first.body.state, RunStatus::Succeeded);
    assert_eq!(first.body.result, Some(json!(42)));
    assert_eq!(again.body, first.body, "the repeat gets the same answer");
    Ok(())
}

#[tokio::test]
async fn starts_that_come_together_are_one_run() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("double", DOUBLE).await?;

    let order = order("k", 1);
    let start = || world.client.start_run(&flow, &order, patience());
    let (a, b, c, d) = tokio::join!(start(), start(), start(), start());
    let answers = [a?, b?, c?, d?];

    assert!(answers.iter().all(|answer| answer.body == answers[0].body));
    let firsts = answers.iter().filter(|answer| !answer.replayed).count();
    assert_eq!(firsts, 1);
    Ok(())
}

#[tokio::test]
async fn a_known_key_with_another_payload_is_refused_and_names_the_run() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("double", DOUBLE).await?;
    let first = world.client.start_run(&flow, &order("k", 1), None).await?;

    let other = world.client.start_run(&flow, &order("k", 2), None).await;

    let Err(ClientError::Problem(problem)) = other else {
        anyhow::bail!("not refused: {other:?}")
    };
    assert_eq!(problem.code(), Some(Code::PayloadMismatch));
    assert_eq!((problem.status, problem.run), (422, Some(first.body.run)));
    Ok(())
}

#[tokio::test]
async fn a_start_needs_a_key_and_a_trigger_that_the_flow_has() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("double", DOUBLE).await?;
    let hooked = "trigger: { webhook: { auth: none, key: input.id } }\n\
        steps: [{ id: one, function: '1' }]\n";
    let hooked = world.publish("hooked", hooked).await?;
    let keyless = StartRun {
        key: None,
        ..order("", 1)
    };
    let manual = StartRun {
        trigger: Some(TriggerKind::Manual),
        ..keyless.clone()
    };
    let nowhere = "nowhere".parse()?;

    let client = &world.client;
    assert_eq!(
        refused(client.start_run(&flow, &keyless, None).await)?,
        Code::KeyMissing
    );
    assert_eq!(
        refused(client.start_run(&hooked, &manual, None).await)?,
        Code::TriggerNotDeclared
    );
    assert_eq!(
        refused(client.start_run(&nowhere, &manual, None).await)?,
        Code::FlowNotFound
    );
    let by_expression = client.start_run(&flow, &manual, None).await?;
    assert_eq!(by_expression.body.key, "order-1");
    Ok(())
}

#[tokio::test]
async fn runs_are_listed_in_pages_and_found_by_key() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("double", DOUBLE).await?;
    for key in ["a", " b/ü\n", "c"] {
        let start = order(key, 1);
        world.client.start_run(&flow, &start, patience()).await?;
    }

    let mut filter = RunFilter {
        limit: Some(2),
        state: Some(RunStatus::Succeeded),
        ..RunFilter::default()
    };
    let first = world.client.list_runs(&filter).await?;
    filter.cursor = first.next.clone();
    let second = world.client.list_runs(&filter).await?;
    let found = RunFilter {
        key: Some(" b/ü\n".to_owned()),
        ..RunFilter::default()
    };
    let found = world.client.list_runs(&found).await?;

    let keys = |runs: &[semel_api::types::Run]| -> Vec<String> {
        runs.iter().map(|run| run.key.clone()).collect()
    };
    assert_eq!(keys(&first.items), ["c", " b/ü\n"]);
    assert_eq!(keys(&second.items), ["a"]);
    assert_eq!(keys(&found.items), [" b/ü\n"]);
    Ok(())
}

#[tokio::test]
async fn a_run_is_shown_with_all_that_happened() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("double", DOUBLE).await?;
    let started = world
        .client
        .start_run(&flow, &order("k", 4), patience())
        .await?;

    let shown = world.client.get_run(started.body.run).await?;
    let key = world.client.get_key(&flow, "k").await?;

    assert_eq!(shown.run.result, Some(json!(8)));
    assert_eq!(shown.journal[0].events[0].event["event"], "accepted");
    assert_eq!(
        (key.run, key.state),
        (shown.run.id, Some(RunStatus::Succeeded))
    );
    Ok(())
}

const REFUND: &str = "trigger: { api: { key: input.refund_id }, manual: { key: input.refund_id } }\n\
    steps:\n  - id: pay\n    kv: { add: refunds }\nresult: steps.pay.result\n";

async fn ask(world: &World, header: &str, body: &str) -> Result<semel_testkit::client::Answer> {
    let bearer = format!("Bearer {}", world.token);
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", header),
    ];
    let path = "/v1/flows/refund/runs?wait=10s";
    let body = body.to_owned().into();
    Ok(world
        .bare
        .send(hyper::Method::POST, path, &headers, body)
        .await?)
}

#[tokio::test]
async fn one_intent_is_one_run_whatever_the_requests_are_called() -> Result<()> {
    let world = World::start().await?;
    world.publish("refund", REFUND).await?;
    let body = r#"{"input":{"refund_id":"r-1"}}"#;

    let mut runs = Vec::new();
    for header in ["a", "b", "c"] {
        let answer = ask(&world, header, body).await?;
        assert_eq!(answer.status.as_u16(), 200);
        let started: semel_api::types::Started = answer.json()?;
        assert_eq!(
            (started.key.as_str(), &started.result),
            ("r-1", &Some(json!(1)))
        );
        runs.push(started.run);
    }

    assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
    Ok(())
}

#[tokio::test]
async fn a_request_that_comes_again_gets_its_run_and_another_payload_is_refused() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("refund", REFUND).await?;
    let body = r#"{"input":{"refund_id":"r-1"}}"#;

    let first = ask(&world, "a", body).await?;
    let again = ask(&world, "a", body).await?;
    let other = ask(&world, "a", r#"{"input":{"refund_id":"r-2"}}"#).await?;

    let (one, two): (semel_api::types::Started, semel_api::types::Started) =
        (first.json()?, again.json()?);
    assert_eq!(one, two);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(other.status.as_u16(), 422);
    let problem: semel_api::Problem = other.json()?;
    assert_eq!(problem.code(), Some(Code::CommandMismatch));
    let found = world.client.list_runs(&RunFilter::default()).await?;
    assert_eq!(found.items.len(), 1, "nothing else was started");

    let named = StartRun {
        input: json!({"refund_id": "r-1"}),
        key: Some("mine".to_owned()),
        trigger: Some(TriggerKind::Manual),
    };
    let refused_key = refused(world.client.start_run(&flow, &named, None).await)?;
    assert_eq!(refused_key, Code::KeyDeclared);
    Ok(())
}

#[tokio::test]
async fn a_repeat_of_a_held_request_gets_the_same_answer() -> Result<()> {
    let world = World::start().await?;
    let keeping = REFUND.replace(
        "api: { key: input.refund_id }",
        "api: { key: input.refund_id, mismatch: hold }",
    );
    world.publish("refund", &keeping).await?;
    ask(&world, "a", r#"{"input":{"refund_id":"r-1","n":1}}"#).await?;

    let body = r#"{"input":{"refund_id":"r-1","n":2}}"#;
    let first = ask(&world, "b", body).await?;
    let again = ask(&world, "b", body).await?;

    for answer in [first, again] {
        assert_eq!(answer.status.as_u16(), 202);
        let started: semel_api::types::Started = answer.json()?;
        assert!(started.held, "{started:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_input_that_does_not_fit_is_a_422_for_every_trigger() -> Result<()> {
    let world = World::start().await?;
    let strict = "trigger: { webhook: { auth: none, key: input.id }, api: { key: input.id } }\n\
        input_schema: { type: object, required: [id, n], properties: { id: { type: string }, n: { type: integer } } }\n\
        steps:\n  - id: one\n    function: input.n\nresult: steps.one.result\n";
    let flow = world.publish("strict", strict).await?;

    let hook = world
        .bare
        .post("/hooks/main/strict", r#"{"id":"1","n":"x"}"#)
        .await?;
    let start = StartRun {
        input: json!({"id": "1"}),
        ..StartRun::default()
    };
    let started = world.client.start_run(&flow, &start, None).await;

    let problem: semel_api::Problem = hook.json()?;
    assert_eq!(
        (hook.status.as_u16(), problem.code()),
        (422, Some(Code::InputInvalid))
    );
    assert_eq!(refused(started)?, Code::InputInvalid);
    let mended = world
        .bare
        .post("/hooks/main/strict", r#"{"id":"1","n":1}"#)
        .await?;
    assert_eq!(mended.status.as_u16(), 202, "the key was not taken");
    assert_eq!(mended.header("idempotency-replayed"), None);
    Ok(())
}

#[tokio::test]
async fn a_mismatch_with_a_failed_run_says_how_to_free_the_key() -> Result<()> {
    let world = World::start().await?;
    let failing = "trigger: { api: {} }\nsteps:\n  - { id: no, fail: { message: not today } }\n";
    let flow = world.publish("failing", failing).await?;
    world
        .client
        .start_run(&flow, &order("k", 1), patience())
        .await?;

    let other = world.client.start_run(&flow, &order("k", 2), None).await;

    let Err(ClientError::Problem(problem)) = other else {
        anyhow::bail!("not refused: {other:?}")
    };
    assert_eq!(problem.code(), Some(Code::PayloadMismatch));
    assert!(
        problem.hint.contains("semel key drop failing"),
        "{}",
        problem.hint
    );
    Ok(())
}
