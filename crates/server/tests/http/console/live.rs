//! Live update: pages stay true by themselves, with one stream for all tabs of a browser.

mod pace;

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_api::types::{RevokeToken, StartRun, TokenFilter};
use semel_model::{Right, RunId};
use semel_testkit::{patience, until};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use super::Browser;
use super::browser::{browse, link_of};
use crate::world::World;

const WAITING: &str = "trigger: { api: {} }\nsteps:\n  \
    - { id: hold, wait: { callback: true, within: 1h } }\n";

/// From now on a tab that asks by itself is found out: what it learns, it learns from the stream.
const DEAF: &str =
    "window.fetch = () => { window.polled = true; return Promise.reject(new Error('no')); }";

async fn start(world: &World, key: &str) -> Result<RunId> {
    let ask = StartRun {
        key: Some(key.to_owned()),
        input: json!({}),
        ..StartRun::default()
    };
    let started = world
        .client
        .start_run(&"waiting".parse()?, &ask, None)
        .await?;
    world.until_waiting(started.body.run).await?;
    Ok(started.body.run)
}

/// How many streams the server has open.
async fn streams(world: &World) -> Result<u64> {
    let text = world.metrics().await?.text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("semel_console_streams "));
    Ok(line.context("a count of streams")?.parse()?)
}

async fn until_streams(world: &World, number: u64) -> Result<()> {
    let look = async || streams(world).await;
    until(&format!("{number} open streams"), look, |open| {
        *open == number
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn two_tabs_share_one_stream_and_the_one_that_stays_takes_it_over() -> Result<()> {
    let world = Arc::new(World::start().await?);
    world.publish("waiting", WAITING).await?;
    start(&world, "o-1").await?;
    let link = link_of(&world).await?;
    let base = format!("http://{}/console/main", world.address);
    let (handle, at) = (Handle::current(), world.clone());

    browse(move |browser| {
        let wait = |number| handle.block_on(until_streams(&at, number));
        let begin = |key: &str| handle.block_on(start(&at, key));
        browser.open(&link, "location.pathname === '/console/main/'")?;
        let first = 0;
        browser.open(&format!("{base}/runs"), "document.querySelector('.pause')")?;
        browser.eval(DEAF)?;
        wait(1)?;
        let second = browser.open_tab()?;
        browser.open(
            &format!("{base}/runs?q=flow:waiting"),
            "document.querySelector('.pause')",
        )?;
        browser.eval(DEAF)?;
        let third = browser.open_tab()?;
        browser.open(&format!("{base}/"), "document.querySelector('.pause')")?;
        browser.eval(DEAF)?;
        wait(1)?;

        begin("o-2")?;
        for tab in [first, second, third] {
            browser.choose_tab(tab);
            browser.until("document.querySelector('.news')?.innerText.startsWith('1 new run.')")?;
            let rows = browser.eval("document.querySelectorAll('.rows tbody tr').length")?;
            ensure!(rows == 1, "a list does not jump: {rows}");
            ensure!(
                browser.eval("window.polled === undefined")? == true,
                "tab {tab} asked by itself"
            );
        }
        let open = handle.block_on(streams(&at))?;
        ensure!(open == 1, "{open} streams for three tabs");

        browser.close_tab(first)?;
        browser.choose_tab(second);
        wait(1)?;
        begin("o-3")?;
        for tab in [second, third] {
            browser.choose_tab(tab);
            browser.until("document.querySelector('.news').innerText.startsWith('2 new runs.')")?;
            ensure!(
                browser.eval("window.polled === undefined")? == true,
                "tab {tab} asked by itself"
            );
        }
        browser.eval("document.querySelector('.news button').click()")?;
        browser.until("document.querySelectorAll('.rows tbody tr').length === 3")?;

        browser.eval(
            "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'p', bubbles: true}))",
        )?;
        browser.until("document.querySelector('.pause').innerText === 'Paused'")?;
        wait(0)?;
        ensure!(browser.seen.is_empty(), "{:?}", browser.seen);
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_run_is_followed_where_it_stands_and_what_is_typed_stays() -> Result<()> {
    let world = Arc::new(World::start().await?);
    world.publish("waiting", WAITING).await?;
    let (one, other) = (start(&world, "o-1").await?, start(&world, "o-2").await?);
    let link = link_of(&world).await?;
    let base = format!("http://{}/console/main/runs", world.address);
    let (handle, at) = (Handle::current(), world.clone());

    browse(move |browser| {
        let cancel = |run| {
            let ask = semel_api::types::Cancel {
                reason: "no longer wanted".to_owned(),
            };
            handle.block_on(at.client.cancel_run(run, &ask, &format!("cancel {run}")))
        };
        browser.open(&link, "location.pathname === '/console/main/'")?;
        browser.open(&format!("{base}/{one}"), "document.querySelector('.pause')")?;
        browser.eval("window.same = document.querySelector('h1'); 0")?;
        cancel(one)?;
        browser.until("document.querySelector('.facts').innerText.includes('cancelled')")?;
        browser.until("document.querySelector('#audit')")?;
        ensure!(
            browser.eval("window.same === document.querySelector('h1')")? == true,
            "the page is the same one"
        );

        browser.open(&format!("{base}/{other}"), "document.querySelector('.pause')")?;
        browser.eval("document.querySelector('#acts details').open = true; document.querySelector('#acts textarea').value = 'because'")?;
        cancel(other)?;
        browser.until("document.querySelector('.news').innerText.startsWith('This page has changed.')")?;
        let typed = browser.eval("document.querySelector('#acts textarea').value")?;
        ensure!(typed == "because", "{typed}");
        ensure!(browser.seen.is_empty(), "{:?}", browser.seen);
        Ok(())
    })
    .await
}

/// Opens a stream by hand. Returns it with the status that it begins with.
async fn open(browser: &Browser<'_>, query: &str) -> Result<(TcpStream, String)> {
    let address = browser.world.address;
    let mut stream = TcpStream::connect(address).await?;
    let cookie = &browser.cookie;
    let head = format!(
        "GET /console/main/live?{query} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let text = read_until(&mut stream, "\r\n\r\n").await?;
    let status = text.split(' ').nth(1).context("a status")?.to_owned();
    Ok((stream, status))
}

/// What a stream says until a text comes, or until its end.
async fn read_until(stream: &mut TcpStream, end: &str) -> Result<String> {
    let mut text = Vec::new();
    let reading = async {
        let mut part = [0; 4096];
        loop {
            let length = stream.read(&mut part).await?;
            text.extend_from_slice(&part[..length]);
            let said = String::from_utf8_lossy(&text).into_owned();
            if length == 0 || said.contains(end) {
                return Ok(said);
            }
        }
    };
    tokio::time::timeout(patience(), reading).await?
}

#[tokio::test]
async fn a_stream_says_marks_only_and_ends_with_the_sign_in() -> Result<()> {
    let world = World::start().await?;
    world.publish("waiting", WAITING).await?;
    let run = start(&world, "secret-key-of-a-sender").await?;
    let browser = Browser::with_rights(&world, "observer", Right::Read.into()).await?;

    let query = format!("topic=overview&topic=runs&topic=doubts&topic=run:{run}");
    let (mut stream, status) = open(&browser, &query).await?;
    // What was looked at first is said first; all of it soon after.
    let said = read_until(&mut stream, "\"runs\"").await?;
    ensure!(status == "200", "{status}");
    ensure!(
        said.contains("data:") && said.contains("\"runs\""),
        "{said}"
    );
    ensure!(
        !said.contains("secret-key") && !said.contains('<'),
        "{said}"
    );

    let tokens = world.client.list_tokens(&TokenFilter::default()).await?;
    let token = tokens.items.iter().find(|it| it.name == "observer");
    let revoke = RevokeToken {
        reason: Some("left".to_owned()),
        with_made: false,
    };
    let id = token.context("a token")?.id;
    world.client.revoke_token(id, &revoke, "revoke").await?;
    read_until(&mut stream, "never said").await?;
    until_streams(&world, 0).await
}

#[tokio::test]
async fn a_stream_needs_a_right_a_topic_and_a_place() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;
    let worker = Browser::with_rights(&world, "worker", Right::Work.into()).await;
    ensure!(worker.is_err(), "a code itself needs the right read");

    for query in [
        "",
        "topic=",
        "topic=effects",
        "topic=run:x",
        "once=yes&topic=none",
    ] {
        let refused = browser.get(&format!("/console/main/live?{query}")).await?;
        assert_eq!(refused.status, 400, "{query}: {}", refused.text());
    }
    let many = "topic=runs&".repeat(17);
    let refused = browser.get(&format!("/console/main/live?{many}")).await?;
    assert_eq!(refused.status, 400);
    let stranger = Browser::new(&world)
        .get("/console/main/live?topic=runs")
        .await?;
    assert_eq!(
        stranger.status, 303,
        "who is not signed in is led to sign in"
    );
    let other = Browser::signed_in(&world).await?;
    let mut kept = Vec::new();
    for _ in 0..4 {
        for browser in [&browser, &other] {
            let (stream, status) = open(browser, "topic=runs").await?;
            ensure!(status == "200", "{status}");
            kept.push(stream);
        }
    }
    for browser in [&browser, &other] {
        let (_, status) = open(browser, "topic=runs").await?;
        ensure!(
            status == "429",
            "one token does not take every place, however often it signs in: {status}"
        );
    }
    drop(kept);
    until_streams(&world, 0).await
}

#[tokio::test]
async fn who_asks_now_and_then_gets_the_same_mark_once() -> Result<()> {
    let world = World::start().await?;
    world.publish("waiting", WAITING).await?;
    let browser = Browser::signed_in(&world).await?;
    let run = start(&world, "o-1").await?;
    let none = format!("run_{}", "0".repeat(32));
    let path = format!("/console/main/live?once=yes&topic=run:{run}&topic=run:{none}");

    let first = browser.get(&path).await?;
    let tag = first.header("etag").context("a tag")?.to_owned();
    let with = [("if-none-match", tag.as_str())];
    let again = browser
        .send(Method::GET, &path, &with, String::new())
        .await?;
    let page = browser.page(&format!("/console/main/runs/{run}")).await?;

    let said: Value = serde_json::from_str(&first.text())?;
    let marks = &said["marks"];
    let mark = marks[format!("run:{run}")].as_str().context("a mark")?;
    assert_eq!(marks[format!("run:{none}")], "none");
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (200, 304));
    assert!(page.contains(&format!("data-mark=\"{mark}\"")), "{page}");
    Ok(())
}

/// A page that is left open must not keep its sign-in for ever.
#[tokio::test]
async fn what_a_page_asks_by_itself_is_no_use_of_a_sign_in() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;
    let other = Browser::with_rights(&world, "other", Right::Read.into()).await?;
    let client = world.database.connect().await?;
    let age = "UPDATE sign_ins SET seen_at = moment() - interval '5 minutes'";
    client.execute(age, &[]).await?;
    let unused = async || {
        let unused = "SELECT t.name FROM sign_ins s JOIN tokens t ON t.id = s.token_id
                       WHERE s.seen_at < moment() - interval '4 minutes' ORDER BY 1";
        let rows = client.query(unused, &[]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>())
    };

    browser
        .get("/console/main/live?once=yes&topic=runs")
        .await?;
    let by_itself = [("semel-live", "1")];
    browser
        .send(Method::GET, "/console/main/runs", &by_itself, String::new())
        .await?;
    // Noted in the same way, and after it.
    other.page("/console/main/runs").await?;
    let is_noted = |unused: &Vec<String>| !unused.contains(&"other".to_owned());
    let left = until("the other sign-in's use", unused, is_noted).await?;
    assert_eq!(left, ["test"], "nobody used it");
    browser.page("/console/main/runs").await?;

    until("the use", unused, Vec::is_empty).await?;
    Ok(())
}
