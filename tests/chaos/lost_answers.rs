//! Statements that commit, and whose response never arrives: each kind of them, again and again.
//!
//! A proxy between the servers and PostgreSQL lets some statements of a kind pass, has the next
//! carried out, and cuts its connection instead of answering. Whatever was committed like that, the
//! runs must continue: no due run stays idle, and no held run stays without a turn.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use semel_testkit::{
    Chance, Client, Cluster, Connection, Cut, Options, Peer, Program, Proxy, let_pass, pace,
    patience, until,
};
use serde_json::Value;
use tokio::time::timeout;

use crate::campaign::size;
use crate::invariants;
use crate::queries::{ACTIVE, count};
use crate::servers::{Home, serve, until_known};

mod load;

use load::{FLOWS, Printer};

/// The servers' lease.
const LEASE: &str = "2s";

/// How many times the servers may renew their sessions while a run stands still that could move. Two
/// servers with a lease of two seconds do so three times a second together; while the machine stands still,
/// neither they nor the runs move.
const RENEWALS_MAX: usize = 60;

/// How many answers have to be lost, of all kinds together.
const LOSSES: u64 = 40;

/// For how many seconds answers are lost at least; `SEMEL_LOST_ANSWERS_S` says otherwise.
const STORM_SECS: u64 = 0;

/// How many senders there are, each with one delivery at a time.
const SENDERS: usize = 4;

/// How long a sender rests before it tries again, and the pause between two looks.
const REST: Duration = Duration::from_millis(20);

/// How many runs may be active before senders rest: the servers have room for all of them, so no
/// run waits for room.
const UNDER_WAY_MAX: usize = 8;

/// How many statements of a kind pass at the most before an answer is lost.
const PASSES_MAX: usize = 6;

/// Every kind of statement that commits alone and that this load makes.
const KINDS: &[&str] = &[
    "accept",
    "record",
    "take",
    "return",
    "renew",
    "recover",
    "sleep on",
    "late response",
    "open session",
    "begin children",
    "wake",
    "task claim",
    "webhook take",
    "webhook settle",
    "outbox calls",
    "outbox events",
    "outbox ask",
    "outbox settle",
];

/// Those that must be lost, or the test proves nothing.
const LOST: &[&str] = &[
    "accept",
    "record",
    "take",
    "renew",
    "sleep on",
    "task claim",
    "webhook take",
    "outbox events",
    "outbox settle",
];

/// Wakes sleeping runs before they are due: each finds nothing to do and sleeps on.
const WAKE_FOR_NOTHING: &str = "
    UPDATE queue SET due_at = moment()
     WHERE run_id IN (SELECT run_id FROM queue
                       WHERE holder IS NULL AND stage = 'waiting' AND due_at > moment()
                         FOR UPDATE SKIP LOCKED)";

/// Every so many looks the sleepers are woken.
const WAKE_EVERY: usize = 5;

/// How many answers to each kind of statement were lost.
type Losses = HashMap<&'static str, u64>;

#[tokio::test(flavor = "multi_thread")]
async fn no_run_stalls_whatever_responses_are_lost() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let proxy = Proxy::start(cluster.server().address()).await?;
    let mut servers = Vec::new();
    for _ in 0..2 {
        // Little room, so that runs are taken from the queue as often as they begin at once.
        let program = Program::semel()?.env("SEMEL_CAPACITY", "6");
        servers.push(serve(program, &home.url_at(proxy.address()), LEASE).await?);
    }
    load::prepare(&home, &servers[0], &peer).await?;
    until_known(&servers, FLOWS[FLOWS.len() - 1]).await?;
    let _workers = [
        load::work(&home, &servers[0])?,
        load::work(&home, &servers[1])?,
    ];
    let _printer = Printer::start(&home, &servers).await?;

    let over = Arc::new(AtomicBool::new(false));
    let (numbers, active) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = servers.iter().map(|it| it.client.clone()).collect();
    let send = |_| {
        tokio::spawn(send(
            clients.clone(),
            numbers.clone(),
            (over.clone(), active.clone()),
        ))
    };
    let senders: Vec<_> = (0..SENDERS).map(send).collect();
    let client = home.connect().await?;
    let mut watch = Watch::default();
    let mut chance = Chance::new("lost answers");
    let least = Instant::now() + Duration::from_secs(size("SEMEL_LOST_ANSWERS_S", STORM_SECS)?);
    let mut lost = Losses::new();
    let lose_and_look = async || -> Result<Losses> {
        for kind in KINDS {
            // One more of each kind whenever the last one was lost.
            let so_far = proxy.lost_answers(kind);
            if lost.insert(*kind, so_far) != Some(so_far) {
                proxy.lose_answer(kind, chance.below(PASSES_MAX) as u64);
            }
        }
        if chance.below(WAKE_EVERY) == 0 {
            client.execute(WAKE_FOR_NOTHING, &[]).await?;
        }
        watch.look(&client).await?;
        active.store(count(&client, ACTIVE).await?, Ordering::SeqCst);
        pace(REST).await;
        Ok(lost.clone())
    };
    let is_storm = |lost: &Losses| {
        let each = LOST.iter().all(|kind| lost[kind] > 0);
        each && lost.values().sum::<u64>() >= LOSSES && Instant::now() >= least
    };
    until("each kind of answer to be lost", lose_and_look, is_storm).await?;
    over.store(true, Ordering::SeqCst);
    let mut accepted = HashMap::new();
    for sender in senders {
        accepted.extend(sender.await??);
    }
    watch.until_quiet(&client).await?;

    lost.retain(|_, count| *count > 0);
    println!("{} runs; lost: {lost:?}", accepted.len());
    let emitting = accepted.keys().filter(|key| key.starts_with("go-")).count();
    load::check_deliveries(&client, emitting).await?;
    check(&client, &peer, &accepted).await?;
    invariants::hold(&home, &[&servers[0], &servers[1]]).await
}

/// Delivers one key after another, each until it is accepted, as senders do.
async fn send(
    servers: Vec<Arc<Client>>,
    numbers: Arc<AtomicUsize>,
    (over, active): (Arc<AtomicBool>, Arc<AtomicUsize>),
) -> Result<HashMap<String, String>> {
    let mut accepted = HashMap::new();
    while !over.load(Ordering::SeqCst) {
        if active.fetch_add(1, Ordering::SeqCst) >= UNDER_WAY_MAX {
            pace(REST).await;
            continue;
        }
        let number = numbers.fetch_add(1, Ordering::SeqCst);
        let flow = FLOWS[number % FLOWS.len()];
        let key = format!("{flow}-{number:06}");
        let path = format!("/hooks/default/{flow}");
        let body = format!(r#"{{"id":"{key}"}}"#);
        let mut turn = number / FLOWS.len();
        let run = loop {
            turn += 1;
            let client = &servers[turn % servers.len()];
            match client.post(&path, body.clone()).await {
                Ok(answer) if answer.status.is_success() => {
                    let body: Value = answer.json()?;
                    break body["run"].as_str().context("a run")?.to_owned();
                }
                Ok(answer) => ensure!(answer.status.is_server_error(), "{}", answer.text()),
                Err(_) => {}
            }
            pace(REST).await;
        };
        accepted.insert(key, run);
    }
    Ok(accepted)
}

/// The place of each run that could move, and how many renewals of sessions were seen before it came there.
#[derive(Default)]
struct Watch {
    since: HashMap<String, ((i64, i32, bool), usize)>,
    sessions: HashMap<String, String>,
    renewals: usize,
}

impl Watch {
    /// Looks at every run that is due or held, and fails on one that stalls.
    async fn look(&mut self, client: &Connection) -> Result<()> {
        let expiries = "SELECT id::text, expires_at::text FROM sessions";
        for row in &client.query(expiries, &[]).await? {
            let (session, expiry): (String, String) = (row.get(0), row.get(1));
            let before = self.sessions.insert(session, expiry.clone());
            self.renewals += usize::from(before.is_some_and(|before| before != expiry));
        }
        let movable = "SELECT run_id::text, epoch, seq, holder IS NOT NULL FROM queue
                        WHERE holder IS NOT NULL OR due_at <= moment()";
        let rows = client.query(movable, &[]).await?;
        let mut seen = HashSet::new();
        for row in &rows {
            let run: String = row.get(0);
            let stands = (row.get(1), row.get(2), row.get(3));
            let entry = self.since.entry(run.clone());
            let (before, since) = entry.or_insert_with(|| (stands, self.renewals));
            if *before != stands {
                (*before, *since) = (stands, self.renewals);
            }
            let held = if stands.2 { "held" } else { "due" };
            let renewals = self.renewals - *since;
            ensure!(
                renewals < RENEWALS_MAX,
                "{run} is {held} and stands still under epoch {} at {} for {renewals} renewals, beside {} others",
                stands.0,
                stands.1,
                rows.len() - 1
            );
            seen.insert(run);
        }
        self.since.retain(|run, _| seen.contains(run));
        Ok(())
    }

    async fn until_quiet(&mut self, client: &Connection) -> Result<()> {
        let look = async || {
            self.look(client).await?;
            count(client, ACTIVE).await
        };
        until("all runs to come to rest", look, |left| *left == 0).await?;
        Ok(())
    }
}

/// Every key has one run, the one that was answered; it succeeded, and each effect happened once.
async fn check(client: &Connection, peer: &Peer, accepted: &HashMap<String, String>) -> Result<()> {
    // A called run has a key of its own, which nobody delivered.
    let runs = "SELECT convert_from(r.key, 'UTF8'), r.id::text, r.state::text
                  FROM runs r
                  JOIN releases l ON l.id = r.release_id
                  JOIN flows f ON f.id = l.flow_id
                 WHERE r.parent_id IS NULL AND f.name <> 'called'";
    let rows = client.query(runs, &[]).await?;
    ensure!(rows.len() == accepted.len(), "{} runs", rows.len());
    for row in &rows {
        let (key, state): (&str, &str) = (row.get(0), row.get(2));
        let name = format!("run_{}", row.get::<_, &str>(1).replace('-', ""));
        ensure!(accepted.get(key) == Some(&name), "{key} has {name}");
        ensure!(state == "succeeded", "{key} is {state}");
    }
    let mut effects: HashMap<String, usize> = HashMap::new();
    for effect in peer.effects().await? {
        let last = effect.path.rsplit('/').next().unwrap_or_default();
        let key = last.split('.').next().unwrap_or_default();
        *effects.entry(key.to_owned()).or_default() += 1;
    }
    for key in accepted.keys() {
        let count = effects.get(key).copied().unwrap_or_default();
        let wanted = load::effects_of(key);
        ensure!(count == wanted, "{key} happened {count} times");
    }
    Ok(())
}

/// How long the database is unavailable: longer than the half minute for which a writer tries.
const AWAY: Duration = Duration::from_secs(33);

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_failed_does_not_free_the_run_of_its_repeat() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let proxy = Proxy::start(cluster.server().address()).await?;
    // The lease outlasts the outage, so that the session stays the same.
    let url = home.url_at(proxy.address());
    let server = serve(Program::semel()?, &url, "120s").await?;
    let source = format!(
        "flow: charge\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - id: act\n    \
         http: {{ post: '{}/slow/3000/plain/charge', json: {{ id: 1 }} }}\n    guard: review\n",
        peer.url("")
    );
    home.publish(&server, "charge", &source).await?;

    proxy.refuse();
    proxy.cut(Cut::Reset);
    let client = server.client.clone();
    let sender = tokio::spawn(async move {
        loop {
            // The first is refused when its writer stops trying; its repeats come in the meantime.
            let post = client.post("/hooks/default/charge", r#"{"id":"one"}"#);
            let within = Duration::from_millis(200);
            if let Ok(Ok(answer)) = timeout(within, post).await
                && answer.status.is_success()
            {
                return answer.status;
            }
            pace(within).await;
        }
    });
    let first = server.client.clone();
    let first =
        tokio::spawn(async move { first.post("/hooks/default/charge", r#"{"id":"one"}"#).await });
    let_pass(AWAY, "a writer gives up by the server's own clock").await;
    proxy.resume();
    timeout(patience(), sender).await??;
    let client = home.connect().await?;
    Watch::default().until_quiet(&client).await?;

    let row = client
        .query_one(
            "SELECT (SELECT string_agg(DISTINCT state::text, ' ') FROM runs),
                    (SELECT max(epoch) FROM journal),
                    (SELECT count(*) FROM journal WHERE events::text LIKE '%\"doubted\"%')",
            &[],
        )
        .await?;
    let (state, epoch, doubts): (String, i64, i64) = (row.get(0), row.get(1), row.get(2));
    ensure!(state == "succeeded", "the run is {state}");
    ensure!(doubts == 0 && epoch <= 2, "{doubts} doubts, epoch {epoch}");
    ensure!(peer.count("/slow/").await?.calls == 1, "it is sent once");
    let refused = !first.await?.is_ok_and(|answer| answer.status.is_success());
    ensure!(refused, "the first delivery was refused");
    invariants::hold(&home, &[&server]).await
}
