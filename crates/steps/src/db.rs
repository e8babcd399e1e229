//! PostgreSQL as a destination: one statement and the marker of its effect, in one transaction.
//!
//! ```text
//! BEGIN ─▶ marker ─┬─ is new ─▶ statement ─▶ its result into the marker ═▶ COMMIT ─▶ done
//!                  └─ is there ─▶ the result that it holds ─▶ ROLLBACK ─▶ done, repeated
//! ```
//!
//! Before `COMMIT` is sent nothing can have happened, whatever breaks: a transaction without a
//! commit is rolled back. After it, only an answer of the server settles what happened to it: one
//! that is cut because of its size settles nothing. A
//! worker that lost its lease and one that took over meet at the marker's unique index: the second
//! waits there for the first to end, and then reads its result or performs.

use std::sync::Arc;
use std::time::Duration;

use semel_model::connection::{PostgresTarget, Target};
use semel_model::request::DbRequest;
use semel_model::{Doubt, EffectId, Fault, FaultKind, Outcome, Receipt, Reserved, json};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout, timeout_at};

use crate::answer_room::AnswerRoom;
use crate::destination::Destination;
use crate::executor::{Attempt, Executor, Route, Setup, not_offered};
use crate::failpoint::failpoint;
use crate::gate::SendGate;
use crate::reach::Reach;

mod bind;
mod classify;
mod link;
mod marker;
mod pool;
mod record;
mod session;
mod statement;

use self::marker::Marked;
use self::pool::Pools;
use self::session::{Mode, Session};
use self::statement::Answered;

/// The most rows that a statement may answer.
pub const ROWS_MAX: usize = 10_000;

/// The most bytes that the rows of an answer may have, as JSON.
pub const RESULT_BYTES_MAX: usize = 1 << 20;

/// The most bytes that a server may send for one transaction before its end. Some values are shorter
/// as JSON than on the wire, few of them by more than this leaves room for. The greeting, the end
/// of a transaction and whatever a server says unasked have the size of a small answer.
pub const WIRE_BYTES_MAX: usize = 4 * RESULT_BYTES_MAX;

/// After so many bytes a connection is not used again: what a server says of itself in between
/// stays with the connection.
const LINK_BYTES_MAX: usize = 4 << 20;

/// How long the answer to a `COMMIT` is awaited, even where the request's time is nearly up: giving
/// up on it makes a doubt.
const COMMIT_PATIENCE_MIN: Duration = Duration::from_secs(1);

/// How long a large result waits for room before its transaction is rolled back: as long as a large answer may be silent
/// on the wire.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// How long `test` and `prepare` may take.
const CARE_PATIENCE: Duration = Duration::from_secs(15);

/// Runs statements in the databases of others.
#[derive(Clone)]
pub struct DbExecutor {
    gate: Arc<dyn SendGate>,
    pools: Arc<Pools>,
    answers: Arc<AnswerRoom>,
}

/// The result of an attempt before its commit.
enum Worked {
    /// It happened before, and this was its result.
    Before(Box<RawValue>),
    /// It happens with the commit of this session.
    Now(Value, Reserved, Box<Session>),
}

/// Why an attempt ended without a receipt.
enum Stop {
    Failed(Fault),
    InDoubt(Doubt),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl Executor for DbExecutor {
    const KIND: &'static str = "db";
    type Request = DbRequest;

    fn set_up(setup: &Setup) -> Self {
        Self::new(setup.gate.clone(), &setup.reach)
    }

    async fn perform(&self, attempt: Attempt<'_, DbRequest>) -> Outcome {
        match attempt.route.destination(&attempt.request.connection) {
            Ok(to) => self.run(attempt.request, to, attempt.key).await,
            Err(fault) => Outcome::Failed(fault),
        }
    }

    async fn read(&self, route: Route<'_>, request: &DbRequest) -> Outcome {
        match route.destination(&request.connection) {
            Ok(to) => self.query(request, to).await,
            Err(fault) => Outcome::Failed(fault),
        }
    }

    /// A repeat meets the marker by itself.
    async fn find_marker(&self, _: Route<'_>, _: &DbRequest, _: EffectId) -> Outcome {
        not_offered(Self::KIND)
    }
}

impl DbExecutor {
    /// A caller that sends only while the gate is open, to addresses within reach.
    #[must_use]
    pub fn new(gate: Arc<dyn SendGate>, reach: &Reach) -> Self {
        Self {
            gate,
            pools: Arc::new(Pools::new(reach.egress.clone())),
            answers: reach.answers.clone(),
        }
    }

    /// Runs the statement and leaves the effect's marker, in one transaction.
    pub async fn run(&self, request: &DbRequest, to: &Destination, key: EffectId) -> Outcome {
        match self.attempt(request, to, key).await {
            Ok((response, reserved)) => {
                Outcome::Done(Receipt::new(response, None).with_memory(reserved))
            }
            Err(Stop::Failed(fault)) => Outcome::Failed(fault),
            Err(Stop::InDoubt(doubt)) => Outcome::InDoubt(doubt),
        }
    }

    /// Runs a statement that changes nothing, in a transaction that cannot.
    pub async fn query(&self, request: &DbRequest, to: &Destination) -> Outcome {
        let deadline = Instant::now() + request.timeout.to_duration();
        let reading = async {
            let session = self.begin(request, to, Mode::ReadOnly).await?;
            let answered = statement::run(session.client(), request).await;
            let answered = answered.map_err(|fault| session.explain(fault))?;
            let read = self.read_answer(answered, to).await?;
            session.roll_back().await;
            Ok::<_, Fault>(read)
        };
        match timeout_at(deadline, reading).await {
            Ok(Ok((result, reserved))) => {
                Outcome::Done(Receipt::new(result, None).with_memory(reserved))
            }
            Ok(Err(fault)) => Outcome::Failed(fault),
            Err(_) => Outcome::Failed(too_slow()),
        }
    }

    /// The result of a statement before its commit, once there is room for it. The wait is short: rows and a transaction
    /// are held meanwhile, and nothing has happened yet.
    async fn read_answer(
        &self,
        answered: Answered,
        to: &Destination,
    ) -> Result<(Value, Reserved), Fault> {
        let room = self.answers.take(to.namespace_id, answered.weight());
        let Ok(reserved) = timeout(ANSWER_PATIENCE, room).await else {
            let message = "no memory for the large result of the statement: it is rolled back";
            return Err(Fault::passing("destination-busy", message).of(FaultKind::HeldBack));
        };
        Ok((answered.read()?, reserved))
    }

    /// Makes the table of markers, where it is not there.
    ///
    /// # Errors
    ///
    /// If the database cannot be reached, or the role may not make tables.
    pub async fn prepare(&self, to: &Destination) -> Result<(), Fault> {
        let making = async {
            let client = self.pools.client(to, postgres(to)?).await?;
            marker::make_table(&client).await
        };
        within(CARE_PATIENCE, making).await
    }

    /// Authenticates and tells what is there, in one line.
    ///
    /// # Errors
    ///
    /// If the database cannot be reached or refuses the role.
    pub async fn test(&self, to: &Destination) -> Result<String, Fault> {
        let testing = async {
            let client = self.pools.client(to, postgres(to)?).await?;
            marker::describe_server(&client, &to.name).await
        };
        within(CARE_PATIENCE, testing).await
    }

    async fn attempt(
        &self,
        request: &DbRequest,
        to: &Destination,
        key: EffectId,
    ) -> Result<(Value, Reserved), Stop> {
        let deadline = Instant::now() + request.timeout.to_duration();
        // Whatever breaks in here, no `COMMIT` was sent: the session is closed and rolled back.
        let working = async {
            let session = self.begin(request, to, Mode::Writing).await?;
            match marker::leave(session.client(), key, &to.name).await? {
                Marked::Before(result) => {
                    session.roll_back().await;
                    Ok(Worked::Before(result))
                }
                Marked::Now => {
                    failpoint("db.marked", &key.to_string()).await;
                    // The marker was absent and is held now, so what is refused from here on was
                    // not done by an earlier attempt either.
                    let answered = statement::run(session.client(), request).await;
                    let answered =
                        answered.map_err(|fault| session.explain(fault).after_marker())?;
                    let read = self.read_answer(answered, to).await;
                    let (result, reserved) = read.map_err(Fault::after_marker)?;
                    expect_rows(request, &result).map_err(Fault::after_marker)?;
                    let kept = marker::keep_result(session.client(), key, &result).await;
                    kept.map_err(|fault| session.explain(fault).after_marker())?;
                    Ok(Worked::Now(result, reserved, Box::new(session)))
                }
            }
        };
        let worked = timeout_at(deadline, working).await;
        match worked.unwrap_or_else(|_| Err(too_slow()))? {
            // It has happened, so this wait has no limit.
            Worked::Before(text) => {
                let room = self
                    .answers
                    .take_for(to.namespace_id, text.get().as_bytes());
                let reserved = room.await;
                let result = json::read_back(text.get());
                Ok((with_repeated(result, true), reserved))
            }
            Worked::Now(result, reserved, session) => {
                self.commit(*session, key, deadline).await?;
                Ok((with_repeated(result, false), reserved))
            }
        }
    }

    /// A connection in a transaction that has done nothing yet.
    async fn begin(
        &self,
        request: &DbRequest,
        to: &Destination,
        mode: Mode,
    ) -> Result<Session, Fault> {
        let target = postgres(to)?;
        statement::admit(&request.statement)?;
        self.ask_gate()?;
        let client = self.pools.client(to, target).await?;
        self.ask_gate()?;
        Session::begin(client, mode, request.timeout).await
    }

    async fn commit(&self, session: Session, key: EffectId, deadline: Instant) -> Result<(), Stop> {
        failpoint("db.commit", &key.to_string()).await;
        self.ask_gate()?;
        let patience = deadline.max(Instant::now() + COMMIT_PATIENCE_MIN);
        let committed = session.commit(patience).await;
        failpoint("db.committed", &key.to_string()).await;
        committed.map_err(|stop| match stop {
            Stop::Failed(fault) => Stop::Failed(fault.after_marker()),
            Stop::InDoubt(doubt) => Stop::InDoubt(doubt),
        })
    }

    fn ask_gate(&self) -> Result<(), Fault> {
        if self.gate.is_open() {
            Ok(())
        } else {
            let message = "the lease ran out before anything was committed";
            Err(Fault::passing("lease-lost", message).of(FaultKind::Ours))
        }
    }
}

fn postgres(to: &Destination) -> Result<&PostgresTarget, Fault> {
    match &to.connection.to {
        Target::Postgres(target) => Ok(target),
        Target::Http(_)
        | Target::Smtp(_)
        | Target::Ssh(_)
        | Target::Slack(_)
        | Target::Webhook(_)
        | Target::Llm(_) => Err(to.unfit("db")),
    }
}

fn expect_rows(request: &DbRequest, result: &Value) -> Result<(), Fault> {
    let met = result["rows"].as_u64().unwrap_or_default();
    match request.rows {
        Some(expected) if expected != met => {
            let message = format!(
                "the statement affected {met} rows instead of {expected}: it was rolled back"
            );
            Err(Fault::permanent("rows-unexpected", message))
        }
        Some(_) | None => Ok(()),
    }
}

fn with_repeated(mut result: Value, repeated: bool) -> Value {
    if let Some(result) = result.as_object_mut() {
        result.insert("repeated".to_owned(), repeated.into());
    }
    result
}

async fn within<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let ended = timeout_at(Instant::now() + patience, work).await;
    ended.unwrap_or_else(|_| Err(too_slow()))
}

fn too_slow() -> Fault {
    let message = "timed out before the transaction was committed: it is rolled back";
    Fault::passing("timeout", message)
}
