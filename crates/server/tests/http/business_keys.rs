//! Business keys as the API shows them: what a run waits for, and the key that was sent.

use anyhow::{Context, Result};
use semel_api::Code;
use semel_api::types::{
    FailOnce, FinishOnce, GetOnce, HeartbeatOnce, OnceFilter, RunStatus, Settle, StartRun, Verdict,
};
use semel_model::named_effect::{EffectName, EffectScope};
use semel_model::{EffectId, NamedEffectId};
use semel_testkit::peer::Behaviour;
use semel_testkit::{Peer, until_some};
use serde_json::json;

use crate::world::{World, patience_span, refused};

#[tokio::test]
async fn a_run_shows_the_key_and_the_stopped_run_that_it_waits_for() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let steps = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    key: '\"charge:\" + input.order'\n    \
         scope: namespace\n    guard: review\n    http: {{ post: '{}', timeout: 1s }}\n",
        bank.url("/plain/charges")
    );
    let flow = world.publish("charging", &steps).await?;
    bank.next("/plain/", Behaviour::CloseWithoutAnswer).await?;
    let start = |key: &str| StartRun {
        key: Some(key.to_owned()),
        input: json!({ "order": "o-1" }),
        ..StartRun::default()
    };
    let patience = Some(patience_span());
    let client = &world.client;

    let first = client.start_run(&flow, &start("a"), patience).await?.body;
    let second = client.start_run(&flow, &start("b"), None).await?.body;
    let look = async || {
        let waits = client.get_run(second.run).await?.waits_for_key;
        Ok(waits.filter(|it| it.in_doubt))
    };
    let waits = until_some("the run to wait for a key in doubt", look).await?;
    let effect = client.list_doubts().await?.items.pop().context("a doubt")?;

    assert_eq!(waits.behind, Some(first.run));
    assert_eq!(waits.behind_state, Some(RunStatus::InDoubt));
    assert_eq!((&*waits.scope, &*waits.key), ("shared", "charge:o-1"));
    let name = EffectName::new(EffectScope::Shared, *b"charge:o-1")?;
    let name = NamedEffectId::derive(&"main".parse()?, &name);
    assert_eq!(effect.key_sent, Some(EffectId::named(name, 0)));
    let detail = client.get_effect(effect.id).await?;
    assert_eq!(detail.key_sent, Some(EffectId::named(name, 0)));
    let shown = client.get_run(first.run).await?.effects;
    assert_eq!(shown[0].key_sent, Some(EffectId::named(name, 0)));
    Ok(())
}

#[tokio::test]
async fn the_right_once_changes_nothing_that_a_run_holds() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let steps = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    key: '\"charge:\" + input.order'\n    \
         scope: namespace\n    guard: review\n    http: {{ post: '{}', timeout: 1s }}\n",
        bank.url("/plain/charges")
    );
    let flow = world.publish("charging", &steps).await?;
    bank.next("/plain/", Behaviour::CloseWithoutAnswer).await?;
    let start = StartRun {
        key: Some("a".to_owned()),
        input: json!({ "order": "o-1" }),
        ..StartRun::default()
    };
    let (client, patience) = (&world.client, Some(patience_span()));
    let run = client.start_run(&flow, &start, patience).await?.body.run;
    let database = world.database.connect().await?;
    let token = "SELECT token FROM named_effects";
    let token: i64 = database.query_one(token, &[]).await?.get(0);
    let (scope, key) = (None, "charge:o-1".to_owned());

    let get = GetOnce {
        scope: scope.clone(),
        key: key.clone(),
    };
    let shown = client.get_once(&get).await?;
    let listed = client.list_once(&OnceFilter::default()).await?.items;
    let finish = FinishOnce {
        scope: scope.clone(),
        key: key.clone(),
        token,
        result: None,
        external_id: None,
    };
    let finished = client.finish_once(&finish).await;
    let fail = |in_doubt| FailOnce {
        scope: scope.clone(),
        key: key.clone(),
        token,
        code: None,
        message: String::new(),
        in_doubt,
    };
    let failed = client.fail_once(&fail(false)).await;
    let doubted = client.fail_once(&fail(true)).await;
    let beat = HeartbeatOnce { scope, key, token };
    let patience = semel_testkit::patience();
    let beaten = client.heartbeat_once(&beat, patience).await;
    let settle = Settle {
        verdict: Verdict::Happened,
        external_id: None,
        result: Some(json!({})),
        attempt: Some(1),
        reason: "seen".to_owned(),
    };
    client.settle_effect(shown.effect_key, &settle, "s").await?;
    let end = client.await_run(run, patience_span()).await?;

    assert_eq!((shown.run, shown.token), (Some(run), None));
    assert_eq!(listed[0].token, None);
    for refusal in [finished, failed, doubted] {
        assert_eq!(refused(refusal)?, Code::OnceHeldByRun);
    }
    assert_eq!(refused(beaten)?, Code::OnceHeldByRun);
    assert_eq!(end.state, RunStatus::Succeeded, "by the key that was sent");
    Ok(())
}
