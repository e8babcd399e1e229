//! Doubts: an operator settles them over the API.

use anyhow::{Context, Result};
use semel_api::Code;
use semel_api::types::{Amend, Effect, RunStatus, Settle, StartRun, Verdict};
use semel_model::RunId;
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::json;

use crate::world::{World, patience_span, refused};

/// A run whose one call lost its response.
async fn doubt(world: &World, bank: &Peer) -> Result<(RunId, Effect)> {
    let steps = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    guard: review\n    \
         http: {{ post: '{}', json: {{ n: 1 }}, timeout: 1s }}\nresult: steps.charge.result\n",
        bank.url("/plain/charges")
    );
    let flow = world.publish("charging", &steps).await?;
    bank.next("/plain/", Behaviour::CloseWithoutAnswer).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        ..StartRun::default()
    };
    let patience = Some(patience_span());
    let started = world.client.start_run(&flow, &start, patience).await?;
    anyhow::ensure!(started.body.state == RunStatus::InDoubt, "{started:?}");
    let mut doubts = world.client.list_doubts().await?.items;
    Ok((started.body.run, doubts.pop().context("a doubt")?))
}

fn said(verdict: Verdict) -> Settle {
    Settle {
        verdict,
        external_id: None,
        result: None,
        attempt: None,
        reason: "looked it up".to_owned(),
    }
}

#[tokio::test]
async fn a_doubt_is_settled_once_and_its_run_continues() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let (run, effect) = doubt(&world, &bank).await?;
    let settle = Settle {
        external_id: Some("ch_1".to_owned()),
        result: Some(json!({"id": "ch_1"})),
        ..said(Verdict::Happened)
    };
    let in_doubt = world.client.get_run(run).await?.run;
    let fault = in_doubt.fault.context("a fault")?;
    assert_eq!(
        fault["retryable"], false,
        "a person decides, and nobody tries again: {fault}"
    );

    let first = world.client.settle_effect(effect.id, &settle, "s").await?;
    let again = world.client.settle_effect(effect.id, &settle, "s").await?;
    let anew = world.client.settle_effect(effect.id, &settle, "t").await;
    let end = world.client.await_run(run, patience_span()).await?;

    assert!(!first.replayed && again.replayed);
    assert_eq!(refused(anew)?, Code::NotInDoubt);
    assert_eq!(end.state, RunStatus::Succeeded);
    assert_eq!(
        bank.count("/plain/").await?.effects,
        1,
        "nothing is sent again"
    );
    let settled = world.client.get_effect(effect.id).await?;
    assert_eq!(settled.external_id.as_deref(), Some("ch_1"));
    Ok(())
}

#[tokio::test]
async fn an_effect_that_was_tried_again_says_when_it_was_tried_first() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let steps = format!(
        "trigger: {{ api: {{}} }}\nretry: {{ attempts: 3, delay: 10ms, max_delay: 20ms, within: 1h }}\nsteps:\n  \
         - {{ id: charge, http: {{ put: '{}', json: {{ n: 1 }} }} }}\n",
        bank.url("/plain/charges")
    );
    let flow = world.publish("charging", &steps).await?;
    bank.next("/plain/", Behaviour::RefuseWith(503)).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        ..StartRun::default()
    };

    let patience = Some(patience_span());
    let started = world.client.start_run(&flow, &start, patience).await?.body;
    let effects = world.client.get_run(started.run).await?.effects;
    let effect = world.client.get_effect(effects[0].id).await?;

    assert_eq!((started.state, effect.attempt), (RunStatus::Succeeded, 2));
    let first = effect.first_intended_at.context("a first try")?;
    assert!(first < effect.intended_at, "{effect:?}");
    Ok(())
}

#[tokio::test]
async fn a_decision_that_names_another_attempt_settles_nothing() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let (_, effect) = doubt(&world, &bank).await?;
    let of = |attempt| Settle {
        attempt: Some(attempt),
        ..said(Verdict::Fail)
    };

    let other = world.client.settle_effect(effect.id, &of(2), "o").await;
    let same = world.client.settle_effect(effect.id, &of(1), "s").await?;

    assert_eq!(refused(other)?, Code::NotInDoubt);
    assert!(!same.replayed);
    Ok(())
}

#[tokio::test]
async fn a_list_shows_what_was_sent_of_some_runs_and_says_where_the_rest_is() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    doubt(&world, &bank).await?;
    let flow = "charging".parse()?;
    let close = Behaviour::CloseWithoutAnswer;
    bank.next_times("/plain/", 10, close).await?;
    let patience = Some(patience_span());
    for n in 0..10 {
        let start = StartRun {
            key: Some(format!("more-{n}")),
            ..StartRun::default()
        };
        world.client.start_run(&flow, &start, patience).await?;
    }

    let doubts = world.client.list_doubts().await?.items;
    let is_shown = |effect: &&Effect| {
        let sent = effect.sent.as_ref();
        sent.is_some_and(|sent| sent.what.contains("/plain/charges"))
    };
    let shown = doubts.iter().filter(is_shown).count();
    let rest = doubts.iter().find(|effect| !is_shown(effect));
    let rest = rest.context("one that is not shown")?;
    let whole = world.client.get_effect(rest.id).await?;

    assert_eq!((doubts.len(), shown), (11, 10));
    let told = &rest.sent.as_ref().context("a hint")?.what;
    assert_eq!(*told, format!("see `semel effect show {}`", rest.id));
    assert!(is_shown(&&whole));
    Ok(())
}

#[tokio::test]
async fn an_effect_cannot_be_denied_too_soon() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let (_, effect) = doubt(&world, &bank).await?;

    let soon = said(Verdict::DidNotHappen);
    let soon = world.client.settle_effect(effect.id, &soon, "s").await;
    // The refusal was not stored: the same key can carry another settlement.
    let fail = said(Verdict::Fail);
    let fail = world.client.settle_effect(effect.id, &fail, "s").await?;

    assert_eq!(refused(soon)?, Code::SettleTooSoon);
    assert!(!fail.replayed);
    Ok(())
}

#[tokio::test]
async fn what_happened_needs_the_result_that_is_read_later() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let (run, effect) = doubt(&world, &bank).await?;

    let bare = said(Verdict::Happened);
    let bare = world.client.settle_effect(effect.id, &bare, "s").await;
    let null = Settle {
        result: Some(serde_json::Value::Null),
        ..said(Verdict::Happened)
    };
    world.client.settle_effect(effect.id, &null, "s").await?;
    let end = world.client.await_run(run, patience_span()).await?;

    match bare {
        Err(semel_api::ClientError::Problem(problem)) => {
            assert_eq!(problem.code(), Some(Code::ResultNeeded));
            assert!(problem.detail.contains("--result"), "{}", problem.detail);
        }
        other => anyhow::bail!("taken: {other:?}"),
    }
    assert_eq!(
        end.state,
        RunStatus::Succeeded,
        "a person may say that it gave nothing"
    );
    Ok(())
}

#[tokio::test]
async fn an_operator_corrects_a_result_that_no_step_has_used() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let steps = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    guard: review\n    \
         http: {{ post: '{}', json: {{ n: 1 }}, timeout: 1s }}\n    external_id: result.id\n  \
         - id: book\n    function: steps.charge.result.id + '!'\nresult: steps.book.result\n",
        bank.url("/plain/charges")
    );
    let flow = world.publish("charging", &steps).await?;
    bank.next("/plain/", Behaviour::CloseWithoutAnswer).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        ..StartRun::default()
    };
    let patience = patience_span();
    let run = world
        .client
        .start_run(&flow, &start, Some(patience))
        .await?;
    let run = run.body.run;
    let doubts = world.client.list_doubts().await?.items;
    let effect = doubts.first().context("a doubt")?.id;
    let wrong = Settle {
        result: Some(json!({ "nothing": "useful" })),
        ..said(Verdict::Happened)
    };
    let amend = Amend {
        result: json!({ "id": "ch_1" }),
        external_id: None,
        reason: "the id was missing".to_owned(),
    };

    let early = world.client.amend_effect(effect, &amend, "0").await;
    world.client.settle_effect(effect, &wrong, "s").await?;
    let failed = world.client.await_run(run, patience).await?;
    let amended = world.client.amend_effect(effect, &amend, "1").await?.body;
    let end = world.client.await_run(run, patience).await?;
    let late = world.client.amend_effect(effect, &amend, "2").await;
    let settled = world.client.get_effect(effect).await?;

    assert_eq!(refused(early)?, Code::NotAmendable);
    assert_eq!(failed.state, RunStatus::Failed, "{failed:?}");
    assert_eq!(amended.run, run);
    assert_eq!(
        (end.state, end.result),
        (RunStatus::Succeeded, Some(json!("ch_1!")))
    );
    assert_eq!(refused(late)?, Code::NotAmendable);
    assert_eq!(settled.external_id.as_deref(), Some("ch_1"));
    let actions: Vec<&str> = settled.acts.iter().map(|act| act.action.as_str()).collect();
    assert_eq!(actions, ["doubt.settle happened", "effect.amend"]);
    Ok(())
}
