//! What live update costs: a budget of the server, however many browsers and pages follow.

use std::time::{Duration, Instant};

use super::*;

/// A script that counts how often a page asked for itself again.
const ASKED: &str = "performance.getEntriesByType('resource')\
    .filter(it => it.initiatorType === 'xmlhttprequest').length";

/// A script that says for how many milliseconds the page rested each time before it asked again.
const RESTS: &str = "(() => {
    const asked = performance.getEntriesByType('resource').filter(it => it.initiatorType === 'xmlhttprequest');
    return asked.slice(1).map((it, number) => it.startTime - asked[number].responseEnd);
})()";

/// How often the server looked whether a page changed.
async fn looks(world: &World) -> Result<u64> {
    let text = world.metrics().await?.text();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("semel_console_looks_total "));
    Ok(line.context("a count of looks")?.parse()?)
}

/// Opens so many streams, eight of each token.
async fn crowd(world: &World, number: usize) -> Result<Vec<TcpStream>> {
    let mut streams = Vec::new();
    let mut browser = Browser::signed_in(world).await?;
    for one in 0..number {
        if one % 8 == 0 {
            let name = format!("crowd-{one}");
            browser = Browser::with_rights(world, &name, Right::Read.into()).await?;
        }
        let (stream, status) = open(&browser, "topic=overview").await?;
        ensure!(status == "200", "{status}");
        streams.push(stream);
    }
    Ok(streams)
}

#[tokio::test]
async fn a_server_looks_once_a_second_however_many_topics_are_followed() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;
    let topic = |number: usize| format!("topic=run:run_{number:032x}");
    let topics: Vec<String> = (0..5).map(topic).collect();
    let query = format!("topic=runs&topic=doubts&{}", topics.join("&"));
    let (mut stream, _) = open(&browser, &query).await?;
    let (_other, _) = open(&browser, "topic=overview").await?;

    let last = "\"runs\"";
    let said = read_until(&mut stream, last).await?;
    let (since, before) = (Instant::now(), looks(&world).await?);
    let look = async || looks(&world).await;
    until("two more looks", look, |looked| *looked >= before + 2).await?;

    assert!(said.contains(last), "each topic has its turn: {said}");
    let between = since.elapsed();
    assert!(
        between >= Duration::from_secs(1),
        "two looks in {between:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_page_rests_the_longer_the_more_browsers_follow() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;
    let path = "/console/main/live?once=yes&topic=runs";
    let rest = async || {
        let answer = browser.get(path).await?;
        let said: Value = serde_json::from_str(&answer.text())?;
        let header = answer.header("semel-rest-ms").context("a header")?;
        let rest: u64 = header.parse()?;
        ensure!(said["rest_ms"] == rest, "{said} {rest}");
        let tag = answer.header("etag").context("a tag")?.to_owned();
        let with = [("if-none-match", tag.as_str())];
        let again = browser.send(Method::GET, path, &with, String::new());
        let again = again.await?;
        ensure!(again.status == 304 && again.header("semel-rest-ms") == Some(header));
        Ok::<u64, anyhow::Error>(rest)
    };

    let alone = rest().await?;
    let mut streams = crowd(&world, 12).await?;
    until_streams(&world, 12).await?;
    let among_others = rest().await?;
    let last = streams.last_mut().context("a stream")?;
    let said = read_until(last, "\"rest_ms\":12000").await?;
    drop(streams);
    until_streams(&world, 0).await?;

    assert_eq!((alone, among_others, rest().await?), (1_000, 12_000, 1_000));
    assert!(said.contains("\"rest_ms\":12000"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_page_in_a_browser_rests_as_long_as_its_stream_says() -> Result<()> {
    let world = Arc::new(World::start().await?);
    world.publish("waiting", WAITING).await?;
    start(&world, "o-1").await?;
    let link = link_of(&world).await?;
    let _crowd = crowd(&world, 6).await?;
    let runs = format!("http://{}/console/main/runs", world.address);
    let (handle, at) = (Handle::current(), world.clone());

    browse(move |browser| {
        let begin = |key: &str| handle.block_on(start(&at, key));
        browser.open(&link, "location.pathname === '/console/main/'")?;
        browser.open(&runs, "document.querySelector('.pause')")?;
        handle.block_on(until_streams(&at, 7))?;
        begin("o-2")?;
        browser.until(&format!("{ASKED} >= 1"))?;
        begin("o-3")?;
        browser.until("document.querySelector('.news')?.innerText.startsWith('2 new runs.')")?;
        let rests = browser.eval(RESTS)?;
        let rests = rests.as_array().context("times")?;
        ensure!(!rests.is_empty(), "it asked again");
        // A second for each stream, and five for a page that is alone.
        let rested = |rest: &Value| rest.as_f64().is_some_and(|ms| ms >= 6_900.0);
        ensure!(rests.iter().all(rested), "{rests:?}");
        ensure!(browser.seen.is_empty(), "{:?}", browser.seen);
        Ok(())
    })
    .await
}
