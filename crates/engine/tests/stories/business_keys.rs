//! Business keys: an effect happens once per key, whichever run or flow comes first.

use anyhow::{Context, Result};
use semel_model::named_effect::{EffectName, EffectScope};
use semel_model::run::RunState;
use semel_model::storable::indexed;
use semel_model::{EffectId, NamedEffectId, NamedEffectState, RunId};
use semel_store::named_effects::{self, NamedEffectView};
use semel_store::runs::RunSnapshot;
use semel_store::{duplicates, effects, journal, runs};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until, until_some};

use crate::world::World;

mod freeing;
mod met;
mod settling;
mod undoing;
mod waiting;

const CHARGE: &str = "\x20 - id: charge\n    key: '\"charge:\" + input.order'\n    \
    scope: SCOPE\n    guard: review\n    \
    http: { post: 'PEER/plain/charges', json: { order: '${{ input.order }}', cents: '${{ input.cents }}' } }\n    \
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
    let end = world.engine.await_end(run, patience()).await?;
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
    let what = format!("{key} to become {state:?}");
    let look = async || Ok(named(world, "shared", key).await?.map(|it| it.state));
    until(&what, look, |seen| *seen == state).await?;
    Ok(())
}

/// The journal of a run, as text.
async fn journal_of(world: &World, run: RunId) -> Result<String> {
    let cell = world.engine.cell();
    let found = runs::find_release(cell.of(run), world.namespace_id, run).await?;
    let (_, date) = found.context("a run")?;
    let rows = journal::read(cell.of(run), date, run).await?;
    Ok(rows.into_iter().map(|row| row.events).collect())
}

async fn keys(world: &World) -> Result<Vec<String>> {
    let seen = world.peer.effects().await?.into_iter();
    Ok(seen.filter_map(|effect| effect.key).collect())
}

const FIRST: &str = r#"{"id":"1","order":"o-1","cents":5}"#;
const SECOND: &str = r#"{"id":"2","order":"o-1","cents":5}"#;

/// The run that performs it has the id as it came. A run that reuses the effect has it as a column
/// does.
#[tokio::test]
async fn an_external_id_with_a_zero_byte_is_recorded_under_a_business_key_and_the_effect_made_once()
-> Result<()> {
    let world = World::start().await?;
    let steps = "\x20 - id: charge\n    key: '\"charge:\" + input.order'\n    scope: namespace\n    \
        guard: key\n    http: { post: 'PEER/keyed/x', json: { a: 1 } }\n    \
        external_id: 'result.id + \"\\u0000\"'\nresult: steps.charge.external_id\n";
    publish_steps(&world, "zero", steps).await?;

    let (run, first) = play(&world, "zero", FIRST).await?;
    let (_, second) = play(&world, "zero", SECOND).await?;

    assert_eq!(first.state, RunState::Succeeded, "{first:?}");
    assert_eq!(second.state, RunState::Succeeded, "{second:?}");
    assert_eq!(world.peer.count("/keyed/").await?.calls, 1);
    let whole: String = serde_json::from_str(&first.result.unwrap_or_default())?;
    let reused: String = serde_json::from_str(&second.result.unwrap_or_default())?;
    assert!(whole.ends_with('\0'), "{whole:?}");
    assert_eq!(reused, indexed(&whole));
    let cell = world.engine.cell().every();
    let found = effects::list_of_external_id(cell, world.namespace_id, &whole, None, None, 10);
    let found = found.await?.items;
    assert!(found.iter().any(|effect| effect.run == run), "{found:?}");
    Ok(())
}

#[tokio::test]
async fn two_runs_of_one_key_have_one_effect() -> Result<()> {
    let world = World::start().await?;
    let result = "result: steps.charge\n";
    publish(&world, "story", "step", result).await?;

    let (first, one) = play(&world, "story", FIRST).await?;
    let scope = "flow/story/charge";
    let look = async || named(&world, scope, "charge:o-1").await;
    until("the key to be done", look, |view| {
        let done = NamedEffectState::Done;
        view.as_ref().is_some_and(|it| it.state == done)
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
    let stopped = until_some("a repeat that was stopped", async || {
        let id = world.namespace_id;
        let of_run = duplicates::list_of_run(cell.of(first), id, first, None, 9, true);
        Ok(of_run.await?.0.into_iter().next())
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
async fn a_key_has_no_end_where_what_its_step_made_remembers_it_for_ever() -> Result<()> {
    let world = World::start().await?;
    publish(&world, "story", "namespace", "").await?;
    let tell = "\x20 - id: tell\n    key: '\"tell:\" + input.order'\n    scope: namespace\n    \
                emit: { event: order.charged, data: { id: 1 } }\n";
    publish_steps(&world, "telling", tell).await?;

    play(&world, "story", FIRST).await?;
    play(&world, "telling", SECOND).await?;

    let client = world.database().connect().await?;
    let text = "SELECT convert_from(key, 'UTF8'), endless FROM named_effects ORDER BY key";
    let rows = client.query(text, &[]).await?;
    let found: Vec<(String, bool)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [("charge:o-1", false), ("tell:o-1", true)];
    assert_eq!(
        found,
        expected.map(|(key, endless)| (key.to_owned(), endless))
    );
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
