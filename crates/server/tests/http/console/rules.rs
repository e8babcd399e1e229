//! The rules for every page of the console, run over all of them. A new page is in the list, or the first
//! test fails.

mod contents;
pub(super) mod reading;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use semel_model::Right;
use semel_server::openapi_document;
use semel_testkit::until;
use serde_json::Value;

use super::Browser;
use super::stage::Stage;
use reading::{attribute, between, page_routes, read_all, route_of, unescaped};

/// Pages whose JSON is a list that they only show the beginning of.
const NO_LISTS: [&str; 3] = [
    "/console/{namespace}/",
    "/console/{namespace}/doubts/group",
    "/console/{namespace}/jobs/new",
];

/// Forms that are for everybody who is signed in.
const FOR_EVERYBODY: [&str; 5] = [
    "/look",
    "/sign-out",
    "/sign-out-everywhere",
    "/searches",
    "/searches/forget",
];

/// What people and programs change. What servers write by themselves all the time is not in it.
const CHANGED_BY_ACTS: [&str; 25] = [
    "alert_settings",
    "approvals",
    "attention",
    "claims",
    "commands",
    "connections",
    "data_keys",
    "duplicates",
    "effects",
    "flows",
    "group_roles",
    "kv",
    "namespaces",
    "pauses",
    "rehearsals",
    "releases",
    "replay_items",
    "replay_plans",
    "run_job_items",
    "run_jobs",
    "runs",
    "searches",
    "secrets",
    "subscriptions",
    "waits",
];

#[tokio::test]
async fn no_page_takes_a_parameter_that_it_does_not_know() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;

    for page in stage.all_pages().await? {
        let sign = if page.contains('?') { '&' } else { '?' };
        let answer = browser.get(&format!("{page}{sign}nonsense=1")).await?;
        assert_eq!(answer.status.as_u16(), 400, "{page}");
    }
    Ok(())
}

#[tokio::test]
async fn every_page_of_the_console_is_in_the_list() -> Result<()> {
    let stage = Stage::start().await?;
    let routes = page_routes();
    ensure!(routes.len() > 30, "{} routes", routes.len());

    let pages = stage.all_pages().await?;
    let shown: BTreeSet<&String> = pages
        .iter()
        .filter_map(|page| route_of(&routes, page))
        .collect();

    let missing: Vec<&String> = routes.iter().filter(|it| !shown.contains(it)).collect();
    ensure!(missing.is_empty(), "add a page to `all_pages`: {missing:?}");
    Ok(())
}

/// Everything that people and programs change, as one text.
async fn state(stage: &Stage) -> Result<String> {
    let client = stage.world.database.connect().await?;
    let mut state = String::new();
    for table in CHANGED_BY_ACTS {
        let digest = format!(
            "SELECT md5(coalesce(string_agg(t::text, ',' ORDER BY t::text), '')) FROM {table} t"
        );
        let digest: String = client.query_one(&digest, &[]).await?.get(0);
        state.push_str(&format!("{table} {digest}\n"));
    }
    let acts = "SELECT count(*) FROM audit";
    let acts: i64 = client.query_one(acts, &[]).await?.get(0);
    Ok(format!("{state}audit {acts}"))
}

/// Waits until what was set in motion a moment ago has come to its end, and ends the services: from now on only
/// requests change anything.
async fn rest(stage: &Stage) -> Result<()> {
    let client = stage.world.database.connect().await?;
    let moving =
        "SELECT (SELECT count(*) FROM queue WHERE holder IS NOT NULL OR due_at <= moment())
                       + (SELECT count(*) FROM rehearsals WHERE state IN ('queued', 'running'))
                       + (SELECT count(*) FROM replay_plans WHERE state = 'previewing')
                       + (SELECT count(*) FROM run_jobs WHERE state = 'running')";
    let look = async || Ok(client.query_one(moving, &[]).await?.get::<_, i64>(0));
    until("nothing to move", look, |moving| *moving == 0).await?;
    stage.world.engine.suspend();
    Ok(())
}

#[tokio::test]
async fn looking_at_every_page_changes_nothing() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let pages = stage.all_pages().await?;
    rest(&stage).await?;
    // A statement that a service had sent may still end.
    let look = async || Ok((state(&stage).await?, state(&stage).await?));
    let (before, _) = until("the last change", look, |(one, next)| one == next).await?;

    for path in &pages {
        browser.page(path).await?;
    }

    assert_eq!(state(&stage).await?, before);
    Ok(())
}

#[tokio::test]
async fn every_page_has_one_heading_states_in_words_and_exact_times() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;

    for (path, page) in read_all(&browser, &stage).await? {
        assert_eq!(page.matches("<h1").count(), 1, "{path}");
        let lines = between(&page, "<section class=\"same\"", "</section>").next();
        let lines = lines.with_context(|| path.clone())?;
        for name in ["JSON", "Command", "curl"] {
            ensure!(
                lines.contains(&format!("<dt>{name}</dt>")),
                "{path}: {name}"
            );
        }
        assert_eq!(lines.matches("data-copy").count(), 3, "{path}");

        for time in between(&page, "<time", ">") {
            let at = attribute(time, "datetime").with_context(|| format!("{path}: {time}"))?;
            ensure!(at.parse::<Timestamp>().is_ok(), "{path}: {at}");
            ensure!(attribute(time, " title").is_some(), "{path}: {time}");
        }
        // A time that is told in words has the exact one behind it.
        let mut without = page.clone();
        for time in between(&page, "<time", "</time>") {
            without = without.replace(time, "");
        }
        let words: Vec<&str> = without.split_whitespace().collect();
        let untold = words.windows(3).find(|it| {
            it[0].parse::<u32>().is_ok()
                && ["s", "min", "h", "d"].contains(&it[1])
                && it[2].starts_with("ago")
        });
        ensure!(untold.is_none(), "{path}: {untold:?}");

        for state in
            between(&page, " state ", "</span></").chain(between(&page, "\"state ", "</span></"))
        {
            let Some((_, shown)) = state.split_once("class=\"shape\" aria-hidden=\"true\">") else {
                continue;
            };
            let (shape, word) = shown.split_once("</span>").unwrap_or((shown, ""));
            ensure!(
                !shape.is_empty() && !word.trim().is_empty(),
                "{path}: {state}"
            );
        }
        let states = page.matches("<span class=\"state ").count();
        let shapes = page.matches("<span class=\"shape\" aria-hidden=\"true\">");
        ensure!(
            shapes.count() >= states,
            "{path}: a state without its shape"
        );
    }
    Ok(())
}

#[tokio::test]
async fn every_form_has_its_key_and_a_button() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let mut count = 0;

    for (path, page) in read_all(&browser, &stage).await? {
        for form in between(&page, "<form", "</form>") {
            ensure!(
                form.contains("type=\"submit\""),
                "{path}: no button: {form}"
            );
            if attribute(form, "method") != Some("post") {
                continue;
            }
            ensure!(form.contains("name=\"form\" value=\""), "{path}: {form}");
            let action = attribute(form, "action").context("an action")?;
            if !FOR_EVERYBODY.iter().any(|it| action.ends_with(it)) {
                count += 1;
                let key = "name=\"key\" value=\"console-";
                ensure!(form.contains(key), "{path}: no key: {action}");
            }
        }
    }

    ensure!(count > 20, "{count} forms that act");
    Ok(())
}

#[tokio::test]
async fn who_may_only_look_sees_every_act_switched_off_with_the_right_that_is_missing() -> Result<()>
{
    let stage = Stage::start().await?;
    let rights = [Right::Read, Right::Payload].into_iter().collect();
    let browser = Browser::with_rights(&stage.world, "viewer", rights).await?;
    let mut count = 0;

    for path in stage.all_pages().await? {
        let answer = browser.get(&path).await?;
        let page = answer.text();
        ensure!([200, 403].contains(&answer.status.as_u16()), "{path}");
        for form in between(&page, "<form", "</form>") {
            let action = attribute(form, "action").unwrap_or_default();
            let is_act = attribute(form, "method") == Some("post")
                && !FOR_EVERYBODY.iter().any(|it| action.ends_with(it));
            let buttons: Vec<&str> = between(form, "<button", ">").collect();
            let off = buttons.iter().filter(|it| it.contains(" disabled")).count();
            ensure!(!is_act || off == buttons.len(), "{path}: {action} is open");
            if off > 0 {
                count += 1;
                let named = "does not have the right ";
                ensure!(form.contains(named), "{path}: {action} names no right");
            }
        }
    }

    ensure!(count > 10, "{count} acts");
    Ok(())
}

/// The operation behind a route with its parts filled in.
fn operation<'a>(document: &'a Value, route: &str) -> Option<&'a Value> {
    let paths = document["paths"].as_object()?;
    let names: Vec<String> = paths.keys().cloned().collect();
    let name = route_of(&names, route)?;
    Some(&document["paths"][name]["get"])
}

#[tokio::test]
async fn every_list_has_its_next_page_by_the_api_s_cursor() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let (document, routes) = (openapi_document(), page_routes());
    let mut count = 0;

    for (path, page) in read_all(&browser, &stage).await? {
        let json = between(&page, "<dt>JSON</dt>", "</code>").next();
        let json = json.and_then(|it| it.split("GET ").nth(1));
        let json = unescaped(json.with_context(|| path.clone())?);
        let found = operation(&document, &json).with_context(|| format!("{path}: {json}"))?;
        let parameters = found["parameters"].as_array();
        let mut parameters = parameters.into_iter().flatten();
        let route = route_of(&routes, &path).context("a route")?;
        if NO_LISTS.contains(&route.as_str()) || !parameters.any(|it| it["name"] == "cursor") {
            continue;
        }
        count += 1;
        let sign = if path.contains('?') { '&' } else { '?' };
        let wrong = browser.get(&format!("{path}{sign}cursor=none")).await?;
        let text = wrong.text();
        assert_eq!(wrong.status, 400, "{path} reads no cursor");
        ensure!(text.contains("class=\"trouble\""), "{path}: {text}");
        ensure!(text.contains("aria-label=\"Places\""), "{path} is not kept");
    }

    ensure!(count > 12, "{count} lists");
    Ok(())
}

#[tokio::test]
async fn what_is_asked_wrongly_keeps_the_page_and_says_what_to_do() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;

    for (path, kept) in [
        ("/runs?q=state%3Afoo", "value=\"state:foo\""),
        ("/runs?q=flow%3A-%20x", "value=\"flow:- x\""),
        ("/effects?state=foo", "In doubt"),
        ("/?last=long", "7 days"),
        ("/?flow=not%20a%20flow", "value=\"not a flow\""),
        (
            "/jobs/new?verb=resume&flow=charging&state=foo",
            "name=\"flow\"",
        ),
        (
            "/jobs/new?verb=resume&flow=charging&after=then",
            "name=\"after\"",
        ),
    ] {
        let answer = browser.get(&format!("/console/main{path}")).await?;
        let page = answer.text();

        ensure!(answer.status.is_client_error(), "{path}: {}", answer.status);
        ensure!(
            page.contains("class=\"trouble\" role=\"alert\""),
            "{path}: {page}"
        );
        ensure!(page.contains("aria-label=\"Places\""), "{path}: {page}");
        ensure!(page.contains(kept), "{path}: {page}");
        assert_eq!(page.matches("<h1").count(), 1, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_foreign_looks_like_what_is_absent_on_every_page() -> Result<()> {
    let stage = Stage::start().await?;
    let stranger = stage.world.stranger().await?;
    let browser = Browser::signed_in_as(&stage.world, &stranger).await?;
    let routes = page_routes();
    let mut count = 0;

    for page in stage.all_pages().await? {
        let lost = browser.get(&page).await?;
        assert_eq!(lost.status, 404, "{page} of another namespace");
        let route = route_of(&routes, &page).context("a route")?;
        if route.matches('{').count() < 2 {
            continue;
        }
        count += 1;
        let (path, query) = page.split_once('?').unwrap_or((&page, ""));
        let parts = route.split('/').zip(path.split('/'));
        let absent = parts.map(|(of, part)| match of {
            "{namespace}" => "elsewhere".to_owned(),
            "{flow}" | "{name}" => "absent".to_owned(),
            "{run}" | "{effect}" | "{approval}" | "{event}" | "{job}" | "{plan}" | "{wait}" => {
                // An identity of the same kind, which nothing has.
                let (kind, _) = part.split_once('_').unwrap_or(("", part));
                format!("{kind}_{}", "0".repeat(32))
            }
            _ => part.to_owned(),
        });
        let absent = absent.collect::<Vec<_>>().join("/");
        let real = path.replacen("/main/", "/elsewhere/", 1);
        let (real, absent) = (format!("{real}?{query}"), format!("{absent}?{query}"));

        let (foreign, nothing) = (browser.get(&real).await?, browser.get(&absent).await?);

        assert_eq!(
            (foreign.status.as_u16(), nothing.status.as_u16()),
            (404, 404),
            "{real} {absent}"
        );
        assert_eq!(foreign.text(), nothing.text(), "{real} {absent}");
    }

    ensure!(count > 15, "{count} pages of one thing");
    Ok(())
}
