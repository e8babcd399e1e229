//! A server that is killed while it writes or sends a message about alerts.
//!
//! Whatever it had done, each doubt is counted in one message that arrived, and a destination that
//! recognises keys gets one message.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::stream::{self, StreamExt as _};
use hyper::Method;
use semel_testkit::{Cluster, Connection, Options, Peer, Smtp};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::Harness;
use crate::servers::{Home, Served};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many effects are in doubt.
const DOUBTS: i64 = 1_000;

const FLOW: &str = "flow: lost
trigger: { webhook: { auth: none, key: input.id } }
steps:
  - { id: call, http: { connection: bank, post: /late/1/plain/x, json: 1, timeout: 5s } }
";

/// Where alerts go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Webhook,
    Mail,
}

struct Stage {
    _cluster: Cluster,
    home: Home,
    client: Connection,
    peer: Peer,
    smtp: Smtp,
    harness: Harness,
}

impl Stage {
    async fn set() -> Result<Self> {
        let cluster = Cluster::start(Options::quick()).await?;
        let home = Home::found(cluster.server()).await?;
        Ok(Self {
            client: home.connect().await?,
            home,
            peer: Peer::start().await?,
            smtp: Smtp::start().await?,
            harness: Harness::start()?,
            _cluster: cluster,
        })
    }

    async fn put(&self, server: &Served, path: &str, body: Value) -> Result<()> {
        let put = self
            .home
            .command(server, Method::PUT, path, body.to_string());
        let answer = put.await?;
        ensure!(answer.status.is_success(), "{path}: {answer:?}");
        Ok(())
    }

    async fn introduce(&self, server: &Served, place: Place) -> Result<()> {
        // A destination that loses every answer, and stays open to requests.
        let bank = json!({"to": {"http": {"base_url": self.peer.url("")}},
                          "limits": {"open_after": 1_000_000}});
        let bank = json!({ "connection": bank });
        self.put(server, "/v1/connections/bank", bank).await?;
        self.home.publish(server, "lost", FLOW).await?;
        let secret = json!({"value": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"});
        self.put(server, "/v1/secrets/signing", secret).await?;
        let (target, to) = match place {
            Place::Webhook => {
                let url = self.peer.url("/plain/ops");
                (
                    json!({"webhook": {"url": url, "secret": "signing"}}),
                    json!([]),
                )
            }
            Place::Mail => {
                let port = self.smtp.address().port();
                let smtp = json!({"host": "127.0.0.1", "port": port, "tls": "off",
                                  "from": "semel@books.example"});
                (json!({"smtp": smtp}), json!(["ops@books.example"]))
            }
        };
        let connection = json!({"connection": {"to": target}});
        self.put(server, "/v1/connections/ops", connection).await?;
        self.put(server, "/v1/alerts", json!({"connection": "ops", "to": to}))
            .await
    }

    async fn doubt(&self, server: &Served) -> Result<()> {
        let deliveries = stream::iter(0..DOUBTS).map(|id| async move {
            let body = format!(r#"{{"id":"{id}"}}"#);
            server.client.post("/hooks/default/lost", body).await
        });
        let mut deliveries = deliveries.buffer_unordered(32);
        while let Some(answer) = deliveries.next().await {
            let answer = answer?;
            ensure!(answer.status.is_success(), "{answer:?}");
        }
        self.until("SELECT count(*) FROM runs WHERE state = 'in_doubt'", DOUBTS)
            .await
    }

    async fn later(&self, secs: u32) -> Result<()> {
        let ahead =
            format!("UPDATE clock SET time_offset = time_offset + interval '{secs} seconds'");
        Ok(self.client.batch_execute(&ahead).await?)
    }

    async fn number(&self, sql: &str) -> Result<i64> {
        Ok(self.client.query_one(sql, &[]).await?.get(0))
    }

    async fn until(&self, sql: &str, wanted: i64) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.number(sql).await?;
            if found == wanted {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "{found} instead of {wanted}: {sql}"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The texts that arrived: one for each key.
    async fn arrived(&self, place: Place) -> Result<BTreeSet<(String, i64)>> {
        let mut found = BTreeSet::new();
        match place {
            Place::Webhook => {
                for effect in self.peer.effects().await? {
                    if effect.path == "/plain/ops" {
                        let body: Value = serde_json::from_str(&effect.body)?;
                        let text = body["text"].as_str().context("a text")?;
                        found.insert((effect.signed["webhook-id"].clone(), count_in(text)?));
                    }
                }
            }
            Place::Mail => {
                for mail in self.smtp.mails()? {
                    let id = mail.lines().find(|line| line.starts_with("Message-ID"));
                    let id = id.context("an id")?.to_owned();
                    found.insert((id, count_in(&mail)?));
                }
            }
        }
        Ok(found)
    }
}

fn count_in(text: &str) -> Result<i64> {
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("How many: "));
    Ok(count.context("a count")?.trim().parse()?)
}

/// Kills a server at the point while it handles the first message of the group, and lets another one
/// continue until every doubt was reported.
async fn killed_at(point: &'static str, place: Place) -> Result<(Stage, i64)> {
    let stage = Stage::set().await?;
    let mut server = stage.harness.serve(&stage.home, "2s").await?;
    stage.introduce(&server, place).await?;
    let watch = stage.harness.arm(point, Some("lost"));
    stage.doubt(&server).await?;
    stage.later(11).await?;
    let held = watch.until_held(PATIENCE).await?;
    server.process.sigkill()?;
    drop(held);
    let first = "SELECT count FROM alert_messages";
    let first = stage.number(first).await?;
    let _other = stage.harness.serve(&stage.home, "2s").await?;
    // The message is free once the dead server's lease on it is over.
    stage.later(61).await?;
    stage
        .until(
            "SELECT count(*) FROM alert_messages WHERE settled_at IS NULL",
            0,
        )
        .await?;
    // The rest, and what was in doubt, comes with the next message.
    stage.later(15 * 60 + 1).await?;
    let open = "SELECT (SELECT count(*) FROM alert_messages WHERE settled_at IS NULL)
                     + (SELECT coalesce(sum(waiting), 0) FROM alert_groups)::int8
                     + (SELECT count(*) FROM alert_events)";
    stage.until(open, 0).await?;
    let total = "SELECT sum(total)::int8 FROM alert_groups";
    assert_eq!(stage.number(total).await?, DOUBTS, "each is counted once");
    let done = "SELECT sum(count)::int8 FROM alert_messages WHERE state = 'done'";
    assert_eq!(stage.number(done).await?, DOUBTS, "each is reported");
    Ok((stage, first))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_written_is_sent_once_after_a_kill() -> Result<()> {
    for place in [Place::Webhook, Place::Mail] {
        let (stage, first) = killed_at("alert.intended", place).await?;

        let arrived = stage.arrived(place).await?;
        let sum: i64 = arrived.iter().map(|(_, count)| count).sum();
        assert_eq!(sum, DOUBTS, "{arrived:?}");
        ensure!(
            arrived.iter().any(|(_, count)| *count == first),
            "{arrived:?}"
        );
        ensure!(arrived.len() <= 2, "{arrived:?}");
        let doubts = "SELECT count(*) FROM alert_messages WHERE state <> 'done'";
        assert_eq!(stage.number(doubts).await?, 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_knows_a_message_by_its_key_after_a_kill() -> Result<()> {
    let (stage, _) = killed_at("alert.sent", Place::Webhook).await?;

    let arrived = stage.arrived(Place::Webhook).await?;
    let sum: i64 = arrived.iter().map(|(_, count)| count).sum();
    assert_eq!(sum, DOUBTS, "one key, one count: {arrived:?}");
    ensure!(arrived.len() <= 2, "{arrived:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_is_not_sent_twice_after_a_kill_and_its_count_comes_with_the_next() -> Result<()> {
    let (stage, first) = killed_at("alert.sent", Place::Mail).await?;

    let doubts = "SELECT count(*) FROM alert_messages WHERE state = 'in_doubt'";
    assert_eq!(stage.number(doubts).await?, 1);
    let arrived = stage.arrived(Place::Mail).await?;
    let counts: BTreeSet<i64> = arrived.iter().map(|(_, count)| *count).collect();
    assert_eq!(arrived.len(), 2, "{arrived:?}");
    assert_eq!(counts, BTreeSet::from([first, DOUBTS]));
    Ok(())
}
