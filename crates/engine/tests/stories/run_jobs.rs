//! Many runs are cancelled or resumed by a plan: exactly those that it showed.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_engine::{JobMaker, RunJobError, RunJobWish};
use semel_model::run::RunState;
use semel_model::{RunId, RunJobId, TokenId};
use semel_store::run_jobs::{self, JobVerb, JobView};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until, until_some};

use crate::world::World;

fn wish(verb: JobVerb) -> Result<RunJobWish> {
    Ok(RunJobWish {
        verb,
        flow: "story".parse()?,
        state: None,
        after: None,
        before: None,
    })
}

async fn until_state(world: &World, run: RunId, wanted: RunState) -> Result<()> {
    let look = async || {
        let end = world.engine.await_end(run, patience()).await?;
        Ok(end.context("a run")?.state)
    };
    let what = format!("{run} to become {wanted}");
    until(&what, look, |state| *state == wanted).await?;
    Ok(())
}

/// Waits until a job is done; says for how many runs, and of how many it left its hands.
async fn until_done(world: &World, job: RunJobId) -> Result<(i64, i64)> {
    let look = async || {
        let found = run_jobs::find(world.engine.cell().home(), world.namespace_id, job).await?;
        found.context("the job")
    };
    let done = until("the job to be done", look, |job| job.state == "done").await?;
    Ok((done.done_count, done.refused_count))
}

#[tokio::test]
async fn runs_that_need_review_are_resumed_by_the_plan_that_showed_them() -> Result<()> {
    let world = World::start().await?;
    let steps = "steps:\n  - id: call\n    http: { post: 'PEER/plain/x', text: hi }\n";
    world.publish(steps).await?;
    let refuse = async |id: &str| {
        let behaviour = Behaviour::RefuseWith(429);
        world.peer.next_times("/plain/", 3, behaviour).await?;
        let (accepted, end) = world.play(&format!(r#"{{"id":"{id}"}}"#)).await?;
        assert_eq!(end.state, RunState::NeedsReview, "{end:?}");
        anyhow::Ok(accepted.run)
    };
    let (ns, wish) = (world.namespace_id, wish(JobVerb::Resume)?);
    let mut runs = vec![refuse("1").await?, refuse("2").await?];
    let old = world.engine.plan_run_job(ns, &wish).await?;
    runs.push(refuse("3").await?);

    let by = (old.digest.as_str(), "the bank is back");
    let refused = world
        .engine
        .make_run_job(ns, &wish, by, JobMaker::unchecked("test"))
        .await;
    let new = world.engine.plan_run_job(ns, &wish).await?;
    let by = (new.digest.as_str(), "the bank is back");
    let job = world
        .engine
        .make_run_job(ns, &wish, by, JobMaker::unchecked("test"))
        .await?;

    assert!(matches!(refused, Err(RunJobError::Changed)), "{refused:?}");
    assert_eq!((old.runs.len(), new.runs.len()), (2, 3));
    for run in runs {
        until_state(&world, run, RunState::Succeeded).await?;
    }
    assert_eq!(until_done(&world, job).await?, (3, 0));
    assert_eq!(world.peer.count("/plain/").await?.effects, 3);
    Ok(())
}

#[tokio::test]
async fn a_plan_without_runs_or_of_ended_runs_is_refused() -> Result<()> {
    let world = World::start().await?;
    world
        .publish("steps:\n  - { id: one, kv: { add: ones } }\n")
        .await?;
    world.result(r#"{"id":"1"}"#).await?;
    let ns = world.namespace_id;

    let none = world.engine.plan_run_job(ns, &wish(JobVerb::Cancel)?).await;
    let ended = RunJobWish {
        state: Some(RunState::Succeeded),
        ..wish(JobVerb::Cancel)?
    };
    let ended = world.engine.plan_run_job(ns, &ended).await;

    assert!(matches!(none, Err(RunJobError::Empty)), "{none:?}");
    assert!(matches!(ended, Err(RunJobError::State(_))), "{ended:?}");
    Ok(())
}

/// An operator who plans to cancel runs at work has not said what becomes of effects in doubt.
#[tokio::test]
async fn a_run_whose_state_has_changed_since_it_was_planned_is_left_alone() -> Result<()> {
    let world = World::start().await?;
    world
        .publish("steps:\n  - { id: nap, wait: { for: 30d } }\n")
        .await?;
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    let (ns, wish) = (world.namespace_id, wish(JobVerb::Cancel)?);
    let client = world.database().connect().await?;
    let become_state = async |state: &str| {
        let text = format!("UPDATE runs SET state = '{state}' WHERE id = $1");
        client.execute(&text, &[run.as_uuid()]).await
    };
    let plan = world.engine.plan_run_job(ns, &wish).await?;
    become_state("in_doubt").await?;
    let (digest, reason) = (plan.digest.as_str(), "tests");

    let refused = world
        .engine
        .make_run_job(ns, &wish, (digest, reason), JobMaker::unchecked("test"))
        .await;
    become_state("active").await?;
    let plan = world.engine.plan_run_job(ns, &wish).await?;
    // As if the state changed between the operator's command and the server's turn.
    let trigger = "CREATE FUNCTION other_state() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.planned_state := 'needs_review'; RETURN NEW; END $$;
        CREATE TRIGGER other_state BEFORE INSERT ON run_job_items
           FOR EACH ROW EXECUTE FUNCTION other_state()";
    client.batch_execute(trigger).await?;
    let by = (plan.digest.as_str(), reason);
    let job = world
        .engine
        .make_run_job(ns, &wish, by, JobMaker::unchecked("test"))
        .await?;

    assert!(matches!(refused, Err(RunJobError::Changed)), "{refused:?}");
    assert_eq!(until_done(&world, job).await?, (0, 1));
    Ok(())
}

/// A server that dies between a run and its note leaves the note to another one, which must not take a
/// run that stopped again for one that was never resumed.
#[tokio::test]
async fn a_job_whose_note_was_lost_resumes_a_run_once() -> Result<()> {
    for (state, code, times) in [(RunState::NeedsReview, 429, 3), (RunState::Failed, 400, 1)] {
        let world = World::start().await?;
        let steps = "steps:\n  - id: call\n    http: { post: 'PEER/plain/x', text: hi }\n";
        world.publish(steps).await?;
        let refuse = async || {
            let behaviour = Behaviour::RefuseWith(code);
            world.peer.next_times("/plain/", times, behaviour).await
        };
        refuse().await?;
        let (accepted, end) = world.play(r#"{"id":"1"}"#).await?;
        assert_eq!(end.state, state, "{end:?}");
        let wish = RunJobWish {
            state: Some(state),
            ..wish(JobVerb::Resume)?
        };
        let (ns, client) = (world.namespace_id, world.database().connect().await?);
        let lost = "CREATE FUNCTION lost() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'the server died'; END $$;
            CREATE TRIGGER lost BEFORE UPDATE OF state ON run_job_items
               FOR EACH ROW EXECUTE FUNCTION lost()";
        client.batch_execute(lost).await?;
        refuse().await?;
        let calls = async || anyhow::Ok(world.peer.count("/plain/").await?.calls);
        let before = calls().await?;

        let plan = world.engine.plan_run_job(ns, &wish).await?;
        let by = (plan.digest.as_str(), "the bank is back");
        let job = world
            .engine
            .make_run_job(ns, &wish, by, JobMaker::unchecked("test"))
            .await?;
        until("another call", calls, |calls| *calls > before).await?;
        until_state(&world, accepted.run, state).await?;
        let by_then = calls().await?;
        client
            .batch_execute("DROP TRIGGER lost ON run_job_items")
            .await?;

        assert_eq!(until_done(&world, job).await?, (1, 0));
        let acts = "SELECT count(*) FROM audit WHERE action = 'run.resume'";
        let acts: i64 = client.query_one(acts, &[]).await?.get(0);
        assert_eq!(acts, 1, "a run that is {state} is resumed once");
        assert_eq!(calls().await?, by_then);
    }
    Ok(())
}

/// The plan of runs that failed again looks like the first one, and is another.
#[tokio::test]
async fn runs_that_failed_again_need_another_plan() -> Result<()> {
    let world = World::start().await?;
    let steps = "steps:\n  - id: call\n    http: { post: 'PEER/plain/x', text: hi }\n";
    world.publish(steps).await?;
    let behaviour = Behaviour::RefuseWith(429);
    world.peer.next_times("/plain/", 6, behaviour).await?;
    let (accepted, end) = world.play(r#"{"id":"1"}"#).await?;
    assert_eq!(end.state, RunState::NeedsReview, "{end:?}");
    let (ns, wish) = (world.namespace_id, wish(JobVerb::Resume)?);

    let first = world.engine.plan_run_job(ns, &wish).await?;
    let by = (first.digest.as_str(), "the bank is back");
    world
        .engine
        .make_run_job(ns, &wish, by, JobMaker::unchecked("test"))
        .await?;
    let again = until_some("another plan", async || {
        let plan = world.engine.plan_run_job(ns, &wish).await;
        Ok(plan.ok().filter(|plan| plan.digest != first.digest))
    })
    .await?;
    let refused = world
        .engine
        .make_run_job(ns, &wish, by, JobMaker::unchecked("test"))
        .await;

    assert_eq!(again.runs[0].run, accepted.run);
    assert!(matches!(refused, Err(RunJobError::Changed)), "{refused:?}");
    Ok(())
}

/// Stores a token that has one right, and was revoked if `revoked` says so.
async fn add_token(world: &World, right: &str, revoked: bool) -> Result<TokenId> {
    let id = TokenId::from_uuid(uuid::Uuid::now_v7());
    let text = "
        INSERT INTO tokens (id, namespace_id, name, digest, expires_at, revoked_at, rights)
        VALUES ($1, $2, 'ci', decode(repeat('0', 64), 'hex'), moment() + interval '1 day',
                CASE WHEN $3 THEN moment() END, ARRAY[$4::text])";
    let client = world.database().connect().await?;
    client
        .execute(text, &[id.as_uuid(), &world.namespace_id, &revoked, &right])
        .await?;
    Ok(id)
}

/// A job in the name of a token, about one run that waits; the job as it is once it runs no more.
async fn job_of(world: &World, token: TokenId) -> Result<(RunId, JobView)> {
    world
        .publish("steps:\n  - { id: nap, wait: { for: 30d } }\n")
        .await?;
    let run = world.deliver(r#"{"id":"1"}"#).await?.run;
    let (ns, wish) = (world.namespace_id, wish(JobVerb::Cancel)?);
    let plan = world.engine.plan_run_job(ns, &wish).await?;
    let asked = (plan.digest.as_str(), "tests");
    let by = JobMaker {
        actor: "token:ci",
        token: Some(token),
    };
    let job = world.engine.make_run_job(ns, &wish, asked, by).await?;
    let look = async || {
        let found = run_jobs::find(world.engine.cell().home(), ns, job).await?;
        found.context("the job")
    };
    let is_over = |job: &JobView| job.state != "running";
    Ok((run, until("the job to end", look, is_over).await?))
}

#[tokio::test]
async fn a_job_stops_and_says_why_where_its_token_was_revoked_or_has_lost_the_right() -> Result<()>
{
    for (right, revoked, why) in [
        ("operate", true, "token:ci was revoked"),
        ("read", false, "token:ci has lost the right `operate`"),
    ] {
        let world = World::start().await?;
        let token = add_token(&world, right, revoked).await?;

        let (run, job) = job_of(&world, token).await?;

        assert_eq!(job.state, "stopped");
        assert_eq!(job.stopped_because.as_deref(), Some(why));
        assert_eq!((job.done_count, job.refused_count), (0, 0));
        let end = world.engine.await_end(run, Duration::ZERO).await?;
        assert_eq!(end.context("a run")?.state, RunState::Active);
        let client = world.database().connect().await?;
        let acts = "SELECT count(*) FROM audit
                     WHERE action = 'run.stop-many' AND actor = 'semel' AND reason = $1";
        let acts: i64 = client.query_one(acts, &[&why]).await?.get(0);
        assert_eq!(acts, 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_job_of_a_token_that_works_is_carried_out() -> Result<()> {
    let world = World::start().await?;
    let token = add_token(&world, "operate", false).await?;

    let (run, job) = job_of(&world, token).await?;

    assert_eq!((job.state.as_str(), job.done_count), ("done", 1), "{job:?}");
    let client = world.database().connect().await?;
    let acts =
        "SELECT count(*) FROM audit WHERE action = 'run.cancel' AND run_id = $1 AND token_id = $2";
    let acts = client
        .query_one(acts, &[run.as_uuid(), token.as_uuid()])
        .await?;
    assert_eq!(acts.get::<_, i64>(0), 1, "names are not unique");
    until_state(&world, run, RunState::Cancelled).await
}
