//! Doubts of one step, settled together; and a doubt that is undone.

use anyhow::{Context, Result, ensure};
use semel_api::types::{
    Promote, PushFlow, PutConnection, RunStatus, Settle, SettleGroup, StartRun, Verdict,
};
use semel_api::{Client, ClientError, Code};
use semel_model::{FlowName, Right, Rights, RunId, Span};
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::json;

use crate::world::{PATIENCE_SECS, World, add_token_with, refused};

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
        let patience = Some(Span::from_secs(PATIENCE_SECS));
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
        let patience = Span::from_secs(PATIENCE_SECS);
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
        let patience = Span::from_secs(PATIENCE_SECS);
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

/// Those of another connection take no place among the few hundred that are settled together.
#[tokio::test]
async fn doubts_of_one_connection_are_found_behind_many_of_another() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let mut flow = None;
    for name in ["old", "new"] {
        let connection = json!({ "to": { "http": { "base_url": bank.url("") } } });
        let put = PutConnection {
            connection: serde_json::from_value(connection)?,
            replace: false,
        };
        world
            .client
            .put_connection(&name.parse()?, &put, None)
            .await?;
        let source = format!(
            "flow: charging\ntrigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    guard: review\n    \
             http: {{ connection: {name}, post: /plain/charges, json: {{ n: 1 }}, timeout: 1s }}\n"
        );
        let charging: FlowName = "charging".parse()?;
        world
            .client
            .push_flow(&charging, &PushFlow { source })
            .await?;
        let release = world
            .client
            .publish_flow(&charging, name)
            .await?
            .body
            .release;
        let promote = Promote {
            release,
            override_reason: None,
        };
        world.client.promote_flow(&charging, &promote, name).await?;
        let lost = Behaviour::CloseWithoutAnswer;
        bank.next_times("/plain/charges", 1, lost).await?;
        let start = StartRun {
            key: Some(name.to_owned()),
            ..StartRun::default()
        };
        let patience = Some(Span::from_secs(PATIENCE_SECS));
        let started = world.client.start_run(&charging, &start, patience).await?;
        ensure!(started.body.state == RunStatus::InDoubt, "{started:?}");
        if name == "old" {
            multiply_doubts(&world).await?;
        }
        flow = Some(charging);
    }
    let flow = flow.context("a flow")?;
    let over = |connection: &str| SettleGroup {
        connection: Some(connection.to_owned()),
        ..all_of(&flow, Verdict::Fail)
    };

    let new = world.client.preview_settlement(&over("new")).await?;
    let old = world.client.preview_settlement(&over("old")).await?;

    assert_eq!((new.doubts.len(), new.more), (1, false));
    assert_eq!((old.doubts.len(), old.more), (500, true));
    Ok(())
}

/// Makes six hundred more of the only doubt, of the same run.
async fn multiply_doubts(world: &World) -> Result<()> {
    let client = world.database.connect().await?;
    let many = "
        WITH made AS (
            INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt,
                                 intended_at, settled_at)
            SELECT e.partition_date, gen_random_uuid(), e.run_id, e.namespace_id, e.step, e.kind, e.guard,
                   e.state, e.attempt, e.intended_at, e.settled_at
              FROM effects e, generate_series(1, 600)
             WHERE e.state = 'in_doubt'
         RETURNING id)
        INSERT INTO attention (subject_id, kind, partition_date, namespace_id, run_id, flow_id, step, since,
                               accepted_at, is_child)
        SELECT m.id, a.kind, a.partition_date, a.namespace_id, a.run_id, a.flow_id, a.step, a.since,
               a.accepted_at, a.is_child
          FROM attention a, made m
         WHERE a.kind = 'doubt'";
    client.execute(many, &[]).await?;
    Ok(())
}
