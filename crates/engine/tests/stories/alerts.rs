//! Alerts: people learn of what needs them, in few messages with the right counts.

mod kinds;
mod lost;

use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use semel_store::alerts::{self, AlertGroupView};
use semel_testkit::peer::Effect;
use semel_testkit::{Smtp, until};
use serde_json::{Value, json};

use crate::world::World;

/// A step whose answer is always lost.
const LOST: &str = "steps:\n  - id: call\n    http: { post: 'PEER/late/1/plain/x', json: { id: '${{ input.id }}' }, timeout: 5s }\n";

/// A step that is always refused for now.
const REFUSED: &str =
    "steps:\n  - id: call\n    http: { post: 'PEER/status/429/plain/x?refuse', timeout: 5s }\n";

/// Longer than a group gathers.
const GATHER: Duration = Duration::from_secs(11);

/// Longer than a group is quiet.
const QUIET: Duration = Duration::from_secs(15 * 60 + 1);

/// An event of a namespace that does not exist: it is counted like any other, and no message is written about it.
const MARK: &str = "INSERT INTO alert_events (namespace_id, kind, flow, connection, step, count)
                    VALUES (0, 'doubt', 'mark', '', '', 1)";

/// How many deliveries are made at a time.
const TOGETHER: usize = 50;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// A world whose alerts go to a webhook at the path.
async fn world_with_hook(steps: &str, path: &str) -> Result<World> {
    let world = World::start().await?;
    world.publish(steps).await?;
    connect_hook(&world, path).await?;
    world.engine.set_alerts(world.by(), "ops", &[]).await?;
    Ok(world)
}

async fn connect_hook(world: &World, path: &str) -> Result<()> {
    world.set_secret("signing", SECRET).await?;
    let webhook = json!({"url": world.peer.url(path), "secret": "signing"});
    // Soon where the webhook does not answer at all.
    let timeout = if path.starts_with("/hang") {
        "1s"
    } else {
        "20s"
    };
    let connection = json!({"to": {"webhook": webhook}, "timeout": timeout});
    world.connect("ops", connection).await
}

async fn connect_mail(world: &World, smtp: &Smtp) -> Result<()> {
    let port = smtp.address().port();
    let target =
        json!({"host": "127.0.0.1", "port": port, "tls": "off", "from": "semel@books.example"});
    world
        .connect("mail", json!({"to": {"smtp": target}}))
        .await?;
    let to = ["ops@books.example".to_owned()];
    world.engine.set_alerts(world.by(), "mail", &to).await?;
    Ok(())
}

/// What the webhook at a path received.
async fn received(world: &World, path: &str) -> Result<Vec<Effect>> {
    let effects = world.peer.effects().await?;
    Ok(effects.into_iter().filter(|it| it.path == path).collect())
}

/// How many a message speaks of.
fn count_of(effect: &Effect) -> Result<i64> {
    let body: Value = serde_json::from_str(&effect.body)?;
    count_in(body["text"].as_str().context("a text")?)
}

fn count_in(text: &str) -> Result<i64> {
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("How many: "));
    Ok(count.context("a count")?.trim().parse()?)
}

async fn until_received(world: &World, path: &str, wanted: usize) -> Result<Vec<Effect>> {
    let what = format!("{wanted} messages at {path}");
    until(
        &what,
        async || received(world, path).await,
        |found| found.len() >= wanted,
    )
    .await
}

async fn groups(world: &World) -> Result<Vec<AlertGroupView>> {
    let home = world.engine.cell().home();
    Ok(alerts::list_groups(home, world.namespace_id, 100).await?)
}

/// The first group, once it is as it has to be.
async fn until_group(
    world: &World,
    wanted: impl Fn(&AlertGroupView) -> bool,
) -> Result<AlertGroupView> {
    let what = "a group of alerts as it has to be";
    let found = until(
        what,
        async || groups(world).await,
        |all| all.iter().any(&wanted),
    )
    .await?;
    found
        .into_iter()
        .find(|group| wanted(group))
        .context("a group")
}

async fn later(world: &World, by: Duration) -> Result<()> {
    world.move_clock(by).await
}

/// Waits until the service has made a whole pass that began after this call. A mark is counted in a pass, and the next
/// mark in a later one.
async fn until_counted(world: &World) -> Result<()> {
    let client = world.database().connect().await?;
    let left = "SELECT count(*) FROM alert_events";
    for _ in 0..2 {
        client.execute(MARK, &[]).await?;
        let look = async || -> Result<i64> { Ok(client.query_one(left, &[]).await?.get(0)) };
        until("alerts to be counted", look, |left| *left == 0).await?;
    }
    Ok(())
}

/// Waits until every message that was written has its outcome.
async fn until_settled(world: &World) -> Result<()> {
    let client = world.database().connect().await?;
    let open = "SELECT count(*) FROM alert_messages WHERE state IN ('due', 'sending')";
    let look = async || -> Result<i64> { Ok(client.query_one(open, &[]).await?.get(0)) };
    until("messages to have their outcome", look, |open| *open == 0).await?;
    Ok(())
}

/// Waits until everything has been sent that is due now.
async fn until_quiet(world: &World) -> Result<()> {
    until_counted(world).await?;
    until_settled(world).await
}

#[tokio::test]
async fn a_thousand_doubts_are_one_message_in_a_period_and_every_doubt_is_counted_once()
-> Result<()> {
    const DOUBTS: i64 = 1_000;
    let world = World::start().await?;
    // A destination that loses every answer, and stays open to requests.
    let bank = json!({"to": {"http": {"base_url": world.peer.url("")}},
                      "limits": {"open_after": 1_000_000}});
    world.connect("bank", bank).await?;
    let steps = LOST.replace("post: 'PEER/", "connection: bank, post: '/");
    world.publish(&steps).await?;
    connect_hook(&world, "/plain/ops").await?;
    world.engine.set_alerts(world.by(), "ops", &[]).await?;
    let other = world.start_another().await?;

    world.deliver(r#"{"id":"0"}"#).await?;
    until_group(&world, |group| group.waiting == 1).await?;
    let early = received(&world, "/plain/ops").await?;
    let payloads: Vec<String> = (1..DOUBTS)
        .map(|id| format!(r#"{{"id":"{id}"}}"#))
        .collect();
    for together in payloads.chunks(TOGETHER) {
        try_join_all(together.iter().map(|payload| world.deliver(payload))).await?;
    }
    let stopped = async || {
        let engines = [&world.engine, &other];
        let counts = engines.map(|it| it.metrics().runs_stopped.get());
        Ok(counts.iter().sum::<u64>())
    };
    until("every run to stop", stopped, |stopped| {
        *stopped >= DOUBTS.unsigned_abs()
    })
    .await?;
    later(&world, GATHER).await?;
    until_received(&world, "/plain/ops", 1).await?;
    until_quiet(&world).await?;
    let first = received(&world, "/plain/ops").await?;
    later(&world, Duration::from_secs(13 * 60)).await?;
    until_quiet(&world).await?;
    let quiet = received(&world, "/plain/ops").await?.len();
    // One more, so that there is a second message whichever the first one counted.
    world.deliver(r#"{"id":"last"}"#).await?;
    until_group(&world, |group| group.total == DOUBTS + 1).await?;
    later(&world, Duration::from_secs(3 * 60)).await?;
    let both = until_received(&world, "/plain/ops", 2).await?;
    // A message whose outcome is not recorded is sent again once its lease is over.
    until_settled(&world).await?;
    later(&world, QUIET).await?;
    until_quiet(&world).await?;
    let all = received(&world, "/plain/ops").await?;

    assert_eq!(early.len(), 0, "none leaves before the group has gathered");
    assert_eq!((first.len(), quiet), (1, 1), "one in a period");
    assert_eq!(all.len(), 2, "nothing happened since: {all:?}");
    let counts = [count_of(&both[0])?, count_of(&both[1])?];
    assert_eq!(counts.iter().sum::<i64>(), DOUBTS + 1, "{counts:?}");
    assert_ne!(both[0].signed["webhook-id"], both[1].signed["webhook-id"]);
    let text = &both[0].body;
    for words in [
        "flow story, step call, connection bank",
        "Example: run_",
        "Next: semel doubt list",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn runs_that_need_review_are_reported_by_mail_under_the_message_s_key() -> Result<()> {
    let (world, smtp) = (World::start().await?, Smtp::start().await?);
    world.publish(REFUSED).await?;
    connect_mail(&world, &smtp).await?;

    let (accepted, _) = world.play(r#"{"id":"1"}"#).await?;
    until_group(&world, |group| group.waiting == 1).await?;
    let early = smtp.mails()?.len();
    later(&world, GATHER).await?;
    let group = until_group(&world, |group| {
        group.message.as_ref().is_some_and(|it| it.state == "done")
    })
    .await?;

    let mails = smtp.mails()?;
    assert_eq!((early, mails.len()), (0, 1), "{mails:?}");
    assert_eq!(count_in(&mails[0])?, 1);
    let command = format!("semel run show {}", accepted.run);
    assert!(
        mails[0].contains("Subject: [semel] 1 run needs review"),
        "{mails:?}"
    );
    assert!(mails[0].replace("=\n", "").contains(&command), "{mails:?}");
    let key = group.message.context("a message")?.key.to_string();
    assert!(
        mails[0].contains(&key),
        "the key is in the Message-ID: {mails:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_namespace_without_alerts_records_none() -> Result<()> {
    let world = World::start().await?;
    world.publish(LOST).await?;

    world.play(r#"{"id":"1"}"#).await?;
    let client = world.database().connect().await?;
    let row = client
        .query_one("SELECT count(*) FROM alert_events", &[])
        .await?;
    until_counted(&world).await?;

    assert_eq!(row.get::<_, i64>(0), 0);
    assert!(groups(&world).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_test_says_whether_its_message_arrived() -> Result<()> {
    let world = world_with_hook(LOST, "/plain/ops").await?;

    let done = world.engine.test_alerts(world.by()).await?;
    world.engine.delete_connection(world.by(), "ops").await?;
    let gone = world.engine.test_alerts(world.by()).await?;
    world.engine.unset_alerts(world.by()).await?;
    let unset = world.engine.test_alerts(world.by()).await;

    assert_eq!(done.parts().0, "done");
    assert_eq!(gone.parts().0, "failed", "{gone:?}");
    assert_eq!(unset.map_err(|it| it.code()), Err("alert-not-set"));
    assert_eq!(received(&world, "/plain/ops").await?.len(), 1);
    Ok(())
}
