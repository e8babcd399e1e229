//! What a flow's schema asks of inputs, and what is known of a release that another server made
//! live.

use anyhow::{Context, Result, bail};
use semel_engine::{Intake, IntakeError, Start, WebhookRequest};
use semel_model::run::RunState;
use semel_model::{Key, TriggerKind};
use semel_testkit::{patience, until};
use serde_json::{Value, json};

use crate::control::fault;
use crate::world::World;

const STRICT: &str = "flow: story
trigger:
  webhook: { auth: none, key: input.id }
  api: { key: input.id }
  manual: {}
  event: { name: order.placed, key: input.id }
input_schema:
  type: object
  required: [id, sum]
  properties: { id: { type: string }, sum: { type: integer, minimum: 1 } }
steps:
  - { id: count, kv: { add: 'counts/${{ input.id }}' } }
  - { id: sum, function: 'default(input.sum, 0) + 1' }
result: steps.sum.result
";

fn start(world: &World, trigger: TriggerKind, input: &str, key: Option<&str>) -> Result<Start> {
    let key = key
        .map(|key| Key::new(key.as_bytes().to_vec()))
        .transpose()?;
    Ok(Start {
        namespace_id: world.namespace_id,
        namespace: "default".parse()?,
        flow: "story".parse()?,
        trigger,
        input: input.as_bytes().to_vec(),
        key,
        by: None,
    })
}

fn unfit(taken: Result<Intake, IntakeError>, said: &str) -> Result<()> {
    match taken {
        Err(IntakeError::InputInvalid(problem)) if problem.contains(said) => Ok(()),
        other => bail!("not refused with {said}: {other:?}"),
    }
}

async fn count(world: &World, sql: &str) -> Result<i64> {
    let client = world.engine.cell().reader().await?;
    Ok(client.query_one(sql, &[]).await?.get(0))
}

#[tokio::test]
async fn an_input_that_does_not_fit_starts_nothing_and_takes_no_key() -> Result<()> {
    let world = World::start().await?;
    world.publish_source(STRICT).await?;

    unfit(
        world.try_deliver(r#"{"id":"1","sum":"2"}"#).await,
        "`input.sum` is a string",
    )?;
    unfit(
        world.try_deliver(r#"{"id":"1"}"#).await,
        "`input` has no `sum`",
    )?;
    unfit(world.try_deliver(r#"{"id":"1","sum":0}"#).await, "below 1")?;
    let by_program = start(&world, TriggerKind::Api, r#"{"id":"1","sum":1.5}"#, None)?;
    unfit(world.engine.start_run(by_program).await, "not integer")?;
    let by_person = start(&world, TriggerKind::Manual, "{}", Some("1"))?;
    unfit(world.engine.start_run(by_person).await, "has no `id`")?;

    assert_eq!(count(&world, "SELECT count(*) FROM runs").await?, 0);
    assert_eq!(count(&world, "SELECT count(*) FROM claims").await?, 0);
    let refused =
        "SELECT count(*) FROM refused_deliveries WHERE code = 'input-invalid' AND flow = 'story'";
    assert_eq!(count(&world, refused).await?, 5);
    assert_eq!(
        world.result(r#"{"id":"1","sum":7}"#).await?,
        json!(8),
        "the key was free"
    );
    Ok(())
}

#[tokio::test]
async fn events_and_calls_meet_the_schema_too() -> Result<()> {
    let world = World::start().await?;
    world.publish_source(STRICT).await?;
    let caller = "flow: caller\ntrigger:\n  webhook: { auth: none, key: input.id }\nsteps:\n\
        \x20 - { id: tell, emit: { event: order.placed, data: { id: e-1 } } }\n\
        \x20 - { id: other, call: { flow: story, input: { id: c-1, sum: none } } }\n";
    world.publish_source(caller).await?;

    let run = world.deliver_to("caller", r#"{"id":"1"}"#).await?.run;
    let end = world.engine.await_end(run, patience()).await?;
    let end = end.context("a run")?;

    assert_eq!(end.state, RunState::Failed);
    let told = fault(&end)?;
    assert!(
        told.message.contains("`input.sum` is a string"),
        "{}",
        told.message
    );
    let refused = "SELECT count(*) FROM refused_deliveries WHERE code = 'input-invalid'";
    until(
        "two refusals",
        async || count(&world, refused).await,
        |count| *count == 2,
    )
    .await?;
    assert_eq!(count(&world, "SELECT count(*) FROM runs").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_repeat_gets_the_first_answer_whatever_a_later_release_asks() -> Result<()> {
    let world = World::start().await?;
    let lax = STRICT.replace("required: [id, sum]", "required: [id]");
    world.publish_source(&lax).await?;
    let first = world.result(r#"{"id":"1"}"#).await?;
    world.publish_source(STRICT).await?;

    let again = world.deliver(r#"{"id":"1"}"#).await?;

    assert!(again.replayed);
    let result: Value = serde_json::from_str(again.result.as_deref().context("a result")?)?;
    assert_eq!(result, first);
    Ok(())
}

#[tokio::test]
async fn the_flow_names_the_run_where_its_trigger_has_a_key() -> Result<()> {
    let world = World::start().await?;
    world.publish_source(STRICT).await?;

    let named = start(
        &world,
        TriggerKind::Api,
        r#"{"id":"1","sum":1}"#,
        Some("mine"),
    )?;
    let refused = world.engine.start_run(named).await;
    assert!(
        matches!(refused, Err(IntakeError::KeyDeclared)),
        "{refused:?}"
    );
    let unnamed = start(
        &world,
        TriggerKind::Manual,
        r#"{"id":"1","sum":1}"#,
        Some("mine"),
    )?;
    let Intake::Accepted(accepted) = world.engine.start_run(unnamed).await? else {
        bail!("not accepted");
    };
    assert_eq!(
        accepted.key.text(),
        "mine",
        "a trigger without a key takes the caller's"
    );
    Ok(())
}

#[tokio::test]
async fn another_server_answers_a_hook_the_moment_it_is_live() -> Result<()> {
    let world = World::start().await?;
    let other = world.start_another().await?;
    for n in 0..10 {
        let source = format!(
            "flow: flow-{n}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - {{ id: one, function: '1' }}\n"
        );
        world.publish_source(&source).await?;
        let arrival = WebhookRequest {
            namespace: "default".to_owned(),
            path: format!("flow-{n}"),
            target: format!("/hooks/default/flow-{n}"),
            body: br#"{"id":"1"}"#.to_vec(),
            headers: Vec::new(),
            query: Vec::new(),
        };

        let delivery = other.authenticate(arrival).await?;

        assert!(matches!(
            other.deliver(delivery).await?,
            Intake::Accepted(_)
        ));
    }
    let nowhere = WebhookRequest {
        namespace: "default".to_owned(),
        path: "nowhere".to_owned(),
        target: String::new(),
        body: Vec::new(),
        headers: Vec::new(),
        query: Vec::new(),
    };
    let miss = other.authenticate(nowhere).await;
    assert!(matches!(miss, Err(IntakeError::UnknownHook)), "{miss:?}");
    Ok(())
}

#[tokio::test]
async fn another_server_finds_a_connection_the_moment_it_is_stored() -> Result<()> {
    let world = World::start().await?;
    let other = world.start_another().await?;
    world
        .connect(
            "books",
            json!({ "to": { "http": { "base_url": world.peer.url("") } } }),
        )
        .await?;
    world
        .publish("steps:\n  - { id: post, http: { connection: books, put: /put/1, text: hi } }\n")
        .await?;
    let arrival = WebhookRequest {
        namespace: "default".to_owned(),
        path: "story".to_owned(),
        target: "/hooks/default/story".to_owned(),
        body: br#"{"id":"1"}"#.to_vec(),
        headers: Vec::new(),
        query: Vec::new(),
    };

    let Intake::Accepted(accepted) = other.deliver(other.authenticate(arrival).await?).await?
    else {
        bail!("not accepted");
    };
    let end = other.await_end(accepted.run, patience()).await?;

    assert_eq!(end.context("a run")?.state, RunState::Succeeded);
    assert_eq!(world.peer.count("/put/1").await?.calls, 1);
    let missing = "SELECT count(*) FROM journal WHERE events::text LIKE '%connection-missing%'";
    assert_eq!(count(&world, missing).await?, 0);
    Ok(())
}
