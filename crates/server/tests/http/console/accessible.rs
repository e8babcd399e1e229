//! The console as axe-core judges it: no page may have a violation.
//!
//! Every page is judged as it is wide and light, and the first of each route as it is narrow and dark too. With
//! `SEMEL_ALL_LOOKS` every page is judged in all four looks, as `.ci/long` asks for.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::browser::{Chromium, browse, link};
use super::rules::reading::{page_routes, route_of};
use super::stage::Stage;

/// What axe is asked: everything of WCAG 2.2 AA and its own best practice.
const RUN: &str = "axe.run(document, { resultTypes: ['violations'] }).then(found => found.violations.map(it => \
    it.id + ': ' + it.nodes.slice(0, 3).map(node => node.target.join(' ') + ' ' + node.failureSummary).join(' | ')))";

/// axe-core as `.ci/run` installs it.
fn axe() -> Result<String> {
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("a home directory")?).join(".cache"),
    };
    let file = cache.join("semel/axe/node_modules/axe-core/axe.min.js");
    let text = std::fs::read_to_string(&file);
    text.with_context(|| format!("{} is not there: .ci/run installs it", file.display()))
}

/// A look: the width of the window, and whether it is dark.
type Look = (u32, bool);

const WIDE_LIGHT: Look = (1280, false);
const WIDE_DARK: Look = (1280, true);
const NARROW_LIGHT: Look = (320, false);
const NARROW_DARK: Look = (320, true);

/// The pages, each with the looks that it is judged in.
fn plan(pages: Vec<String>) -> Vec<(String, Vec<Look>)> {
    let all = std::env::var_os("SEMEL_ALL_LOOKS").is_some();
    let routes = page_routes();
    let mut kinds = BTreeSet::new();
    let looks = pages.into_iter().map(|page| {
        let kind = route_of(&routes, &page).unwrap_or(&page).clone();
        let looks = match (all, kinds.insert(kind)) {
            (true, _) => vec![WIDE_LIGHT, WIDE_DARK, NARROW_LIGHT, NARROW_DARK],
            (false, true) => vec![WIDE_LIGHT, NARROW_DARK],
            (false, false) => vec![WIDE_LIGHT],
        };
        (page, looks)
    });
    looks.collect()
}

/// Gives the page that is open a look, which it has when this returns.
fn dress(browser: &mut Chromium, (width, dark): Look) -> Result<()> {
    browser.look(width, 800, dark)?;
    let scheme = if dark { "dark" } else { "light" };
    browser.until(&format!(
        "matchMedia('(width: {width}px) and (prefers-color-scheme: {scheme})').matches"
    ))
}

#[tokio::test]
async fn axe_finds_nothing_on_any_page_in_either_theme() -> Result<()> {
    let axe = axe()?;
    let stage = Stage::start().await?;
    let mut pages = stage.all_pages().await?;
    pages.push("/console/sign-in".to_owned());
    pages.push("/console/main/none".to_owned());
    let link = link(&stage).await?;
    let base = format!("http://{}", stage.world.address);

    let found = browse(move |browser| {
        browser.look(1280, 800, false)?;
        browser.open(&link, "location.pathname === '/console/main/'")?;
        browser.bypass_policy()?;
        let mut found = Vec::new();
        for (page, looks) in &plan(pages) {
            browser.open(&format!("{base}{page}"), "document.querySelector('h1')")?;
            // What is folded is judged, too.
            browser
                .eval("document.querySelectorAll('details').forEach(it => { it.open = true; })")?;
            browser.eval(&axe)?;
            for (width, dark) in looks {
                dress(browser, (*width, *dark))?;
                let violations: Value = browser.eval_promise(RUN)?;
                for violation in violations.as_array().into_iter().flatten() {
                    found.push(format!("{page} at {width}, dark {dark}: {violation}"));
                }
            }
        }
        Ok(found)
    })
    .await?;

    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}
