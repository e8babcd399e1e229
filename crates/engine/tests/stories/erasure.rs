//! Erasing payloads: nothing of them is left in the database or the resource store, and everything that
//! keeps an effect from happening twice is.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use semel_engine::{EraseError, Intake, Settlement};
use semel_model::run::RunState;
use semel_model::{EffectId, RunId};
use semel_store::audit::{self, AuditEntry};
use semel_store::late_responses::{self, LateResponse};
use semel_store::runs::{self, RunView};
use semel_store::{effects, queue};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until, until_some};
use serde_json::{Value, json};

use crate::approvals::{decide, open_approval, token};
use crate::tasks::hands::{answer, done, take};
use crate::world::World;

/// Everything that a person or a program can say in a run, with a word of a customer's in each place.
const EVERYTHING: &str = "steps:
  - { id: draft, function: '{\"note\": \"planted-function \" + input.name}' }
  - id: charge
    key: '\"charge:\" + input.id'
    scope: flow
    guard: review
    http: { post: 'PEER/plain/charges', json: { who: '${{ input.name }}' } }
    external_id: result.id
  - id: work
    guard: review
    task: { queue: images, input: { who: '${{ input.name }}' }, within: 1h, lease: 30s }
  - id: each
    foreach: { in: input.items, key: item.id, steps: [{ id: post, guard: review, http: { post: 'PEER/plain/items', json: { item: '${{ item }}' } } }] }
  - id: large
    persist: { value: '${{ input.long }}', name: 'planted-resource-name' }
  - id: sign
    approval: { from: [ada], show: { who: '${{ input.name }}' }, within: 2d }
  - id: tell
    emit: { event: order.paid, data: '${{ input }}' }
  - id: url
    kv: { set: 'url', value: '${{ waits.answer.url }}' }
  - id: answer
    wait: { callback: true, within: 1h }
result: '[steps.answer.result, steps.work.result, steps.draft.result]'
";

/// The tables whose rows have a word in them, and how many there are.
async fn planted(world: &World) -> Result<Vec<(String, i64)>> {
    let client = world.database().connect().await?;
    let tables = "SELECT relname::text FROM pg_class
                   WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
                     AND relname NOT IN ('flows', 'releases')";
    let mut found = Vec::new();
    for row in client.query(tables, &[]).await? {
        let table: String = row.get(0);
        let count = format!("SELECT count(*) FROM \"{table}\" t WHERE t::text LIKE '%planted-%'");
        let count: i64 = client.query_one(&count, &[]).await?.get(0);
        if count > 0 {
            found.push((table, count));
        }
    }
    Ok(found)
}

/// Plays a run of [`EVERYTHING`] to its end, with a repeat that has another payload.
async fn play(world: &World) -> Result<(RunId, String)> {
    let payload = json!({
        "id": "o-1",
        "name": "planted-name",
        "items": [{"id": 1, "text": "planted-item"}, {"id": 2, "text": "planted-other-item"}],
        "long": format!("planted-long {}", "x".repeat(70_000)),
    });
    let payload = payload.to_string();
    let run = world.deliver(&payload).await?.run;
    let task = take(world).await?;
    answer(world, &task, done(json!({"said": "planted-answer"}))).await?;
    let asked = open_approval(world, run).await?;
    decide(world, &asked, &token("ada", &[]), true).await?;
    let url = until(
        "the address",
        async || world.kv("url").await,
        Value::is_string,
    )
    .await?;
    let url = url.as_str().context("an address")?;
    let token = url.rsplit('/').next().context("a token")?;
    world
        .engine
        .call_back(token, br#"{"said":"planted-callback"}"#)
        .await?;
    let end = world.engine.await_end(run, patience()).await?;
    let end = end.context("a run")?;
    ensure!(end.state == RunState::Succeeded, "{end:?}");
    // Refused or answered: it is recorded with its payload.
    let other = r#"{"id":"o-1","name":"planted-mismatch","items":[],"long":""}"#;
    let _ = world.try_deliver_to("story", other).await;
    until(
        "the repeat and the event",
        async || planted(world).await,
        |found| {
            let repeated = found.iter().any(|(table, _)| table == "duplicates");
            let dispatched = !found.iter().any(|(table, _)| table == "outbox");
            repeated && dispatched
        },
    )
    .await?;
    Ok((run, payload))
}

#[tokio::test]
async fn nothing_that_was_said_in_a_run_is_left_and_a_repeat_still_finds_it() -> Result<()> {
    let world = World::start_with_outputs().await?;
    world.publish(EVERYTHING).await?;
    let (run, payload) = play(&world).await?;
    let before = planted(&world).await?;
    let client = world.database().connect().await?;
    let ledger = "SELECT count(*) FROM effects WHERE state = 'done'";
    let ledger = async || -> Result<i64> { Ok(client.query_one(ledger, &[]).await?.get(0)) };
    let (effects, sent) = (ledger().await?, world.peer.count("/plain/").await?);

    let erased = world
        .engine
        .erase_run(world.namespace_id, run, "request 118", "test")
        .await?;
    let after = planted(&world).await?;
    let repeat = world.deliver(&payload).await?;

    let tables: Vec<&str> = before.iter().map(|(table, _)| table.as_str()).collect();
    for table in [
        "runs",
        "tasks",
        "approvals",
        "waits",
        "duplicates",
        "resources",
    ] {
        ensure!(
            tables.contains(&table),
            "nothing was planted in {table}: {before:?}"
        );
    }
    assert_eq!((erased.runs, erased.resources), (3, 1), "{erased:?}");
    assert_eq!(after, [], "what is left of {before:?}");
    let named = "SELECT result::text FROM named_effects WHERE state = 'done'";
    let named: String = client.query_one(named, &[]).await?.get(0);
    assert_eq!(named, "\"erased\"");
    assert_eq!((repeat.run, repeat.replayed), (run, true));
    assert_eq!(repeat.state, RunState::Succeeded);
    assert_eq!(repeat.result.as_deref(), Some("\"erased\""));
    assert_eq!(
        ledger().await?,
        effects,
        "what was done stays in the ledger"
    );
    assert_eq!(world.peer.count("/plain/").await?.calls, sent.calls);
    let again = world
        .engine
        .erase_run(world.namespace_id, run, "once more", "test")
        .await?;
    assert_eq!(again.runs, 3, "a repeat completes what was cut short");
    Ok(())
}

/// The next run of the key knows what was done, and does none of it again.
#[tokio::test]
async fn what_was_done_is_not_repeated_after_it_was_erased() -> Result<()> {
    let world = World::start().await?;
    let steps = "keep: { for: 1d, then: same }\nsteps:\n\
        \x20 - { id: charge, guard: review, http: { post: 'PEER/plain/charges', json: { who: '${{ input.name }}' } } }\n\
        \x20 - id: each\n    foreach: { in: input.items, key: string(item), steps: [{ id: post, guard: review, http: { post: 'PEER/plain/items', json: { item: '${{ item }}' } } }] }\n";
    world.publish(steps).await?;
    let payload = r#"{"id":"o-1","name":"x","items":[1,2]}"#;
    let (first, _) = world.play(payload).await?;
    world
        .engine
        .erase_run(world.namespace_id, first.run, "request 118", "test")
        .await?;
    let cell = world.engine.cell();
    world.move_clock(Duration::from_secs(2 * 86_400)).await?;
    semel_store::retention::forget_keys(cell.every()).await?;

    let (second, end) = world.play(payload).await?;

    assert_ne!(first.run, second.run);
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 3);
    Ok(())
}

#[tokio::test]
async fn a_run_that_has_not_ended_or_is_in_doubt_is_not_erased_and_an_erased_one_not_resumed()
-> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: charge\n    guard: review\n    http: { post: 'PEER/plain/charges', json: { id: '${{ input.id }}' } }\n\
             \x20 - { id: pause, if: input.waits, wait: { for: 1d } }\n  - { id: stop, fail: { message: 'planted-fault' } }\n",
        )
        .await?;
    let (engine, id) = (&world.engine, world.namespace_id);
    let (failed, _) = world.play(r#"{"id":"failed","waits":false}"#).await?;
    let waiting = world.deliver(r#"{"id":"waiting","waits":true}"#).await?;
    let calls = async || Ok(world.peer.count("/plain/").await?.calls);
    until("the second charge", calls, |calls| *calls == 2).await?;
    world
        .peer
        .next("/plain/", Behaviour::CloseWithoutAnswer)
        .await?;
    let (doubtful, _) = world.play(r#"{"id":"doubtful","waits":false}"#).await?;

    for open in [waiting.run, doubtful.run] {
        match engine.erase_run(id, open, "x", "test").await {
            Err(EraseError::NotEnded) => {}
            other => bail!("{open} was erased: {other:?}"),
        }
    }
    engine.erase_run(id, failed.run, "x", "test").await?;
    let resumed = engine.resume(id, failed.run, "again", "test").await;
    let repeat = world
        .try_deliver_to("story", r#"{"id":"failed","waits":false}"#)
        .await?;

    ensure!(resumed.is_err(), "an erased run was resumed");
    let Intake::Accepted(repeat) = repeat else {
        bail!("{repeat:?}")
    };
    assert_eq!((repeat.run, repeat.state), (failed.run, RunState::Failed));
    assert_eq!(planted(&world).await?, []);
    Ok(())
}

/// Nothing is left by which the next run could ask the destination, and it must not send it again.
#[tokio::test]
async fn a_doubt_that_was_given_up_is_erased_and_the_next_run_asks_a_person() -> Result<()> {
    let world = World::start().await?;
    let steps = "keep: { for: 1d, then: same }\nsteps:\n\
        \x20 - { id: charge, guard: review, http: { post: 'PEER/plain/charges', json: { who: '${{ input.name }}' } } }\n";
    world.publish(steps).await?;
    let (engine, id) = (&world.engine, world.namespace_id);
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    let payload = r#"{"id":"o-1","name":"planted-name"}"#;
    let (first, _) = world.play(payload).await?;
    let doubts = effects::list_doubts(engine.cell().every(), id, None, 10).await?;
    let doubt = doubts.items.first().context("a doubt")?.id;
    let reason = "given up".to_owned();
    let fail = Settlement::Fail { reason };
    engine.settle(id, doubt, fail, "test").await?;
    let end = engine.await_end(first.run, patience()).await?;

    let early = engine.erase_run(id, first.run, "early", "test").await;
    let kept = planted(&world).await?;
    world.move_clock(Duration::from_secs(600)).await?;
    let erase = async || match engine.erase_run(id, first.run, "x", "test").await {
        Ok(erased) => Ok(Some(erased)),
        Err(EraseError::MayStillHappen { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    };
    let erased = until_some("the end of the time in which the charge may arrive", erase).await?;
    let left = planted(&world).await?;
    world.move_clock(Duration::from_secs(2 * 86_400)).await?;
    semel_store::retention::forget_keys(engine.cell().every()).await?;
    let (second, met) = world.play(payload).await?;
    let again = engine.erase_run(id, first.run, "once more", "test").await;

    assert_eq!(end.context("a run")?.state, RunState::Failed);
    ensure!(
        matches!(early, Err(EraseError::MayStillHappen { retry_in }) if retry_in.as_millis() > 0)
            && !kept.is_empty(),
        "the charge may still arrive, and the request says until when: {early:?}, {kept:?}"
    );
    assert_eq!((erased.runs, left), (1, Vec::new()));
    assert_ne!(first.run, second.run);
    assert_eq!(met.state, RunState::NeedsReview, "{met:?}");
    let fault = met.fault.unwrap_or_default();
    ensure!(fault.contains("doubt-erased"), "{fault}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 1, "nothing more");
    ensure!(
        matches!(again, Err(EraseError::NotEnded)),
        "the next run has not ended: {again:?}"
    );
    queue::ask_cancel(engine.cell().of(second.run), id, second.run).await?;
    let state = async || Ok(shown(&world, second.run).await?.state);
    until("its end", state, |state| *state == RunState::Cancelled).await?;
    let both = engine.erase_run(id, second.run, "both", "test").await?;
    assert_eq!(both.runs, 2, "and what the second inherited with it");
    assert_eq!(planted(&world).await?, []);
    Ok(())
}

#[tokio::test]
async fn a_run_that_was_cancelled_between_two_attempts_is_erased() -> Result<()> {
    let world = World::start().await?;
    let steps = "steps:\n  - id: charge\n    guard: natural\n    \
        retry: { attempts: 3, delay: 1h, max_delay: 1h, within: 1d }\n    \
        http: { put: 'PEER/plain/charges', json: { who: '${{ input.name }}' } }\n";
    world.publish(steps).await?;
    let (engine, id) = (&world.engine, world.namespace_id);
    let busy = Behaviour::RefuseWith(429);
    world.peer.next("/plain/", busy).await?;
    let payload = r#"{"id":"o-1","name":"planted-name"}"#;
    let run = world.deliver(payload).await?.run;
    let client = world.database().connect().await?;
    let retrying = "SELECT count(*) FROM effects WHERE state = 'retrying'";
    let look = async || -> Result<i64> { Ok(client.query_one(retrying, &[]).await?.get(0)) };
    until("the first attempt to fail", look, |count| *count == 1).await?;
    queue::ask_cancel(engine.cell().of(run), id, run).await?;
    let end = engine.await_end(run, patience()).await?;

    let erased = engine.erase_run(id, run, "request 118", "test").await?;

    assert_eq!(end.context("a run")?.state, RunState::Cancelled);
    assert_eq!(erased.runs, 1);
    assert_eq!(planted(&world).await?, []);
    Ok(())
}

/// A worker that was paused hands in its response after the rows of its run were erased, and before the run says so.
#[tokio::test]
async fn what_is_answered_late_while_its_run_is_erased_does_not_stay() -> Result<()> {
    let world = World::start().await?;
    world
        .publish("steps:\n  - { id: note, kv: { add: seen } }\n")
        .await?;
    let (delivered, _) = world.play(r#"{"id":"o-1","name":"Grace"}"#).await?;
    let (cell, run) = (world.engine.cell(), delivered.run);
    let late = LateResponse {
        effect: EffectId::derive(run, "note", "", 0),
        attempt: 1,
        response: json!("planted-response"),
    };
    let done = AuditEntry::new(world.namespace_id, "test", "run.erase", &run.to_string());

    late_responses::record_late_response(cell.of(run), run, 1, &late).await?;
    let meanwhile = planted(&world).await?;
    semel_store::retention::complete(cell.of(run), &[run], &done).await?;
    late_responses::record_late_response(cell.of(run), run, 1, &late).await?;

    assert_eq!(meanwhile, [("late_responses".to_owned(), 1)]);
    assert_eq!(planted(&world).await?, []);
    Ok(())
}

async fn shown(world: &World, run: RunId) -> Result<RunView> {
    let view = runs::find(world.engine.cell().of(run), world.namespace_id, run).await?;
    view.context("a run")
}

/// An event under way is dispatched first.
async fn until_nothing_is_planted(world: &World) -> Result<()> {
    let look = async || planted(world).await;
    until("nothing to be left of it", look, Vec::is_empty).await?;
    Ok(())
}

#[tokio::test]
async fn a_run_that_failed_with_a_zero_byte_in_its_message_is_erased() -> Result<()> {
    let world = World::start().await?;
    let steps = "steps:\n  - { id: stop, fail: { code: refused, message: '${{ input.name }}' } }\n";
    world.publish(steps).await?;
    let payload = r#"{"id":"o-1","name":"planted-a\u0000b"}"#;
    let (failed, _) = world.play(payload).await?;
    let run = failed.run;
    let before = shown(&world, run).await?.fault.unwrap_or_default();
    ensure!(before.contains("u0000"), "{before}");

    let erased = world
        .engine
        .erase_run(world.namespace_id, run, "request 118", "test")
        .await?;

    let view = shown(&world, run).await?;
    let fault: Value = serde_json::from_str(&view.fault.unwrap_or_default())?;
    assert_eq!(erased.runs, 1);
    until_nothing_is_planted(&world).await?;
    assert_eq!(
        fault,
        json!({ "code": "refused", "message": "erased", "retryable": false })
    );
    assert!(view.erased_at.is_some());
    Ok(())
}

/// The acts of people on a run, oldest first.
async fn acts(world: &World, run: RunId) -> Result<Vec<String>> {
    let cell = world.engine.cell().of(run);
    let acts = audit::list_of_run(cell, world.namespace_id, run, 10).await?;
    Ok(acts.into_iter().map(|act| act.action).collect())
}

#[tokio::test]
async fn an_erasure_that_failed_is_on_record_as_begun_and_not_as_done() -> Result<()> {
    let world = World::start().await?;
    let steps = "steps:\n  - { id: stop, fail: { message: 'planted-fault' } }\n";
    world.publish(steps).await?;
    let (failed, _) = world.play(r#"{"id":"o-1","name":"planted-name"}"#).await?;
    let (engine, id, run) = (&world.engine, world.namespace_id, failed.run);
    let client = world.database().connect().await?;
    // Nothing but an erasure changes a row of a journal.
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'this value is refused' USING ERRCODE = '22021'; END $$;
                  CREATE TRIGGER refuse BEFORE UPDATE ON journal
                    FOR EACH ROW EXECUTE FUNCTION refuse()";
    client.batch_execute(refuse).await?;

    let cut_short = engine.erase_run(id, run, "request 118", "test").await;
    let (half, begun) = (shown(&world, run).await?, acts(&world, run).await?);
    let resumed = engine.resume(id, run, "again", "test").await;
    client
        .batch_execute("DROP TRIGGER refuse ON journal")
        .await?;
    engine.erase_run(id, run, "request 118", "test").await?;

    ensure!(
        matches!(cut_short, Err(EraseError::Unavailable(_))),
        "{cut_short:?}"
    );
    assert_eq!(half.erased_at, None, "it is not said to be gone");
    assert!(half.closed_at.is_some(), "and does not go on");
    ensure!(resumed.is_err(), "a run that is being erased was resumed");
    assert_eq!(begun, ["run.erase-begin"]);
    let done = ["run.erase-begin", "run.erase-begin", "run.erase"];
    assert_eq!(acts(&world, run).await?, done);
    assert!(shown(&world, run).await?.erased_at.is_some());
    until_nothing_is_planted(&world).await
}

#[tokio::test]
async fn what_another_run_stored_too_is_not_removed() -> Result<()> {
    let world = World::start_with_outputs().await?;
    world
        .publish("steps:\n  - id: large\n    persist: { value: '${{ input.long }}', name: list }\nresult: steps.large.result\n")
        .await?;
    let long = "x".repeat(70_000);
    let deliver = async |id: &str| {
        let payload = json!({"id": id, "long": long}).to_string();
        world.play(&payload).await
    };
    let (first, _) = deliver("a").await?;
    deliver("b").await?;

    let erased = world
        .engine
        .erase_run(world.namespace_id, first.run, "x", "test")
        .await?;

    assert_eq!(erased.resources, 0);
    let client = world.database().connect().await?;
    let rows: i64 = client
        .query_one("SELECT count(*) FROM resources", &[])
        .await?
        .get(0);
    assert_eq!(rows, 1, "the other run needs it");
    Ok(())
}
