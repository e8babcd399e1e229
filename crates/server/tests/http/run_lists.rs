//! Lists of runs by release, time, error, parent and external id: each way to ask, page by page.

use anyhow::{Context, Result, ensure};
use semel_api::Code;
use semel_api::types::{Promote, PushFlow, Run, RunFilter, RunStatus, StartRun};
use semel_model::RunId;
use semel_testkit::Peer;
use serde_json::json;

use crate::world::{World, patience_span, refused};

/// A flow whose runs fail with the code that they are given, or do not.
const FAILING: &str = "trigger: { api: {} }\nsteps:\n  \
    - { id: odd, if: 'input.code == \"odd\"', fail: { code: odd, message: it is odd } }\n  \
    - { id: late, if: 'input.code == \"late\"', fail: { code: late, message: it is late } }\n";

/// A flow whose items all fail.
pub(crate) const BATCH: &str = "trigger: { api: {} }\nsteps:\n  - id: each\n    foreach:\n      \
    in: input.lines\n      key: item.id\n      on_error: continue\n      steps:\n        \
    - { id: stop, if: 'item.bad', fail: { code: bad-line, message: '${{ item.id }}' } }\n";

async fn start(world: &World, flow: &str, key: &str, input: serde_json::Value) -> Result<RunId> {
    let ask = StartRun {
        key: Some(key.to_owned()),
        input,
        ..StartRun::default()
    };
    let patience = Some(patience_span());
    let started = world
        .client
        .start_run(&flow.parse()?, &ask, patience)
        .await?;
    ensure!(started.body.state.is_ended(), "{started:?}");
    Ok(started.body.run)
}

/// Makes a second release of the flow live.
async fn release_again(world: &World) -> Result<()> {
    let flow = "failing".parse()?;
    let source = format!("flow: failing\nabout: again\n{FAILING}");
    let client = &world.client;
    client.push_flow(&flow, &PushFlow { source }).await?;
    let release = client.publish_flow(&flow, "second").await?.body.release;
    let promote = Promote {
        release,
        override_reason: None,
    };
    client.promote_flow(&flow, &promote, "second").await?;
    Ok(())
}

/// The keys of all pages, each with so many runs.
async fn keys(world: &World, filter: &RunFilter, limit: u16) -> Result<Vec<String>> {
    let mut keys = Vec::new();
    let mut filter = RunFilter {
        limit: Some(limit),
        ..filter.clone()
    };
    loop {
        let page = world.client.list_runs(&filter).await?;
        ensure!(page.items.len() <= usize::from(limit), "{page:?}");
        keys.extend(page.items.into_iter().map(|run: Run| run.key));
        match page.next {
            Some(next) => filter.cursor = Some(next),
            None => return Ok(keys),
        }
    }
}

#[tokio::test]
async fn runs_are_listed_by_release_time_and_error() -> Result<()> {
    let world = World::start().await?;
    world.publish("failing", FAILING).await?;
    for (key, code) in [("a", "odd"), ("b", "late"), ("c", "")] {
        start(&world, "failing", key, json!({ "code": code })).await?;
    }
    release_again(&world).await?;
    for (key, code) in [("d", "odd"), ("e", "")] {
        start(&world, "failing", key, json!({ "code": code })).await?;
    }
    let all = RunFilter::default();
    let listed = world.client.list_runs(&all).await?.items;
    let at = |key: &str| -> Result<jiff::Timestamp> {
        let run = listed.iter().find(|run| run.key == key);
        Ok(run.context("a run")?.accepted_at)
    };
    let of = |release| RunFilter {
        flow: "failing".parse().ok(),
        release: Some(release),
        ..RunFilter::default()
    };

    for limit in [1, 2, 50] {
        assert_eq!(keys(&world, &of(1), limit).await?, ["c", "b", "a"]);
        assert_eq!(keys(&world, &of(2), limit).await?, ["e", "d"]);
        assert!(keys(&world, &of(3), limit).await?.is_empty());
        let failed = RunFilter {
            state: Some(RunStatus::Failed),
            ..of(1)
        };
        assert_eq!(keys(&world, &failed, limit).await?, ["b", "a"]);
        let odd = RunFilter {
            error: Some("odd".to_owned()),
            ..all.clone()
        };
        assert_eq!(keys(&world, &odd, limit).await?, ["d", "a"]);
        let odd_first = RunFilter {
            error: Some("odd".to_owned()),
            ..of(1)
        };
        assert_eq!(keys(&world, &odd_first, limit).await?, ["a"]);
        let since = RunFilter {
            since: Some(at("b")?),
            until: Some(at("e")?),
            ..all.clone()
        };
        assert_eq!(keys(&world, &since, limit).await?, ["d", "c", "b"]);
        let failed_since = RunFilter {
            state: Some(RunStatus::Failed),
            since: Some(at("b")?),
            ..all.clone()
        };
        assert_eq!(keys(&world, &failed_since, limit).await?, ["d", "b"]);
    }
    let without = RunFilter {
        release: Some(1),
        ..all
    };
    let wrong = world.client.list_runs(&without).await;
    assert_eq!(refused(wrong)?, Code::QueryInvalid);
    Ok(())
}

#[tokio::test]
async fn runs_are_listed_by_parent_and_by_external_id() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    world.publish("batch", BATCH).await?;
    let lines =
        json!([{"id": "x", "bad": true}, {"id": "y", "bad": false}, {"id": "z", "bad": true}]);
    let parent = start(&world, "batch", "k", json!({ "lines": lines })).await?;
    let charging = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    guard: review\n    \
         http: {{ post: '{}', json: {{}} }}\n    external_id: result.id\n",
        bank.url("/plain/charges")
    );
    world.publish("charging", &charging).await?;
    let charged = start(&world, "charging", "o-1", json!({})).await?;
    let effects = world.client.get_run(charged).await?.effects;
    let of_parent = |state| RunFilter {
        parent: Some(parent),
        state,
        ..RunFilter::default()
    };

    for limit in [1, 2, 50] {
        let all = keys(&world, &of_parent(None), limit).await?;
        assert_eq!(all.len(), 3, "{all:?}");
        let failed = of_parent(Some(RunStatus::Failed));
        assert_eq!(keys(&world, &failed, limit).await?.len(), 2);
    }
    let made = effects.first().context("an effect")?;
    let known = RunFilter {
        external_id: Some(made.external_id.clone().context("an external id")?),
        ..RunFilter::default()
    };
    assert_eq!(keys(&world, &known, 50).await?, ["o-1"]);
    let unknown = RunFilter {
        external_id: Some("none".to_owned()),
        ..RunFilter::default()
    };
    assert!(keys(&world, &unknown, 50).await?.is_empty());
    let both = RunFilter {
        external_id: Some("none".to_owned()),
        ..of_parent(None)
    };
    let wrong = world.client.list_runs(&both).await;
    assert_eq!(refused(wrong)?, Code::QueryInvalid);
    let stranger = world.stranger().await?;
    let foreign = stranger.list_runs(&of_parent(None)).await;
    assert_eq!(refused(foreign)?, Code::RunNotFound);
    Ok(())
}
