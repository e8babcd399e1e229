//! Overlap under fire: for each policy many deliveries of many keys, while servers are killed.
//!
//! Every run calls the destination when it begins, is slow, and calls it when it is done. Whether
//! two runs of one key were ever active at the same time is judged by what the destination saw and
//! by what the journals say, never by the tables of the gates.

pub(crate) mod judge;

pub(crate) use judge::{check_journal, check_peer, empty};

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use semel_testkit::{Chance, Client, Cluster, Connection, Peer, Program, pace};
use serde_json::{Value, json};
use tokio::sync::RwLock;

use crate::campaign::{keep_figures, size, storage};
use crate::invariants;
use crate::queries::until_none;
use crate::servers::{Home, Served, serve, until_known};

/// The policies, as authors write them.
pub(crate) const POLICIES: [&str; 4] = ["queue", "skip", "join", "replace"];

/// How many keys there are, and how often each is delivered, unless the environment says otherwise.
const KEYS: usize = 40;
const TIMES: usize = 6;

/// How often a server is killed, and when for the first time: a few keys are soon delivered.
const KILL_EVERY: Duration = Duration::from_secs(2);
const FIRST_KILL: Duration = Duration::from_millis(500);

/// The servers' lease.
const LEASE: &str = "2s";

const SENDERS: usize = 16;

/// How long a sender rests before it tries again.
const REST: Duration = Duration::from_millis(40);

/// A destination that honours keys sees each call of a run once, so calls can be counted there.
pub(crate) const FLOW: &str = "flow: NAME
trigger:
  webhook: { auth: none, key: input.id }
retry: { attempts: 100, delay: 100ms, max_delay: 1s, within: 1h }
overlap: { key: input.object, policy: NAME }
steps:
  - id: begin
    http: { post: 'PEER/keyed/begin', json: { id: '${{ input.id }}' } }
    guard: key
  - id: work
    http: { post: 'PEER/slow/3/keyed/work', json: { id: '${{ input.id }}' } }
    guard: key
  - id: done
    http: { post: 'PEER/keyed/done', json: { id: '${{ input.id }}' } }
    guard: key
result: input.id
";

/// What is delivered, by whom and to whom.
struct Load {
    servers: RwLock<Vec<Arc<Client>>>,
    deliveries: Vec<(String, usize, usize)>,
    next: AtomicUsize,
}

#[tokio::test(flavor = "multi_thread")]
async fn never_two_runs_of_one_key_at_once_and_none_lost() -> Result<()> {
    let (keys, times) = (
        size("SEMEL_OVERLAP_KEYS", KEYS)?,
        size("SEMEL_OVERLAP_TIMES", TIMES)?,
    );
    let cluster = Cluster::start(storage()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let mut servers = Vec::new();
    for _ in 0..2 {
        servers.push(serve(Program::semel()?, &home.url(), LEASE).await?);
    }
    for policy in POLICIES {
        let source = FLOW.replace("NAME", policy).replace("PEER", &peer.url(""));
        home.publish(&servers[0], policy, &source).await?;
    }
    until_known(&servers, POLICIES[POLICIES.len() - 1]).await?;
    let client = home.connect().await?;
    let mut chance = Chance::new("overlap");
    let mut figures = Vec::new();
    for policy in POLICIES {
        let begun = Instant::now();
        peer.reset().await?;
        let deliveries = deal(policy, keys, times, &mut chance);
        let kills = storm(&home, &mut servers, deliveries, &mut chance).await?;
        until_quiet(&client, policy).await?;
        let figure = check(&client, &peer, policy, keys, times).await?;
        println!(
            "{policy}: {figure}, {kills} kills, {:.0} s",
            begun.elapsed().as_secs_f64()
        );
        figures.push(
            json!({ "policy": policy, "keys": keys, "deliveries": keys * times,
            "kills": kills, "took_s": begun.elapsed().as_secs(), "ends": figure,
            "two_at_once": 0, "lost": 0 }),
        );
    }
    empty(&client).await?;
    keep_figures("overlap", &json!(figures))?;
    invariants::hold(&home, &servers.iter().collect::<Vec<_>>()).await
}

/// Every delivery once, shuffled.
fn deal(
    policy: &str,
    keys: usize,
    times: usize,
    chance: &mut Chance,
) -> Vec<(String, usize, usize)> {
    let mut deliveries: Vec<(String, usize, usize)> = (0..keys * times)
        .map(|index| (policy.to_owned(), index % keys, index / keys))
        .collect();
    chance.shuffle(&mut deliveries);
    deliveries
}

/// Delivers everything while servers are killed; tells how many were.
async fn storm(
    home: &Home,
    servers: &mut [Served],
    deliveries: Vec<(String, usize, usize)>,
    chance: &mut Chance,
) -> Result<usize> {
    let load = Arc::new(Load {
        servers: RwLock::new(servers.iter().map(|server| server.client.clone()).collect()),
        deliveries,
        next: AtomicUsize::new(0),
    });
    let over = Arc::new(AtomicBool::new(false));
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| tokio::spawn(send(load.clone())))
        .collect();
    let watch = {
        let over = over.clone();
        tokio::spawn(async move {
            for sender in senders {
                sender.await??;
            }
            over.store(true, Ordering::SeqCst);
            Ok::<(), anyhow::Error>(())
        })
    };
    let mut kills = 0;
    loop {
        pace(if kills == 0 { FIRST_KILL } else { KILL_EVERY }).await;
        let index = chance.below(servers.len());
        servers[index].process.sigkill()?;
        kills += 1;
        servers[index] = serve(Program::semel()?, &home.url(), LEASE).await?;
        load.servers.write().await[index] = servers[index].client.clone();
        if over.load(Ordering::SeqCst) || watch.is_finished() {
            break;
        }
    }
    watch.await??;
    Ok(kills)
}

async fn send(load: Arc<Load>) -> Result<()> {
    loop {
        let index = load.next.fetch_add(1, Ordering::SeqCst);
        let Some((policy, key, time)) = load.deliveries.get(index) else {
            return Ok(());
        };
        let body = json!({ "id": format!("{policy}-{key}-{time}"), "object": format!("k{key}") });
        let path = format!("/hooks/default/{policy}");
        let mut turn = index;
        loop {
            let client = {
                let servers = load.servers.read().await;
                servers[turn % servers.len()].clone()
            };
            turn += 1;
            match client.post(&path, body.to_string()).await {
                Ok(answer) if answer.status.is_success() => break,
                Ok(answer) => ensure!(answer.status.is_server_error(), "{}", answer.text()),
                Err(_) => {}
            }
            pace(REST).await;
        }
    }
}

async fn until_quiet(client: &Connection, policy: &str) -> Result<()> {
    let left = format!(
        "SELECT count(*) FROM runs r JOIN releases l ON l.id = r.release_id
           JOIN flows f ON f.id = l.flow_id WHERE f.name = '{policy}' AND r.ended_at IS NULL"
    );
    let quiet = until_none(client, &left).await;
    if quiet.is_err() {
        let stuck = stuck(client).await?;
        return quiet.with_context(|| format!("runs of {policy} do not end: {stuck}"));
    }
    Ok(())
}

/// What the tables say of a run that does not end.
async fn stuck(client: &Connection) -> Result<String> {
    let rows = client
        .query(
            "SELECT r.id::text, q.stage::text, q.due_at::text, q.holder::text, t.place::text,
                    t.related_run::text, t.wake_since::text
               FROM runs r JOIN queue q ON q.run_id = r.id LEFT JOIN gate_entries t ON t.run_id = r.id
              LIMIT 5",
            &[],
        )
        .await?;
    let mut lines = Vec::new();
    for row in &rows {
        let columns = (0..7).map(|index| row.get::<_, Option<String>>(index));
        let columns = columns.map(|text| text.unwrap_or_else(|| "-".to_owned()));
        lines.push(columns.collect::<Vec<_>>().join(" "));
    }
    Ok(lines.join("\n"))
}

/// The ends of a policy's runs. None is lost, and no two of one key were active at the same time.
async fn check(
    client: &Connection,
    peer: &Peer,
    policy: &str,
    keys: usize,
    times: usize,
) -> Result<Value> {
    let ends = check_runs(client, policy, keys * times).await?;
    check_journal(client, policy).await?;
    check_peer(peer, &ends).await?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (state, code) in ends.values() {
        let name = match code.is_empty() {
            true => state.clone(),
            false => code.clone(),
        };
        *counts.entry(name).or_default() += 1;
    }
    let mut acted: HashMap<&str, usize> = HashMap::new();
    for (id, (state, _)) in &ends {
        let key = id.rsplit_once('-').map_or("", |(key, _)| key);
        *acted.entry(key).or_default() += usize::from(state == "succeeded");
    }
    ensure!(
        acted.len() == keys && acted.values().all(|count| *count > 0),
        "{policy}: every key has a run that succeeded"
    );
    if policy == "queue" {
        ensure!(
            counts.get("succeeded") == Some(&(keys * times)),
            "{counts:?}"
        );
    }
    Ok(json!(counts))
}

/// Every delivery has one run, and it ended as its policy allows.
pub(crate) async fn check_runs(
    client: &Connection,
    policy: &str,
    wanted: usize,
) -> Result<HashMap<String, (String, String)>> {
    let rows = client
        .query(
            "SELECT convert_from(r.key, 'UTF8'), r.state::text, coalesce(r.fault ->> 'code', '')
               FROM runs r JOIN releases l ON l.id = r.release_id JOIN flows f ON f.id = l.flow_id
              WHERE f.name = $1",
            &[&policy],
        )
        .await?;
    ensure!(
        rows.len() == wanted,
        "{policy}: {} of {wanted} runs",
        rows.len()
    );
    let mut ends = HashMap::new();
    for row in &rows {
        let (id, state, code): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let fine = matches!(
            (policy, state.as_str(), code.as_str()),
            (_, "succeeded", "")
                | ("skip", "superseded", "overlap-skipped")
                | ("replace", "superseded", "overlap-replaced")
        );
        ensure!(fine, "{id} is {state}: {code}");
        ensure!(ends.insert(id, (state, code)).is_none(), "a run twice");
    }
    Ok(ends)
}
