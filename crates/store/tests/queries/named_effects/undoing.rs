//! Undoing a named effect: who asks meanwhile, and what others reused.

use anyhow::{Result, bail};
use semel_model::{NamedEffectState, RunId};
use semel_store::named_effects::{
    self, NamedBegun, NamedSettlement, Reporter, UndoBegin, UndoBegun,
};
use uuid::Uuid;

use super::notices::{deliver, note};
use super::{Name, done, run};
use crate::world::World;

/// A name that a run holds, and has performed.
async fn performed(world: &World, number: u128) -> Result<(Name<'_>, i64)> {
    let name = Name::new(world, "charge:o-1")?;
    let token = name.first(run(number), "a").await?.token;
    let hold = name.hold(token, Reporter::Run);
    named_effects::done(name.cell(), hold, &done("x")).await?;
    Ok((name, token))
}

async fn begin(name: &Name<'_>, token: i64, seq: i32, always: bool) -> Result<UndoBegun> {
    begin_by(name, token, (1, seq), always).await
}

async fn begin_by(
    name: &Name<'_>,
    token: i64,
    (number, seq): (u128, i32),
    always: bool,
) -> Result<UndoBegun> {
    let asked = UndoBegin {
        namespace_id: super::NAMESPACE,
        id: name.id,
        token,
        run: RunId::from_uuid(Uuid::from_u128(number)),
        seq,
        always,
    };
    Ok(named_effects::begin_undo(name.cell(), asked).await?)
}

#[tokio::test]
async fn whoever_asks_for_an_effect_that_is_being_undone_waits() -> Result<()> {
    let world = World::start().await?;
    let (name, token) = performed(&world, 1).await?;

    for _ in 0..2 {
        assert_eq!(begin(&name, token, 5, false).await?, UndoBegun::Begun);
    }
    let asked = name.begin(run(2), "a").await?;
    note(&name, 1, 7, Some(token), "undone").await?;
    let told = deliver(&name, 1).await?;
    let next = name.first(run(2), "a").await?;

    assert!(matches!(asked, NamedBegun::Held(_)), "{asked:?}");
    assert_eq!((told, next.generation), (1, 1));
    Ok(())
}

#[tokio::test]
async fn what_other_runs_reused_is_undone_only_where_that_is_accepted() -> Result<()> {
    let world = World::start().await?;
    let (name, token) = performed(&world, 1).await?;

    // The run itself, another one twice, and one with another request.
    for (number, request) in [(1, "a"), (2, "a"), (2, "a"), (3, "b")] {
        let begun = name.begin(run(number), request).await?;
        assert!(matches!(begun, NamedBegun::Done(_)), "{begun:?}");
    }
    let asked = begin(&name, token, 5, false).await?;
    let state = name.state().await?;
    let accepted = begin(&name, token, 5, true).await?;

    let by = vec![RunId::from_uuid(Uuid::from_u128(2))];
    assert_eq!(asked, UndoBegun::Shared { count: 1, by });
    assert_eq!(state, Some(NamedEffectState::Done));
    assert_eq!(accepted, UndoBegun::Begun);
    Ok(())
}

#[tokio::test]
async fn an_effect_whose_undo_did_not_happen_is_reused_again() -> Result<()> {
    let world = World::start().await?;
    let (name, token) = performed(&world, 1).await?;
    begin(&name, token, 5, false).await?;
    note(&name, 1, 7, Some(token), "kept").await?;
    let run_id = RunId::from_uuid(Uuid::from_u128(1));
    let again = named_effects::list_notices(world.cell.of(run_id), run_id, name.id).await?;

    assert_eq!(deliver(&name, 1).await?, 1);
    assert_eq!(name.state().await?, Some(NamedEffectState::Done));
    // A server that was paused says of the first undo what is no news of the second.
    assert_eq!(begin(&name, token, 9, false).await?, UndoBegun::Begun);
    named_effects::deliver(name.cell(), &again[0]).await?;
    assert_eq!(name.state().await?, Some(NamedEffectState::Undoing));
    Ok(())
}

#[tokio::test]
async fn what_may_be_undone_is_in_doubt_and_begins_anew_under_another_key_once_it_is_gone()
-> Result<()> {
    let world = World::start().await?;
    let (name, token) = performed(&world, 1).await?;
    begin(&name, token, 5, false).await?;
    note(&name, 1, 7, Some(token), "undo_in_doubt").await?;

    assert_eq!(deliver(&name, 1).await?, 1);
    let asked = name.begin(run(2), "a").await?;
    name.settle(token, NamedSettlement::DidNotHappen).await?;
    let next = name.first(run(2), "a").await?;

    assert!(matches!(asked, NamedBegun::InDoubt(_)), "{asked:?}");
    assert_eq!(next.generation, 1);
    Ok(())
}

#[tokio::test]
async fn an_undo_that_a_late_worker_began_for_an_ended_run_leaves_the_effect_done() -> Result<()> {
    let world = World::start().await?;
    let (name, token) = performed(&world, 1).await?;
    begin(&name, token, 5, false).await?;
    name.pass(61).await?;

    let holds = named_effects::list_old_holds(world.cell.every(), None).await?;
    let [hold] = holds.as_slice() else {
        bail!("{holds:?}");
    };
    named_effects::free_old_hold(name.cell(), hold).await?;

    assert_eq!(name.state().await?, Some(NamedEffectState::Done));
    Ok(())
}

#[tokio::test]
async fn what_a_later_run_of_the_key_undoes_is_held_by_that_run() -> Result<()> {
    let world = World::start().await?;
    let (name, token) = performed(&world, 1).await?;
    begin(&name, token, 5, false).await?;
    note(&name, 1, 7, Some(token), "kept").await?;
    let first = RunId::from_uuid(Uuid::from_u128(1));
    let said = named_effects::list_notices(world.cell.of(first), first, name.id).await?;
    assert_eq!(deliver(&name, 1).await?, 1);

    begin_by(&name, token, (4, 3), false).await?;
    // What a server that was paused says of the first run's undo is no news of this one.
    named_effects::deliver(name.cell(), &said[0]).await?;
    let state = name.state().await?;
    name.pass(61).await?;
    let holds = named_effects::list_old_holds(world.cell.every(), None).await?;

    assert_eq!(state, Some(NamedEffectState::Undoing));
    let runs: Vec<RunId> = holds.iter().map(|hold| hold.run).collect();
    assert_eq!(runs, [RunId::from_uuid(Uuid::from_u128(4))]);
    Ok(())
}
