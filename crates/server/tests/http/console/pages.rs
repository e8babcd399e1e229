//! Every page: it can be read without script, shows hostile text as text, and says how a program gets
//! the same.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_model::Right;
use semel_testkit::until_some;

use super::Browser;
use super::stage::{HOSTILE, SENT, Stage};
use crate::world::World;

#[tokio::test]
async fn an_empty_installation_says_what_would_be_there() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;

    for (page, says) in [
        ("/", "Nothing waits for you."),
        ("/runs", "semel run start FLOW"),
        ("/searches", "No search is saved."),
        ("/doubts", "Nothing is in doubt."),
        ("/approvals", "Nobody is asked for anything."),
        ("/duplicates", "No repeat was stopped."),
        ("/effects", "There is no effect yet."),
        ("/flows", "semel init orders"),
        ("/schedules", "No live release has a schedule."),
        ("/connections", "semel connection presets"),
        ("/secrets", "semel secret set NAME"),
        ("/subscriptions", "semel subscription create NAME"),
        ("/events", "No run has emitted an event."),
        ("/servers", "1 server has a lease that holds."),
        ("/tasks", "No worker has anything to do."),
        ("/waits", "No run waits for anything from outside."),
        ("/refusals", "No such delivery was refused."),
        ("/audit/chain", "The chain holds"),
        ("/jobs", "Nothing was done to many runs at once yet."),
        ("/replays", "No plan was made yet."),
        ("/settings", "semel alert set CONNECTION"),
        ("/keys?key=none", "Nothing is known under this key."),
    ] {
        let shown = browser.page(&format!("/console/main{page}")).await?;
        assert!(shown.contains(says), "{page}: {shown}");
    }
    Ok(())
}

#[tokio::test]
async fn the_overview_says_whether_it_is_well_and_draws_the_last_day() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    // Servers tell what they counted every few seconds.
    let page = until_some("two repeats to be counted", async || {
        let page = browser.page("/console/main/").await?;
        Ok(page.contains("<b>2</b> repeats answered").then_some(page))
    })
    .await?;

    for says in [
        "1 server alive",
        "nothing is late",
        "1 open",
        "none in 24 h",
        "<dt>Failed deliveries of events</dt>",
        "<b>4</b> started",
        "Bars for 24 hours: 4 started.",
        "At most 4 in an hour",
        "<summary>All of it as a table</summary>",
    ] {
        ensure!(page.contains(says), "{says}: {page}");
    }
    assert_eq!(page.matches("<svg ").count(), 3);
    assert_eq!(page.matches("role=\"img\"").count(), 3);
    assert_eq!(
        page.matches("<desc id=").count(),
        3,
        "each is told in words"
    );
    let table = page.split("What happened in each hour").nth(1);
    let table = table.and_then(|rest| rest.split("</table>").next());
    assert_eq!(table.context("a table")?.matches("<tr>").count(), 25);
    Ok(())
}

/// The time and the flow are in the address, links lead to the others, and the chosen ones are marked.
#[tokio::test]
async fn the_figures_are_of_the_time_and_the_flow_that_are_asked_for() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    until_some("four runs to be counted", async || {
        let page = browser.page("/console/main/").await?;
        Ok(page.contains("<b>4</b> started").then_some(()))
    })
    .await?;

    for (asked, heading, chosen, bars, started) in [
        (
            "",
            "The last 24 hours",
            "24 hours",
            "Bars for 24 hours: ",
            4,
        ),
        (
            "?last=1h",
            "The last hour",
            "1 hour",
            "Bars for 60 minutes: ",
            4,
        ),
        (
            "?last=7d",
            "The last 7 days",
            "7 days",
            "Bars for 56 intervals of 3h: ",
            4,
        ),
        (
            "?last=30d",
            "The last 30 days",
            "30 days",
            "Bars for 30 days: ",
            4,
        ),
        (
            "?last=7d&flow=charging",
            "The last 7 days of charging",
            "charging",
            "Bars for 56 intervals of 3h: ",
            3,
        ),
        (
            "?flow=unknown",
            "The last 24 hours of unknown",
            "unknown",
            "Bars for 24 hours: ",
            0,
        ),
    ] {
        let page = browser.page(&format!("/console/main/{asked}")).await?;
        ensure!(
            page.contains(&format!(">{heading}</h2>")),
            "{asked}: {page}"
        );
        ensure!(page.contains(bars), "{asked}: {page}");
        ensure!(
            page.contains(&format!("<b>{started}</b> started")),
            "{asked}: {page}"
        );
        let marked = format!(" aria-current=\"true\">{chosen}</a>");
        ensure!(page.contains(&marked), "{asked}: {page}");
        assert_eq!(
            page.matches(" aria-current=\"true\"").count(),
            2,
            "{asked}: one time and one flow"
        );
    }
    let page = browser.page("/console/main/?last=7d&flow=charging").await?;
    for href in [
        "/console/main/?flow=charging",
        "/console/main/?last=30d&amp;flow=charging",
        "/console/main/?last=7d",
        "/console/main/json/tallies/series?last=7d&amp;flow=charging",
    ] {
        ensure!(page.contains(&format!("href=\"{href}\"")), "{href}: {page}");
    }
    Ok(())
}

#[tokio::test]
async fn every_page_is_one_document_that_needs_no_script() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;

    for path in stage.all_pages().await? {
        let page = browser.page(&path).await?;

        assert_eq!(page.matches("<h1").count(), 1, "{path}");
        assert_eq!(
            page.matches("<script").count(),
            1,
            "{path}: our own, from a file"
        );
        assert!(
            page.contains("<html lang=\"en\">") && page.contains("<main id=\"main\""),
            "{path}"
        );
        for inline in [
            " style=",
            "javascript:",
            "<style",
            " onclick",
            " onload",
            "{%",
        ] {
            assert!(!page.contains(inline), "{path}: {inline}");
        }
        assert!(page.len() < 200_000, "{path}: {}", page.len());
    }
    Ok(())
}

#[tokio::test]
async fn hostile_text_is_shown_and_does_nothing() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let mut seen = 0;

    for path in stage.all_pages().await? {
        let page = browser.page(&path).await?;

        for active in [
            "<script>alert",
            "<img src=x",
            "onerror=alert(2)>",
            "\u{202e}",
            "\u{7}",
            "<b>&amp;",
        ] {
            assert!(!page.contains(active), "{path}: {active:?}");
        }
        seen += page
            .matches("&lt;script&gt;alert(1)&lt;/script&gt;")
            .count();
    }

    ensure!(seen > 10, "it is shown: {seen} times");
    ensure!(HOSTILE.contains('\u{202e}'));
    let key = browser
        .get("/console/main/keys?key=%3Cscript%3Ealert(3)%3C/script%3E")
        .await?;
    assert!(
        !key.text().contains("<script>alert(3)"),
        "what is asked for is text, too"
    );
    let lost = browser.get("/console/main/%3Cscript%3Ealert(4)").await?;
    assert_eq!(lost.status, 404);
    assert!(!lost.text().contains("<script>alert(4)"));
    Ok(())
}

/// The texts of a page between two marks, as a person copies them.
fn texts<'a>(page: &'a str, name: &str) -> Result<String> {
    let rest = page
        .split(&format!("<dt>{name}</dt>"))
        .nth(1)
        .context("a line")?;
    let text = rest.split("data-copy>").nth(1).context("a text")?;
    let text: &'a str = text.split("</code>").next().unwrap_or_default();
    let named = [
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&lt;", "<"),
        ("&#60;", "<"),
    ];
    let mut text = text.to_owned();
    for (name, letter) in named {
        text = text.replace(name, letter);
    }
    Ok(text
        .replace("&gt;", ">")
        .replace("&#62;", ">")
        .replace("&amp;", "&")
        .replace("&#38;", "&"))
}

#[tokio::test]
async fn the_json_and_the_curl_line_of_every_page_work_as_printed() -> Result<()> {
    let stage = Stage::start().await?;
    let world = &stage.world;
    let browser = Browser::signed_in(world).await?;
    let bearer = format!("Bearer {}", world.token);

    for path in stage.all_pages().await? {
        let page = browser.page(&path).await?;
        let json = texts(&page, "JSON")?;
        let route = json.strip_prefix("GET ").context("a route")?;
        let headers = [("authorization", bearer.as_str())];
        let answer = world
            .bare
            .send(Method::GET, route, &headers, "".into())
            .await?;
        assert_eq!(answer.status, 200, "{path}: {json}");
        let open = page
            .split("<dt>JSON</dt><dd><a href=\"")
            .nth(1)
            .context("a link")?;
        let open = open
            .split('"')
            .next()
            .unwrap_or_default()
            .replace("&#38;", "&");
        let opened = browser.get(&open.replace("&amp;", "&")).await?;
        assert_eq!(
            (opened.status, opened.header("content-type")),
            (answer.status, Some("application/json")),
            "{open}"
        );

        let curl = texts(&page, "curl")?;
        let token = world.token.clone();
        let line = curl.clone();
        let ran = tokio::task::spawn_blocking(move || {
            Command::new("sh")
                .arg("-c")
                .arg(line)
                .env("SEMEL_TOKEN", token)
                .output()
        });
        let ran = ran.await??;
        let answered = serde_json::from_slice::<serde_json::Value>(&ran.stdout);
        let answered = answered.with_context(|| curl.clone())?;
        ensure!(answered.get("code").is_none(), "{curl}: {answered}");
        assert!(texts(&page, "Command")?.starts_with("semel "), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn no_word_of_a_link_becomes_an_option_of_a_command() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;
    let evil = "url%3Dhttp%3A%2F%2Fevil.example";

    for (page, wanted) in [
        (
            format!("/keys?key=--{evil}"),
            "semel find -- --url=http://evil.example",
        ),
        (
            format!("/doubts/group?flow=charging&verdict={evil}"),
            "semel doubt settle --flow charging --happened --reason '…'",
        ),
    ] {
        let shown = browser.get(&format!("/console/main{page}")).await?;

        let command = texts(&shown.text(), "Command")?;
        assert_eq!(command, wanted, "{page}");
    }
    let audit = format!("/console/main/audit?actor=--{evil}");
    let command = texts(&browser.get(&audit).await?.text(), "Command")?;
    ensure!(
        command.contains("--actor=--url=http://evil.example"),
        "{command}"
    );
    Ok(())
}

#[tokio::test]
async fn a_key_has_a_verdict_that_a_support_desk_can_read_out() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;

    let found = browser.get("/console/main/runs?q=o-1").await?;
    let story = browser.page("/console/main/keys?key=o-1").await?;
    let doubtful = browser.page("/console/main/keys?key=o-2").await?;
    let run = browser
        .get(&format!("/console/main/runs?q={}", stage.done))
        .await?;

    assert_eq!(found.header("location"), Some("/console/main/keys?key=o-1"));
    let verdict = "charge was done once. 1 run; 2 repeats got the first answer.";
    assert!(story.contains(verdict), "{story}");
    assert!(doubtful.contains("Whether charge happened is unknown."));
    let page = format!("/console/main/runs/{}", stage.done);
    assert_eq!(run.header("location"), Some(page.as_str()));
    Ok(())
}

#[tokio::test]
async fn who_may_not_see_payloads_sees_states_only() -> Result<()> {
    let stage = Stage::start().await?;
    let observer = Browser::with_rights(&stage.world, "observer", Right::Read.into()).await?;
    let owner = Browser::signed_in(&stage.world).await?;

    let run = format!("/console/main/runs/{}", stage.done);
    let page = observer.page(&run).await?;
    let whole = owner.page(&run).await?;
    let tokens = observer.get("/console/main/tokens").await?;

    assert!(page.contains("does not have the right payload"), "{page}");
    assert!(!page.contains(SENT), "{page}");
    assert!(whole.contains(SENT), "{whole}");
    assert_eq!(tokens.status, 200, "a page that says what is missing");
    assert!(
        tokens.text().contains("does not have the right admin"),
        "{}",
        tokens.text()
    );
    Ok(())
}

#[tokio::test]
async fn an_identity_of_another_namespace_looks_like_none() -> Result<()> {
    let stage = Stage::start().await?;
    let stranger = stage.world.stranger().await?;
    let browser = Browser::signed_in_as(&stage.world, &stranger).await?;
    let none = format!("run_{}", "0".repeat(32));

    let foreign = browser
        .get(&format!("/console/elsewhere/runs/{}", stage.done))
        .await?;
    let absent = browser
        .get(&format!("/console/elsewhere/runs/{none}"))
        .await?;

    assert_eq!(
        (foreign.status.as_u16(), absent.status.as_u16()),
        (404, 404)
    );
    assert_eq!(foreign.text(), absent.text());
    Ok(())
}
