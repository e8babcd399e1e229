//! Operators settle and correct the effect of a business key.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_engine::{Actor, Amendment, SettleError, Settlement};
use semel_model::run::RunState;
use semel_model::{EffectId, NamedEffectState, RunId};
use semel_store::named_effects::{self, HolderView};
use semel_store::overview::{self, WaitingKind};
use semel_store::{attention, effects};
use semel_testkit::peer::Behaviour;
use semel_testkit::{until, until_some};
use serde_json::{Value, json};

use super::waiting::waits;
use super::{CHARGE, FIRST, SECOND, becomes, end, id_of, named, play, publish, publish_steps};
use crate::history::{days_later, delete_old, left};
use crate::world::World;

/// The key that was sent for the first order.
pub(super) fn key_sent() -> Result<EffectId> {
    Ok(EffectId::named(id_of("shared", "charge:o-1")?, 0))
}

pub(super) fn happened(result: Option<Value>) -> Settlement {
    Settlement::Happened {
        external_id: Some("ch_1".to_owned()),
        result,
        reason: "seen".to_owned(),
    }
}

fn denied() -> Settlement {
    Settlement::DidNotHappen {
        reason: "not there".to_owned(),
    }
}

pub(super) async fn settle(
    world: &World,
    effect: EffectId,
    settlement: Settlement,
) -> Result<(), SettleError> {
    let engine = &world.engine;
    engine
        .settle(world.namespace_id, effect, settlement, "test")
        .await
}

/// A run that failed because an operator gave its doubt up: the key is in doubt.
pub(super) async fn given_up(world: &World) -> Result<RunId> {
    let (run, doubt) = play(world, "story", FIRST).await?;
    anyhow::ensure!(doubt.state == RunState::InDoubt, "{doubt:?}");
    let cell = world.engine.cell();
    let doubts = effects::list_doubts(cell.every(), world.namespace_id, None, 10)
        .await?
        .items;
    let fail = Settlement::Fail {
        reason: "gone".to_owned(),
    };
    settle(world, doubts[0].id, fail).await?;
    let look = async || end(world, run).await;
    until("the run to fail", look, |end| end.state == RunState::Failed).await?;
    becomes(world, "charge:o-1", Some(NamedEffectState::InDoubt)).await?;
    Ok(run)
}

async fn world_in_doubt() -> Result<World> {
    let world = World::start().await?;
    let result = "result: steps.charge.external_id\n";
    publish(&world, "story", "namespace", result).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    Ok(world)
}

#[tokio::test]
async fn a_doubt_whose_run_has_ended_is_settled_by_the_key_that_was_sent() -> Result<()> {
    let world = world_in_doubt().await?;
    given_up(&world).await?;
    let second = world.deliver_to("story", SECOND).await?.run;
    waits(&world, second).await?;
    let key = key_sent()?;

    let bare = settle(&world, key, happened(None)).await;
    let early = settle(&world, key, denied()).await;
    for _ in 0..2 {
        settle(&world, key, happened(Some(json!({ "id": "ch_1" })))).await?;
    }
    let reused = end(&world, second).await?;
    let contrary = settle(&world, key, denied()).await;

    assert!(
        matches!(bare, Err(SettleError::ResultNeeded(_))),
        "{bare:?}"
    );
    assert!(
        matches!(early, Err(SettleError::TooSoon { .. })),
        "{early:?}"
    );
    assert_eq!(reused.state, RunState::Succeeded, "{reused:?}");
    assert_eq!(reused.result.as_deref(), Some("\"ch_1\""));
    assert!(contrary.is_err());
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    let client = world.engine.cell().reader().await?;
    let acts = "SELECT count(*) FROM audit WHERE subject = $1";
    let acts: i64 = client.query_one(acts, &[&key.to_string()]).await?.get(0);
    assert_eq!(acts, 1);
    Ok(())
}

#[tokio::test]
async fn a_key_in_doubt_at_which_no_run_stands_is_listed_until_it_is_settled() -> Result<()> {
    let world = world_in_doubt().await?;
    let (cell, id) = (world.engine.cell(), world.namespace_id);
    let keys = async || named_effects::list_doubts(cell.every(), id, None, 10).await;
    let run = given_up(&world).await?;

    let listed = keys().await?.items;
    let differences = world.attention().await?;
    let (waiting, _) = overview::get_overview(cell.every(), id).await?;
    let doubts = waiting.iter().find(|it| it.what == WaitingKind::Doubt);
    settle(&world, key_sent()?, happened(Some(json!({ "id": "ch_1" })))).await?;

    let holders: Vec<_> = listed.into_iter().map(|it| it.holder).collect();
    let is_own = |it: &HolderView| matches!(it, HolderView::Run { run: of, .. } if *of == run);
    assert!(
        matches!(&holders[..], [holder] if is_own(holder)),
        "{holders:?}"
    );
    assert_eq!(differences, Vec::<String>::new());
    assert_eq!(doubts.map(|it| it.count), Some(1));
    assert!(keys().await?.items.is_empty());
    assert_eq!(world.attention().await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_key_in_doubt_is_listed_while_its_run_stands_at_the_doubt_of_another_step() -> Result<()>
{
    let world = World::start().await?;
    let reserve = "\x20 - id: reserve\n    http: { post: 'PEER/plain/reserve', json: 1 }\n    \
        undo: { http: { post: 'PEER/plain/back' } }\n";
    let charge = CHARGE.replace("SCOPE", "namespace");
    let steps = format!("{reserve}{charge}on_failure: undo\n");
    publish_steps(&world, "story", &steps).await?;
    for path in ["/plain/charges", "/plain/back"] {
        let lost = Behaviour::CloseWithoutAnswer;
        world.peer.next(path, lost).await?;
    }
    let (cell, id) = (world.engine.cell(), world.namespace_id);
    let doubts = async || effects::list_doubts(cell.every(), id, None, 10).await;
    let keys = async || named_effects::list_doubts(cell.every(), id, None, 10).await;
    let (run, _) = play(&world, "story", FIRST).await?;
    becomes(&world, "charge:o-1", Some(NamedEffectState::InDoubt)).await?;

    let while_it_stands = keys().await?.items;
    let fail = Settlement::Fail {
        reason: "gone".to_owned(),
    };
    settle(&world, EffectId::derive(run, "charge", "", 0), fail).await?;
    let of_undo = async || Ok(doubts().await?.items);
    until("the doubt of the undo", of_undo, |seen| {
        seen.iter().any(|it| it.step.as_str() == "reserve.undo")
    })
    .await?;
    let listed = keys().await?.items;
    let (waiting, _) = overview::get_overview(cell.every(), id).await?;
    let counted = waiting.iter().find(|it| it.what == WaitingKind::Doubt);

    assert!(while_it_stands.is_empty(), "{while_it_stands:?}");
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(counted.map(|it| it.count), Some(2));
    assert_eq!(attention::count_doubts(cell.every()).await?, 2);
    Ok(())
}

#[tokio::test]
async fn a_key_in_doubt_keeps_the_history_of_the_run_that_holds_it() -> Result<()> {
    let world = world_in_doubt().await?;
    let first = given_up(&world).await?;

    days_later(&world, 400).await?;
    delete_old(&world, 0).await?;
    let kept = left(&world, first).await?;
    let again = world.deliver_to("story", FIRST).await?.run;
    waits(&world, again).await?;
    settle(&world, key_sent()?, happened(Some(json!({ "id": "ch_1" })))).await?;
    let reused = end(&world, again).await?;
    days_later(&world, 400).await?;
    delete_old(&world, 2).await?;

    assert!(kept.iter().any(|(table, _)| *table == "runs"), "{kept:?}");
    assert_ne!(again, first, "the runs of the key go on counting");
    assert_eq!(reused.state, RunState::Succeeded, "{reused:?}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    assert_eq!(left(&world, first).await?, [], "what is known may go");
    Ok(())
}

#[tokio::test]
async fn what_did_not_happen_in_an_ended_run_is_performed_by_the_next() -> Result<()> {
    let world = world_in_doubt().await?;
    given_up(&world).await?;
    let second = world.deliver_to("story", SECOND).await?.run;
    waits(&world, second).await?;

    world.move_clock(Duration::from_secs(600)).await?;
    let deny = async || -> Result<Option<()>> {
        match settle(&world, key_sent()?, denied()).await {
            Ok(()) => Ok(Some(())),
            Err(SettleError::TooSoon { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    until_some("a denial that is in time", deny).await?;
    let performed = end(&world, second).await?;

    assert_eq!(performed.state, RunState::Succeeded, "{performed:?}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 2);
    Ok(())
}

#[tokio::test]
async fn a_run_that_stands_at_its_doubt_is_settled_by_the_key_that_was_sent() -> Result<()> {
    let world = world_in_doubt().await?;
    let (run, doubt) = play(&world, "story", FIRST).await?;

    settle(&world, key_sent()?, happened(Some(json!({ "id": "ch_1" })))).await?;
    let end = end(&world, run).await?;

    assert_eq!(doubt.state, RunState::InDoubt, "{doubt:?}");
    assert_eq!(end.state, RunState::Succeeded, "the run says so itself");
    becomes(&world, "charge:o-1", Some(NamedEffectState::Done)).await
}

#[tokio::test]
async fn an_amended_result_reaches_the_other_runs_of_its_key() -> Result<()> {
    let world = World::start().await?;
    let over = "\x20 - { id: over, fail: { code: over, message: 'no more' } }\n";
    publish(&world, "story", "namespace", over).await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    let (run, _) = play(&world, "story", FIRST).await?;
    let wrong = happened(Some(json!({ "id": "wrong" })));
    settle(&world, key_sent()?, wrong).await?;
    end(&world, run).await?;
    becomes(&world, "charge:o-1", Some(NamedEffectState::Done)).await?;
    let own = EffectId::derive(run, "charge", "", 0);

    let amendment = Amendment {
        external_id: Some("ch_2".to_owned()),
        result: json!({ "id": "right" }),
        reason: "misread".to_owned(),
    };
    let by = Actor {
        namespace_id: world.namespace_id,
        actor: "test",
    };
    world.engine.amend(by, own, &amendment).await?;

    let view = named(&world, "shared", "charge:o-1").await?;
    let view = view.context("a named effect")?;
    assert_eq!(view.result, Some(json!({ "id": "right" })));
    assert_eq!(view.external_id.as_deref(), Some("ch_2"));
    Ok(())
}
