//! Business keys: an effect happens once per key, whichever run or flow comes first.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_engine::Settlement;
use semel_model::named_effect::{EffectName, EffectScope};
use semel_model::run::RunState;
use semel_model::{EffectId, Fingerprint, NamedEffectId, NamedEffectState, RunId, Span};
use semel_store::named_effects::{
    self, EffectAction, HolderView, NamedBegin, NamedEffectView, NamedHolder,
};
use semel_store::runs::RunSnapshot;
use semel_store::{clock, duplicates, effects, journal, queue, runs};
use semel_testkit::peer::Behaviour;

use crate::world::{World, soon};

const CHARGE: &str = "\x20 - id: charge\n    key: '\"charge:\" + input.order'\n    \
    scope: SCOPE\n    guard: review\n    \
    http: { post: 'PEER/plain/charges', json: { order: '${{ input.order }}', cents: '${{ input.cents }}' }, timeout: 2s }\n    \
    external_id: result.id\n";

async fn publish(world: &World, flow: &str, scope: &str, more: &str) -> Result<()> {
    let step = CHARGE.replace("SCOPE", scope);
    publish_steps(world, flow, &format!("{step}{more}")).await
}

async fn publish_steps(world: &World, flow: &str, steps: &str) -> Result<()> {
    let steps = steps.replace("PEER", &world.peer.url(""));
    world
        .publish_source(&format!(
            "flow: {flow}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n\
             retry: {{ attempts: 3, delay: 100ms, max_delay: 200ms, within: 1h }}\nsteps:\n{steps}"
        ))
        .await
}

async fn play(world: &World, flow: &str, payload: &str) -> Result<(RunId, RunSnapshot)> {
    let run = world.deliver_to(flow, payload).await?.run;
    Ok((run, end(world, run).await?))
}

async fn end(world: &World, run: RunId) -> Result<RunSnapshot> {
    let end = world.engine.await_end(run, Duration::from_secs(15)).await?;
    end.context("a run")
}

fn id_of(scope: &str, key: &str) -> Result<NamedEffectId> {
    let scope: EffectScope = scope.parse()?;
    let name = EffectName::new(scope, key.as_bytes())?;
    Ok(NamedEffectId::derive(&"default".parse()?, &name))
}

async fn named(world: &World, scope: &str, key: &str) -> Result<Option<NamedEffectView>> {
    let id = id_of(scope, key)?;
    let cell = world.engine.cell().of(id);
    Ok(named_effects::find(cell, world.namespace_id, id).await?)
}

/// Waits until a name is in a state; absent where that is none.
async fn becomes(world: &World, key: &str, state: Option<NamedEffectState>) -> Result<()> {
    soon(async || {
        let view = named(world, "shared", key).await?;
        Ok((view.map(|it| it.state) == state).then_some(()))
    })
    .await
    .with_context(|| format!("{key} does not become {state:?}"))
}

/// The journal of a run, as text.
async fn journal_of(world: &World, run: RunId) -> Result<String> {
    let cell = world.engine.cell();
    let found = runs::find_release(cell.of(run), world.namespace_id, run).await?;
    let (_, date) = found.context("a run")?;
    let rows = journal::read(cell.of(run), date, run).await?;
    Ok(rows.into_iter().map(|row| row.events).collect())
}

/// Waits until a run says that it waits for a name.
async fn waits(world: &World, run: RunId) -> Result<String> {
    soon(async || {
        let journal = journal_of(world, run).await?;
        Ok(journal.contains(r#""what":"waiting""#).then_some(journal))
    })
    .await
}

async fn keys(world: &World) -> Result<Vec<String>> {
    let seen = world.peer.effects().await?.into_iter();
    Ok(seen.filter_map(|effect| effect.key).collect())
}

const FIRST: &str = r#"{"id":"1","order":"o-1","cents":5}"#;
const SECOND: &str = r#"{"id":"2","order":"o-1","cents":5}"#;

#[tokio::test]
async fn two_runs_of_one_key_have_one_effect() -> Result<()> {
    let world = World::start().await?;
    let result = "result: steps.charge\n";
    publish(&world, "story", "step", result).await?;

    let (first, one) = play(&world, "story", FIRST).await?;
    let scope = "flow/story/charge";
    soon(async || {
        let view = named(&world, scope, "charge:o-1").await?;
        Ok(view.filter(|it| it.state == NamedEffectState::Done))
    })
    .await?;
    let (second, other) = play(&world, "story", SECOND).await?;

    assert_eq!(one.state, RunState::Succeeded, "{one:?}");
    assert_eq!(other.state, RunState::Succeeded, "{other:?}");
    assert_eq!(one.result, other.result, "result, external id and status");
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    let key = EffectId::named(id_of(scope, "charge:o-1")?, 0);
    assert_eq!(keys(&world).await?, [key.to_string()]);
    let journal = journal_of(&world, second).await?;
    assert!(journal.contains(&first.to_string()), "{journal}");
    let cell = world.engine.cell();
    let stopped = soon(async || {
        let of_run = duplicates::list_of_run(cell.of(first), world.namespace_id, first, 9);
        Ok(of_run.await?.into_iter().next())
    })
    .await?;
    assert_eq!(stopped.stopped_by, "ledger");
    Ok(())
}

#[tokio::test]
async fn two_flows_share_a_key_in_the_namespace_and_not_in_their_steps() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "one", "namespace", "").await?;
    publish(&world, "two", "namespace", "").await?;
    publish(&world, "three", "step", "").await?;

    let (_, one) = play(&world, "one", FIRST).await?;
    let (_, two) = play(&world, "two", FIRST).await?;
    let (_, three) = play(&world, "three", FIRST).await?;

    for end in [one, two, three] {
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    }
    assert_eq!(world.peer.count("/plain/").await?.calls, 2);
    Ok(())
}

#[tokio::test]
async fn a_run_waits_behind_the_holder_and_is_woken() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let hold = Behaviour::HoldBeforeAnswer;
    world.peer.next("/plain/", hold).await?;

    let first = world.deliver_to("story", FIRST).await?.run;
    world.peer.until_held(1, Duration::from_secs(10)).await?;
    let second = world.deliver_to("story", SECOND).await?.run;
    let journal = waits(&world, second).await?;
    world.peer.let_go().await?;
    let (one, two) = (end(&world, first).await?, end(&world, second).await?);

    assert!(journal.contains(&first.to_string()), "{journal}");
    assert_eq!(one.state, RunState::Succeeded, "{one:?}");
    assert_eq!(two.state, RunState::Succeeded, "{two:?}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn one_settlement_of_a_doubt_releases_both() -> Result<()> {
    let world = World::start().await?;
    publish(
        &world,
        "story",
        "namespace",
        "result: steps.charge.external_id\n",
    )
    .await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;

    let (first, doubt) = play(&world, "story", FIRST).await?;
    becomes(&world, "charge:o-1", Some(NamedEffectState::InDoubt)).await?;
    let second = world.deliver_to("story", SECOND).await?.run;
    waits(&world, second).await?;
    let cell = world.engine.cell();
    let doubts = effects::list_doubts(cell.every(), world.namespace_id, 10).await?;
    let settlement = Settlement::Happened {
        external_id: Some("ch_1".to_owned()),
        result: Some(serde_json::json!({ "id": "ch_1" })),
        reason: "seen".to_owned(),
    };
    world
        .engine
        .settle(world.namespace_id, doubts[0].id, settlement, "test")
        .await?;
    let (one, two) = (end(&world, first).await?, end(&world, second).await?);

    assert_eq!(doubt.state, RunState::InDoubt);
    assert_eq!(one.state, RunState::Succeeded, "{one:?}");
    assert_eq!(two.state, RunState::Succeeded, "{two:?}");
    assert_eq!(two.result.as_deref(), Some("\"ch_1\""));
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn what_failed_in_one_run_is_performed_by_another_under_the_same_key() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    world
        .peer
        .next("/plain/", Behaviour::RefuseWith(403))
        .await?;

    let (first, failed) = play(&world, "story", FIRST).await?;
    let (second, done) = play(&world, "story", SECOND).await?;
    becomes(&world, "charge:o-1", Some(NamedEffectState::Done)).await?;
    // The first run looks again before it sends.
    world
        .engine
        .resume(world.namespace_id, first, "again", "test")
        .await?;
    let resumed = end(&world, first).await?;

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    assert_eq!(done.state, RunState::Succeeded, "{done:?}");
    assert_eq!(resumed.state, RunState::Succeeded, "{resumed:?}");
    let key = EffectId::named(id_of("shared", "charge:o-1")?, 0);
    assert_eq!(keys(&world).await?, [key.to_string()]);
    let journal = journal_of(&world, first).await?;
    assert!(journal.contains(&second.to_string()), "{journal}");
    Ok(())
}

#[tokio::test]
async fn another_request_under_a_done_key_needs_review_or_is_accepted() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    publish(&world, "easy", "namespace", "    mismatch: accept\n").await?;
    let other = r#"{"id":"3","order":"o-1","cents":6}"#;

    play(&world, "story", FIRST).await?;
    let (_, review) = play(&world, "story", other).await?;
    let (_, accepted) = play(&world, "easy", other).await?;

    assert_eq!(review.state, RunState::NeedsReview, "{review:?}");
    let fault = review.fault.unwrap_or_default();
    for part in ["key-other-request", "\\\"cents\\\":5", "\\\"cents\\\":6"] {
        assert!(fault.contains(part), "{part}: {fault}");
    }
    assert_eq!(accepted.state, RunState::Succeeded, "{accepted:?}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn a_key_that_names_another_effect_fails_the_step() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let mail = "\x20 - id: told\n    key: '\"charge:\" + input.order'\n    scope: namespace\n    \
                emit: { event: order.charged, data: { id: 1 } }\n";
    publish_steps(&world, "other", mail).await?;

    play(&world, "story", FIRST).await?;
    becomes(&world, "charge:o-1", Some(NamedEffectState::Done)).await?;
    let (_, end) = play(&world, "other", FIRST).await?;

    assert_eq!(end.state, RunState::Failed, "{end:?}");
    let fault = end.fault.unwrap_or_default();
    assert!(fault.contains("key-names-other-effect"), "{fault}");
    Ok(())
}

#[tokio::test]
async fn a_run_that_is_cancelled_while_it_waits_leaves_the_key_to_others() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    play(&world, "story", FIRST).await?;
    let second = world.deliver_to("story", SECOND).await?.run;
    waits(&world, second).await?;

    let cell = world.engine.cell();
    queue::ask_cancel(cell.of(second), world.namespace_id, second).await?;
    let cancelled = end(&world, second).await?;

    assert_eq!(cancelled.state, RunState::Cancelled, "{cancelled:?}");
    let view = named(&world, "shared", "charge:o-1").await?;
    let view = view.context("a named effect")?;
    assert_eq!(
        view.state,
        NamedEffectState::InDoubt,
        "the first run's doubt stays"
    );
    assert!(!matches!(view.holder, HolderView::Run { run, .. } if run == second));
    Ok(())
}

#[tokio::test]
async fn what_was_undone_is_performed_again_under_the_next_key() -> Result<()> {
    let world = World::start().await?;
    let undo = "    undo: { http: { post: 'PEER/plain/refunds' } }\n";
    let fail = "\x20 - id: over\n    if: input.fails\n    fail: { code: over, message: 'no more' }\n\
                on_failure: undo\n";
    publish(&world, "story", "namespace", &format!("{undo}{fail}")).await?;

    let fails = r#"{"id":"1","order":"o-1","cents":5,"fails":true}"#;
    let (_, failed) = play(&world, "story", fails).await?;
    becomes(&world, "charge:o-1", None).await?;
    let again = r#"{"id":"2","order":"o-1","cents":5,"fails":false}"#;
    let (_, done) = play(&world, "story", again).await?;

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    assert_eq!(done.state, RunState::Succeeded, "{done:?}");
    let id = id_of("shared", "charge:o-1")?;
    let sent: Vec<String> = keys(&world).await?;
    for generation in [0, 1] {
        let key = EffectId::named(id, generation).to_string();
        assert!(sent.contains(&key), "{generation}: {sent:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_wait_behind_a_key_ends_with_the_time_of_its_retries() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let lost = Behaviour::CloseWithoutAnswer;
    world.peer.next("/plain/", lost).await?;
    let (first, _) = play(&world, "story", FIRST).await?;
    let second = world.deliver_to("story", SECOND).await?.run;
    waits(&world, second).await?;

    clock::move_ahead(world.engine.cell(), Duration::from_secs(7200)).await?;
    let stopped = soon(async || {
        let end = end(&world, second).await?;
        Ok((end.state == RunState::NeedsReview).then_some(end))
    })
    .await?;

    let fault = stopped.fault.unwrap_or_default();
    assert!(fault.contains("key-held"), "{fault}");
    assert!(fault.contains(&first.to_string()), "{fault}");
    Ok(())
}

#[tokio::test]
async fn an_effect_can_read_the_key_that_it_sends() -> Result<()> {
    let world = World::start().await?;
    let step = "\x20 - id: charge\n    key: '\"charge:\" + input.order'\n    guard: review\n    \
                http: { post: 'PEER/plain/charges/${{ effect.key }}' }\n\
                \x20 - id: plain\n    guard: review\n    \
                http: { post: 'PEER/plain/other/${{ effect.key }}' }\n";
    publish_steps(&world, "story", step).await?;

    let (run, end) = play(&world, "story", FIRST).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let named = EffectId::named(id_of("flow/story/charge", "charge:o-1")?, 0);
    let own = EffectId::derive(run, "plain", "", 0);
    for (path, key) in [("/plain/charges", named), ("/plain/other", own)] {
        let path = format!("{path}/{key}");
        assert_eq!(world.peer.count(&path).await?.calls, 1, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn a_hold_that_a_late_worker_began_for_an_ended_run_is_freed() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let (ended, _) = play(&world, "story", r#"{"id":"0","order":"o-0","cents":5}"#).await?;
    let id = id_of("shared", "charge:o-1")?;
    let late = NamedBegin {
        id,
        namespace_id: world.namespace_id,
        name: EffectName::new(EffectScope::Shared, *b"charge:o-1")?,
        action: EffectAction {
            kind: "http".to_owned(),
            destination: String::new(),
            method: "POST".to_owned(),
        },
        fingerprint: Fingerprint::of(&serde_json::json!(1)),
        holder: NamedHolder::Run {
            run: ended,
            step: "charge".to_owned(),
            item: String::new(),
            generation: 0,
        },
        keep: Span::from_secs(60),
    };
    named_effects::begin(world.engine.cell().of(id), &late).await?;
    let run = world.deliver_to("story", FIRST).await?.run;
    waits(&world, run).await?;

    clock::move_ahead(world.engine.cell(), Duration::from_secs(90)).await?;
    let end = end(&world, run).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/").await?.calls, 2);
    Ok(())
}
