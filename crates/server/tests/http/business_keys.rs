//! Business keys as the API shows them: what a run waits for, and the key that was sent.

use anyhow::{Context, Result};
use semel_api::types::{RunStatus, StartRun};
use semel_model::named_effect::{EffectName, EffectScope};
use semel_model::{EffectId, NamedEffectId, Span};
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::json;

use crate::world::{PATIENCE_SECS, World};

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
    let patience = Some(Span::from_secs(PATIENCE_SECS));
    let client = &world.client;

    let first = client.start_run(&flow, &start("a"), patience).await?.body;
    let second = client.start_run(&flow, &start("b"), None).await?.body;
    let mut waits = None;
    for _ in 0..500 {
        waits = client.get_run(second.run).await?.waits_for_key;
        if waits.as_ref().is_some_and(|it| it.in_doubt) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let waits = waits.context("what it waits for")?;
    let effect = client.list_doubts().await?.items.pop().context("a doubt")?;

    assert_eq!(waits.behind, Some(first.run));
    assert_eq!(waits.behind_state, Some(RunStatus::InDoubt));
    assert_eq!((&*waits.scope, &*waits.key), ("shared", "charge:o-1"));
    let name = EffectName::new(EffectScope::Shared, *b"charge:o-1")?;
    let name = NamedEffectId::derive(&"main".parse()?, &name);
    let sent = effect.sent.context("what was sent")?;
    assert_eq!(sent.key, Some(EffectId::named(name, 0)));
    Ok(())
}
