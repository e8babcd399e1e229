//! Duties: what servers say of them is kept by duty, at times of the database's clock.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use semel_store::duties::{self, DutyNote};

use crate::world::World;

/// How often each of two servers writes at the same time as the other.
const WRITES: usize = 50;

fn nothing(duty: &'static str) -> DutyNote {
    DutyNote {
        duty,
        finished: None,
        covered: None,
        failed: None,
        late_after: Duration::from_secs(30),
    }
}

#[tokio::test]
async fn what_servers_say_of_a_duty_is_kept_and_what_they_do_not_say_stays() -> Result<()> {
    let world = World::start().await?;
    let home = || world.cell.home();
    let of_the_holder = [
        DutyNote {
            finished: Some(Duration::from_secs(2)),
            ..nothing("retention")
        },
        DutyNote {
            failed: Some((Duration::from_secs(1), "no\0room".to_owned())),
            ..nothing("alerts")
        },
    ];
    let of_another = [DutyNote {
        covered: Some(Duration::ZERO),
        ..nothing("retention")
    }];

    let (_, before) = duties::list(home()).await?;
    duties::note(home(), "host 1", &of_the_holder).await?;
    duties::note(home(), "host 2", &of_another).await?;
    let (now, after) = duties::list(home()).await?;

    assert!(before.is_empty(), "{before:?}");
    let [alerts, retention] = after.as_slice() else {
        bail!("{after:?}");
    };
    assert_eq!(
        (alerts.duty.as_str(), retention.duty.as_str()),
        ("alerts", "retention")
    );
    let (failed, error) = alerts.failed.as_ref().context("a failure")?;
    assert_eq!(
        (failed.by.as_str(), error.as_str()),
        ("host 1", "no\u{fffd}room")
    );
    assert!(alerts.finished.is_none() && retention.failed.is_none());
    let finished = retention
        .finished
        .as_ref()
        .context("a pass of the holder")?;
    let covered = retention.covered.as_ref().context("a pass of another")?;
    assert_eq!(
        (finished.by.as_str(), covered.by.as_str()),
        ("host 1", "host 2")
    );
    assert!(finished.at < covered.at && covered.at <= now, "{after:?}");
    Ok(())
}

#[tokio::test]
async fn servers_that_write_the_same_duties_at_the_same_time_do_not_wait_for_each_other_in_a_circle()
-> Result<()> {
    let world = World::start().await?;
    let (one, other) = (world.cell.clone(), world.cell.clone());
    let notes = |duties: [&'static str; 3]| {
        duties.map(|duty| DutyNote {
            finished: Some(Duration::ZERO),
            ..nothing(duty)
        })
    };
    let (up, down) = (notes(["a", "b", "c"]), notes(["c", "b", "a"]));

    let upwards = tokio::spawn(async move {
        for _ in 0..WRITES {
            duties::note(one.home(), "host 1", &up).await?;
        }
        anyhow::Ok(())
    });
    let downwards = tokio::spawn(async move {
        for _ in 0..WRITES {
            duties::note(other.home(), "host 2", &down).await?;
        }
        anyhow::Ok(())
    });
    upwards.await??;
    downwards.await??;

    let (_, after) = duties::list(world.cell.home()).await?;
    assert_eq!(after.len(), 3, "one row for a duty: {after:?}");
    Ok(())
}
