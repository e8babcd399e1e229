//! Saved searches: private or shared, each a link.

use anyhow::{Result, ensure};
use semel_api::Code;
use semel_api::types::{SaveSearch, SearchScope};
use semel_model::Right;

use super::stage::HOSTILE;
use super::{Browser, hidden};
use crate::world::{World, add_token_with, refused};

#[tokio::test]
async fn a_search_is_saved_by_a_form_and_found_on_the_page_of_runs() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;
    let other = Browser::with_rights(&world, "other", Right::Read.into()).await?;
    let page = browser
        .page("/console/main/runs?q=flow%3Ax%20state%3Afailed")
        .await?;
    let form = hidden(&page, "form")?;
    let save = async |name: &str, whose: &str| {
        let fields = [
            ("form", form.as_str()),
            ("name", name),
            ("query", "flow:x state:failed"),
            ("for", whose),
        ];
        browser.post("/console/main/searches", &fields).await
    };

    let own = save("Mine", "me").await?;
    let shared = save(&format!("Ours {}", &HOSTILE[..20]), "all").await?;
    let nameless = save("", "me").await?;
    let mine = browser.page("/console/main/runs").await?;
    let theirs = other.page("/console/main/runs").await?;

    let to = Some("/console/main/runs?q=flow%3Ax%20state%3Afailed");
    assert_eq!(
        (own.header("location"), shared.header("location")),
        (to, to)
    );
    assert_eq!(nameless.status, 400);
    ensure!(
        mine.contains(">Mine</a>") && mine.contains(">Ours "),
        "{mine}"
    );
    ensure!(
        !theirs.contains(">Mine</a>") && theirs.contains(">Ours "),
        "{theirs}"
    );
    ensure!(!mine.contains("<script>alert"), "{mine}");

    let fields = [("form", form.as_str()), ("name", "Mine"), ("for", "me")];
    browser
        .post("/console/main/searches/forget", &fields)
        .await?;
    let left = world.client.list_searches().await?.items;
    ensure!(left.len() == 1 && left[0].shared, "{left:?}");
    Ok(())
}

#[tokio::test]
async fn what_everybody_has_is_changed_by_who_operates_only() -> Result<()> {
    let world = World::start().await?;
    let token = add_token_with(world.engine.cell(), "viewer", Right::Read.into()).await?;
    let viewer = semel_api::Client::new(world.client.base(), &token)?;
    let save = |shared| SaveSearch {
        query: "state:failed".to_owned(),
        shared,
    };

    let denied = viewer.save_search("all", &save(true)).await;
    viewer.save_search("own", &save(false)).await?;
    world.client.save_search("all", &save(true)).await?;
    let kept = viewer
        .forget_search("all", SearchScope { shared: true })
        .await;
    let foreign = world
        .client
        .forget_search("own", SearchScope::default())
        .await?;
    let stranger = world.stranger().await?.list_searches().await?.items;

    assert_eq!(refused(denied)?, Code::RightMissing);
    assert_eq!(refused(kept)?, Code::RightMissing);
    ensure!(!foreign.forgotten, "it is the viewer's own");
    ensure!(stranger.is_empty(), "{stranger:?}");
    let seen: Vec<String> = viewer
        .list_searches()
        .await?
        .items
        .into_iter()
        .map(|it| it.name)
        .collect();
    assert_eq!(seen, ["own", "all"]);
    Ok(())
}
