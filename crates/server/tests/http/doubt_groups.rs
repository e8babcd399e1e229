//! Doubts of one step, settled together; and a doubt that is undone.

mod many;

use anyhow::{Context, Result, ensure};
use semel_api::types::{RunStatus, Settle, SettleGroup, StartRun, Verdict};
use semel_api::{Client, ClientError, Code};
use semel_model::{FlowName, Right, Rights, RunId};
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::json;

use crate::world::{World, add_token_with, patience_span, refused};

/// Runs of a flow that each lost the answer to their call.
async fn doubts(world: &World, bank: &Peer, flow: &FlowName, count: u32) -> Result<Vec<RunId>> {
    let lost = Behaviour::CloseWithoutAnswer;
    bank.next_times("/plain/charges", count, lost).await?;
    let mut runs = Vec::new();
    for n in 0..count {
        let start = StartRun {
            key: Some(format!("k-{n}")),
            ..StartRun::default()
        };
        let patience = Some(patience_span());
        let started = world.client.start_run(flow, &start, patience).await?.body;
        ensure!(started.state == RunStatus::InDoubt, "{started:?}");
        runs.push(started.run);
    }
    Ok(runs)
}

async fn charging(world: &World, bank: &Peer, name: &str, result: &str) -> Result<FlowName> {
    let flow = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    guard: review\n    \
         http: {{ post: '{}', json: {{ n: 1 }}, timeout: 1s }}\n  \
         - {{ id: count, kv: {{ add: charged }} }}\n{result}",
        bank.url("/plain/charges")
    );
    world.publish(name, &flow).await
}

fn all_of(flow: &FlowName, verdict: Verdict) -> SettleGroup {
    SettleGroup {
        flow: flow.clone(),
        step: "charge".to_owned(),
        connection: None,
        seen: None,
        verdict,
        reason: "their outage: all of them are in their books".to_owned(),
        digest: None,
    }
}

#[tokio::test]
async fn the_doubts_of_a_step_are_settled_together_by_their_digest() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let flow = charging(&world, &bank, "charging", "").await?;
    let other = charging(&world, &bank, "beside", "").await?;
    let runs = doubts(&world, &bank, &flow, 5).await?;
    doubts(&world, &bank, &other, 1).await?;
    let group = all_of(&flow, Verdict::Happened);

    let plan = world.client.preview_settlement(&group).await?;
    let untouched = world.client.list_doubts().await?.items.len();
    let apply = SettleGroup {
        digest: Some(plan.digest.clone()),
        ..group.clone()
    };
    let settled = world.client.settle_group(&apply, "a").await?;
    let again = world.client.settle_group(&apply, "a").await?;
    let anew = world.client.settle_group(&apply, "b").await;

    assert_eq!((plan.doubts.len(), plan.settled, plan.more), (5, 0, false));
    assert_eq!(untouched, 6, "a preview settles nothing");
    assert_eq!(settled.body.settled, 5, "{settled:?}");
    assert!(again.replayed);
    assert_eq!(refused(anew)?, Code::DoubtsChanged);
    for run in runs {
        let patience = patience_span();
        let end = world.client.await_run(run, patience).await?;
        assert_eq!(end.state, RunStatus::Succeeded);
    }
    assert_eq!(world.client.list_doubts().await?.items.len(), 1);
    assert_eq!(world.kv("charged").await?, json!(5));
    let client = world.database.connect().await?;
    let acts = "SELECT count(*) FROM audit WHERE action = 'doubt.settle happened'";
    let acts: i64 = client.query_one(acts, &[]).await?.get(0);
    assert_eq!(acts, 5, "each is recorded");
    Ok(())
}

#[tokio::test]
async fn a_group_that_has_changed_is_not_settled() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let flow = charging(&world, &bank, "charging", "").await?;
    doubts(&world, &bank, &flow, 3).await?;
    let group = all_of(&flow, Verdict::Fail);
    let plan = world.client.preview_settlement(&group).await?;
    let digest = Some(plan.digest.clone());
    let apply = SettleGroup {
        digest: digest.clone(),
        ..group.clone()
    };
    let as_happened = SettleGroup {
        digest: digest.clone(),
        ..all_of(&flow, Verdict::Happened)
    };
    let over_other = SettleGroup {
        connection: Some("bank".to_owned()),
        ..apply.clone()
    };

    let other_verdict = world.client.settle_group(&as_happened, "a").await;
    let other_connection = world.client.settle_group(&over_other, "b").await;
    let one = Settle {
        verdict: Verdict::Fail,
        external_id: None,
        result: None,
        attempt: None,
        reason: "by itself".to_owned(),
    };
    let first = plan.doubts[0].effect;
    world.client.settle_effect(first, &one, "c").await?;
    let fewer = world.client.settle_group(&apply, "d").await;
    let undigested = world.client.settle_group(&group, "e").await;

    assert_eq!(refused(other_verdict)?, Code::DoubtsChanged);
    assert_eq!(refused(other_connection)?, Code::DoubtsChanged);
    assert_eq!(refused(fewer)?, Code::DoubtsChanged);
    assert_eq!(refused(undigested)?, Code::BodyInvalid);
    assert_eq!(world.client.list_doubts().await?.items.len(), 2);
    Ok(())
}

#[tokio::test]
async fn what_later_steps_read_is_not_said_of_many() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let read = "result: steps.charge.result\n";
    let flow = charging(&world, &bank, "charging", read).await?;
    doubts(&world, &bank, &flow, 2).await?;
    let group = all_of(&flow, Verdict::Happened);

    let plan = world.client.preview_settlement(&group).await?;
    let apply = SettleGroup {
        digest: Some(plan.digest.clone()),
        ..group
    };
    let settled = world.client.settle_group(&apply, "a").await;

    let codes = plan.doubts.iter().map(|doubt| doubt.code.as_deref());
    assert_eq!(codes.collect::<Vec<_>>(), [Some("result-needed"); 2]);
    let Err(ClientError::Problem(problem)) = settled else {
        anyhow::bail!("taken: {settled:?}");
    };
    assert_eq!(problem.code(), Some(Code::ResultNeeded));
    for doubt in &plan.doubts {
        let named = doubt.effect.to_string();
        ensure!(problem.detail.contains(&named), "{}", problem.detail);
    }
    assert_eq!(world.client.list_doubts().await?.items.len(), 2);
    Ok(())
}

#[tokio::test]
async fn what_may_still_arrive_is_left_in_doubt_and_named() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let flow = charging(&world, &bank, "charging", "").await?;
    doubts(&world, &bank, &flow, 2).await?;
    let group = all_of(&flow, Verdict::DidNotHappen);
    let plan = world.client.preview_settlement(&group).await?;
    let apply = SettleGroup {
        digest: Some(plan.digest),
        ..group
    };

    let soon = world.client.settle_group(&apply, "a").await?.body;

    let codes = soon.doubts.iter().map(|doubt| doubt.code.as_deref());
    assert_eq!(codes.collect::<Vec<_>>(), [Some("settle-too-soon"); 2]);
    assert_eq!(soon.settled, 0);
    assert_eq!(world.client.list_doubts().await?.items.len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_doubt_that_must_not_stand_is_undone_and_its_run_fails() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let (charges, refunds) = (bank.url("/plain/charges"), bank.url("/plain/refunds"));
    let limited = without(&world, Right::Redo).await?;
    for (name, after) in [
        ("last", ""),
        ("more", "  - { id: count, kv: { add: counted } }\n"),
    ] {
        let flow = format!(
            "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    guard: review\n    \
             http: {{ post: '{charges}', json: {{ n: 1 }}, timeout: 1s }}\n    \
             external_id: result.id\n    undo: {{ http: {{ put: '{refunds}', \
             json: {{ of: '${{{{ steps.charge.external_id }}}}' }} }} }}\n{after}"
        );
        let flow = world.publish(name, &flow).await?;
        let run = doubts(&world, &bank, &flow, 1).await?[0];
        let doubt = world.client.list_doubts().await?.items.pop();
        let effect = doubt.context("a doubt")?.id;
        let bare = Settle {
            verdict: Verdict::Undo,
            external_id: None,
            result: None,
            attempt: None,
            reason: "the customer left".to_owned(),
        };
        let whole = Settle {
            external_id: Some("ch_1".to_owned()),
            ..bare.clone()
        };

        let without_right = limited.settle_effect(effect, &whole, "no").await;
        let without_id = world.client.settle_effect(effect, &bare, "a").await;
        world.client.settle_effect(effect, &whole, name).await?;
        let patience = patience_span();
        let end = world.client.await_run(run, patience).await?;

        assert_eq!(refused(without_right)?, Code::RightMissing);
        assert_eq!(
            refused(without_id)?,
            Code::ResultNeeded,
            "its undo reads it"
        );
        assert_eq!(end.state, RunStatus::Failed, "{end:?}");
        let fault = end.fault.context("a fault")?;
        assert_eq!(fault["code"], "undone-by-person");
        let shown = world.client.get_run(run).await?;
        let states = shown
            .effects
            .iter()
            .map(|it| (it.step.as_str(), it.state.as_str()));
        assert_eq!(
            states.collect::<Vec<_>>(),
            [("charge", "done"), ("charge.undo", "done")]
        );
    }
    assert_eq!(bank.count("/plain/refunds").await?.effects, 2);
    assert_eq!(
        world.kv("counted").await?,
        json!(null),
        "nothing comes after"
    );
    Ok(())
}

/// A person who may do everything else.
async fn without(world: &World, right: Right) -> Result<Client> {
    let rights = Rights::ALL.without(right.into());
    let token = add_token_with(world.engine.cell(), "limited", rights).await?;
    Ok(Client::new(world.client.base(), &token)?)
}

#[tokio::test]
async fn doubts_are_undone_together_only_with_the_right_to_undo() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let flow = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    guard: review\n    \
         http: {{ post: '{}', json: {{ n: 1 }}, timeout: 1s }}\n    \
         undo: {{ http: {{ put: '{}' }} }}\n",
        bank.url("/plain/charges"),
        bank.url("/plain/refunds")
    );
    let flow = world.publish("charging", &flow).await?;
    doubts(&world, &bank, &flow, 2).await?;
    let limited = without(&world, Right::Redo).await?;
    let plan = all_of(&flow, Verdict::Undo);

    let seen = limited.preview_settlement(&plan).await?;
    let settle = SettleGroup {
        digest: Some(seen.digest),
        ..plan
    };
    let refusal = limited.settle_group(&settle, "a").await;

    assert_eq!(refused(refusal)?, Code::RightMissing);
    assert_eq!(world.client.list_doubts().await?.items.len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_step_without_an_undo_is_not_undone() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let flow = charging(&world, &bank, "charging", "").await?;
    doubts(&world, &bank, &flow, 1).await?;
    let plan = all_of(&flow, Verdict::Undo);
    let plan = world.client.preview_settlement(&plan).await?;
    let settle = Settle {
        verdict: Verdict::Undo,
        external_id: None,
        result: None,
        attempt: None,
        reason: "x".to_owned(),
    };

    let refusal = world
        .client
        .settle_effect(plan.doubts[0].effect, &settle, "a")
        .await;

    assert_eq!(plan.doubts[0].code.as_deref(), Some("body-invalid"));
    assert_eq!(refused(refusal)?, Code::BodyInvalid);
    assert_eq!(world.client.list_doubts().await?.items.len(), 1);
    Ok(())
}
