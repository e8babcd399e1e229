//! Hostile destinations under every guard, with and without a crash in between.
//!
//! A destination acts (or does not), the exchange is lost (by the destination, or because the
//! server is killed while it waits for the response), and every later request is refused before the
//! destination looks at it. What must hold, whatever the refusal is:
//!
//! - an effect happens at most once, unless its guard is `repeat`;
//! - the ledger never says *failed* of an effect that happened.
//!
//! `transaction` has no destination that could be hostile in this way but a database; that is
//! played in the engine's own stories.

use anyhow::{Context, Result, ensure};
use semel_testkit::peer::Behaviour;
use semel_testkit::{Cluster, Connection, Options, Peer, Program, patience, until};
use serde_json::Value;

use crate::invariants;
use crate::servers::{Home, Served, serve};

/// The servers' lease.
const LEASE: &str = "2s";

/// How long a destination may still act: longer than the latest one below takes.
const ACTS_WITHIN: &str = "5s";

/// How late the late ones act, in milliseconds.
const LATE_MS: u64 = 1_000;

/// The guards, and how each calls.
const GUARDS: [(&str, &str, &str); 5] = [
    ("key", "post", "keyed"),
    ("natural", "put", "put"),
    ("probe", "post", "plain"),
    ("review", "post", "plain"),
    ("repeat", "post", "plain"),
];

/// How requests after the first exchange are refused.
const DOORS: [u16; 6] = [401, 403, 404, 413, 429, 503];

/// How the first exchange is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    /// The destination acts and closes the connection.
    Closed,
    /// The destination acts, and the server is killed before it is answered.
    KilledAfter,
    /// The server is killed before the destination acts; it acts afterwards all the same.
    KilledBefore,
}

struct World {
    _cluster: Cluster,
    home: Home,
    peer: Peer,
    client: Connection,
}

/// One run: its path at the destination and its key.
struct Case {
    run: String,
    path: String,
    id: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_after_the_effect_never_fails_or_repeats_it() -> Result<()> {
    let world = World::start().await?;
    let mut server = world.serve().await?;
    for (guard, method, mode) in GUARDS {
        world.publish(&server, guard, guard, method, mode).await?;
    }
    for lost in [Lost::Closed, Lost::KilledAfter, Lost::KilledBefore] {
        let first = match lost {
            Lost::Closed => Behaviour::CloseWithoutAnswer,
            Lost::KilledAfter => Behaviour::HoldBeforeAnswer,
            Lost::KilledBefore => Behaviour::HoldBeforeEffect,
        };
        let mut cases = Vec::new();
        for (guard, _, mode) in GUARDS {
            for door in DOORS {
                let id = format!("{guard}-{door}-{lost:?}").to_lowercase();
                let path = format!("/{mode}/{id}");
                world.peer.next(&path, first).await?;
                let refusing = Behaviour::RefuseWith(door);
                world.peer.next_times(&path, 1_000, refusing).await?;
                let run = world.deliver(&server, guard, &id).await?;
                cases.push(Case { run, path, id });
            }
        }
        if lost != Lost::Closed {
            world.peer.until_held(cases.len(), patience()).await?;
            server.process.sigkill()?;
            world.peer.let_go().await?;
            server = world.serve().await?;
        }
        world.judge(&cases).await?;
    }
    invariants::hold(&world.home, &[&server]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_acts_late_or_answers_slowly_acts_once() -> Result<()> {
    let world = World::start().await?;
    let server = world.serve().await?;
    let ways = [
        ("late", format!("late/{LATE_MS}/")),
        ("drip", "drip/100/".to_owned()),
    ];
    let mut cases = Vec::new();
    for (guard, method, mode) in GUARDS {
        for (way, prefix) in &ways {
            let (flow, mode) = (format!("{guard}-{way}"), format!("{prefix}{mode}"));
            world.publish(&server, &flow, guard, method, &mode).await?;
            let run = world.deliver(&server, &flow, &flow).await?;
            let path = format!("/{mode}/{flow}");
            let id = flow;
            cases.push(Case { run, path, id });
        }
    }

    world.judge(&cases).await?;
    invariants::hold(&world.home, &[&server]).await
}

impl World {
    async fn start() -> Result<Self> {
        let cluster = Cluster::start(Options::quick()).await?;
        let home = Home::found(cluster.server()).await?;
        let client = home.connect().await?;
        Ok(Self {
            _cluster: cluster,
            home,
            peer: Peer::start().await?,
            client,
        })
    }

    async fn serve(&self) -> Result<Served> {
        let program = Program::semel()?
            .env("SEMEL_SETTLE_MARGIN", ACTS_WITHIN)
            .env("SEMEL_HOOK_RATE", "0");
        serve(program, &self.home.url(), LEASE).await
    }

    async fn publish(
        &self,
        server: &Served,
        name: &str,
        guard: &str,
        method: &str,
        mode: &str,
    ) -> Result<()> {
        let more = match guard {
            "probe" => {
                "\n    probe: { http: { get: 'PEER/items?id=${{ input.id }}' }, \
                 found: 'probe.json.items.size() > 0', after: 200ms }"
            }
            "repeat" => "\n    because: a second one does no harm here",
            _ => "",
        };
        let source = format!(
            "flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n\
             retry: {{ attempts: 3, delay: 100ms, max_delay: 200ms, within: 1h }}\n\
             steps:\n  - id: act\n    http: {{ {method}: 'PEER/{mode}/${{{{ input.id }}}}', \
             json: {{ id: '${{{{ input.id }}}}' }}, timeout: 2s }}\n    guard: {guard}{more}\n"
        );
        let source = source.replace("PEER", &self.peer.url(""));
        self.home.publish(server, name, &source).await
    }

    /// Delivers, and gives the run's number.
    async fn deliver(&self, server: &Served, flow: &str, id: &str) -> Result<String> {
        let path = format!("/hooks/default/{flow}");
        let body = format!(r#"{{"id":"{id}"}}"#);
        let answer = server.client.post(&path, body).await?;
        ensure!(answer.status == 202, "{id}: {}", answer.text());
        let accepted: Value = answer.json()?;
        let run = accepted["run"].as_str().context("a run")?;
        Ok(run.trim_start_matches("run_").to_owned())
    }

    /// Waits until all runs rest and every destination has acted, and holds what happened against
    /// what the ledger says.
    async fn judge(&self, cases: &[Case]) -> Result<()> {
        for case in cases {
            let look = async || -> Result<(String, String, u64)> {
                let (state, effect) = self.stands(case).await?;
                Ok((state, effect, self.peer.count(&case.path).await?.effects))
            };
            let at_rest =
                |(state, _, acted): &(String, String, u64)| state != "active" && *acted > 0;
            let what = format!("{} at rest", case.id);
            let (state, effect, _) = until(&what, look, at_rest).await?;
            let acted = self.peer.count(&case.path).await?.effects;
            let once = acted == 1 || case.id.starts_with("repeat");
            ensure!(once, "{}: {acted} effects, run {state}", case.id);
            ensure!(
                effect != "failed",
                "{}: it happened, and the ledger says failed (run {state})",
                case.id
            );
        }
        Ok(())
    }

    /// The state of a run and of its effect.
    async fn stands(&self, case: &Case) -> Result<(String, String)> {
        let rows = self
            .client
            .query(
                "SELECT r.state::text, e.state::text
                   FROM runs r
                   JOIN effects e ON e.run_id = r.id
                  WHERE r.id = $1::text::uuid",
                &[&case.run],
            )
            .await?;
        let row = rows
            .first()
            .with_context(|| format!("{} is there", case.id))?;
        Ok((row.get(0), row.get(1)))
    }
}
