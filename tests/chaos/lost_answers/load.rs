//! What the servers do while answers are lost: runs of every shape, a worker, a subscriber, and a program that calls back.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::{Client, Connection, Peer, Process, Program, pace, until};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::REST;
use crate::servers::{Home, Served};

/// The items of a run of the list.
const ITEMS: [&str; 3] = ["a", "b", "c"];

/// The flows, each by the name that its keys begin with.
pub(super) const FLOWS: [&str; 6] = ["rest", "go", "list", "work", "ask", "call"];

/// How often the destination acts for each run of a flow.
pub(super) fn effects_of(key: &str) -> usize {
    match key.split('-').next() {
        Some("list") => ITEMS.len(),
        Some("rest" | "go" | "ask" | "call") => 1,
        _ => 0,
    }
}

/// Publishes the flows, and has one of their events delivered to the peer.
pub(super) async fn prepare(home: &Home, server: &Served, peer: &Peer) -> Result<()> {
    let put = |kind: &str, name: &str| format!("/v1/{kind}/{name}");
    let secret = json!({ "value": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" });
    let told = json!({ "url": peer.url("/plain/told"), "secret": "told" });
    let connection = json!({ "connection": { "to": { "webhook": told } } });
    let subscription = json!({ "event": "went", "connection": "told" });
    for (path, body) in [
        (put("secrets", "told"), secret),
        (put("connections", "told"), connection),
        (put("subscriptions", "told"), subscription),
    ] {
        let body = body.to_string();
        home.command(server, Method::PUT, &path, body).await?;
    }
    for name in ["called"].into_iter().chain(FLOWS) {
        home.publish(server, name, &flow(name, peer)).await?;
    }
    Ok(())
}

fn flow(name: &str, peer: &Peer) -> String {
    let act = |indent: &str, key: &str| {
        format!(
            "{indent}- id: act\n{indent}  http: {{ post: '{}/slow/30/keyed/{key}', json: {{ id: 1 }} }}\n\
             {indent}  guard: key\n",
            peer.url("")
        )
    };
    let key = "${{ input.id }}";
    let steps = match name {
        "rest" => format!(
            "  - {{ id: rest, wait: {{ for: 200ms }} }}\n{}",
            act("  ", key)
        ),
        "go" => format!(
            "{}  - {{ id: tell, emit: {{ event: went }} }}\n",
            act("  ", key)
        ),
        "list" => format!(
            "  - id: each\n    foreach:\n      in: '{}'\n      key: item\n      parallel: 2\n      \
             steps:\n{}",
            json!(ITEMS),
            act("        ", &format!("{key}.${{{{ item }}}}"))
        ),
        "ask" => format!(
            "  - {{ id: tell, kv: {{ set: 'url/{key}', value: '${{{{ waits.answer.url }}}}' }} }}\n  \
             - {{ id: answer, wait: {{ callback: true, within: 1d }} }}\n{}",
            act("  ", key)
        ),
        "call" => {
            format!("  - {{ id: other, call: {{ flow: called, input: {{ id: '{key}' }} }} }}\n")
        }
        "called" => act("  ", key),
        _ => "  - id: work\n    task: { queue: work, within: 1d, lease: 2s }\n    guard: key\n"
            .to_owned(),
    };
    let trigger = match name {
        "called" => "api: {}",
        _ => "webhook: { auth: none, key: input.id }",
    };
    format!(
        "flow: {name}\ntrigger:\n  {trigger}\n\
         retry: {{ attempts: 50, delay: 50ms, max_delay: 500ms, within: 1d }}\nsteps:\n{steps}  \
         - {{ id: note, kv: {{ set: 'done/{key}', value: 1 }} }}\n"
    )
}

/// A worker of one server.
pub(super) fn work(home: &Home, server: &Served) -> Result<Process> {
    let url = format!("http://{}", server.address);
    Program::semel()?
        .args(["worker", "--queue", "work", "--parallel", "2"])
        .args(["--url", &url, "--token", home.token()])
        .args(["--", "sh", "-c", "cat >&2; echo {}"])
        .start()
}

/// A program that calls each run back once: again only where it got no answer, as senders do. A repeat of a callback that
/// was acknowledged would wake a run that sleeps over it.
pub(super) struct Printer(JoinHandle<Result<()>>);

impl Printer {
    pub(super) async fn start(home: &Home, servers: &[Served]) -> Result<Self> {
        let client = home.connect().await?;
        let servers = servers.iter().map(|it| it.client.clone()).collect();
        Ok(Self(tokio::spawn(print(client, servers))))
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn print(client: Connection, servers: Vec<Arc<Client>>) -> Result<()> {
    let told = "SELECT entry, value::text FROM kv WHERE starts_with(entry, 'url/')";
    let (mut acknowledged, mut turn) = (HashSet::new(), 0);
    loop {
        for row in client.query(told, &[]).await? {
            let entry: String = row.get(0);
            if acknowledged.contains(&entry) {
                continue;
            }
            let url: Value = serde_json::from_str(row.get(1))?;
            let url = url.as_str().context("an address")?;
            let at = url.find("/callbacks/").context("a callback's address")?;
            turn += 1;
            let answer = servers[turn % servers.len()].post(&url[at..], "1").await;
            if answer.is_ok_and(|answer| answer.status.is_success()) {
                acknowledged.insert(entry);
            }
        }
        pace(REST).await;
    }
}

/// The lease of a delivery and a second: a delivery without an answer is retried after that.
const DELIVERY_LEASE_SECS: f64 = 121.0;

/// Every event is on its way: delivered, or to be tried again when the lease of its delivery is
/// over.
pub(super) async fn check_deliveries(client: &Connection, emitted: usize) -> Result<()> {
    let deliveries = "
        SELECT count(*), count(*) FILTER (WHERE state = 'delivered'),
               count(*) FILTER (WHERE state = 'failed'),
               count(*) FILTER (WHERE state = 'due'
                                  AND due_at > moment() + make_interval(secs => $1))
          FROM webhook_deliveries";
    let look = async || -> Result<(i64, i64)> {
        let row = client
            .query_one(deliveries, &[&DELIVERY_LEASE_SECS])
            .await?;
        let counts: [i64; 4] = [row.get(0), row.get(1), row.get(2), row.get(3)];
        let [all, delivered, failed, late] = counts;
        ensure!(failed == 0, "Semel stopped retrying {failed} deliveries");
        ensure!(late == 0, "{late} deliveries are not tried again soon");
        Ok((all, delivered))
    };
    let what = format!("{emitted} events on their way, some delivered");
    let on_way = |(all, delivered): &(i64, i64)| *all == emitted as i64 && *delivered > 0;
    until(&what, look, on_way).await?;
    Ok(())
}
