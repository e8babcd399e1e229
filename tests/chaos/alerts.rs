//! A server that is killed while it writes or sends a message about alerts.
//!
//! Whatever it had done, each doubt is counted in one message that arrived, and a destination that
//! recognises keys gets one message.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use futures_util::stream::{self, StreamExt as _};
use hyper::Method;
use semel_testkit::{Cluster, Connection, Options, Peer, Smtp};
use serde_json::{Value, json};

use crate::campaign::scaled;
use crate::harness::Harness;
use crate::invariants;
use crate::queries::{count, until_count, until_none};
use crate::servers::{Home, Served};

/// How many effects are in doubt, unless `SEMEL_ALERT_DOUBTS` says otherwise: with every change, and in a
/// campaign.
const DOUBTS: usize = 100;
const DOUBTS_FULL: usize = 1_000;

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
    doubts: usize,
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
            doubts: scaled("SEMEL_ALERT_DOUBTS", DOUBTS, DOUBTS_FULL)?,
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
        let deliveries = stream::iter(0..self.doubts).map(|id| async move {
            let body = format!(r#"{{"id":"{id}"}}"#);
            server.client.post("/hooks/default/lost", body).await
        });
        let mut deliveries = deliveries.buffer_unordered(32);
        while let Some(answer) = deliveries.next().await {
            let answer = answer?;
            ensure!(answer.status.is_success(), "{answer:?}");
        }
        let doubts = "SELECT count(*) FROM runs WHERE state = 'in_doubt'";
        until_count(&self.client, doubts, self.doubts).await
    }

    /// The texts that arrived: one for each key.
    async fn arrived(&self, place: Place) -> Result<BTreeSet<(String, usize)>> {
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

fn count_in(text: &str) -> Result<usize> {
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("How many: "));
    Ok(count.context("a count")?.trim().parse()?)
}

/// Kills a server at the point while it handles the first message of the group, and lets another one
/// continue until every doubt was reported.
async fn killed_at(point: &'static str, place: Place) -> Result<(Stage, usize)> {
    let stage = Stage::set().await?;
    let mut server = stage.harness.serve(&stage.home, "2s").await?;
    stage.introduce(&server, place).await?;
    let watch = stage.harness.arm(point, Some("lost"));
    stage.doubt(&server).await?;
    stage.home.pass("11 seconds").await?;
    let held = watch.until_held().await?;
    server.process.sigkill()?;
    drop(held);
    let first = count(&stage.client, "SELECT count FROM alert_messages").await?;
    let other = stage.harness.serve(&stage.home, "2s").await?;
    // The message is free once the dead server's lease on it is over.
    stage.home.pass("61 seconds").await?;
    let unsettled = "SELECT count(*) FROM alert_messages WHERE settled_at IS NULL";
    until_none(&stage.client, unsettled).await?;
    // The rest, and what was in doubt, comes with the next message.
    stage.home.pass("901 seconds").await?;
    let open = "SELECT (SELECT count(*) FROM alert_messages WHERE settled_at IS NULL)
                     + (SELECT coalesce(sum(waiting), 0) FROM alert_groups)::int8
                     + (SELECT count(*) FROM alert_events)";
    until_none(&stage.client, open).await?;
    let total = count(&stage.client, "SELECT sum(total)::int8 FROM alert_groups").await?;
    assert_eq!(total, stage.doubts, "each is counted once");
    let done = "SELECT sum(count)::int8 FROM alert_messages WHERE state = 'done'";
    let done = count(&stage.client, done).await?;
    assert_eq!(done, stage.doubts, "each is reported");
    invariants::hold_but(&stage.home, &[&other], &["duties"]).await?;
    Ok((stage, first))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_written_is_sent_once_after_a_kill() -> Result<()> {
    for place in [Place::Webhook, Place::Mail] {
        let (stage, first) = killed_at("alert.intended", place).await?;

        let arrived = stage.arrived(place).await?;
        let sum: usize = arrived.iter().map(|(_, count)| count).sum();
        assert_eq!(sum, stage.doubts, "{arrived:?}");
        ensure!(
            arrived.iter().any(|(_, count)| *count == first),
            "{arrived:?}"
        );
        ensure!(arrived.len() <= 2, "{arrived:?}");
        let doubts = "SELECT count(*) FROM alert_messages WHERE state <> 'done'";
        assert_eq!(count(&stage.client, doubts).await?, 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_knows_a_message_by_its_key_after_a_kill() -> Result<()> {
    let (stage, _) = killed_at("alert.sent", Place::Webhook).await?;

    let arrived = stage.arrived(Place::Webhook).await?;
    let sum: usize = arrived.iter().map(|(_, count)| count).sum();
    assert_eq!(sum, stage.doubts, "one key, one count: {arrived:?}");
    ensure!(arrived.len() <= 2, "{arrived:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_is_not_sent_twice_after_a_kill_and_its_count_comes_with_the_next() -> Result<()> {
    let (stage, first) = killed_at("alert.sent", Place::Mail).await?;

    let doubts = "SELECT count(*) FROM alert_messages WHERE state = 'in_doubt'";
    assert_eq!(count(&stage.client, doubts).await?, 1);
    let arrived = stage.arrived(Place::Mail).await?;
    let counts: BTreeSet<usize> = arrived.iter().map(|(_, count)| *count).collect();
    assert_eq!(arrived.len(), 2, "{arrived:?}");
    assert_eq!(counts, BTreeSet::from([first, stage.doubts]));
    Ok(())
}
