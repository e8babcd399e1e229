//! What runs tell named effects: in order, under their token, and as often as necessary.

use anyhow::Result;
use semel_model::{NamedEffectState, RunId};
use semel_store::ReadError;
use semel_store::named_effects::{self, NamedBegin, NamedBegun, NamedReport, Reporter};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{Name, asking, done, run};
use crate::world::World;

/// Writes a notice of a run as its transition would.
pub(super) async fn note(
    name: &Name<'_>,
    number: u128,
    seq: i32,
    token: Option<i64>,
    what: &str,
) -> Result<()> {
    let values: [&(dyn ToSql + Sync); 5] = [
        &Uuid::from_u128(number),
        name.id.as_uuid(),
        &seq,
        &token,
        &what,
    ];
    let client = name.world.connect().await?;
    client
        .execute(
            "INSERT INTO named_effect_notices (run_id, effect_id, seq, namespace_id, step,
                 generation, token, outcome, result, external_id, status, fault, at, next_at)
             VALUES ($1, $2, $3, 1, 'charge', 0, $4, $5, '7', 'ch_7', 201, '{}', moment(),
                     moment() + interval '2 seconds')",
            &values,
        )
        .await?;
    Ok(())
}

/// Delivers everything that a run has to say, and says how many of it was recorded.
pub(super) async fn deliver(name: &Name<'_>, number: u128) -> Result<usize> {
    let (cell, run) = (&name.world.cell, RunId::from_uuid(Uuid::from_u128(number)));
    let mut recorded = 0;
    for due in named_effects::list_notices(cell.of(run), run, name.id).await? {
        let report = named_effects::deliver(name.cell(), &due).await?;
        recorded += usize::from(matches!(report, NamedReport::Recorded(_)));
        named_effects::remove_notice(cell.of(run), &due).await?;
    }
    Ok(recorded)
}

#[tokio::test]
async fn a_late_report_changes_nothing_of_a_newer_hold() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let first = name.first(run(1), "a").await?;
    note(&name, 1, 3, Some(first.token), "failed").await?;
    assert_eq!(deliver(&name, 1).await?, 1);
    let second = name.first(run(2), "a").await?;

    for what in ["failed", "in_doubt", "freed", "undone", "done"] {
        note(&name, 1, 4, Some(first.token), what).await?;
        assert_eq!(deliver(&name, 1).await?, 0, "{what}");
        assert_eq!(
            name.state().await?,
            Some(NamedEffectState::Pending),
            "{what}"
        );
    }
    assert!(second.token > first.token && second.key == first.key);
    Ok(())
}

#[tokio::test]
async fn notices_of_a_run_are_delivered_in_order_and_undone_is_the_next_generation() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let hold = name.first(run(1), "a").await?;
    note(&name, 1, 9, Some(hold.token), "undone").await?;
    note(&name, 1, 5, Some(hold.token), "done").await?;
    let late = {
        let run = RunId::from_uuid(Uuid::from_u128(1));
        named_effects::list_notices(world.cell.of(run), run, name.id).await?
    };

    assert_eq!(deliver(&name, 1).await?, 2);
    assert_eq!(name.state().await?, None);
    // A server that was paused says the first again.
    named_effects::deliver(name.cell(), &late[0]).await?;
    assert_eq!(name.state().await?, None);
    let next = name.first(run(2), "a").await?;

    assert_eq!((hold.generation, next.generation), (0, 1));
    assert_ne!(hold.key, next.key);
    Ok(())
}

#[tokio::test]
async fn a_hold_whose_token_its_run_does_not_know_is_freed_unless_it_is_newer() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    name.first(run(1), "a").await?;
    // The clock went back.
    let ahead = "UPDATE named_effects SET heartbeat_at = moment() + interval '1 hour'";
    world.connect().await?.execute(ahead, &[]).await?;
    note(&name, 1, 3, None, "freed").await?;
    let again = {
        let run = RunId::from_uuid(Uuid::from_u128(1));
        named_effects::list_notices(world.cell.of(run), run, name.id).await?
    };

    assert_eq!(deliver(&name, 1).await?, 1);
    assert_eq!(name.state().await?, None);
    // The run was resumed, the clock went back, and a server that was paused says the old again.
    let resumed = NamedBegin {
        seq: Some(4),
        ..asking("charge:o-1", run(1), "a")?
    };
    let begun = named_effects::begin(name.cell(), &resumed).await?;
    assert!(matches!(begun, NamedBegun::First(_)), "{begun:?}");
    let back = "UPDATE named_effects SET heartbeat_at = moment() - interval '1 hour'";
    world.connect().await?.execute(back, &[]).await?;
    let report = named_effects::deliver(name.cell(), &again[0]).await?;

    assert!(matches!(report, NamedReport::Late(_)), "{report:?}");
    assert_eq!(name.state().await?, Some(NamedEffectState::Pending));
    Ok(())
}

#[tokio::test]
async fn an_amended_result_is_reused_from_then_on() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let hold = name.first(run(1), "a").await?;
    named_effects::done(
        name.cell(),
        name.hold(hold.token, Reporter::Run),
        &done("x"),
    )
    .await?;
    note(&name, 1, 9, Some(hold.token), "amended").await?;

    assert_eq!(deliver(&name, 1).await?, 1);

    let NamedBegun::Done(view) = name.begin(run(2), "a").await? else {
        anyhow::bail!("not done");
    };
    assert_eq!(view.result, Some(serde_json::json!(7)));
    assert_eq!(view.external_id.as_deref(), Some("ch_7"));
    Ok(())
}

#[tokio::test]
async fn a_notice_with_a_word_of_a_later_build_frees_nothing() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let hold = name.first(run(1), "a").await?;
    let client = world.connect().await?;
    let constraint =
        "ALTER TABLE named_effect_notices DROP CONSTRAINT named_effect_notices_outcome_check";
    client.batch_execute(constraint).await?;
    note(&name, 1, 3, Some(hold.token), "transferred").await?;
    let run = RunId::from_uuid(Uuid::from_u128(1));

    let read = named_effects::list_notices(world.cell.of(run), run, name.id).await;

    let Err(ReadError::Unreadable(what)) = read else {
        anyhow::bail!("{read:?}");
    };
    assert!(what.contains("transferred"), "{what}");
    Ok(())
}

#[tokio::test]
async fn an_undelivered_notice_is_taken_ever_less_often() -> Result<()> {
    let world = World::start().await?;
    let name = Name::new(&world, "charge:o-1")?;
    let hold = name.first(run(1), "a").await?;
    note(&name, 1, 3, Some(hold.token), "done").await?;
    let mut taken = Vec::new();

    for _ in 0..20 {
        let overdue = named_effects::take_overdue_notices(&world.cell).await?;
        taken.extend(overdue.iter().map(|(_, _, tries)| *tries));
        name.pass(1).await?;
    }

    // After 2 s, then 1, 2, 4 and 8 s later.
    assert_eq!(taken, [1, 2, 3, 4, 5]);
    Ok(())
}
