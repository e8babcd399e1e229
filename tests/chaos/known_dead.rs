//! The only server is killed again and again and started again at once: each dead session is known dead by the lock of
//! the state folder, long before its lease is over, and what was in flight is repeated a lease after its intent.
//!
//! Reads are slow, so each kill finds some, and the next server does them again at once. The destination of the effects
//! works for seconds before it looks at their key: a request may still be worked on when its server has been dead for
//! long, and a repeat that came early would be worked on beside it.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hyper::StatusCode;
use semel_testkit::{Chance, Cluster, Connection, Peer, Program, pace, until};
use serde_json::json;

use crate::campaign::{is_measured, keep_figures, scaled, storage};
use crate::invariants;
use crate::queries::{UNENDED, count, until_count, until_none};
use crate::servers::{Home, Served, serve};

/// How often the server is killed, unless `SEMEL_KNOWN_DEAD_KILLS` says otherwise: with every change, and in a campaign.
const KILLS: usize = 3;
const KILLS_FULL: usize = 50;

/// How many runs of each flow are delivered before a kill.
const RUNS: usize = 8;

/// The servers' lease, in seconds: with every change, when a machine may stand still and no kill is waited for that long,
/// and in a campaign, in which effects are repeated between the kills.
const LEASE_SECS: u32 = 600;
const LEASE_SECS_FULL: u32 = 30;

/// How long a read takes, in milliseconds.
const READ_MS: u64 = 1_500;

/// How many milliseconds the destination works before it looks at a key: with every change, and in a campaign.
const WORK_MS: u64 = 500;
const WORK_MS_FULL: u64 = 5_000;

/// A kill comes so many milliseconds after the reads have begun, at the most.
const KILL_WITHIN_MS: usize = 300;

/// The next server is killed before the reads of this one have ended, once in so many times.
const KILL_AGAIN_ONE_IN: usize = 4;

/// The sessions of a process: all of them, those that are not ended, and those that their leases ended.
const SESSIONS: &str = "
    SELECT count(*), count(*) FILTER (WHERE lost_at IS NULL),
           count(*) FILTER (WHERE lost_at >= expires_at)
      FROM sessions WHERE process = $1";

/// The reads of a batch that the last server has not taken yet.
const LEFT: &str = "
    SELECT count(*)
      FROM queue q
      JOIN runs r ON r.id = q.run_id
     WHERE starts_with(convert_from(r.key, 'UTF8'), $1::text)
       AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = q.holder AND s.process = $2)";

const STOPPED: &str = "
    SELECT count(*) FROM runs WHERE state IN ('quarantined', 'needs_review', 'in_doubt', 'failed')";

/// The least seconds between two intents of one effect.
const BETWEEN_INTENTS: &str = "
    SELECT min(extract(epoch FROM at - before))::float8, count(*)
      FROM (SELECT j.at, lag(j.at) OVER (PARTITION BY j.run_id ORDER BY j.seq) AS before
              FROM journal j, json_array_elements(j.events) e
             WHERE e->>'event' = 'intended' AND e->>'step' = 'pay') AS intents
     WHERE before IS NOT NULL";

const FLOW: &str = "flow: NAME
trigger:
  webhook: { auth: none, key: input.id }
retry: { attempts: 100, delay: 100ms, max_delay: 1s, within: 1d }
steps:
STEP  - { id: note, kv: { add: 'done/${{ input.id }}' } }
";

const PAY: &str = "  - id: pay
    http: { post: 'PEER/busy/WORK_MS/keyed/${{ input.id }}', json: {}, timeout: 60s }
    guard: key
";

const READ: &str = "  - id: look
    http: { get: 'PEER/slow/READ_MS/list/1/${{ input.batch }}/${{ input.id }}', timeout: 60s }
";

/// The server that is killed, and its place.
struct Place<'a> {
    home: &'a Home,
    folder: &'a Path,
    server: Served,
}

impl Place<'_> {
    async fn start(home: &Home, folder: &Path) -> Result<Served> {
        let program = Program::semel()?.env("SEMEL_STATE_DIR", folder);
        serve(program, &home.url(), &format!("{}s", lease_secs())).await
    }

    fn process(&self) -> String {
        format!("pid {}", self.server.process.id())
    }

    /// Kills the server and starts the next one. Gives the process that was killed.
    async fn replace(&mut self) -> Result<String> {
        let killed = self.process();
        self.server.process.sigkill()?;
        self.server = Self::start(self.home, self.folder).await?;
        Ok(killed)
    }

    async fn until_ready(&self) -> Result<()> {
        let look =
            async || -> Result<StatusCode> { Ok(self.server.client.get("/readyz").await?.status) };
        until("a server that is ready", look, |status| *status == 200).await?;
        Ok(())
    }

    /// Delivers reads, then effects, which are short, and waits until all reads are at their destination.
    async fn load(&self, peer: &Peer, batch: usize) -> Result<()> {
        let at_destination = reads_of(batch);
        for flow in ["read", "pay"] {
            for number in 0..RUNS {
                let id = format!("{flow}-{batch}-{number}");
                let body = json!({ "id": id, "batch": batch }).to_string();
                let path = format!("/hooks/default/{flow}");
                let answer = self.server.client.post(&path, body).await?;
                ensure!(answer.status == 202, "{}", answer.text());
            }
        }
        let look = async || -> Result<u64> { Ok(peer.count(&at_destination).await?.calls) };
        until("the reads to begin", look, |calls| *calls >= RUNS as u64).await?;
        Ok(())
    }
}

fn lease_secs() -> u32 {
    if is_measured() {
        LEASE_SECS_FULL
    } else {
        LEASE_SECS
    }
}

/// The path under which the reads of a batch are.
fn reads_of(batch: usize) -> String {
    format!("/slow/{READ_MS}/list/1/{batch}/")
}

async fn publish(home: &Home, server: &Served, peer: &Peer) -> Result<()> {
    let work = if is_measured() { WORK_MS_FULL } else { WORK_MS };
    let (work, read) = (work.to_string(), READ_MS.to_string());
    for (name, step) in [("pay", PAY), ("read", READ)] {
        let source = FLOW
            .replace("NAME", name)
            .replace("STEP", step)
            .replace("WORK_MS", &work)
            .replace("READ_MS", &read)
            .replace("PEER", &peer.url(""));
        home.publish(server, name, &source).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_again_and_again_is_known_dead_each_time() -> Result<()> {
    let kills = scaled("SEMEL_KNOWN_DEAD_KILLS", KILLS, KILLS_FULL)?;
    let cluster = Cluster::start(storage()).await?;
    let home = Home::found(cluster.server()).await?;
    let (client, peer) = (home.connect().await?, Peer::start().await?);
    let folder = tempfile::tempdir()?;
    let mut place = Place {
        server: Place::start(&home, folder.path()).await?,
        home: &home,
        folder: folder.path(),
    };
    publish(&home, &place.server, &peer).await?;

    let mut chance = Chance::new("known dead");
    let mut until_on = Vec::new();
    for batch in 0..kills {
        place.load(&peer, batch).await?;
        pace(Duration::from_millis(chance.below(KILL_WITHIN_MS) as u64)).await;
        let killed = place.replace().await?;
        place.until_ready().await?;
        let ready = Instant::now();
        let (reads, process) = (format!("read-{batch}-"), place.process());
        let look = async || -> Result<i64> {
            Ok(client.query_one(LEFT, &[&reads, &process]).await?.get(0))
        };
        until("the reads to go on", look, |left| *left == 0).await?;
        until_on.push(ready.elapsed());
        check_ended(&client, &killed).await?;
        if chance.below(KILL_AGAIN_ONE_IN) > 0 {
            let ended = format!(
                "SELECT count(*) FROM runs WHERE state = 'succeeded'
                    AND starts_with(convert_from(key, 'UTF8'), '{reads}')"
            );
            until_count(&client, &ended, RUNS).await?;
        }
    }
    // Effects in flight at the last kill rest until their lease is over.
    let lease = format!("{} seconds", lease_secs());
    home.kill(&mut place.server, &lease).await?;
    place.server = Place::start(&home, folder.path()).await?;
    until_none(&client, UNENDED).await?;

    let stopped = count(&client, STOPPED).await?;
    ensure!(stopped == 0, "{stopped} runs were stopped");
    check_effects(&client, &peer, kills * RUNS).await?;
    let repeated = check_intents(&client).await?;
    until_on.sort_unstable();
    let ms = |at: usize| until_on.get(at).map(|on| (on.as_secs_f64() * 1e3).round());
    let figures = json!({
        "kills": kills,
        "lease_s": lease_secs(),
        "runs": kills * RUNS * 2,
        "sessions_ended_by_their_lease": 0,
        "quarantined": 0,
        "effects_twice": 0,
        "effects_repeated_under_their_key": repeated,
        "ready_until_runs_go_on_ms": {
            "median": ms(kills / 2),
            "longest": ms(kills.saturating_sub(1)),
            "goal": 2_000,
        },
    });
    println!("{figures:#}");
    keep_figures("known-dead", &figures)?;
    // The kill at the end moved the clock.
    invariants::hold_but(&home, &[&place.server], &["duties"]).await
}

/// The sessions of a killed process are ended, each before its lease was over.
async fn check_ended(client: &Connection, process: &str) -> Result<()> {
    let look = async || -> Result<(i64, i64, i64)> {
        let row = client.query_one(SESSIONS, &[&process]).await?;
        Ok((row.get(0), row.get(1), row.get(2)))
    };
    let is_ended = |(all, alive, _): &(i64, i64, i64)| *all > 0 && *alive == 0;
    let (.., late) = until("the end of a dead session", look, is_ended).await?;
    ensure!(late == 0, "{process}: its lease ended a session");
    Ok(())
}

/// Every effect happened once, and every run continued once.
async fn check_effects(client: &Connection, peer: &Peer, pays: usize) -> Result<()> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for effect in peer.effects().await? {
        *seen.entry(effect.path).or_default() += 1;
    }
    let twice: Vec<_> = seen.iter().filter(|(_, times)| **times != 1).collect();
    ensure!(twice.is_empty(), "not once: {twice:?}");
    ensure!(seen.len() == pays, "{} effects of {pays}", seen.len());
    let once = "SELECT count(*) FROM kv WHERE starts_with(entry, 'done/') AND value::text = '1'";
    let once = count(client, once).await?;
    ensure!(once == pays * 2, "{once} runs continued once");
    Ok(())
}

/// No effect was tried again before its lease was over. Gives how often one was.
async fn check_intents(client: &Connection) -> Result<i64> {
    let row = client.query_one(BETWEEN_INTENTS, &[]).await?;
    let (least, repeated): (Option<f64>, i64) = (row.get(0), row.get(1));
    let least = least.context("no effect was in flight at a kill")?;
    ensure!(
        least >= f64::from(lease_secs()),
        "an effect was tried again {least:.1} s after its intent"
    );
    Ok(repeated)
}
