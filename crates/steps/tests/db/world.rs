//! A database with one table, an executor that may reach it, and a gate to close.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use semel_model::connection::{PostgresTarget, Target, Tls};
use semel_model::request::DbRequest;
use semel_model::{Connection, Doubt, EffectId, Fault, Outcome, RunId, Span};
use semel_steps::{DbExecutor, Destination, Egress, Reach, SendGate};
use semel_testkit::{Connection as Session, Database, until};
use serde_json::Value;

/// How long a request of these tests may take, where nothing else is said.
const TIMEOUT: Span = Span::from_const_secs(100);

/// A lease that a test can end.
pub(crate) struct Gate(AtomicBool);

impl Gate {
    pub(crate) fn close(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl SendGate for Gate {
    fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A database with a table of orders.
pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) caller: DbExecutor,
    pub(crate) gate: Arc<Gate>,
}

impl World {
    /// A database that is prepared for effects.
    pub(crate) async fn new() -> Result<Self> {
        let world = Self::unprepared().await?;
        let prepared = world.caller.prepare(&world.destination()).await;
        prepared.map_err(|fault| anyhow::anyhow!("{fault:?}"))?;
        Ok(world)
    }

    /// A database without the table of markers.
    pub(crate) async fn unprepared() -> Result<Self> {
        let database = Database::empty().await?;
        let admin = database.connect().await?;
        admin
            .batch_execute("CREATE TABLE orders (id bigint, note text)")
            .await?;
        let gate = Arc::new(Gate(AtomicBool::new(true)));
        let caller = DbExecutor::new(gate.clone(), &reach());
        Ok(Self {
            database,
            caller,
            gate,
        })
    }

    pub(crate) fn destination(&self) -> Destination {
        self.destination_at(self.database.server().address())
    }

    /// The database behind another address, such as a proxy's.
    pub(crate) fn destination_at(&self, address: SocketAddr) -> Destination {
        let target = Target::Postgres(PostgresTarget {
            host: address.ip().to_string(),
            port: address.port(),
            database: self.database.name().to_owned(),
            user: "postgres".to_owned(),
            secret: None,
            tls: Tls::Off,
            trust: None,
        });
        let connection = Connection::to(target);
        Destination::new("books".to_owned(), 1, 1, connection, BTreeMap::new())
    }

    pub(crate) async fn perform(&self, request: &DbRequest, key: EffectId) -> Outcome {
        self.caller.run(request, &self.destination(), key).await
    }

    /// A session that holds the orders until it commits: whoever adds one waits.
    pub(crate) async fn hold_orders(&self) -> Result<Session> {
        let admin = self.database.connect().await?;
        admin
            .batch_execute("BEGIN; LOCK TABLE orders IN SHARE MODE")
            .await?;
        Ok(admin)
    }

    /// Waits until so many statements wait for a lock.
    pub(crate) async fn until_waiting(&self, statements: i64) -> Result<()> {
        let waiting = "AND wait_event_type = 'Lock'";
        let look = async || self.count_sessions(waiting).await;
        until("statements that wait for a lock", look, |count| {
            *count >= statements
        })
        .await?;
        Ok(())
    }

    /// Waits until no statement of the executor runs.
    pub(crate) async fn until_idle(&self) -> Result<()> {
        let look = async || self.count_sessions("AND state <> 'idle'").await;
        until("the end of every statement", look, |count| *count == 0).await?;
        Ok(())
    }

    /// How many of the executor's sessions are like this.
    async fn count_sessions(&self, like: &str) -> Result<i64> {
        let admin = self.database.connect().await?;
        let count = format!(
            "SELECT count(*) FROM pg_stat_activity
              WHERE application_name = 'semel' AND datname = current_database() {like}"
        );
        Ok(admin.query_one(&count, &[]).await?.get(0))
    }

    /// How many rows the table of orders has, as the server counts them.
    pub(crate) async fn orders(&self) -> Result<i64> {
        let admin = self.database.connect().await?;
        let row = admin.query_one("SELECT count(*) FROM orders", &[]).await?;
        Ok(row.get(0))
    }
}

/// Loopback may be reached.
pub(crate) fn reach() -> Reach {
    let loopback = ["127.0.0.0/8", "::1/128"];
    let allowed = loopback.iter().flat_map(|net| net.parse()).collect();
    Reach {
        egress: Arc::new(Egress::new(allowed)),
        ..Reach::default()
    }
}

pub(crate) fn request(statement: &str, values: &[Value]) -> DbRequest {
    DbRequest {
        connection: "books".to_owned(),
        statement: statement.to_owned(),
        values: values.to_vec(),
        rows: None,
        timeout: TIMEOUT,
    }
}

/// A statement that adds one order.
pub(crate) fn order(id: i64) -> DbRequest {
    request(
        "INSERT INTO orders (id, note) VALUES ($1, 'paid') RETURNING id, note",
        &[id.into()],
    )
}

pub(crate) fn key(name: &str) -> EffectId {
    let run = RunId::from_uuid(uuid::Uuid::from_u128(7));
    EffectId::derive(run, name, "", 0)
}

#[track_caller]
pub(crate) fn done(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Done(receipt) => receipt.response,
        Outcome::Failed(_) | Outcome::InDoubt(_) => panic!("not done: {outcome:?}"),
    }
}

#[track_caller]
pub(crate) fn failed(outcome: Outcome) -> Fault {
    match outcome {
        Outcome::Failed(fault) => fault,
        Outcome::Done(_) | Outcome::InDoubt(_) => panic!("not failed: {outcome:?}"),
    }
}

#[track_caller]
pub(crate) fn in_doubt(outcome: Outcome) -> Doubt {
    match outcome {
        Outcome::InDoubt(doubt) => doubt,
        Outcome::Done(_) | Outcome::Failed(_) => panic!("not in doubt: {outcome:?}"),
    }
}
