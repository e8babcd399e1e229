//! The rules about what pages say: values as they are, runs by their key, acts on many runs in two pages, and
//! lists that teach while they are empty.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use semel_api::types::StartRun;
use serde_json::{Value, json};

use super::reading::{attribute, between, page_routes, read_all};
use crate::console::Browser;
use crate::console::hidden;
use crate::console::stage::{HOSTILE, Stage};
use crate::world::{World, patience_span};

/// Tables of records, which name what they are about as it was recorded.
const RECORDS: [&str; 2] = ["/console/main/audit", "/console/main/audit/chain"];

/// The most characters of a value that a page shows at first.
const VALUE_CHARS_MAX: usize = 4_096;

/// Pages about no list, or about one that is never empty.
const NEVER_EMPTY: [&str; 9] = [
    "/console/{namespace}/",
    "/console/{namespace}/keys",
    "/console/{namespace}/doubts/group",
    "/console/{namespace}/jobs/new",
    "/console/{namespace}/servers",
    "/console/{namespace}/settings",
    "/console/{namespace}/audit",
    "/console/{namespace}/audit/chain",
    "/console/{namespace}/tokens",
];

/// What a page shows in a block, as the text that it stands for.
fn read_block(shown: &str) -> String {
    let mut text = shown
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&");
    // What would not be seen is shown by its number.
    while let Some(start) = text.find("\\u{") {
        let Some(length) = text[start..].find('}') else {
            break;
        };
        let digits = &text[start + 3..start + length];
        let letter = u32::from_str_radix(digits, 16)
            .ok()
            .and_then(char::from_u32);
        let letter = letter.map(String::from).unwrap_or_default();
        text.replace_range(start..=start + length, &letter);
    }
    text
}

#[tokio::test]
async fn values_are_shown_as_the_api_gives_them_and_long_ones_lead_to_all_of_them() -> Result<()> {
    let stage = Stage::start().await?;
    let flow = "trigger: { api: {} }\nsteps:\n  - { id: same, function: 'input' }\nresult: steps.same.result\n";
    let flow = stage.world.publish("showing", flow).await?;
    let input = json!({
        "z": 9_007_199_254_740_991_i64, "a": -0.1, "m": [1e-7, 123_456_789.25, null, true],
        "text": HOSTILE, "escapes": "a\tb\\n\u{1f600}", "long": "x".repeat(6_000),
    });
    let start = StartRun {
        key: Some("values".to_owned()),
        input: input.clone(),
        ..StartRun::default()
    };
    let patience = Some(patience_span());
    let started = stage
        .world
        .client
        .start_run(&flow, &start, patience)
        .await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let path = format!("/console/main/runs/{}", started.body.run);

    let cut = browser.page(&path).await?;
    let whole = browser.page(&format!("{path}?whole=yes")).await?;

    ensure!(cut.contains("?whole=yes\">Show everything</a>"), "{cut}");
    let blocks: Vec<Value> = between(&whole, "<pre", "</pre>")
        .filter_map(|block| serde_json::from_str(&read_block(block.split_once('>')?.1)).ok())
        .collect();
    ensure!(
        blocks.contains(&input),
        "the input is shown otherwise: {blocks:?}"
    );
    ensure!(whole.contains("9007199254740991"), "an integer is rounded");
    for (path, page) in read_all(&browser, &stage).await? {
        let pieces: Vec<&str> = page.split("<pre").skip(1).collect();
        for piece in pieces {
            let (block, rest) = piece.split_once("</pre>").context("an end")?;
            let shown = read_block(block.split_once('>').unwrap_or_default().1);
            // Texts of flows are whole: they are read, and not only looked at.
            let is_source = path.contains("/flows/");
            ensure!(
                shown.chars().count() <= VALUE_CHARS_MAX || is_source,
                "{path} shows {} characters at once",
                shown.chars().count()
            );
            let is_cut = shown.chars().count() == VALUE_CHARS_MAX;
            ensure!(!is_cut || rest.contains("Show everything"), "{path}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn lists_name_runs_by_their_key() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let mut count = 0;

    for (path, page) in read_all(&browser, &stage).await? {
        if RECORDS.contains(&path.split('?').next().unwrap_or_default()) {
            continue;
        }
        for table in between(&page, "<table", "</table>") {
            for link in between(table, "<a href=\"/console/main/runs/run_", "</a>") {
                count += 1;
                let (_, shown) = link.split_once('>').context("a link")?;
                ensure!(
                    !shown.contains("run_"),
                    "{path} names a run by its identity: {shown}"
                );
            }
        }
    }

    ensure!(count > 30, "{count} links to runs");
    Ok(())
}

/// The forms that act on many runs or effects.
const BULK: [&str; 3] = ["/jobs", "/doubts/group", "/change"];

#[tokio::test]
async fn what_is_done_to_many_names_how_many_and_which_and_needs_that_named() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let mut seen: Vec<&str> = Vec::new();
    let pages = read_all(&browser, &stage).await?;

    for (path, page) in &pages {
        for form in between(page, "<form", "</form>") {
            let action = attribute(form, "action").unwrap_or_default();
            let Some(kind) = BULK.into_iter().find(|it| action.ends_with(it)) else {
                continue;
            };
            if attribute(form, "method") != Some("post") {
                continue;
            }
            seen.push(kind);
            let counted = form.contains(" run, ") || form.contains(" runs, ");
            let counted = counted || form.contains(" effect, ") || form.contains(" effects, ");
            ensure!(counted, "{path} does not say how many: {form}");
            let which = form.contains("name=\"digest\" value=\"") || form.contains("frozen as ");
            ensure!(which, "{path} does not say which: {form}");
            ensure!(
                form.contains("name=\"reason\""),
                "{path} asks for no reason"
            );
        }
    }
    for kind in BULK {
        ensure!(seen.contains(&kind), "no page with {kind}");
    }

    // Without the digest of a plan, and without a filter, nothing is done.
    let (_, some) = pages.first().context("a page")?;
    let form = hidden(some, "form")?;
    let before = jobs(&stage.world).await?;
    for (action, fields) in [
        ("/jobs", vec![("verb", "cancel"), ("flow", "charging")]),
        ("/jobs", vec![("verb", "cancel"), ("digest", "0")]),
        (
            "/doubts/group",
            vec![("verdict", "happened"), ("flow", "charging")],
        ),
        ("/doubts/group", vec![("verdict", "happened")]),
        ("/replays", vec![]),
    ] {
        let mut all = vec![
            ("form", form.as_str()),
            ("key", "console-bulk"),
            ("reason", "x"),
        ];
        all.extend(fields);
        let page = format!("/console/main{action}");
        let answer = browser.post(&page, &all).await?;
        ensure!(
            answer.status.is_client_error(),
            "{action} {all:?}: {}",
            answer.status
        );
    }
    assert_eq!(jobs(&stage.world).await?, before);
    let doubts = stage.world.client.list_doubts().await?.items;
    assert_eq!(doubts.len(), 1, "nothing was settled");

    // What was begun shows how far it is, and what became of each.
    for (path, page) in &pages {
        let one = path.contains("/jobs/job_") || path.contains("/replays/");
        ensure!(
            !one || page.contains("<progress "),
            "{path} does not show how far it is"
        );
    }
    Ok(())
}

async fn jobs(world: &World) -> Result<(i64, i64)> {
    let client = world.database.connect().await?;
    let text = "SELECT (SELECT count(*) FROM run_jobs), (SELECT count(*) FROM replay_plans)";
    let row = client.query_one(text, &[]).await?;
    Ok((row.get(0), row.get(1)))
}

#[tokio::test]
async fn an_empty_list_says_what_would_be_there_how_it_comes_and_where_that_is_explained()
-> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;

    for route in page_routes() {
        if NEVER_EMPTY.contains(&route.as_str()) || route.matches('{').count() > 1 {
            continue;
        }
        count += 1;
        let path = route.replace("{namespace}", "main");
        let page = browser.page(&path).await?;
        let empty = between(&page, "<div class=\"empty teach\">", "</div>").next();
        let empty = empty.with_context(|| format!("{path} does not teach"))?;
        ensure!(empty.contains("<code data-copy>"), "{path}: no command");
        let named = between(empty, "<code>docs/", "</code>").next();
        let named = named.with_context(|| format!("{path} names no page"))?;
        ensure!(root.join("docs").join(named).is_file(), "{path}: {named}");
    }

    ensure!(count > 12, "{count} lists");
    Ok(())
}
