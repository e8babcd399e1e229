//! Misbehaving destinations: they forget keys sooner than declared, report a failure after they
//! acted, or act twice on one request. `docs/misbehaving-destinations.md` says what Semel does in
//! each case, and what it cannot do.

mod twice;

use anyhow::{Context, Result, ensure};
use semel_testkit::peer::{Behaviour, Count};
use semel_testkit::{Cluster, Connection, Options, Peer, Program, patience, until};
use serde_json::Value;

use self::twice::{Manner, Twice};
use crate::invariants;
use crate::servers::{Home, Served, serve};

/// The servers' lease.
const LEASE: &str = "2s";

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_sent_again_within_its_window_and_never_after_it() -> Result<()> {
    let mut world = World::start().await?;
    let source = flow(
        "hour",
        &world.peer.url("/keyed"),
        "guard: key\n    window: 1h",
    );
    world.publish("hour", &source).await?;

    let within = world.lose_its_answer("hour", "/keyed", "within").await?;
    world.resume_after("30 minutes").await?;
    world.until_state(&within, "succeeded").await?;
    let counted = world.peer.count("/keyed/within").await?;

    assert_eq!((counted.calls, counted.effects), (2, 1));

    let after = world.lose_its_answer("hour", "/keyed", "after").await?;
    world.peer.reset().await?;
    world.resume_after("2 hours").await?;
    world.until_state(&after, "in_doubt").await?;
    let counted = world.peer.count("/keyed/after").await?;

    assert_eq!(counted, Count::default(), "nothing is sent any more");
    world.until_sound().await
}

/// Only the destination can know that it forgot the key: a key cannot protect against this lie.
#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_forgets_sooner_than_it_said_acts_twice() -> Result<()> {
    let mut world = World::start().await?;
    let source = flow(
        "day",
        &world.peer.url("/keyed"),
        "guard: key\n    window: 24h",
    );
    world.publish("day", &source).await?;

    let run = world.lose_its_answer("day", "/keyed", "one").await?;
    let before = world.peer.count("/keyed/one").await?;
    world.peer.reset().await?;
    world.resume_after("2 hours").await?;
    world.until_state(&run, "succeeded").await?;
    let after = world.peer.count("/keyed/one").await?;

    assert_eq!((before.effects, after.effects), (1, 1), "two in all");
    assert_eq!(world.attempts(&run).await?, 2, "and both are recorded");
    world.until_sound().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_reported_after_the_effect_is_not_believed() -> Result<()> {
    let world = World::start().await?;
    for (name, mode, guard) in [
        ("key", "/keyed", "guard: key"),
        ("review", "/plain", "guard: review"),
    ] {
        world
            .publish(name, &flow(name, &world.peer.url(mode), guard))
            .await?;
        let path = format!("{mode}/one");
        world.peer.next(&path, Behaviour::AnswerStatus(500)).await?;
    }

    let key = world.deliver("key", "one").await?;
    let review = world.deliver("review", "one").await?;
    world.until_state(&key, "succeeded").await?;
    world.until_state(&review, "in_doubt").await?;

    let keyed = world.peer.count("/keyed/one").await?;
    let plain = world.peer.count("/plain/one").await?;
    assert_eq!((keyed.calls, keyed.effects), (2, 1), "the same key again");
    assert_eq!((plain.calls, plain.effects), (1, 1), "never sent again");
    world.until_sound().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_acts_twice_gets_one_request() -> Result<()> {
    let world = World::start().await?;
    let answers = Twice::start(Manner::Answers).await?;
    let silent = Twice::start(Manner::ClosesItsHalf).await?;
    for (name, twice) in [("answers", &answers), ("silent", &silent)] {
        let source = flow(name, &twice.url(), "guard: review");
        world.publish(name, &source).await?;
    }

    let answered = world.deliver("answers", "one").await?;
    let unanswered = world.deliver("silent", "one").await?;
    world.until_state(&answered, "succeeded").await?;
    world.until_state(&unanswered, "in_doubt").await?;

    assert_eq!((answers.requests(), answers.effects()), (1, 2));
    assert_eq!((silent.requests(), silent.effects()), (1, 2));
    assert_eq!(world.attempts(&answered).await?, 1, "shown as done once");
    assert_eq!(world.attempts(&unanswered).await?, 1);
    world.until_sound().await
}

/// A database, a destination and a server that can be lost.
struct World {
    _cluster: Cluster,
    home: Home,
    peer: Peer,
    server: Served,
    client: Connection,
}

impl World {
    async fn start() -> Result<Self> {
        let cluster = Cluster::start(Options::quick()).await?;
        let home = Home::found(cluster.server()).await?;
        let server = serve(Program::semel()?, &home.url(), LEASE).await?;
        Ok(Self {
            client: home.connect().await?,
            peer: Peer::start().await?,
            _cluster: cluster,
            home,
            server,
        })
    }

    async fn publish(&self, name: &str, source: &str) -> Result<()> {
        self.home.publish(&self.server, name, source).await
    }

    async fn deliver(&self, flow: &str, id: &str) -> Result<String> {
        let path = format!("/hooks/default/{flow}");
        let body = format!(r#"{{"id":"{id}"}}"#);
        let answer = self.server.client.post(&path, body).await?;
        ensure!(answer.status.is_success(), "{}", answer.text());
        let body: Value = answer.json()?;
        let run = body["run"].as_str().context("a run")?;
        Ok(run.trim_start_matches("run_").to_owned())
    }

    /// Kills the server after the destination acted and before it answered.
    async fn lose_its_answer(&mut self, flow: &str, mode: &str, id: &str) -> Result<String> {
        let path = format!("{mode}/{id}");
        let hold = Behaviour::HoldBeforeAnswer;
        self.peer.next(&path, hold).await?;
        let run = self.deliver(flow, id).await?;
        self.peer.until_held(1, patience()).await?;
        self.server.process.sigkill()?;
        self.peer.let_go().await?;
        Ok(run)
    }

    /// Starts another server after so much time.
    async fn resume_after(&mut self, passed: &str) -> Result<()> {
        self.home.pass(passed).await?;
        self.server = serve(Program::semel()?, &self.home.url(), LEASE).await?;
        Ok(())
    }

    async fn until_state(&self, run: &str, wanted: &str) -> Result<()> {
        let look = async || -> Result<String> {
            let state = "SELECT state::text FROM runs WHERE id = $1::text::uuid";
            Ok(self.client.query_one(state, &[&run]).await?.get(0))
        };
        let found = until("a run at rest", look, |state| state != "active").await?;
        ensure!(found == wanted, "{run} is {found} instead of {wanted}");
        Ok(())
    }

    async fn until_sound(&self) -> Result<()> {
        invariants::hold_but(&self.home, &[&self.server], &["duties"]).await
    }

    /// How many attempts the ledger has for a run's one effect.
    async fn attempts(&self, run: &str) -> Result<i32> {
        let attempts = "SELECT attempt FROM effects WHERE run_id = $1::text::uuid";
        Ok(self.client.query_one(attempts, &[&run]).await?.get(0))
    }
}

/// A flow with one `POST` to an address and below it.
fn flow(name: &str, address: &str, guard: &str) -> String {
    format!(
        "flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n\
         retry: {{ attempts: 5, delay: 100ms, max_delay: 200ms, within: 1h }}\n\
         steps:\n  - id: act\n    \
         http: {{ post: '{address}/${{{{ input.id }}}}', json: {{ id: '${{{{ input.id }}}}' }} }}\n    {guard}\n"
    )
}
