//! Runs that make no progress: refused, unreadable, too long. Each stops, and says why.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_engine::ResumeError;
use semel_model::effect;
use semel_model::run::RunState;
use semel_model::{EffectId, RunId};
use semel_store::{effects, runs};
use semel_testkit::{patience, until};
use serde_json::{Value, json};

use crate::hostile::rows;
use crate::world::World;

/// A run that sleeps for an hour between two entries.
const SLEEPER: &str = "steps:\n  - id: a\n    kv: { add: a }\n  - id: pause\n    wait: { for: 1h }\n\
    \x20 - id: b\n    kv: { add: b }\nresult: steps.b.result\n";

async fn sql(world: &World, text: &str, run: RunId) -> Result<u64> {
    let client = world.engine.cell().reader().await?;
    Ok(client.execute(text, &[run.as_uuid()]).await?)
}

async fn epoch(world: &World, run: RunId) -> Result<i64> {
    let client = world.engine.cell().reader().await?;
    let text = "SELECT epoch FROM queue WHERE run_id = $1";
    Ok(client.query_one(text, &[run.as_uuid()]).await?.get(0))
}

async fn until_waiting(world: &World, run: RunId) -> Result<()> {
    let look = async || {
        let view = runs::find(world.engine.cell().of(run), world.namespace_id, run).await?;
        Ok(view.map(|view| view.state_word()))
    };
    let what = format!("{run} to sleep");
    until(&what, look, |word| *word == Some("waiting")).await?;
    Ok(())
}

/// Ends the sleep of every [`SLEEPER`].
async fn wake(world: &World) -> Result<()> {
    world.move_clock(Duration::from_secs(3_601)).await
}

async fn until_state(world: &World, run: RunId, wanted: RunState) -> Result<()> {
    let look = async || Ok(fault(world, run).await?.0);
    let what = format!("{run} to become {wanted}");
    until(&what, look, |state| *state == wanted).await?;
    Ok(())
}

async fn fault(world: &World, run: RunId) -> Result<(RunState, Value)> {
    let end = world.engine.await_end(run, patience()).await?;
    let end = end.context("a run")?;
    let text = end.fault.unwrap_or_else(|| "null".to_owned());
    Ok((end.state, serde_json::from_str(&text)?))
}

/// Has the database refuse what a run writes to a table.
async fn refuse(world: &World, table: &str, when: &str) -> Result<()> {
    let client = world.engine.cell().reader().await?;
    let text = format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN RAISE EXCEPTION 'this value is refused' USING ERRCODE = '22021'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {table}
           FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION refuse()"
    );
    client.batch_execute(&text).await?;
    Ok(())
}

#[tokio::test]
async fn a_refused_write_quarantines_its_run_at_once_and_no_other() -> Result<()> {
    let world = World::start().await?;
    world
        .publish("steps:\n  - id: a\n    kv: { set: '${{ input.id }}', value: 1 }\n")
        .await?;
    refuse(&world, "kv", "NEW.entry = 'poison'").await?;

    let mut runs = Vec::new();
    for id in ["1", "2", "poison", "3", "4"] {
        let accepted = world.deliver(&json!({ "id": id }).to_string()).await?;
        runs.push((id, accepted.run));
    }
    for (id, run) in runs {
        let (state, fault) = fault(&world, run).await?;
        if id == "poison" {
            assert_eq!(state, RunState::Quarantined, "{fault}");
            assert_eq!(fault["code"], json!("write-refused"));
            let words = fault["message"].as_str().unwrap_or_default();
            assert!(words.contains("this value is refused (22021)"), "{words}");
            assert!(rows(&world, run).await? < 6);
        } else {
            assert_eq!(state, RunState::Succeeded, "{id}: {fault}");
        }
    }
    assert_eq!(world.engine.metrics().writes_refused.get(), 1);
    Ok(())
}

#[tokio::test]
async fn an_outcome_that_is_refused_is_never_sent_again() -> Result<()> {
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: charge\n    http: { post: 'PEER/plain/x' }\n    guard: repeat\n\
             \x20   because: the test counts\n    external_id: result.id\nresult: steps.charge.external_id\n",
        )
        .await?;
    refuse(&world, "effects", "NEW.external_id IS NOT NULL").await?;

    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let (state, why) = fault(&world, accepted.run).await?;
    let id = EffectId::derive(accepted.run, "charge", "", 0);
    let cell = world.engine.cell();
    let stands = effects::find(cell.of(id), world.namespace_id, id).await?;
    // The write of its response may wake it once.
    let client = world.database().connect().await?;
    let late = "SELECT count(*) FROM late_responses WHERE run_id = $1";
    let look = async || -> Result<i64> {
        let run = accepted.run;
        Ok(client.query_one(late, &[run.as_uuid()]).await?.get(0))
    };
    until("the late response", look, |late| *late == 1).await?;
    world.until_at_rest(accepted.run).await?;
    let before = epoch(&world, accepted.run).await?;
    world.pass_the_queue().await?;
    world.until_at_rest(accepted.run).await?;
    assert_eq!(
        epoch(&world, accepted.run).await?,
        before,
        "a late response does not wake a quarantined run"
    );
    let again = world
        .engine
        .resume(world.namespace_id, accepted.run, "try", "test")
        .await;
    let (still, _) = fault(&world, accepted.run).await?;
    cell.reader()
        .await?
        .batch_execute("DROP TRIGGER refuse ON effects")
        .await?;

    assert_eq!(state, RunState::Quarantined, "{why}");
    assert_eq!(
        stands.map(|view| view.state),
        Some(effect::EffectState::InDoubt)
    );
    assert!(again.is_ok(), "{again:?}");
    assert_eq!(
        still,
        RunState::Quarantined,
        "the answer is known, and refused again"
    );
    world
        .engine
        .resume(world.namespace_id, accepted.run, "fixed", "test")
        .await?;
    until_state(&world, accepted.run, RunState::Succeeded).await?;
    assert_eq!(
        world.peer.count("/plain/").await?.calls,
        1,
        "the bank was asked once"
    );
    Ok(())
}

#[tokio::test]
async fn an_unreadable_journal_is_postponed_five_times_and_quarantined() -> Result<()> {
    let world = World::start().await?;
    world.publish(SLEEPER).await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    let neighbour = world.deliver(r#"{"id":"2"}"#).await?;
    until_waiting(&world, accepted.run).await?;
    until_waiting(&world, neighbour.run).await?;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let keep = "CREATE TABLE kept AS SELECT * FROM journal WHERE run_id = $1 AND seq = 2";
    let keep = keep.replace("$1", &format!("'{}'", accepted.run.as_uuid()));
    world
        .engine
        .cell()
        .reader()
        .await?
        .batch_execute(&keep)
        .await?;
    let spoil = format!(
        "UPDATE journal SET events = ('[{{\"event\":\"computed\",\"step\":\"x\",\"result\":{deep}}}]')::json
          WHERE run_id = $1 AND seq = 2"
    );
    assert_eq!(sql(&world, &spoil, accepted.run).await?, 1);
    let before = epoch(&world, accepted.run).await?;
    wake(&world).await?;

    let (state, why) = fault(&world, accepted.run).await?;
    let takes = epoch(&world, accepted.run).await? - before;

    assert_eq!(state, RunState::Quarantined, "{why}");
    assert_eq!(why["code"], json!("run-unreadable"), "{why}");
    assert_eq!(world.attention().await?, Vec::<String>::new());
    assert!((1..10).contains(&takes), "{takes} takes");
    assert_eq!(fault(&world, neighbour.run).await?.0, RunState::Succeeded);
    let view = runs::find(
        world.engine.cell().of(accepted.run),
        world.namespace_id,
        accepted.run,
    )
    .await?;
    assert_eq!(view.map(|view| view.state_word()), Some("quarantined"));
    // An operator's command that cannot be carried out leaves it where it is.
    let resumed = world
        .engine
        .resume(world.namespace_id, accepted.run, "try", "test")
        .await;
    assert!(resumed.is_err());
    assert_eq!(fault(&world, accepted.run).await?.0, RunState::Quarantined);
    // Once the row is repaired, everything can be read, also what the quarantine wrote.
    let repair = "UPDATE journal j SET events = k.events FROM kept k
                   WHERE j.run_id = $1 AND j.seq = 2 AND k.run_id = j.run_id";
    assert_eq!(sql(&world, repair, accepted.run).await?, 1);
    world
        .engine
        .resume(world.namespace_id, accepted.run, "repaired", "test")
        .await?;
    until_state(&world, accepted.run, RunState::Succeeded).await
}

#[tokio::test]
async fn what_a_newer_version_wrote_is_left_to_another_server() -> Result<()> {
    let world = World::start().await?;
    world.publish(SLEEPER).await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    until_waiting(&world, accepted.run).await?;
    let newer = "UPDATE journal SET events = '[{\"event\":\"dreamt\",\"of\":1}]'
                  WHERE run_id = $1 AND seq = 2";
    assert_eq!(sql(&world, newer, accepted.run).await?, 1);
    let before = epoch(&world, accepted.run).await?;

    wake(&world).await?;
    let client = world.database().connect().await?;
    let text = "SELECT epoch, holder IS NULL, extract(epoch FROM due_at - moment())::float8
                  FROM queue WHERE run_id = $1";
    let look = async || -> Result<(i64, bool, f64)> {
        let row = client.query_one(text, &[accepted.run.as_uuid()]).await?;
        Ok((row.get(0), row.get(1), row.get(2)))
    };
    // Each time that it is taken it is postponed by five seconds at least.
    let what = "the run to be taken, and postponed";
    until(what, look, |(epoch, is_free, rest)| {
        *epoch > before && *is_free && *rest > 1.0
    })
    .await?;
    let view = runs::find(
        world.engine.cell().of(accepted.run),
        world.namespace_id,
        accepted.run,
    )
    .await?;
    let view = view.context("a run")?;

    assert_eq!(view.state, RunState::Active);
    assert!(view.due_at.is_some());
    assert!(world.engine.metrics().runs_unreadable.get() >= 1);
    Ok(())
}

#[tokio::test]
async fn an_invalid_journal_does_not_crash_the_worker() -> Result<()> {
    let world = World::start().await?;
    world.publish(SLEEPER).await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    until_waiting(&world, accepted.run).await?;
    // A second intent without a first: nothing that Semel writes.
    let odd = "UPDATE journal SET events = '[{\"event\":\"skipped\",\"step\":\"a\"},
                 {\"event\":\"intended\",\"step\":\"b\",\"attempt\":2,
                 \"effect\":\"eff_00000000000000000000000000000001\"}]'
                WHERE run_id = $1 AND seq = 2";
    assert_eq!(sql(&world, odd, accepted.run).await?, 1);

    wake(&world).await?;
    let (state, why) = fault(&world, accepted.run).await?;
    let next = world.deliver(r#"{"id":"2"}"#).await?.run;
    until_waiting(&world, next).await?;
    wake(&world).await?;
    let after = world.engine.await_end(next, patience()).await?;
    let after = after.context("a run")?;

    assert_eq!(state, RunState::Quarantined, "{why}");
    assert_eq!(after.state, RunState::Succeeded, "{after:?}");
    let result = after.result.as_deref();
    assert_eq!(result, Some("1"), "the worker keeps working");
    Ok(())
}

#[tokio::test]
async fn an_event_that_does_not_fit_quarantines_its_run_at_once_and_nothing_is_sent() -> Result<()>
{
    let world = World::start().await?;
    world
        .publish(
            "steps:\n  - id: pause\n    wait: { for: 1h }\n  - id: charge\n    guard: review\n\
             \x20   http: { post: 'PEER/plain/x' }\n",
        )
        .await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    until_waiting(&world, accepted.run).await?;
    let planted = "UPDATE journal SET events = (events::jsonb ||
                     '[{\"event\":\"done\",\"step\":\"charge\",\"by\":\"answer\",\"result\":1}]')::json
                    WHERE run_id = $1 AND seq = 2";
    assert_eq!(sql(&world, planted, accepted.run).await?, 1);
    let before = epoch(&world, accepted.run).await?;
    wake(&world).await?;

    let (state, why) = fault(&world, accepted.run).await?;
    let takes = epoch(&world, accepted.run).await? - before;
    let id = world.namespace_id;
    let resumed = world.engine.resume(id, accepted.run, "try", "test").await;
    let (still, _) = fault(&world, accepted.run).await?;

    assert_eq!(state, RunState::Quarantined, "{why}");
    assert_eq!(why["code"], json!("journal-inconsistent"), "{why}");
    let words = why["message"].as_str().unwrap_or_default();
    assert_eq!(
        words,
        "row 2 of the journal: `done` does not fit a run that waits at `pause`"
    );
    assert_eq!(takes, 1, "it is not taken again and again");
    assert_eq!(world.engine.metrics().journals_inconsistent.get(), 1);
    assert!(
        matches!(resumed, Err(ResumeError::Inconsistent(_))),
        "it stays where it is: {resumed:?}"
    );
    assert_eq!(still, RunState::Quarantined);
    assert_eq!(world.peer.count("/plain/").await?.calls, 0);
    Ok(())
}

#[tokio::test]
async fn a_journal_that_grows_too_long_quarantines_its_run() -> Result<()> {
    let world = World::start().await?;
    world.publish(SLEEPER).await?;
    let accepted = world.deliver(r#"{"id":"1"}"#).await?;
    until_waiting(&world, accepted.run).await?;
    let long = "UPDATE queue SET seq = 50000 WHERE run_id = $1";
    assert_eq!(sql(&world, long, accepted.run).await?, 1);
    wake(&world).await?;

    let (state, why) = fault(&world, accepted.run).await?;
    let id = world.namespace_id;
    world
        .engine
        .cancel(id, accepted.run, "enough", "test")
        .await?;

    assert_eq!(state, RunState::Quarantined, "{why}");
    assert_eq!(why["code"], json!("journal-too-long"));
    until_state(&world, accepted.run, RunState::Cancelled).await
}

#[tokio::test]
async fn a_worker_s_fault_code_has_no_special_meaning() -> Result<()> {
    use semel_engine::commands::answer_task::TaskAnswer;
    use semel_model::TokenId;
    use semel_store::tasks::{TaskClaim, TaskHold};

    let world = World::start().await?;
    world
        .publish("steps:\n  - id: work\n    task: { queue: q, within: 1h, lease: 30s }\n    guard: review\n")
        .await?;
    for code in ["timed-out", "cancelled", "destination-busy", "http-409"] {
        let accepted = world.deliver(&json!({ "id": code }).to_string()).await?;
        let claim = TaskClaim {
            namespace_id: world.namespace_id,
            caller: TokenId::from_uuid(uuid::Uuid::nil()),
            queue: "q".to_owned(),
            most: 1,
            worker: None,
            name: None,
            lease: None,
        };
        let claimed = world.engine.claim_tasks(&claim, patience()).await?;
        let task = claimed.into_iter().next().context("a task")?;
        let said = TaskAnswer::Failed {
            code: code.to_owned(),
            message: "a\0b".to_owned(),
            retryable: false,
            retry_after: None,
        };
        let hold = TaskHold {
            namespace_id: world.namespace_id,
            task: task.task,
            token: task.token,
            caller: claim.caller,
        };
        world.engine.answer_task(hold, said).await?;

        let (state, why) = fault(&world, accepted.run).await?;

        assert_eq!(state, RunState::Failed, "{code}: {why}");
        assert_eq!(why["code"], json!(format!("task-{code}")));
        assert!(rows(&world, accepted.run).await? < 8);
    }
    Ok(())
}
