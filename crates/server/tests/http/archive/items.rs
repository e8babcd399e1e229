//! The items of archived runs, over HTTP and on pages.

use anyhow::{Result, ensure};
use semel_api::Code;
use semel_api::types::{ChildRun, ChildRunFilter, ChildRunState};

use super::FAMILY;
use super::stage::{ITEMS, Stage};
use crate::console::Browser;
use crate::world::refused;

/// The items of an archived run are listed as they were: paged, by state, each with its page. Their results are
/// theirs to tell.
#[tokio::test]
async fn the_items_of_an_archived_run_are_listed_as_they_were() -> Result<()> {
    let stage = Stage::start().await?;
    let run = stage.play_customer("o-1").await?;
    let all = ChildRunFilter::default();
    let listed = stage.client().await?.list_child_runs(run, &all).await?;
    let short = stage.play_short("o-2", false).await?;
    stage.days_later(91).await?;
    stage.archive(FAMILY + 1).await?;
    let client = stage.client().await?;

    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let filter = ChildRunFilter {
            limit: Some(5),
            cursor,
            ..all.clone()
        };
        let page = client.list_child_runs(run, &filter).await?;
        pages.push(page.items);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let failed = ChildRunFilter {
        state: Some(ChildRunState::Failed),
        ..all.clone()
    };
    let failed = client.list_child_runs(run, &failed).await?;
    let none = client.list_child_runs(short, &all).await?;
    let stranger = stage.world.stranger().await?;
    let refusal = refused(stranger.list_child_runs(run, &all).await)?;
    let browser = Browser::signed_in_as(&stage.world, &client).await?;
    let page = browser.page(&format!("/console/main/runs/{run}")).await?;
    let items = browser
        .page(&format!("/console/main/runs/{run}/items"))
        .await?;

    let before: Vec<ChildRun> = listed
        .items
        .into_iter()
        .map(|item| ChildRun {
            result: None,
            ..item
        })
        .collect();
    assert_eq!(before.len() as u64, ITEMS);
    assert_eq!(pages.len() as u64, ITEMS.div_ceil(5));
    assert_eq!(pages.concat(), before);
    assert!(failed.items.is_empty() && none.items.is_empty());
    assert_eq!(refusal, Code::RunNotFound, "of another namespace");
    let all_items = format!("/runs/{run}/items\"");
    assert!(page.contains(&all_items), "{page}");
    for item in &before {
        let link = format!("/console/main/runs/{}\"", item.run);
        ensure!(items.contains(&link), "{}: {items}", item.key);
    }
    Ok(())
}
