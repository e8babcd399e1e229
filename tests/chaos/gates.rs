//! A fault at every commit around a gate, under every policy: before and after a run is admitted or
//! has to wait, before and after it leaves its gate.
//!
//! All cells of a fault are set up one after the other and struck together. The server that the
//! fault strikes is the test build; what takes over is the product as it is shipped.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use semel_testkit::client::Answer;
use semel_testkit::peer::Held as HeldRequest;
use semel_testkit::{Cluster, Connection, Options, Peer, Program, patience, until, until_some};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::harness::{Harness, Held};
use crate::invariants;
use crate::overlap::{self, FLOW, POLICIES, check_journal, check_peer, check_runs};
use crate::queries::{UNENDED, count};
use crate::servers::{Home, Served, serve};

const LEASE: &str = "2s";

/// Where a run stands when the fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The first run of its object, before or after the gate's commit.
    First(&'static str),
    /// The second, while the first is running.
    Second(&'static str),
    /// The first has ended and the second waits.
    Leaving(&'static str),
}

const PLACES: [Place; 6] = [
    Place::First("enter.before"),
    Place::First("enter.after"),
    Place::Second("enter.before"),
    Place::Second("enter.after"),
    Place::Leaving("leave.before"),
    Place::Leaving("leave.after"),
];

impl Place {
    fn name(self) -> String {
        let (who, point) = match self {
            Self::First(point) => ("first", point),
            Self::Second(point) => ("second", point),
            Self::Leaving(point) => ("leaving", point),
        };
        format!("{who}_{}", point.replace('.', "_"))
    }
}

/// What strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    Pause,
}

/// A cell that is set up.
struct Placed {
    policy: &'static str,
    name: String,
    held: Held,
    deliveries: Vec<JoinHandle<Result<Answer>>>,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_crash_at_a_gate_ends_as_its_policy_says() -> Result<()> {
    tokio::try_join!(play(Fault::Kill), play(Fault::Pause))?;
    Ok(())
}

async fn play(fault: Fault) -> Result<()> {
    let begun = Instant::now();
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let peer = Peer::start().await?;
    let second = serve(Program::semel()?, &home.url(), LEASE).await?;
    for policy in POLICIES {
        let begin = format!("{}/hold/keyed/${{{{ input.id }}}}/begin", peer.url(""));
        let source = FLOW
            .replace("NAME", policy)
            .replace("PEER/keyed/begin", &begin)
            .replace("PEER", &peer.url(""));
        home.publish(&second, policy, &source).await?;
    }
    let harness = Harness::start()?;
    let mut first = harness.serve(&home, LEASE).await?;
    let client = home.connect().await?;
    let mut placed = Vec::new();
    for place in PLACES {
        for policy in POLICIES {
            let cell = set_up(&harness, &first, &peer, &client, policy, place).await;
            placed.push(cell.with_context(|| format!("{policy} {place:?}"))?);
        }
    }

    match fault {
        Fault::Kill => drop(first.process.sigkill()?),
        Fault::Pause => first.process.sigstop()?,
    }
    let mut wanted: HashMap<&str, usize> = HashMap::new();
    for cell in &placed {
        *wanted.entry(cell.policy).or_default() += 2;
        // Every object has two runs in the end, whatever the first server still took in.
        for who in ["a", "b"] {
            let answer = deliver(&second, cell.policy, &cell.name, who).await?;
            ensure!(answer.status.is_success(), "{}", answer.text());
        }
    }
    let mut woken = false;
    let let_go_and_look = async || -> Result<usize> {
        peer.let_go().await?;
        // Once others have taken over, the paused server continues where it stopped.
        if fault == Fault::Pause && !woken && begun_again(&client).await? {
            woken = true;
            first.process.sigcont()?;
            for cell in placed.drain(..) {
                cell.held.let_go().await;
                cell.deliveries.iter().for_each(JoinHandle::abort);
            }
        }
        count(&client, UNENDED).await
    };
    until("all runs to end", let_go_and_look, |left| *left == 0).await?;
    if fault == Fault::Pause {
        if !woken {
            first.process.sigcont()?;
            drop(placed.drain(..));
        }
        // It has noticed that it was paused, and whatever it continued with is over when it ends.
        home.until_live(&first).await?;
        first.process.sigterm()?;
        first.process.until_exit(patience()).await?;
    }

    let mut ends = HashMap::new();
    for policy in POLICIES {
        ends.extend(check_runs(&client, policy, wanted[policy]).await?);
        check_journal(&client, policy).await?;
    }
    // The peer has seen the runs of all policies.
    check_peer(&peer, &ends).await?;
    overlap::empty(&client).await?;
    println!(
        "{fault:?}: {} cells, {:.0} s",
        PLACES.len() * POLICIES.len(),
        begun.elapsed().as_secs_f64()
    );
    invariants::hold(&home, &[&second]).await
}

/// Brings the runs of one object to where they stand when the fault strikes.
async fn set_up(
    harness: &Harness,
    server: &Served,
    peer: &Peer,
    client: &Connection,
    policy: &'static str,
    place: Place,
) -> Result<Placed> {
    let name = format!("{policy}-{}", place.name());
    let send = |who: &'static str| {
        let (server, name) = (server.client.clone(), name.clone());
        tokio::spawn(async move { post(&server, policy, &name, who).await })
    };
    let mut deliveries = Vec::new();
    let held = match place {
        Place::First(point) => {
            let watch = harness.arm(point, Some(&format!("{name}-a")));
            deliveries.push(send("a"));
            watch.until_held().await?
        }
        Place::Second(point) => {
            deliveries.push(send("a"));
            until_at_peer(peer, &name).await?;
            let watch = harness.arm(point, Some(&format!("{name}-b")));
            deliveries.push(send("b"));
            watch.until_held().await?
        }
        Place::Leaving(point) => {
            deliveries.push(send("a"));
            let begun = until_at_peer(peer, &name).await?;
            deliveries.push(send("b"));
            until_told(client, &format!("{name}-b")).await?;
            let watch = harness.arm(point, Some(&format!("{name}-a")));
            peer.let_one_go(&begun).await?;
            watch.until_held().await?
        }
    };
    Ok(Placed {
        policy,
        name,
        held,
        deliveries,
    })
}

/// Waits until the destination holds the first run of an object.
async fn until_at_peer(peer: &Peer, name: &str) -> Result<HeldRequest> {
    let path = format!("/{name}-a/");
    until_some(&format!("{name} at the destination"), async || {
        let held = peer.until_held(0, Duration::ZERO).await?;
        Ok(held.into_iter().find(|held| held.path.contains(&path)))
    })
    .await
}

/// Waits until a gate has decided about a run, and the run's journal has the decision.
async fn until_told(client: &Connection, key: &str) -> Result<()> {
    let look = async || -> Result<i64> {
        let told = "SELECT count(*) FROM runs r JOIN journal j ON j.run_id = r.id
                     WHERE r.key = convert_to($1, 'UTF8') AND j.seq > 1";
        Ok(client.query_one(told, &[&key]).await?.get(0))
    };
    until("a run that knows of its gate", look, |told| *told > 0).await?;
    Ok(())
}

/// Whether the session of the first server is over, so that the second has its runs.
async fn begun_again(client: &Connection) -> Result<bool> {
    let dead = "SELECT count(*) FROM sessions WHERE expires_at < moment() - interval '1 second'";
    Ok(count(client, dead).await? > 0)
}

async fn deliver(server: &Served, policy: &str, name: &str, who: &str) -> Result<Answer> {
    post(&server.client, policy, name, who).await
}

async fn post(
    client: &semel_testkit::Client,
    policy: &str,
    name: &str,
    who: &str,
) -> Result<Answer> {
    let body = json!({ "id": format!("{name}-{who}"), "object": name });
    Ok(client
        .post(&format!("/hooks/default/{policy}"), body.to_string())
        .await?)
}
