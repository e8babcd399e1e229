//! What was done under a key, as every answer that tells it has it.

use anyhow::Result;
use semel_api::types::{KeyStory, RunStatus, StartRun, StoryCounts};
use semel_model::FlowName;
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::{Value, json};

use crate::world::{World, patience_span};

async fn start(world: &World, flow: &FlowName, key: &str, input: Value) -> Result<RunEnd> {
    let start = StartRun {
        key: Some(key.to_owned()),
        input,
        ..StartRun::default()
    };
    let patience = Some(patience_span());
    let run = world.client.start_run(flow, &start, patience).await?.body;
    let run = world.client.await_run(run.run, patience_span()).await?;
    Ok(RunEnd {
        run: run.id,
        state: run.state,
    })
}

struct RunEnd {
    run: semel_model::RunId,
    state: RunStatus,
}

/// The counts of all steps of runs, or of items and branches.
fn sum(story: &KeyStory, in_children: bool) -> StoryCounts {
    let steps = story
        .steps
        .iter()
        .filter(|it| it.in_children == in_children);
    steps.fold(StoryCounts::default(), |sum, step| StoryCounts {
        done: sum.done + step.counts.done,
        met: sum.met + step.counts.met,
        not_done: sum.not_done + step.counts.not_done,
        places: sum.places + step.counts.places,
        ..sum
    })
}

#[tokio::test]
async fn a_key_says_what_its_branches_and_items_did() -> Result<()> {
    let world = World::start().await?;
    let steps = "trigger: { api: {} }\nsteps:\n  - id: both\n    parallel:\n      branches:\n        \
                 - steps: [{ id: one, kv: { add: ones } }]\n        \
                 - steps: [{ id: two, kv: { add: twos } }]\n  - id: each\n    foreach:\n      \
                 in: input.orders\n      as: order\n      key: order\n      steps:\n        \
                 - { id: seen, kv: { set: '${{ order }}', value: true } }\n";
    let flow = world.publish("fanning", steps).await?;

    let end = start(&world, &flow, "d-2", json!({ "orders": ["a", "b", "c"] })).await?;
    let found = world.client.find_key("d-2").await?;
    let item = world.client.find_key("b").await?;
    let shown = world.client.get_key(&flow, "d-2").await?;
    let detail = world.client.get_run(end.run).await?;

    assert_eq!(end.state, RunStatus::Succeeded);
    assert!(found.effects.is_empty(), "{:?}", found.effects);
    let done = StoryCounts {
        done: 5,
        places: 5,
        ..StoryCounts::default()
    };
    assert!(found.story.is_whole);
    assert_eq!(sum(&found.story, true), done, "{:?}", found.story);
    assert_eq!(found.story.steps.len(), 3, "{:?}", found.story);
    let verdict = found.verdict.join(" ");
    assert!(!verdict.contains("Nothing was done"), "{verdict}");
    assert!(
        verdict.contains("seen was done 3 times, once in each of 3"),
        "{verdict}"
    );
    assert_eq!(shown.verdict, found.verdict);
    assert_eq!(detail.under_key.as_ref(), Some(&found.story));
    assert_eq!(sum(&item.story, true).done, 1, "{:?}", item.story);
    Ok(())
}

#[tokio::test]
async fn a_key_says_who_did_it_under_a_business_key() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let steps = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    key: '\"charge:\" + input.order'\n    \
         scope: namespace\n    guard: review\n    http: {{ post: '{}', json: {{}} }}\n    \
         external_id: result.id\n",
        bank.url("/plain/charges")
    );
    let flow = world.publish("charging", &steps).await?;
    let order = json!({ "order": "o-1" });
    bank.next("/plain/", Behaviour::RefuseWith(400)).await?;

    let refused = start(&world, &flow, "a", order.clone()).await?;
    let first = start(&world, &flow, "b", order.clone()).await?;
    let second = start(&world, &flow, "c", order).await?;
    let [failed, made, met] = [
        world.client.find_key("a").await?,
        world.client.find_key("b").await?,
        world.client.find_key("c").await?,
    ];
    let external = made.story.steps[0].external_ids[0].clone();
    let by_identifier = world.client.find_key(&external).await?;

    assert_eq!(refused.state, RunStatus::Failed);
    assert_eq!(second.state, RunStatus::Succeeded);
    assert_eq!(failed.verdict, ["charge was not done."]);
    assert_eq!(
        made.verdict,
        [format!("charge was done once ({external}).")]
    );
    let by = first.run;
    let said =
        format!("charge had been done by {by} already ({external}); nothing was sent again.");
    assert_eq!(met.verdict, [said]);
    // The one effect, and the run that met it.
    assert_eq!(
        (
            sum(&by_identifier.story, false).done,
            by_identifier.effects.len()
        ),
        (1, 2)
    );
    Ok(())
}

#[tokio::test]
async fn nothing_was_done_is_said_only_where_it_is_true() -> Result<()> {
    let world = World::start().await?;
    let steps =
        "trigger: { api: {} }\nsteps:\n  - { id: over, fail: { code: over, message: no } }\n";
    let flow = world.publish("failing", steps).await?;

    let end = start(&world, &flow, "n-1", json!({})).await?;
    let found = world.client.find_key("n-1").await?;
    let unknown = world.client.find_key("n-2").await?;

    assert_eq!(end.state, RunStatus::Failed);
    assert_eq!(found.verdict, ["Nothing was done."]);
    assert!(unknown.is_empty());
    Ok(())
}
