//! Replay: the next run of a key, behind the ledger of the last one, on another release.

use anyhow::{Context, Result};
use semel_engine::{ReplayError, ReplayWish};
use semel_model::replay::{Forecast, ReplayPreview};
use semel_model::run::RunState;
use semel_model::{EffectId, RunId};
use semel_store::runs::{self, RunSnapshot};
use semel_testkit::peer::Behaviour;
use semel_testkit::{patience, until, until_some};
use serde_json::json;

use crate::world::World;

mod resumed;
mod reuse;
mod undone;

pub(crate) fn post(step: &str, body: &str) -> String {
    format!(
        "\x20 - id: {step}\n    guard: review\n    \
         http: {{ post: 'PEER/plain/{step}', json: {{ {body} }} }}\n    external_id: result.id\n"
    )
}

pub(crate) async fn publish(world: &World, steps: &[String]) -> Result<()> {
    world.publish(&format!("steps:\n{}", steps.concat())).await
}

pub(crate) async fn refuse(world: &World, path: &str) -> Result<()> {
    world.peer.next(path, Behaviour::RefuseWith(403)).await?;
    Ok(())
}

async fn preview(world: &World, run: RunId, wish: &ReplayWish) -> Result<ReplayPreview> {
    let preview = world.engine.preview_replay(world.namespace_id, run, wish);
    Ok(preview.await?)
}

async fn apply(
    world: &World,
    run: RunId,
    wish: &ReplayWish,
    digest: &str,
) -> Result<RunId, ReplayError> {
    let asked = (digest, Some("fixed"));
    world
        .engine
        .replay(world.namespace_id, run, wish, asked, "test")
        .await
}

async fn end_of(world: &World, run: RunId) -> Result<RunSnapshot> {
    let end = world.engine.await_end(run, patience()).await?;
    end.context("a run")
}

/// Previews a replay, carries it out, and waits for the end of the next run.
async fn replay(world: &World, run: RunId, wish: &ReplayWish) -> Result<(RunId, RunSnapshot)> {
    let digest = preview(world, run, wish).await?.digest;
    let next = apply(world, run, wish, &digest).await?;
    Ok((next, end_of(world, next).await?))
}

fn words(preview: &ReplayPreview) -> Vec<String> {
    let word = |forecast: &Forecast| {
        let value = serde_json::to_value(forecast).unwrap_or_default();
        value["forecast"].as_str().unwrap_or("?").to_owned()
    };
    let steps = preview.steps.iter();
    steps
        .map(|it| format!("{} {}", it.step, word(&it.forecast)))
        .collect()
}

#[tokio::test]
async fn a_fixed_release_continues_twenty_failed_runs_and_repeats_nothing() -> Result<()> {
    let world = World::start().await?;
    let head = ["a", "b", "c"].map(|step| post(step, "id: '${{ input.id }}'"));
    let tail = post("e", "d: '${{ steps.d.external_id }}'");
    let flow = |bug: &str| [&head[..], &[post("d", bug), tail.clone()]].concat();
    publish(&world, &flow("amount: '${{ input.id }}'")).await?;
    let mut failed = Vec::new();
    for number in 0..20 {
        refuse(&world, "/plain/d").await?;
        let (run, end) = world.play(&format!(r#"{{"id":"o-{number}"}}"#)).await?;
        assert_eq!(end.state, RunState::Failed, "{end:?}");
        failed.push(run.run);
    }
    publish(&world, &flow("amount: 7")).await?;

    for run in &failed {
        let wish = ReplayWish::default();
        let shown = preview(&world, *run, &wish).await?;
        assert_eq!(
            words(&shown),
            [
                "a skipped",
                "b skipped",
                "c skipped",
                "d performed",
                "e unknown"
            ]
        );
        let (next, end) = replay(&world, *run, &wish).await?;
        assert_ne!(next, *run);
        assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    }

    for step in ["a", "b", "c", "e"] {
        let path = format!("/plain/{step}");
        assert_eq!(world.peer.count(&path).await?.calls, 20, "{step}");
    }
    let sent = world.peer.effects().await?;
    for run in failed {
        // The destination may have stored its refusal under the first key.
        let key = EffectId::derive(run, "d", "", 1).to_string();
        let under = sent.iter().filter(|it| it.key.as_ref() == Some(&key));
        assert_eq!(under.count(), 1, "{run}");
    }
    Ok(())
}

#[tokio::test]
async fn a_preview_knows_what_is_done_under_a_business_key() -> Result<()> {
    let world = World::start().await?;
    let charge =
        post("charge", "n: 1").replace("guard: review", "guard: review\n    key: input.of");
    let ship = post("ship", "charge: '${{ steps.charge.external_id }}'");
    publish(&world, &[charge, ship]).await?;
    world.play(r#"{"id":"o-1","of":"x"}"#).await?;
    refuse(&world, "/plain/ship").await?;
    let (met, _) = world.play(r#"{"id":"o-2","of":"x"}"#).await?;
    refuse(&world, "/plain/charge").await?;
    let (failed, _) = world.play(r#"{"id":"o-3","of":"y"}"#).await?;

    let done = preview(&world, met.run, &ReplayWish::default()).await?;
    let free = preview(&world, failed.run, &ReplayWish::default()).await?;
    let (_, end) = replay(&world, met.run, &ReplayWish::default()).await?;

    assert_eq!(words(&done), ["charge skipped", "ship performed"]);
    assert_eq!(words(&free), ["charge performed", "ship unknown"]);
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/charge").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_renamed_step_is_named_and_would_run() -> Result<()> {
    let world = World::start().await?;
    let ship = post("ship", "n: 1");
    publish(&world, &[post("charge", "n: 1"), ship.clone()]).await?;
    refuse(&world, "/plain/ship").await?;
    let (run, _) = world.play(r#"{"id":"o-1"}"#).await?;

    publish(&world, &[post("pay", "n: 1"), ship]).await?;
    let shown = preview(&world, run.run, &ReplayWish::default()).await?;

    assert_eq!(
        shown.notes,
        ["`charge` of r1 is done; r2 has no step `charge` and `pay` is new: it would run."]
    );
    assert_eq!(words(&shown), ["pay performed", "ship performed"]);
    Ok(())
}

#[tokio::test]
async fn a_changed_amount_is_shown_and_stops_the_replay_until_it_is_accepted() -> Result<()> {
    let world = World::start().await?;
    let ship = post("ship", "n: 1");
    publish(&world, &[post("charge", "amount: 5"), ship.clone()]).await?;
    refuse(&world, "/plain/ship").await?;
    let (run, _) = world.play(r#"{"id":"o-1"}"#).await?;
    publish(&world, &[post("charge", "amount: 7"), ship]).await?;

    let wish = ReplayWish::default();
    let shown = preview(&world, run.run, &wish).await?;
    let refused = apply(&world, run.run, &wish, &shown.digest).await;
    let wish = ReplayWish {
        accepts: vec!["charge".to_owned()],
        ..wish
    };
    let stale = apply(&world, run.run, &wish, &shown.digest).await;
    let (_, end) = replay(&world, run.run, &wish).await?;

    let Forecast::Changed { fields, .. } = &shown.steps[0].forecast else {
        panic!("{shown:?}");
    };
    let fields = serde_json::to_value(fields)?.to_string();
    assert!(
        fields.contains(r#""old":5"#) && fields.contains(r#""new":7"#),
        "{fields}"
    );
    assert!(
        matches!(&refused, Err(error) if error.code() == "effect-changed"),
        "{refused:?}"
    );
    assert!(matches!(stale, Err(ReplayError::Changed)), "{stale:?}");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/charge").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn two_replays_at_once_and_a_repeat_make_one_run() -> Result<()> {
    let world = World::start().await?;
    publish(&world, &[post("charge", "n: 1"), post("ship", "n: 1")]).await?;
    refuse(&world, "/plain/ship").await?;
    let (run, _) = world.play(r#"{"id":"o-1"}"#).await?;
    let wish = ReplayWish::default();
    let digest = preview(&world, run.run, &wish).await?.digest;

    let both = futures_util::future::join(
        apply(&world, run.run, &wish, &digest),
        apply(&world, run.run, &wish, &digest),
    );
    let (one, other) = both.await;
    let again = apply(&world, run.run, &wish, &digest).await?;

    assert_eq!(one?, again);
    assert_eq!(other?, again);
    assert_eq!(end_of(&world, again).await?.state, RunState::Succeeded);
    assert_eq!(world.peer.count("/plain/charge").await?.calls, 1);
    assert_eq!(world.peer.count("/plain/ship").await?.calls, 2);
    // The claim keeps the first delivery's fingerprint: its repeat is a repeat.
    let repeat = world.deliver(r#"{"id":"o-1"}"#).await?;
    assert!(repeat.replayed && repeat.run == again, "{repeat:?}");
    Ok(())
}

#[tokio::test]
async fn a_run_that_needs_review_is_superseded_by_the_commit_that_replays_it() -> Result<()> {
    let world = World::start().await?;
    publish(&world, &[post("charge", "n: 1"), post("ship", "n: 1")]).await?;
    for _ in 0..3 {
        let busy = Behaviour::RefuseWith(429);
        world.peer.next("/plain/ship", busy).await?;
    }
    let run = world.deliver(r#"{"id":"o-1"}"#).await?.run;
    let cell = world.engine.cell();
    let seen = async || Ok(runs::find_snapshot(cell.of(run), run).await?);
    until("the run to need review", seen, |seen| {
        seen.as_ref()
            .is_some_and(|it| it.state == RunState::NeedsReview)
    })
    .await?;

    let (next, end) = replay(&world, run, &ReplayWish::default()).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let old = runs::find_snapshot(cell.of(run), run).await?;
    let old = old.context("the last run")?;
    assert_eq!(old.state, RunState::Superseded);
    let fault = old.fault.context("a fault")?;
    assert!(fault.contains(&next.to_string()), "{fault}");
    assert_eq!(world.peer.count("/plain/charge").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn reads_before_the_first_step_that_is_not_done_keep_their_results() -> Result<()> {
    let world = World::start().await?;
    let read = "\x20 - id: look\n    http: { get: 'PEER/plain/look' }\n".to_owned();
    publish(
        &world,
        &[read, post("charge", "n: 1"), post("ship", "n: 1")],
    )
    .await?;
    refuse(&world, "/plain/ship").await?;
    let (run, failed) = world.play(r#"{"id":"o-1"}"#).await?;
    assert_eq!(failed.state, RunState::Failed, "{failed:?}");

    let from_look = ReplayWish {
        from: Some("look".to_owned()),
        ..ReplayWish::default()
    };
    let again = preview(&world, run.run, &from_look).await?;
    let kept = preview(&world, run.run, &ReplayWish::default()).await?;
    let (_, end) = replay(&world, run.run, &ReplayWish::default()).await?;

    assert_eq!(again.steps[0].forecast, Forecast::Read);
    assert_eq!(kept.kept, ["look"]);
    assert_eq!(kept.from.as_deref(), Some("ship"));
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/look").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn another_input_must_have_the_key_of_the_run() -> Result<()> {
    let world = World::start().await?;
    publish(&world, &[post("ship", "to: '${{ input.to }}'")]).await?;
    refuse(&world, "/plain/ship").await?;
    let (run, _) = world.play(r#"{"id":"o-1","to":"nowhere"}"#).await?;
    let with = |input| ReplayWish {
        input: Some(input),
        ..ReplayWish::default()
    };

    let other = with(json!({ "id": "o-2", "to": "here" }));
    let other = world
        .engine
        .preview_replay(world.namespace_id, run.run, &other);
    let other = other.await;
    let (_, end) = replay(&world, run.run, &with(json!({ "id": "o-1", "to": "here" }))).await?;

    assert!(matches!(other, Err(ReplayError::Input(_))), "{other:?}");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    Ok(())
}

#[tokio::test]
async fn a_repeated_delivery_replays_a_failed_run_where_the_trigger_says_so() -> Result<()> {
    let world = World::start().await?;
    let flow = |body: &str| {
        let steps = [post("charge", "n: 1"), post("ship", body)].concat();
        format!(
            "flow: story\ntrigger:\n  webhook: {{ auth: none, key: input.id, on_repeat: replay }}\n\
             steps:\n{}",
            steps.replace("PEER", &world.peer.url(""))
        )
    };
    world.publish_source(&flow("n: 1")).await?;
    refuse(&world, "/plain/ship").await?;
    let (first, failed) = world.play(r#"{"id":"o-1"}"#).await?;
    world.publish_source(&flow("n: 2")).await?;

    let again = world.deliver(r#"{"id":"o-1"}"#).await?;
    let end = end_of(&world, again.run).await?;

    assert_eq!(failed.state, RunState::Failed, "{failed:?}");
    assert!(again.replayed && again.run != first.run, "{again:?}");
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(world.peer.count("/plain/charge").await?.calls, 1);
    Ok(())
}

#[tokio::test]
async fn a_replay_meets_the_called_run_the_event_and_the_old_callback() -> Result<()> {
    let world = World::start().await?;
    let called = "flow: called\ntrigger: { api: {} }\nsteps:\n  - id: pay\n    guard: review\n    \
        http: { post: 'PEER/plain/called', json: {} }\nresult: '7'\n";
    let heard = "flow: heard\ntrigger:\n  event: { name: order.seen, key: input.id }\nsteps:\n\
        \x20 - id: note\n    guard: review\n    http: { post: 'PEER/plain/heard', json: {} }\n";
    for source in [called, heard] {
        let source = source.replace("PEER", &world.peer.url(""));
        world.publish_source(&source).await?;
    }
    let around = "\x20 - { id: other, call: { flow: called, input: {} } }\n\
        \x20 - id: say\n    emit: { event: order.seen, data: { id: '${{ input.id }}' } }\n\
        \x20 - id: ask\n    guard: review\n    \
        http: { post: 'PEER/plain/asks', json: { url: '${{ waits.word.url }}' } }\n\
        \x20 - id: word\n    wait: { callback: true, within: 1h }\n";
    publish(&world, &[around.to_owned()]).await?;
    let first = world.deliver(r#"{"id":"o-1"}"#).await?.run;
    let token = until_some("the address of the wait", async || {
        let seen = world.peer.effects().await?;
        let Some(asked) = seen.iter().find(|it| it.path.starts_with("/plain/asks")) else {
            return Ok(None);
        };
        let body: serde_json::Value = serde_json::from_str(&asked.body)?;
        let url = body["url"].as_str().context("an address")?;
        Ok(url.rsplit('/').next().map(str::to_owned))
    })
    .await?;
    let cell = world.engine.cell();
    semel_store::queue::ask_cancel(cell.of(first), world.namespace_id, first).await?;
    end_of(&world, first).await?;

    let wish = ReplayWish::default();
    let shown = preview(&world, first, &wish).await?;
    let next = apply(&world, first, &wish, &shown.digest).await?;
    let answered = until_some("the callback to be taken", async || {
        let answered = world.engine.call_back(&token, b"\"yes\"").await;
        Ok(answered.ok())
    })
    .await?;

    let end = end_of(&world, next).await?;
    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    assert_eq!(answered.run, next);
    assert_eq!(
        words(&shown),
        ["other skipped", "say skipped", "ask skipped", "word waits"]
    );
    for path in ["/plain/called", "/plain/heard", "/plain/asks"] {
        assert_eq!(world.peer.count(path).await?.calls, 1, "{path}");
    }
    Ok(())
}
