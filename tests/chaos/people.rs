//! Impatient people: many approvals, each clicked by many at once, half of them contrary, while the
//! server is killed. There is one decision of each, and every click gets it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::{Chance, Client, Cluster, Connection, Program, free_address, pace, until};
use serde_json::{Value, json};

use crate::campaign::{keep_figures, size, storage};
use crate::crowd::{self, Post};
use crate::invariants;
use crate::queries::{ACTIVE, SUCCEEDED, count, until_count, until_none};
use crate::servers::{Home, serve_at};

/// How many approvals there are, unless `SEMEL_APPROVALS` says otherwise.
const APPROVALS: usize = 40;

/// How often each is clicked.
const CLICKS: usize = 50;

/// How many people click at once.
const PEOPLE: usize = 64;

/// How often the server is killed meanwhile.
const KILLS: usize = 2;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// How long a person rests before clicking again.
const REST: Duration = Duration::from_millis(20);

const FLOW: &str = "flow: ask
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: tell
    kv: { set: 'link/${{ input.id }}', value: '${{ waits.sign.url }}' }
  - id: sign
    approval: { from: [finance], show: { id: '${{ input.id }}' }, within: 1h, login: false }
  - id: after
    kv: { add: 'after/${{ input.id }}' }
result: steps.sign.result
";

/// The answer to a click.
struct Told {
    approval: usize,
    approved: bool,
    status: u16,
    replayed: bool,
    body: Value,
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clicks_make_one_decision_and_all_get_it() -> Result<()> {
    let wanted = size("SEMEL_APPROVALS", APPROVALS)?;
    let cluster = Cluster::start(storage()).await?;
    let home = Home::found(cluster.server()).await?;
    let listen = free_address()?.to_string();
    let mut server = serve_at(Program::semel()?, &home.url(), "2s", &listen).await?;
    home.publish(&server, "ask", FLOW).await?;
    let deliveries = (0..wanted).map(|id| Post {
        subject: id,
        path: "/hooks/default/ask".to_owned(),
        body: format!(r#"{{"id":"{id}"}}"#),
    });
    for (_, answer) in crowd::send(&server, 16, deliveries.collect()).await? {
        ensure!(answer.status == 202, "{}", answer.text());
    }
    let client = home.connect().await?;
    let asked = until_asked(&client, wanted).await?;

    let mut clicks: Vec<(usize, bool)> = (0..wanted * CLICKS)
        .map(|index| (index % wanted, (index / wanted).is_multiple_of(2)))
        .collect();
    Chance::new("people").shuffle(&mut clicks);
    let total = clicks.len();
    let begun = Instant::now();
    let (clicks, next) = (Arc::new(clicks), Arc::new(AtomicUsize::new(0)));
    let asked = Arc::new(asked);
    let http = Arc::new(Client::new(server.address, PEOPLE));
    let people: Vec<_> = (0..PEOPLE)
        .map(|_| {
            let (http, clicks) = (http.clone(), clicks.clone());
            tokio::spawn(click(http, asked.clone(), clicks, next.clone()))
        })
        .collect();
    for kill in 1..=KILLS {
        let look = async || Ok(next.load(Ordering::SeqCst));
        let due = total * kill / (KILLS + 1);
        until("clicks before the server dies", look, |clicks| {
            *clicks >= due
        })
        .await?;
        server.process.sigkill()?;
        server = serve_at(Program::semel()?, &home.url(), "2s", &listen).await?;
    }
    let mut told = Vec::with_capacity(total);
    for person in people {
        told.extend(person.await??);
    }
    let seconds = begun.elapsed().as_secs_f64();
    until_none(&client, ACTIVE).await?;

    let approved = check_told(&told, wanted)?;
    check_record(&client, wanted, approved).await?;
    let contrary = told.iter().filter(|one| one.status == 409).count();
    let figures = json!({
        "approvals": wanted,
        "clicks": total,
        "servers_killed": KILLS,
        "seconds": (seconds * 10.0).round() / 10.0,
        "approved": approved,
        "rejected": wanted - approved,
        "told_the_same": total - contrary,
        "told_that_it_was_decided_otherwise": contrary,
        "decided_twice": 0,
    });
    println!("{figures:#}");
    keep_figures("approvals", &figures)?;
    invariants::hold(&home, &[&server]).await
}

/// Clicks until there is nothing left to click, and again where there is no answer.
async fn click(
    http: Arc<Client>,
    asked: Arc<Vec<(String, String)>>,
    clicks: Arc<Vec<(usize, bool)>>,
    next: Arc<AtomicUsize>,
) -> Result<Vec<Told>> {
    let mut told = Vec::new();
    loop {
        let Some((approval, approved)) = clicks.get(next.fetch_add(1, Ordering::SeqCst)).copied()
        else {
            return Ok(told);
        };
        let (path, digest) = &asked[approval];
        let body = json!({ "approved": approved, "digest": digest, "name": "Grace" }).to_string();
        let answer = loop {
            let sent = http.send(Method::POST, path, &JSON, body.clone().into());
            match sent.await {
                Ok(answer) if answer.status.as_u16() < 500 => break answer,
                Ok(_) | Err(_) => pace(REST).await,
            }
        };
        told.push(Told {
            approval,
            approved,
            status: answer.status.as_u16(),
            replayed: answer.header("idempotency-replayed").is_some(),
            body: answer.json()?,
        });
    }
}

/// Waits until people are asked; gives each approval's path and digest.
async fn until_asked(client: &Connection, wanted: usize) -> Result<Vec<(String, String)>> {
    let open = "SELECT count(*) FROM approvals WHERE state = 'open'";
    until_count(client, open, wanted).await?;
    let rows = "SELECT a.shown->>'id', k.value #>> '{}', a.digest
                  FROM approvals a JOIN kv k ON k.entry = 'link/' || (a.shown->>'id')";
    let mut asked = vec![(String::new(), String::new()); wanted];
    for row in client.query(rows, &[]).await? {
        let id: usize = row.get::<_, &str>(0).parse()?;
        let url: &str = row.get(1);
        let at = url.find("/approvals/").context("a link")?;
        asked[id] = (url[at..].to_owned(), row.get(2));
    }
    Ok(asked)
}

/// All clicks got one decision of each approval; returns how many were approved.
fn check_told(told: &[Told], wanted: usize) -> Result<usize> {
    let mut decisions: HashMap<usize, Value> = HashMap::new();
    let mut firsts: HashMap<usize, usize> = HashMap::new();
    for one in told.iter().filter(|one| one.status == 200) {
        let decision = one.body["decision"].clone();
        ensure!(decision["approved"] == json!(one.approved), "{}", one.body);
        let known = decisions.entry(one.approval).or_insert(decision.clone());
        ensure!(*known == decision, "{known} and {decision}");
        *firsts.entry(one.approval).or_default() += usize::from(!one.replayed);
    }
    ensure!(
        decisions.len() == wanted,
        "{} were decided",
        decisions.len()
    );
    // The answer to the first may be lost with its server: its repeat is answered as a repeat.
    ensure!(firsts.values().all(|count| *count <= 1), "two firsts");
    for one in told.iter().filter(|one| one.status != 200) {
        let decision = &decisions[&one.approval];
        ensure!(one.status == 409, "{}: {}", one.status, one.body);
        ensure!(decision["approved"] == json!(!one.approved), "{}", one.body);
        let detail = one.body["detail"].as_str().unwrap_or_default();
        let at = decision["at"].as_str().unwrap_or_default();
        ensure!(
            detail.contains("by link") && detail.contains(at),
            "{detail}"
        );
    }
    let approved = decisions
        .values()
        .filter(|it| it["approved"] == json!(true));
    Ok(approved.count())
}

/// The database has the decisions that the clicks got.
async fn check_record(client: &Connection, wanted: usize, approved: usize) -> Result<()> {
    ensure!(
        count(client, SUCCEEDED).await? == approved,
        "the approved ones continued"
    );
    let rejected = "SELECT count(*) FROM runs WHERE state = 'failed'
                       AND fault->>'code' = 'approval-rejected'";
    ensure!(
        count(client, rejected).await? == wanted - approved,
        "the others failed"
    );
    let once = "SELECT count(*) FROM kv WHERE entry LIKE 'after/%' AND value::text = '1'";
    ensure!(
        count(client, once).await? == approved,
        "each continued once"
    );
    let audited = "SELECT count(*) FROM audit WHERE action LIKE 'approval.%'";
    ensure!(count(client, audited).await? == wanted, "one act for each");
    Ok(())
}
