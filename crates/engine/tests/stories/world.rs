//! An engine on a database of its own, beside a peer in a process of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use semel_engine::{
    Accepted, Actor, Engine, Intake, Options, ResourceLocation, Secret, StoredFiles, WebhookRequest,
};
use semel_model::run::RunState;
use semel_model::{RunId, SecretText, Span};
use semel_store::invariants::{self, Invariant};
use semel_store::runs::RunSnapshot;
use semel_store::{Cell, CellOptions, attention, kv, migrate, namespaces};
use semel_testkit::{Database, Peer, Proxy, Server, patience, until};
use serde_json::Value;
use tokio::sync::OnceCell;

/// The flow whose runs go through the queue for [`World::pass_the_queue`].
const PASSER: &str = "flow: passer\ntrigger:\n  webhook: { auth: none, key: input.id }\n\
    steps:\n  - { id: rest, wait: { for: 10ms } }\n  - { id: one, function: '1' }\n";

/// A database, an engine and a peer.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) peer: Peer,
    pub(crate) namespace_id: i32,
    options: Options,
    database: Database,
    /// Filled once [`PASSER`] is live.
    passer: OnceCell<()>,
    _outputs: Option<tempfile::TempDir>,
}

impl World {
    pub(crate) async fn start() -> Result<Self> {
        Self::start_with(None, None).await
    }

    /// A world whose engine holds this many runs at once.
    pub(crate) async fn start_with_room(room: usize) -> Result<Self> {
        Self::start_with(None, Some(room)).await
    }

    /// A world whose engine keeps large outputs in a folder.
    pub(crate) async fn start_with_outputs() -> Result<Self> {
        Self::start_with(Some(tempfile::tempdir()?), None).await
    }

    /// A world whose engine reaches its database through a proxy, with short timeouts. It has a
    /// state folder where one is named.
    pub(crate) async fn start_behind_proxy(
        lease: Span,
        state_dir: Option<PathBuf>,
    ) -> Result<(Self, Proxy)> {
        let world = Self::start().await?;
        world.engine.shutdown().await;
        let proxy = Proxy::start(world.database.server().address()).await?;
        let options = Options {
            lease,
            state_dir,
            ..world.options.clone()
        };
        let engine = world.start_at(proxy.address(), &options).await?;
        let world = Self {
            engine,
            options,
            ..world
        };
        Ok((world, proxy))
    }

    /// An engine that reaches the database at another address.
    async fn start_at(&self, address: SocketAddr, options: &Options) -> Result<Engine> {
        let url = Server::url_at(address, self.database.name());
        let patience = CellOptions {
            write_patience: Duration::from_secs(1),
            write_give_up: Duration::from_secs(1),
            read_slack: 1,
            ..few_connections()
        };
        let cell = Cell::connect(&url, patience).await?;
        Ok(Engine::start(cell, options.clone()).await?)
    }

    async fn start_with(outputs: Option<tempfile::TempDir>, room: Option<usize>) -> Result<Self> {
        let database = Database::new(async |url| {
            let cell = Cell::connect(&url, CellOptions::default()).await?;
            migrate(&cell).await?;
            Ok(())
        })
        .await?;
        let cell = Cell::connect(&database.url(), few_connections()).await?;
        let namespace_id = namespaces::ensure(cell.home(), &"default".parse()?).await?;
        // With the lease of a real server, so that no session ends while the machine stands still.
        let mut options = Options::new(Secret::from_hex(&Secret::generate())?);
        options.allow_private = vec!["127.0.0.0/8".parse()?, "::1/128".parse()?];
        options.settle_margin = Span::from_secs(60);
        options.capacity = room.unwrap_or(options.capacity);
        if let Some(folder) = &outputs {
            let place = ResourceLocation::Folder(folder.path().to_owned());
            options.resources = Arc::new(StoredFiles::open(&place)?);
        }
        let engine = Engine::start(cell, options.clone()).await?;
        Ok(Self {
            engine,
            peer: Peer::start().await?,
            namespace_id,
            options,
            database,
            passer: OnceCell::new(),
            _outputs: outputs,
        })
    }

    /// The database.
    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// An entry of `kv`; null where there is none.
    pub(crate) async fn kv(&self, entry: &str) -> Result<Value> {
        let cell = self.engine.cell().of(kv::slot(self.namespace_id, entry));
        Ok(kv::get(cell, self.namespace_id, entry).await?)
    }

    /// Another engine on the same database.
    pub(crate) async fn start_another(&self) -> Result<Engine> {
        self.start_another_with(self.options.lease).await
    }

    /// Another engine on the same database, with a lease of its own.
    pub(crate) async fn start_another_with(&self, lease: Span) -> Result<Engine> {
        let cell = Cell::connect(&self.database.url(), few_connections()).await?;
        let options = Options {
            lease,
            ..self.options.clone()
        };
        Ok(Engine::start(cell, options).await?)
    }

    /// Another engine on the same database, with a state folder of its own or another's.
    pub(crate) async fn start_another_in(&self, state_dir: &Path) -> Result<Engine> {
        let cell = Cell::connect(&self.database.url(), few_connections()).await?;
        let options = Options {
            state_dir: Some(state_dir.to_owned()),
            ..self.options.clone()
        };
        Ok(Engine::start(cell, options).await?)
    }

    /// An engine that does nothing by itself and reaches the database at a URL. Neither its lease nor its patience with the
    /// database ends while a test plays.
    pub(crate) async fn start_idle(&self, url: &str) -> Result<Engine> {
        let patience = CellOptions {
            write_patience: Duration::from_secs(1_000),
            write_give_up: Duration::from_secs(1_000),
            ..few_connections()
        };
        let cell = Cell::connect(url, patience).await?;
        let options = Options {
            lease: Span::from_secs(3_600),
            ..self.options.clone()
        };
        Ok(Engine::start_idle(cell, options).await?)
    }

    /// Replaces the engine by one that reaches the database through a proxy.
    pub(crate) async fn go_behind_a_proxy(&mut self) -> Result<Proxy> {
        self.engine.shutdown().await;
        let proxy = Proxy::start(self.database.server().address()).await?;
        let url = Server::url_at(proxy.address(), self.database.name());
        let cell = Cell::connect(&url, few_connections()).await?;
        self.engine = Engine::start(cell, self.options.clone()).await?;
        Ok(proxy)
    }

    /// Stores a connection.
    pub(crate) async fn connect(&self, name: &str, connection: Value) -> Result<()> {
        let connection = serde_json::from_value(connection)?;
        self.engine
            .put_connection(self.by(), name, &connection)
            .await?;
        Ok(())
    }

    /// Sets a secret.
    pub(crate) async fn set_secret(&self, name: &str, text: &str) -> Result<()> {
        let text = SecretText::new(text.to_owned());
        let overlap = Span::from_secs(0);
        self.engine
            .set_secret(self.by(), name, &text, overlap)
            .await?;
        Ok(())
    }

    /// Who changes something in a story.
    pub(crate) fn by(&self) -> Actor<'static> {
        Actor {
            namespace_id: self.namespace_id,
            actor: "test",
        }
    }

    /// Publishes a flow named `story`, triggered by the hook of that name, keyed by `input.id`.
    pub(crate) async fn publish(&self, steps: &str) -> Result<()> {
        let steps = steps.replace("PEER", &self.peer.url(""));
        let source = format!(
            "flow: story\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n\
             retry: {{ attempts: 3, delay: 100ms, max_delay: 200ms, within: 1h }}\n{steps}"
        );
        self.publish_source(&source).await
    }

    pub(crate) async fn publish_source(&self, source: &str) -> Result<()> {
        let flow = match self.engine.push_flow(self.namespace_id, source).await {
            Ok(flow) => flow,
            Err(semel_engine::FlowError::Invalid(checked)) => bail!("{}", checked.render(false)),
            Err(error) => return Err(error.into()),
        };
        let published = self
            .engine
            .publish_flow(self.namespace_id, &flow, "test")
            .await?;
        self.engine
            .promote_flow(self.namespace_id, &flow, published.number, "test")
            .await?;
        Ok(())
    }

    /// Delivers a payload to the story's hook.
    pub(crate) async fn deliver(&self, payload: &str) -> Result<Accepted> {
        self.deliver_to("story", payload).await
    }

    /// Delivers a payload to a flow's hook.
    pub(crate) async fn deliver_to(&self, flow: &str, payload: &str) -> Result<Accepted> {
        match self.try_deliver_to(flow, payload).await? {
            Intake::Accepted(accepted) => Ok(accepted),
            other @ (Intake::Ignored | Intake::Held(_) | Intake::Stale(_)) => {
                bail!("not accepted: {other:?}")
            }
        }
    }

    pub(crate) async fn try_deliver(
        &self,
        payload: &str,
    ) -> Result<Intake, semel_engine::IntakeError> {
        self.try_deliver_to("story", payload).await
    }

    pub(crate) async fn try_deliver_to(
        &self,
        flow: &str,
        payload: &str,
    ) -> Result<Intake, semel_engine::IntakeError> {
        self.deliver_at(&self.engine, flow, payload).await
    }

    /// Delivers a payload to a flow's hook at one of several engines.
    pub(crate) async fn deliver_at(
        &self,
        engine: &Engine,
        flow: &str,
        payload: &str,
    ) -> Result<Intake, semel_engine::IntakeError> {
        let arrival = WebhookRequest {
            namespace: "default".to_owned(),
            path: flow.to_owned(),
            target: format!("/hooks/default/{flow}"),
            body: payload.as_bytes().to_vec(),
            headers: Vec::new(),
            query: Vec::new(),
        };
        engine.deliver(engine.authenticate(arrival).await?).await
    }

    /// Delivers a payload and waits until its run has ended or stopped.
    pub(crate) async fn play(&self, payload: &str) -> Result<(Accepted, RunSnapshot)> {
        let accepted = self.deliver(payload).await?;
        let snapshot = self
            .engine
            .await_end(accepted.run, patience())
            .await?
            .context("a run")?;
        Ok((accepted, snapshot))
    }

    /// Plays a delivery that must succeed, and gives its result.
    pub(crate) async fn result(&self, payload: &str) -> Result<Value> {
        let (accepted, snapshot) = self.play(payload).await?;
        if snapshot.state != RunState::Succeeded {
            bail!(
                "{} is {}: {:?}",
                accepted.run,
                snapshot.state,
                snapshot.fault
            );
        }
        let text = snapshot.result.unwrap_or_else(|| "null".to_owned());
        serde_json::from_str(&text).context("a result is JSON")
    }
}

impl World {
    /// Moves the database's clock ahead.
    pub(crate) async fn move_clock(&self, by: Duration) -> Result<()> {
        let secs = by.as_secs_f64();
        self.change_clock(&format!("make_interval(secs => {secs})"))
            .await
    }

    /// Sets the database's clock, to and fro.
    pub(crate) async fn set_clock(&self, to: Timestamp) -> Result<()> {
        self.change_clock(&format!("'{to}'::timestamptz - moment()"))
            .await
    }

    /// Leases move with the clock, in the same commit: no server loses its session, and none has to begin another
    /// before it takes a run.
    async fn change_clock(&self, by: &str) -> Result<()> {
        let change = format!(
            "WITH change AS MATERIALIZED (SELECT {by} AS span),
                  leases AS (
                UPDATE sessions SET expires_at = expires_at + (SELECT span FROM change))
             UPDATE clock SET time_offset = time_offset + (SELECT span FROM change)"
        );
        self.database
            .connect()
            .await?
            .batch_execute(&change)
            .await?;
        Ok(())
    }

    /// Waits until a run is neither held nor due at any time: only something from outside moves it on.
    pub(crate) async fn until_at_rest(&self, run: RunId) -> Result<()> {
        let client = self.database.connect().await?;
        let moving = "SELECT count(*) FROM queue
                       WHERE run_id = $1 AND (holder IS NOT NULL OR due_at < 'infinity')";
        let look = async || -> Result<i64> {
            Ok(client.query_one(moving, &[run.as_uuid()]).await?.get(0))
        };
        until(&format!("{run} to rest"), look, |moving| *moving == 0).await?;
        Ok(())
    }

    /// Plays a run of another flow that sleeps for a moment. Runs are taken in the order in which they are due, so a
    /// run that was due before has been taken when this one ends.
    pub(crate) async fn pass_the_queue(&self) -> Result<()> {
        static PASSED: AtomicU64 = AtomicU64::new(0);
        self.passer
            .get_or_try_init(|| self.publish_source(PASSER))
            .await?;
        let number = PASSED.fetch_add(1, Ordering::Relaxed);
        let payload = format!(r#"{{"id":"{number}"}}"#);
        let passer = self.deliver_to("passer", &payload).await?;
        let end = self.engine.await_end(passer.run, patience()).await?;
        let end = end.context("a run")?;
        ensure!(end.state == RunState::Succeeded, "{end:?}");
        Ok(())
    }

    /// Waits until so many idle servers have each looked twice at what concerns all servers: what the first of the
    /// two looks found is known to them by then.
    pub(crate) async fn until_looked(&self, servers: i64) -> Result<()> {
        let client = self.database.connect().await?;
        let looked = "SELECT count(DISTINCT pid) FROM pg_stat_activity
                       WHERE datname = current_database() AND application_name = 'semel'
                         AND query_start > $1 AND query LIKE '%p.pause_version, c.version%'";
        for _ in 0..2 {
            let now = client.query_one("SELECT clock_timestamp()", &[]).await?;
            let now: Timestamp = now.get(0);
            let look =
                async || -> Result<i64> { Ok(client.query_one(looked, &[&now]).await?.get(0)) };
            let what = format!("{servers} servers to look");
            until(&what, look, |looked| *looked >= servers).await?;
        }
        Ok(())
    }

    /// Where the table of what waits for a person differs from the ledger and the records.
    pub(crate) async fn attention(&self) -> Result<Vec<String>> {
        let cell = self.engine.cell().every();
        Ok(attention::list_differences(cell).await?)
    }

    /// Waits until every invariant of the tables holds. A story moves the clock, which makes each duty look silent.
    pub(crate) async fn until_sound(&self) -> Result<()> {
        for invariant in Invariant::ALL {
            if invariant == Invariant::Duties {
                continue;
            }
            let look = async || {
                let cell = self.engine.cell();
                let report = invariants::check(cell, invariant, &[], |_| {}).await?;
                Ok((report.breaches, report.unknown))
            };
            let what = format!("{} to be sound", invariant.as_str());
            until(&what, look, |(breaches, unknown)| {
                breaches.is_empty() && unknown.is_empty()
            })
            .await?;
        }
        Ok(())
    }
}

/// A connection costs PostgreSQL more than most tests do: an engine has fewer of them than a server has, and waits longer
/// for them, because the machine may stand still.
pub(crate) fn few_connections() -> CellOptions {
    CellOptions {
        engine_connections: 3,
        read_slack: 10,
        ..CellOptions::default()
    }
}
