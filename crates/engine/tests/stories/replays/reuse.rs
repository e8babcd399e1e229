//! What a replay keeps of people's decisions, and does again of what was undone.

use anyhow::Result;
use semel_engine::ReplayWish;
use semel_model::EffectId;
use semel_model::run::RunState;
use semel_testkit::patience;

use super::{post, preview, publish, refuse, replay, words};
use crate::approvals::{decide, open_approval, token};
use crate::world::World;

#[tokio::test]
async fn three_undone_steps_are_performed_again_under_new_keys() -> Result<()> {
    let world = World::start().await?;
    let undone = |step: &str| {
        let undo =
            format!("\x20   undo: {{ http: {{ put: 'PEER/put/no-{step}', json: {{}} }} }}\n");
        format!("{}{undo}", post(step, "n: 1"))
    };
    let steps: Vec<String> = ["a", "b", "c"].map(undone).into_iter().collect();
    let steps = format!(
        "on_failure: undo\nsteps:\n{}{}",
        steps.concat(),
        post("d", "n: 1")
    );
    world.publish(&steps).await?;
    refuse(&world, "/plain/d").await?;
    let (run, failed) = world.play(r#"{"id":"o-1"}"#).await?;

    let shown = preview(&world, run.run, &ReplayWish::default()).await?;
    let (_, end) = replay(&world, run.run, &ReplayWish::default()).await?;

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    assert_eq!(
        words(&shown),
        ["a performed", "b performed", "c performed", "d performed"]
    );
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let sent = world.peer.effects().await?;
    for step in ["a", "b", "c"] {
        let at = format!("/plain/{step}");
        let keys = sent.iter().filter(|it| it.path == at);
        let keys: Vec<_> = keys.filter_map(|it| it.key.clone()).collect();
        let key = |generation| EffectId::derive(run.run, step, "", generation).to_string();
        assert_eq!(keys, [key(0), key(1)]);
        let undone = world.peer.count(&format!("/put/no-{step}")).await?;
        assert_eq!(undone.calls, 1, "{step}");
    }
    Ok(())
}

#[tokio::test]
async fn an_approval_is_reused_while_it_shows_the_same() -> Result<()> {
    let world = World::start().await?;
    let sign = |amount: u32| {
        format!(
            "\x20 - id: sign\n    approval: {{ from: [ada], show: {{ amount: {amount} }}, within: 1d }}\n"
        )
    };
    publish(&world, &[sign(5), post("pay", "n: 1")]).await?;
    refuse(&world, "/plain/pay").await?;
    let run = world.deliver(r#"{"id":"o-1"}"#).await?.run;
    let view = open_approval(&world, run).await?;
    decide(&world, &view, &token("ada", &[]), true).await?;
    super::end_of(&world, run).await?;

    let same = preview(&world, run, &ReplayWish::default()).await?;
    publish(&world, &[sign(7), post("pay", "n: 1")]).await?;
    let other = preview(&world, run, &ReplayWish::default()).await?;
    let on_the_first = ReplayWish {
        release: Some(1),
        ..ReplayWish::default()
    };
    let (_, end) = replay(&world, run, &on_the_first).await?;

    assert_eq!(words(&same), ["sign skipped", "pay performed"]);
    assert_eq!(words(&other), ["sign asks", "pay performed"]);
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/pay").await?.effects, 1);
    Ok(())
}

/// A done charge is not sent again, whatever business key its step has by now.
#[tokio::test]
async fn a_business_key_that_changed_repeats_nothing() -> Result<()> {
    let named = |key: &str| {
        let guard = format!("guard: review{key}");
        let charge = post("charge", "n: 1").replace("guard: review", &guard);
        [charge, post("ship", "n: 1")]
    };
    for (old, new) in [
        ("", "\n    key: input.id"),
        ("\n    key: input.id", ""),
        ("\n    key: input.id", "\n    key: '\"x\" + input.id'"),
        (
            "\n    key: input.id",
            "\n    key: input.id\n    scope: namespace",
        ),
    ] {
        let world = World::start().await?;
        publish(&world, &named(old)).await?;
        refuse(&world, "/plain/ship").await?;
        let (run, _) = world.play(r#"{"id":"o-1"}"#).await?;
        publish(&world, &named(new)).await?;

        let shown = preview(&world, run.run, &ReplayWish::default()).await?;
        let (_, end) = replay(&world, run.run, &ReplayWish::default()).await?;

        assert_eq!(words(&shown), ["charge skipped", "ship performed"]);
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
        let charges = world.peer.count("/plain/charge").await?;
        assert_eq!(charges.calls, 1, "{old:?} then {new:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_another_holder_did_is_remembered_beyond_its_business_key() -> Result<()> {
    let world = World::start().await?;
    let charge =
        post("charge", "n: 1").replace("guard: review", "guard: review\n    key: input.of");
    publish(&world, &[charge, post("ship", "n: 1")]).await?;
    world.play(r#"{"id":"o-1","of":"x"}"#).await?;
    refuse(&world, "/plain/ship").await?;
    let (met, _) = world.play(r#"{"id":"o-2","of":"x"}"#).await?;
    let client = world.database().connect().await?;
    let forget = "UPDATE named_effects SET expires_at = now() - interval '1 day'";
    client.batch_execute(forget).await?;

    let (_, end) = replay(&world, met.run, &ReplayWish::default()).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/charge").await?.calls, 1);
    Ok(())
}

/// A run that a gate ended before its first step does not cut its successor off from the ledger.
#[tokio::test]
async fn a_run_that_gave_way_leaves_the_ledger_to_the_next() -> Result<()> {
    let world = World::start().await?;
    let steps = [post("charge", "n: 1"), post("ship", "n: 1")].concat();
    let hold = "\x20 - id: hold\n    if: input.id == 'other'\n    http: { post: 'PEER/hold/plain/x', \
                json: {} }\n    guard: review\n";
    let overlap = "overlap: { key: input.object, policy: skip }\n";
    world
        .publish(&format!("{overlap}steps:\n{hold}{steps}"))
        .await?;
    refuse(&world, "/plain/ship").await?;
    let (first, failed) = world.play(r#"{"id":"o-1","object":"x"}"#).await?;
    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    let other = world.deliver(r#"{"id":"other","object":"x"}"#).await?.run;
    let patience = patience();
    world.peer.until_held(1, patience).await?;

    let (second, skipped) = replay(&world, first.run, &ReplayWish::default()).await?;
    world.peer.let_go().await?;
    super::end_of(&world, other).await?;
    let shown = preview(&world, second, &ReplayWish::default()).await?;
    let (_, end) = replay(&world, second, &ReplayWish::default()).await?;

    assert_ne!(skipped.state, RunState::Succeeded, "{skipped:?}");
    assert_eq!(words(&shown)[1..], ["charge skipped", "ship performed"]);
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let charges = world.peer.count("/plain/charge").await?;
    assert_eq!(charges.calls, 2, "one of each order");
    Ok(())
}
