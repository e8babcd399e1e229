//! One run: its failed items, a replay from the preview to the end, and the searches that lead to runs.

use anyhow::{Context, Result, ensure};
use semel_api::types::{RunStatus, StartRun};
use semel_model::{Right, RunId};
use serde_json::json;

use super::{Browser, hidden};
use crate::run_lists::BATCH;
use crate::world::{World, patience_span};

async fn start(world: &World, flow: &str, key: &str, input: serde_json::Value) -> Result<RunId> {
    let start = StartRun {
        key: Some(key.to_owned()),
        input,
        ..StartRun::default()
    };
    let patience = Some(patience_span());
    let run = world
        .client
        .start_run(&flow.parse()?, &start, patience)
        .await?;
    Ok(run.body.run)
}

#[tokio::test]
async fn a_run_shows_its_failed_items_and_leads_to_all_of_them_page_by_page() -> Result<()> {
    let world = World::start().await?;
    world.publish("batch", BATCH).await?;
    let lines: Vec<_> = (0..120)
        .map(|n| json!({ "id": format!("line-{n:03}"), "bad": n % 2 == 0 }))
        .collect();
    let run = start(&world, "batch", "k", json!({ "lines": lines })).await?;
    let browser = Browser::signed_in(&world).await?;
    let path = format!("/console/main/runs/{run}");

    let page = browser.page(&path).await?;
    let first = browser.page(&format!("{path}/items?state=failed")).await?;
    let next = first
        .split("class=\"next\"><a href=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .context("a next page")?
        .replace("&amp;", "&");
    let second = browser.page(&next).await?;

    ensure!(page.contains("Items that failed"), "{page}");
    ensure!(page.contains("line-000") && page.contains("bad-line"));
    let failed = page.split("Items that failed").nth(1).context("a table")?;
    let failed = failed.split("</table>").next().unwrap_or_default();
    assert_eq!(failed.matches(">bad-line<").count(), 10);
    ensure!(!failed.contains("line-001"), "what is done is not there");
    let count = |page: &str| page.matches(">bad-line<").count();
    assert_eq!((count(&first), count(&second)), (50, 10));
    ensure!(!second.contains("class=\"next\""), "{second}");
    Ok(())
}

/// Fails until somebody says otherwise.
const FAILING: &str = "trigger: { api: {} }\nsteps:\n  - { id: one, kv: { add: counted } }\n  \
    - { id: two, kv: { get: open } }\n  \
    - { id: stop, if: 'steps.two.result == null', fail: { code: shut, message: shut } }\n";

#[tokio::test]
async fn a_run_is_replayed_as_its_preview_showed() -> Result<()> {
    let world = World::start().await?;
    world.publish("failing", FAILING).await?;
    world
        .publish(
            "opening",
            "trigger: { api: {} }\nsteps:\n  - { id: one, kv: { set: open, value: true } }\n",
        )
        .await?;
    let run = start(&world, "failing", "k", json!({})).await?;
    start(&world, "opening", "k", json!({})).await?;
    let browser = Browser::signed_in(&world).await?;
    let path = format!("/console/main/runs/{run}");

    let page = browser.page(&path).await?;
    let preview = browser.page(&format!("{path}/replay?from=two")).await?;
    let fields = [
        ("form", hidden(&preview, "form")?),
        ("key", hidden(&preview, "key")?),
        ("digest", hidden(&preview, "digest")?),
        ("from", hidden(&preview, "from")?),
        ("reason", "it is open now".to_owned()),
    ];
    let fields: Vec<(&str, &str)> = fields.iter().map(|(a, b)| (*a, b.as_str())).collect();
    let replayed = browser.post(&format!("{path}/replay"), &fields).await?;
    let again = browser.post(&format!("{path}/replay"), &fields).await?;
    let to = replayed.header("location").context("a run")?;
    let next: RunId = to.rsplit('/').next().context("an id")?.parse()?;
    let patience = patience_span();
    let end = world.client.await_run(next, patience).await?;

    ensure!(page.contains("Replay from step"), "{page}");
    ensure!(preview.contains("skipped"), "{preview}");
    ensure!(preview.contains("made again from two on"), "{preview}");
    assert_eq!(again.header("location"), Some(to), "a second click");
    assert_eq!(end.state, RunStatus::Succeeded);
    assert_eq!(world.kv("counted").await?, json!(1), "done once");
    Ok(())
}

#[tokio::test]
async fn who_may_not_replay_sees_what_is_missing() -> Result<()> {
    let world = World::start().await?;
    world.publish("failing", FAILING).await?;
    let run = start(&world, "failing", "k", json!({})).await?;
    let rights = [Right::Read, Right::Payload].into_iter().collect();
    let browser = Browser::with_rights(&world, "viewer", rights).await?;
    let path = format!("/console/main/runs/{run}");

    let page = browser.page(&path).await?;
    let preview = browser.page(&format!("{path}/replay")).await?;

    let missing = "does not have the right replay";
    ensure!(
        page.contains(missing) && preview.contains(missing),
        "{preview}"
    );
    ensure!(!preview.contains("Replay this run"), "{preview}");
    Ok(())
}

#[tokio::test]
async fn the_search_box_narrows_by_release_time_error_and_parent() -> Result<()> {
    let world = World::start().await?;
    world.publish("failing", FAILING).await?;
    world.publish("batch", BATCH).await?;
    start(&world, "failing", "shut-1", json!({})).await?;
    let lines = json!([{ "id": "x", "bad": false }]);
    let parent = start(&world, "batch", "batch-1", json!({ "lines": lines })).await?;
    let browser = Browser::signed_in(&world).await?;
    let found = async |query: &str| {
        let query = query.replace(':', "%3A").replace(' ', "%20");
        browser.page(&format!("/console/main/runs?q={query}")).await
    };

    for (query, has, lacks) in [
        ("error:shut", "shut-1", "batch-1"),
        ("flow:batch release:r1", "batch-1", "shut-1"),
        ("since:1h state:failed", "shut-1", "batch-1"),
        ("until:2020-01-01", "There is no such run", "shut-1"),
        (
            &format!("parent:{parent}"),
            "/console/main/runs/run_",
            "shut-1",
        ),
    ] {
        let page = found(query).await?;
        let list = page.split("class=\"rows\"").nth(1).context("a list")?;
        ensure!(list.contains(has), "{query}: {list}");
        ensure!(!list.contains(&format!(">{lacks}<")), "{query}: {list}");
    }
    for wrong in [
        "since:then",
        "release:1",
        "parent:run_1",
        "error:a parent:b",
    ] {
        let query = wrong.replace(':', "%3A").replace(' ', "%20");
        let page = browser
            .get(&format!("/console/main/runs?q={query}"))
            .await?;
        ensure!(page.status.is_client_error(), "{wrong}: {}", page.status);
        ensure!(page.text().contains("class=\"trouble\""), "{wrong}");
        ensure!(page.text().contains("aria-label=\"Places\""), "{wrong}");
    }
    Ok(())
}
