//! Two answers within a tenth of a second of each other beside each way in which their run is taken or put back, on
//! three servers that lose answers: no run sleeps over an answer that is on record.
//!
//! `crates/engine/tests/stories/orders.rs` says which answers can meet which way, and plays them in every order. Here the
//! servers race, and everything is there: services, other runs, lost answers. Each answer is sent once: a repeat of one
//! that was acknowledged would wake a run that sleeps over it.

mod round;
mod way;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::chance::seed;
use semel_testkit::{Chance, Cluster, Connection, Peer, Program, Proxy, pace};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::campaign::{is_measured, keep_figures, scaled, storage};
use crate::invariants;
use crate::queries::count;
use crate::servers::{Home, Served, serve, until_known};

use round::{REST, Round};
use way::Way;

/// How many runs are taken in each way, unless `SEMEL_WAKE_RUNS` says otherwise: with every change, and in a campaign.
const RUNS: usize = 30;
const RUNS_FULL: usize = 3_000;

/// How many of them are under way at once.
const ROUND: usize = 60;

const SERVERS: usize = 3;

/// The servers' lease: a lost answer to a renewal costs none of them its runs.
const LEASE: &str = "10s";

/// That of servers one of which is stopped until its lease is over.
const LEASE_STOPPED: &str = "2s";

/// MiB for which a server plans. A large answer of each run of a round does not fit.
const MEMORY: &str = "256";

/// How many statements of a kind pass at the most before an answer is lost.
const PASSES_MAX: usize = 12;

/// The line of the metrics that counts the runs that were put back.
const PUT_BACK: &str = "semel_runs_put_back_total ";

/// The database, the servers and the destination for the runs of one way.
struct Ground {
    _cluster: Cluster,
    home: Home,
    peer: Peer,
    proxy: Arc<Proxy>,
    servers: Vec<Served>,
    client: Connection,
}

impl Ground {
    async fn start(way: Way) -> Result<Self> {
        let cluster = Cluster::start(storage()).await?;
        let home = Home::found(cluster.server()).await?;
        let peer = Peer::start().await?;
        let proxy = Arc::new(Proxy::start(cluster.server().address()).await?);
        let mut servers = Vec::new();
        let is_stopped = way == Way::LateResponse;
        let lease = if is_stopped { LEASE_STOPPED } else { LEASE };
        for _ in 0..SERVERS {
            let program = Program::semel()?.env("SEMEL_MEMORY", MEMORY);
            servers.push(serve(program, &home.url_at(proxy.address()), lease).await?);
        }
        for answer in way.answers() {
            let source = way.flow(*answer, &peer);
            home.publish(&servers[0], answer.flow(), &source).await?;
            until_known(&servers, answer.flow()).await?;
        }
        Ok(Self {
            client: home.connect().await?,
            _cluster: cluster,
            home,
            peer,
            proxy,
            servers,
        })
    }

    /// Loses answers to statements of some kinds, one of each kind at a time, for as long as the task lives.
    fn lose(&self, way: Way, mut chance: Chance) -> JoinHandle<()> {
        let proxy = self.proxy.clone();
        tokio::spawn(async move {
            let mut lost: BTreeMap<&str, u64> = BTreeMap::new();
            loop {
                for kind in way.lost() {
                    let so_far = proxy.lost_answers(kind);
                    if lost.insert(*kind, so_far) != Some(so_far) {
                        proxy.lose_answer(kind, chance.below(PASSES_MAX) as u64);
                    }
                }
                pace(REST).await;
            }
        })
    }

    /// How often the servers put a run back that they had taken.
    async fn count_put_back(&self) -> Result<u64> {
        let mut total = 0;
        for server in &self.servers {
            let metrics = self
                .home
                .command(server, Method::GET, "/metrics", String::new());
            let text = metrics.await?.text();
            let count = text.lines().find_map(|line| line.strip_prefix(PUT_BACK));
            total += count.context("a count")?.trim().parse::<u64>()?;
        }
        Ok(total)
    }
}

async fn play(way: Way) -> Result<()> {
    let wanted = scaled("SEMEL_WAKE_RUNS", RUNS, RUNS_FULL)?;
    let ground = Ground::start(way).await?;
    let mut chance = Chance::new(way.name());
    let losing = ground.lose(way, Chance::new("lost answers"));
    let (mut runs, mut number) = (0, 0);
    while runs < wanted {
        let size = ROUND.min(wanted - runs);
        let round = Round::new(&ground, way, number, size);
        round.play(&mut chance).await?;
        (runs, number) = (runs + size, number + 1);
    }
    losing.abort();

    let lost: BTreeMap<&str, u64> = way
        .lost()
        .iter()
        .map(|kind| (*kind, ground.proxy.lost_answers(kind)))
        .filter(|(_, lost)| *lost > 0)
        .collect();
    let put_back = ground.count_put_back().await?;
    let figures = json!({
        "way": way.name(),
        "runs": runs,
        "answers": runs * 2,
        "first_answered_by": way.answers().iter().map(|answer| answer.flow()).collect::<Vec<_>>(),
        "seed": seed(),
        "lost_answers": lost,
        "put_back": put_back,
        "asleep": 0,
    });
    println!("{figures:#}");
    check(&ground.client, way, runs).await?;
    ensure!(!lost.is_empty(), "no answer was lost");
    if way == Way::LateResponse {
        let acted = ground.peer.count("/hold/plain/act").await?.effects;
        ensure!(acted == runs as u64, "{runs} runs acted {acted} times");
    }
    ensure!(
        way != Way::PutBack || put_back > 0 || !is_measured(),
        "no run was put back"
    );
    invariants::hold(&ground.home, &ground.servers.iter().collect::<Vec<_>>()).await?;
    keep_figures(&format!("wakes-{}", way.name()), &figures)
}

/// Every run ended well, and continued once behind its answers.
async fn check(client: &Connection, way: Way, runs: usize) -> Result<()> {
    let all = "SELECT count(*) FROM runs WHERE parent_id IS NULL";
    let all = count(client, all).await?;
    ensure!(all == runs, "{all} runs of {runs}");
    let succeeded = "SELECT count(*) FROM runs WHERE parent_id IS NULL AND state = 'succeeded'";
    let succeeded = count(client, succeeded).await?;
    let cancelled = count(
        client,
        "SELECT count(*) FROM runs WHERE state = 'cancelled'",
    )
    .await?;
    let is_over = match way {
        Way::Cancel => succeeded + cancelled == runs,
        Way::PauseEnd
        | Way::ItemEnd
        | Way::Timer
        | Way::Gate
        | Way::Name
        | Way::Resume
        | Way::Recovery
        | Way::PutBack
        | Way::LateResponse => succeeded == runs,
    };
    ensure!(
        is_over,
        "of {runs} runs {succeeded} succeeded, {cancelled} were cancelled"
    );
    let once = "SELECT count(*) FROM kv WHERE starts_with(entry, 'done/') AND value::text = '1'";
    let once = count(client, once).await?;
    let all = "SELECT count(*) FROM kv WHERE starts_with(entry, 'done/')";
    let all = count(client, all).await?;
    // A run that is cancelled at its end may have made its note.
    ensure!(
        once == all && once >= succeeded && (once == succeeded || way == Way::Cancel),
        "{succeeded} succeeded, {all} notes, {once} of them of one run"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_answers_beside_the_end_of_a_pause_leave_no_run_asleep() -> Result<()> {
    play(Way::PauseEnd).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_answers_beside_the_end_of_an_item_leave_no_run_asleep() -> Result<()> {
    play(Way::ItemEnd).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_answers_beside_a_cancel_leave_no_run_asleep() -> Result<()> {
    play(Way::Cancel).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_answers_beside_a_timer_leave_no_run_asleep() -> Result<()> {
    play(Way::Timer).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_answers_to_a_run_that_leaves_its_gate_leave_no_run_asleep() -> Result<()> {
    play(Way::Gate).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_answers_to_a_run_whose_business_key_becomes_free_leave_no_run_asleep() -> Result<()> {
    play(Way::Name).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_answers_beside_a_resume_leave_no_run_asleep() -> Result<()> {
    play(Way::Resume).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_answers_beside_a_recovery_leave_no_run_asleep() -> Result<()> {
    play(Way::Recovery).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_answers_to_a_run_that_is_put_back_leave_no_run_asleep() -> Result<()> {
    play(Way::PutBack).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_answers_beside_a_late_response_leave_no_run_asleep() -> Result<()> {
    play(Way::LateResponse).await
}
