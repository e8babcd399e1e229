//! Lists of effects, narrowed by flow, step and time.

use anyhow::{Context, Result};
use semel_api::Code;
use semel_api::types::{EffectFilter, StartRun};
use serde_json::json;

use crate::world::{World, patience_span, refused};

const STEPS: &str = "trigger: { api: {} }\nsteps:\n  - { id: first, kv: { add: one } }\n  \
    - { id: second, kv: { add: two } }\n";

async fn start(world: &World, flow: &str, key: &str) -> Result<()> {
    let start = StartRun {
        key: Some(key.to_owned()),
        input: json!({}),
        ..StartRun::default()
    };
    let patience = Some(patience_span());
    let flow = flow.parse()?;
    world.client.start_run(&flow, &start, patience).await?;
    Ok(())
}

#[tokio::test]
async fn effects_are_listed_by_flow_step_and_time_page_by_page() -> Result<()> {
    let world = World::start().await?;
    for flow in ["one", "two"] {
        world.publish(flow, STEPS).await?;
    }
    for number in 0..3 {
        start(&world, "one", &format!("a-{number}")).await?;
        start(&world, "two", &format!("b-{number}")).await?;
    }
    let list = async |filter: EffectFilter| -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        let mut cursor = None;
        for _ in 0..20 {
            let page = world
                .client
                .list_effects(&EffectFilter {
                    limit: Some(2),
                    cursor: cursor.take(),
                    ..filter.clone()
                })
                .await?;
            let of = page.items.into_iter().map(|it| {
                let key = it.source.map(|source| source.key).unwrap_or_default();
                (key, it.step)
            });
            found.extend(of);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(found),
            }
        }
        anyhow::bail!("pages without end")
    };
    let pair = |key: &str, step: &str| (key.to_owned(), step.to_owned());

    let of_flow = list(EffectFilter {
        flow: Some("one".parse()?),
        ..EffectFilter::default()
    });
    let of_both = list(EffectFilter {
        flow: Some("two".parse()?),
        step: Some("second".to_owned()),
        ..EffectFilter::default()
    });
    let (of_flow, of_both) = (of_flow.await?, of_both.await?);

    assert_eq!(of_flow.len(), 6, "{of_flow:?}");
    assert!(of_flow.iter().all(|(key, _)| key.starts_with("a-")));
    let newest = [
        pair("b-2", "second"),
        pair("b-1", "second"),
        pair("b-0", "second"),
    ];
    assert_eq!(of_both, newest);
    let none = list(EffectFilter {
        step: Some("none".to_owned()),
        ..EffectFilter::default()
    });
    assert!(none.await?.is_empty());

    let all = world.client.list_effects(&EffectFilter::default()).await?;
    let middle = all.items.get(5).context("twelve effects")?.intended_at;
    let (since, until) = (
        EffectFilter {
            since: Some(middle),
            ..EffectFilter::default()
        },
        EffectFilter {
            until: Some(middle),
            ..EffectFilter::default()
        },
    );
    let (after, before) = (list(since).await?.len(), list(until).await?.len());
    assert_eq!(after + before, 12, "none is lost, and none is twice");
    assert!(after >= 6 && before > 0, "{after} {before}");

    let two_ways = EffectFilter {
        external_id: Some("x".to_owned()),
        flow: Some("one".parse()?),
        ..EffectFilter::default()
    };
    let refusal = refused(world.client.list_effects(&two_ways).await)?;
    assert_eq!(refusal, Code::QueryInvalid);
    let stranger = world.stranger().await?;
    let foreign = EffectFilter {
        step: Some("first".to_owned()),
        ..EffectFilter::default()
    };
    assert!(stranger.list_effects(&foreign).await?.items.is_empty());
    Ok(())
}
