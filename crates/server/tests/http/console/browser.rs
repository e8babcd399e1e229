//! The console in a real browser: a story, hostile text with script switched on, and how it looks.
//!
//! With `SEMEL_PICTURES` set to a folder, a picture of every page is written there: wide and narrow,
//! light and dark.

mod chromium;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use semel_api::types::RunStatus;
use semel_model::Role;

use super::oidc::Scene;
use super::stage::Stage;
use crate::world::{World, patience_span};
pub(super) use chromium::Chromium;

/// The address that signs in.
pub(super) async fn link(stage: &Stage) -> Result<String> {
    link_of(&stage.world).await
}

/// The address that signs in to a world.
pub(super) async fn link_of(world: &World) -> Result<String> {
    let code = world.client.make_sign_in_code().await?;
    Ok(format!("http://{}{}", world.address, code.path))
}

/// Runs something with a browser on a thread of its own, while this one serves.
pub(super) async fn browse<T: Send + 'static>(
    work: impl FnOnce(&mut Chromium) -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(move || work(&mut Chromium::start()?)).await?
}

#[tokio::test]
async fn an_order_is_found_by_its_key_and_its_doubt_settled() -> Result<()> {
    let stage = Stage::start().await?;
    let link = link(&stage).await?;

    let seen = browse(move |browser| {
        browser.open(&link, "location.pathname === '/console/main/'")?;
        ensure!(browser.eval("location.hash")? == "", "the code is gone from the address");
        browser.eval("document.querySelector('#q').value = 'o-1'; document.querySelector('.search button').click()")?;
        browser.until("document.querySelector('.verdict')")?;
        let verdict = browser.eval("document.querySelector('.verdict').innerText")?;
        let verdict = verdict.as_str().context("a text")?.to_owned();
        browser.eval("document.querySelector('nav a[href$=\"/doubts\"]').click()")?;
        browser.until("document.querySelector('.doubts a')")?;
        browser.eval("document.querySelector('.doubts h3 a').click()")?;
        browser.until("document.querySelector('#settle form')")?;
        let fill = "const form = document.querySelector('#settle form');\
            form.querySelector('input[value=happened]').checked = true;\
            form.querySelector('[name=result]').value = '{\"id\": \"ch_9\"}';\
            form.querySelector('[name=reason]').value = 'seen in their list';\
            form.querySelector('button').click();";
        browser.eval(fill)?;
        browser.until("document.querySelector('#audit') && document.body.innerText.includes('It happened.')")?;
        ensure!(browser.seen.is_empty(), "{:?}", browser.seen);
        Ok(verdict)
    })
    .await?;

    assert!(
        seen.contains("charge was done once. 1 run; 2 repeats got"),
        "{seen}"
    );
    let patience = patience_span();
    let end = stage
        .world
        .client
        .await_run(stage.stopped, patience)
        .await?;
    assert_eq!(end.state, RunStatus::Succeeded);
    Ok(())
}

#[tokio::test]
async fn no_page_runs_what_it_shows_and_every_page_fits_a_narrow_screen() -> Result<()> {
    let stage = Stage::start().await?;
    let link = link(&stage).await?;
    let base = format!("http://{}", stage.world.address);
    let pages = stage.all_pages().await?;
    let pictures = std::env::var_os("SEMEL_PICTURES").map(PathBuf::from);

    browse(move |browser| {
        browser.look(320, 640, false)?;
        browser.open(&link, "location.pathname === '/console/main/'")?;
        for (number, page) in pages.iter().enumerate() {
            let there =
                "document.querySelector('h1') && document.querySelector('.same button.copy')";
            browser.look(320, 640, true)?;
            browser.open(&format!("{base}{page}"), there)?;
            let width = browser.eval("document.documentElement.scrollWidth")?;
            ensure!(
                width.as_u64().is_some_and(|width| width <= 320),
                "{page}: {width} wide"
            );
            if let Some(folder) = &pictures {
                let name = format!("{number:02}");
                browser.picture(&folder.join(format!("{name}-narrow-dark.png")))?;
                browser.look(320, 640, false)?;
                browser.picture(&folder.join(format!("{name}-narrow-light.png")))?;
                browser.look(1280, 800, false)?;
                browser.picture(&folder.join(format!("{name}-wide-light.png")))?;
                browser.look(1280, 800, true)?;
                browser.picture(&folder.join(format!("{name}-wide-dark.png")))?;
            }
        }
        ensure!(browser.seen.is_empty(), "{:?}", browser.seen);
        Ok(())
    })
    .await
}

/// Sign-in, sign-out and the way back cross two sites, under the console's own policy for forms.
#[tokio::test]
async fn a_person_signs_in_and_out_through_the_identity_provider() -> Result<()> {
    let scene = Scene::start().await?;
    scene.map("ops", Role::Viewer).await?;
    let (base, issuer) = (scene.base(), scene.provider.issuer().to_owned());

    browse(move |browser| {
        let there = "document.querySelector('a.button')";
        browser.open(&format!("{base}/console/main/runs"), there)?;
        let text = browser.eval("document.querySelector('a.button').innerText")?;
        ensure!(text == "Sign in with Example <ID>", "{text}");
        browser.eval("document.querySelector('a.button').click()")?;
        browser.until("document.querySelector('input[name=login]')")?;
        let at = browser.eval("location.origin")?;
        ensure!(at == issuer.as_str(), "{at}");
        let fill = "document.querySelector('input[name=login]').value = 'ada';\
            document.querySelector('input[name=password]').value = 'x';\
            document.querySelector('form').submit();";
        browser.eval(fill)?;
        browser.until("location.pathname === '/console/main/runs'")?;
        browser.until("document.body.innerText.includes('Ada Lovelace (ada)')")?;
        browser.eval("document.querySelector('form[action$=\"/sign-out\"] button').click()")?;
        browser.until("document.querySelector('button[name=logout]')")?;
        browser.eval("document.querySelector('button[name=logout]').click()")?;
        browser.until("location.pathname === '/console/sign-in'")?;
        browser.open(&format!("{base}/console/main/"), there)?;
        Ok(())
    })
    .await
}
