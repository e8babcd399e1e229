//! The destinations of every kind of step, and how they are counted.

use anyhow::{Context, Result};
use hyper::Method;
use semel_testkit::{Cluster, Connection, Options, Peer, Smtp, Sshd};
use serde_json::{Value, json};

use super::kind::{KINDS, Kind};
use crate::servers::{Home, Served};

/// What opens the secrets of a test's database.
pub(super) const MASTER_KEY: &str =
    "0f0e0d0c0b0a09080706050403020100f0e0d0c0b0a090807060504030201000";

/// Takes the event, and counts what it took.
const RECEIVER: &str = "flow: receiver\ntrigger:\n  event: { name: thing.done }\nsteps:\n  \
                        - { id: count, kv: { add: 'got/${{ input.id }}' } }\n";

/// All destinations; every lane uses them, under ids of its own.
pub(super) struct Places {
    _rows: Cluster,
    rows: Connection,
    rows_port: u16,
    sshd: Sshd,
    smtp: Smtp,
    pub(super) peer: Peer,
}

impl Places {
    pub(super) async fn start() -> Result<Self> {
        let cluster = Cluster::start(Options::quick().with("max_connections", "200")).await?;
        let rows = cluster.server().connect("postgres").await?;
        rows.batch_execute("CREATE TABLE acts (id text NOT NULL)")
            .await?;
        Ok(Self {
            rows_port: cluster.server().address().port(),
            _rows: cluster,
            rows,
            sshd: Sshd::start().await?,
            smtp: Smtp::start().await?,
            peer: Peer::start().await?,
        })
    }

    /// Makes the connections and flows known to an installation, by one of its servers.
    pub(super) async fn introduce(&self, home: &Home, server: &Served) -> Result<()> {
        let secret = json!({ "value": self.sshd.private_key()? }).to_string();
        home.command(server, Method::PUT, "/v1/secrets/box", secret)
            .await?;
        for (name, connection) in self.connections()? {
            let path = format!("/v1/connections/{name}");
            let body = json!({ "connection": connection }).to_string();
            home.command(server, Method::PUT, &path, body).await?;
        }
        let prepare = "/v1/connections/rows/prepare";
        home.command(server, Method::POST, prepare, String::new())
            .await?;
        let count = self.sshd.file("count");
        let count = count.to_str().context("a path of text")?;
        for kind in KINDS {
            home.publish(server, kind.name(), &kind.flow(count)).await?;
        }
        home.publish(server, "receiver", RECEIVER).await
    }

    fn connections(&self) -> Result<[(&'static str, Value); 4]> {
        let (ssh, smtp) = (self.sshd.address(), self.smtp.address());
        Ok([
            (
                "rows",
                json!({ "to": { "postgres": { "host": "127.0.0.1", "port": self.rows_port,
                    "database": "postgres", "user": "postgres", "tls": "off" } } }),
            ),
            (
                "box",
                json!({ "to": { "ssh": { "host": "127.0.0.1", "port": ssh.port(),
                    "user": self.sshd.user(), "secret": "box", "host_key": self.sshd.host_key()? } } }),
            ),
            (
                "post",
                json!({ "to": { "smtp": { "host": "127.0.0.1", "port": smtp.port(),
                    "tls": "off", "from": "semel@books.example" } } }),
            ),
            (
                "bank",
                json!({ "to": { "http": { "base_url": self.peer.url("") } },
                    "idempotency_keys": { "window": "1d" } }),
            ),
        ])
    }

    /// How often an effect happened, by what is to be found at its destination.
    pub(super) async fn count(&self, home: &Connection, kind: Kind, id: &str) -> Result<u64> {
        let count = match kind {
            Kind::Db => {
                let count = "SELECT count(*) FROM acts WHERE id = $1";
                self.rows.query_one(count, &[&id]).await?.get(0)
            }
            Kind::SshMarked | Kind::Ssh => self.sshd.lines(&format!("count-{id}")) as i64,
            Kind::Mail => {
                let subject = format!("subject: {id}");
                let mails = self.smtp.mails()?;
                let about = |mail: &&String| {
                    let mut lines = mail.lines();
                    lines.any(|line| line.to_lowercase() == subject)
                };
                mails.iter().filter(about).count() as i64
            }
            Kind::Emit => {
                let entry = format!("got/{id}");
                let count = "SELECT value::text::int8 FROM kv WHERE entry = $1";
                let row = home.query_opt(count, &[&entry]).await?;
                row.map_or(0, |row| row.get(0))
            }
            Kind::Sets => {
                let entries = [format!("set/{id}"), format!("other/{id}")];
                let count = "SELECT coalesce(max(version), 0) FROM kv WHERE entry = ANY ($1)
                             HAVING count(*) = 2";
                let row = home.query_opt(count, &[&entries.as_slice()]).await?;
                row.map_or(0, |row| row.get(0))
            }
            Kind::Persist => {
                let count = "SELECT count(*) FROM resources s JOIN runs r ON r.id = s.run_id
                              WHERE r.key = convert_to($1, 'UTF8')";
                home.query_one(count, &[&id]).await?.get(0)
            }
            Kind::Http => {
                let count = self.peer.count(&format!("/keyed/{id}")).await?;
                return Ok(count.effects);
            }
        };
        Ok(count.unsigned_abs())
    }
}
