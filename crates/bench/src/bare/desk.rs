//! The batched writer of what the work needs at least.

use anyhow::Result;
use futures_util::future::try_join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::Delivery;
use super::writer::{Commit, Writer};

const ACCEPT: &str = "
    WITH claimed AS (
        INSERT INTO claims (id, run_id, fingerprint, expires_at)
        SELECT t.id, t.run_id, t.fingerprint, now() + interval '30 days'
          FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS t (id, run_id, fingerprint)
            ON CONFLICT (id) DO NOTHING
     RETURNING run_id)
    INSERT INTO runs (id, key, input, accepted_at)
    SELECT t.run_id, t.key, t.input::json, now()
      FROM unnest($2::uuid[], $4::text[], $5::text[]) AS t (run_id, key, input)
     WHERE t.run_id IN (SELECT run_id FROM claimed)";

const TAKE: &str = "
    UPDATE runs r SET state = 1 FROM unnest($1::uuid[]) AS t (id) WHERE r.id = t.id AND r.state = 0";

const SETTLE: &str = "
    UPDATE steps s
       SET settled_at = now(), outcome = t.outcome::json
      FROM unnest($1::uuid[], $2::int2[], $3::text[]) AS t (run_id, step, outcome)
     WHERE s.run_id = t.run_id AND s.step = t.step";

const INTEND: &str = "
    INSERT INTO steps (run_id, step, intended_at)
    SELECT t.run_id, t.step, now() FROM unnest($1::uuid[], $2::int2[]) AS t (run_id, step)";

const FINISH: &str = "
    UPDATE runs r
       SET state = 2, ended_at = now(), result = t.result::json
      FROM unnest($1::uuid[], $2::text[]) AS t (id, result)
     WHERE r.id = t.id";

/// What every outcome and result says.
const OUTCOME: &str = r#"{"ok":true}"#;

/// One transition of one run.
#[derive(Debug)]
pub(crate) enum Change {
    /// The key is claimed and the run inserted.
    Accept(Delivery),
    /// The run is taken and its first step intended.
    Begin(Uuid),
    /// A step is settled and the next intended.
    Step(Uuid, i16),
    /// The last step is settled and the run finished.
    Finish(Uuid, i16),
}

/// The callers' end.
#[derive(Clone)]
pub(crate) struct Desk(Writer<Change>);

impl Desk {
    /// Starts the writer on a connection of its own.
    pub(crate) async fn start(client: Client) -> Result<Self> {
        let statements = Statements {
            accept: client.prepare(ACCEPT).await?,
            take: client.prepare(TAKE).await?,
            settle: client.prepare(SETTLE).await?,
            intend: client.prepare(INTEND).await?,
            finish: client.prepare(FINISH).await?,
        };
        Ok(Self(Writer::start(Bare { client, statements })))
    }

    /// Hands a transition in and waits for its commit.
    pub(crate) async fn write(&self, change: Change) -> Result<()> {
        self.0.write(change).await
    }
}

struct Bare {
    client: Client,
    statements: Statements,
}

struct Statements {
    accept: Statement,
    take: Statement,
    settle: Statement,
    intend: Statement,
    finish: Statement,
}

impl Commit for Bare {
    type Change = Change;

    async fn commit(&self, changes: Vec<Change>) -> Result<()> {
        Columns::of(changes)
            .commit(&self.client, &self.statements)
            .await
    }
}

#[derive(Default)]
struct Columns {
    claims: Vec<Uuid>,
    claimed_runs: Vec<Uuid>,
    fingerprints: Vec<Uuid>,
    keys: Vec<String>,
    inputs: Vec<String>,
    taken: Vec<Uuid>,
    settled: Vec<Uuid>,
    settled_steps: Vec<i16>,
    outcomes: Vec<&'static str>,
    intended: Vec<Uuid>,
    intended_steps: Vec<i16>,
    finished: Vec<Uuid>,
    results: Vec<&'static str>,
}

impl Columns {
    fn of(changes: Vec<Change>) -> Self {
        let mut columns = Self::default();
        for change in changes {
            match change {
                Change::Accept(delivery) => columns.accept(delivery),
                Change::Begin(run) => {
                    columns.taken.push(run);
                    columns.intend(run, 0);
                }
                Change::Step(run, step) => {
                    columns.settle(run, step);
                    columns.intend(run, step + 1);
                }
                Change::Finish(run, step) => {
                    columns.settle(run, step);
                    columns.finished.push(run);
                    columns.results.push(OUTCOME);
                }
            }
        }
        columns
    }

    fn accept(&mut self, delivery: Delivery) {
        self.claims.push(delivery.claim);
        self.claimed_runs.push(delivery.run);
        self.fingerprints.push(delivery.fingerprint);
        self.keys.push(delivery.key);
        self.inputs.push(delivery.input);
    }

    fn settle(&mut self, run: Uuid, step: i16) {
        self.settled.push(run);
        self.settled_steps.push(step);
        self.outcomes.push(OUTCOME);
    }

    fn intend(&mut self, run: Uuid, step: i16) {
        self.intended.push(run);
        self.intended_steps.push(step);
    }

    /// One flight, one transaction.
    async fn commit(&self, client: &Client, statements: &Statements) -> Result<()> {
        let accept: [&(dyn ToSql + Sync); 5] = [
            &self.claims,
            &self.claimed_runs,
            &self.fingerprints,
            &self.keys,
            &self.inputs,
        ];
        let settle: [&(dyn ToSql + Sync); 3] = [&self.settled, &self.settled_steps, &self.outcomes];
        let parts: [(&Statement, &[&(dyn ToSql + Sync)], bool); 5] = [
            (&statements.accept, &accept, self.claims.is_empty()),
            (&statements.take, &[&self.taken], self.taken.is_empty()),
            (&statements.settle, &settle, self.settled.is_empty()),
            (
                &statements.intend,
                &[&self.intended, &self.intended_steps],
                self.intended.is_empty(),
            ),
            (
                &statements.finish,
                &[&self.finished, &self.results],
                self.finished.is_empty(),
            ),
        ];
        let filled = parts.iter().filter(|(_, _, empty)| !empty);
        let (begun, written, ended) = futures_util::join!(
            client.batch_execute("BEGIN"),
            try_join_all(filled.map(|(statement, values, _)| client.execute(*statement, values))),
            client.batch_execute("COMMIT"),
        );
        begun?;
        written?;
        Ok(ended?)
    }
}
