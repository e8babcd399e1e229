//! The console as axe-core judges it: no page may have a violation, wide and light or narrow and dark.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::browser::{browse, link};
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
        for page in &pages {
            for (width, dark) in [(1280, false), (320, true)] {
                browser.look(width, 800, dark)?;
                browser.open(&format!("{base}{page}"), "document.querySelector('h1')")?;
                // What is folded is judged, too.
                browser.eval(
                    "document.querySelectorAll('details').forEach(it => { it.open = true; })",
                )?;
                browser.eval(&axe)?;
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
