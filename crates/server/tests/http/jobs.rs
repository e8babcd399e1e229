//! Jobs over many runs: stopping one leaves what is left alone.

use anyhow::{Result, ensure};
use semel_api::types::{AskRunJob, RunJobVerb, RunStatus, StartRun, StopRunJob};
use semel_model::RunId;
use semel_testkit::until;

use crate::world::World;

const WAITING: &str =
    "trigger: { api: {} }\nsteps:\n  - { id: on, wait: { callback: true, within: 1h } }\n";

#[tokio::test]
async fn a_job_that_is_stopped_leaves_the_other_runs_alone() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("waiting", WAITING).await?;
    let mut runs: Vec<RunId> = Vec::new();
    for number in 0..6 {
        let start = StartRun {
            key: Some(format!("k-{number}")),
            ..StartRun::default()
        };
        let run = world.client.start_run(&flow, &start, None).await?.body.run;
        world.until_waiting(run).await?;
        runs.push(run);
    }
    let mut ask = AskRunJob {
        verb: RunJobVerb::Cancel,
        flow: flow.clone(),
        state: None,
        after: None,
        before: None,
        digest: None,
        reason: Some("by mistake".to_owned()),
    };
    let plan = world.client.plan_run_job(&ask).await?;
    ask.digest = Some(plan.digest);
    // The first cancellation waits for the test, and all others behind it.
    let mut locking = world.database.connect().await?;
    let lock = locking.transaction().await?;
    lock.batch_execute("SELECT 1 FROM queue FOR UPDATE").await?;

    let job = world.client.make_run_job(&ask, "make").await?.body;
    let stop = StopRunJob {
        reason: "the wrong flow".to_owned(),
    };
    let stopped = world.client.stop_run_job(job.job, &stop, "stop").await?;
    lock.rollback().await?;

    assert_eq!((stopped.body.state.as_str(), job.count), ("stopped", 6));
    let again = world.client.stop_run_job(job.job, &stop, "again").await?;
    assert_eq!(
        again.body.state, "stopped",
        "to stop it twice is to stop it"
    );
    // One may have been under way.
    let mut open = 0;
    for run in &runs {
        let shown = world.client.get_run(*run).await?.run;
        open += u32::from(shown.state == RunStatus::Waiting && !shown.cancelling);
    }
    ensure!(open >= 5, "{open} of 6 are left alone");
    let shown = world.client.get_run_job(job.job).await?;
    ensure!(shown.done + shown.refused <= 1, "{shown:?}");
    let client = world.database.connect().await?;
    let acts = "SELECT count(*) FROM audit WHERE action = 'run.stop-many'";
    let look = async || Ok(client.query_one(acts, &[]).await?.get::<_, i64>(0));
    until("the act to be recorded", look, |acts| *acts == 1).await?;
    Ok(())
}
