//! Bare PostgreSQL doing the commits that the work needs at least.
//!
//! The work: accept (a unique key claimed and a run inserted), take, three steps with an intent and
//! an outcome each, finish. Outcome *i* is written with intent *i + 1*, the take with the first
//! intent, the last outcome with the finish: five transitions. Nothing is here that the work does
//! not need: no fence, no ledger that people read, no expression.
//!
//! | module | what shares a commit |
//! |---|---|
//! | [`desk`] | all transitions that are ready together, without a timer |
//! | [`merged`] | one transition |
//! | [`server`] | accepts that are ready together, behind a plain HTTP server |
//!
//! [`same_rows`] writes what the promises need besides: the same rows and commits as the product. [`same_calls`] does so for
//! runs whose steps are calls.

pub(crate) mod desk;
pub(crate) mod merged;
pub(crate) mod runner;
pub(crate) mod same_calls;
pub(crate) mod same_rows;
pub(crate) mod server;
mod writer;

use anyhow::Result;
use sha2::{Digest as _, Sha256};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

/// How many steps a run has.
pub(crate) const STEPS: i16 = 3;

/// What the work needs at least.
const SCHEMA: &str = "
    CREATE TABLE claims (
        id          uuid PRIMARY KEY,
        run_id      uuid NOT NULL,
        fingerprint uuid NOT NULL,
        expires_at  timestamptz NOT NULL);
    CREATE TABLE runs (
        id          uuid PRIMARY KEY,
        key         text NOT NULL,
        input       json NOT NULL,
        state       smallint NOT NULL DEFAULT 0,
        accepted_at timestamptz NOT NULL,
        ended_at    timestamptz,
        result      json) WITH (fillfactor = 85);
    CREATE TABLE steps (
        run_id      uuid NOT NULL,
        step        smallint NOT NULL,
        intended_at timestamptz NOT NULL,
        settled_at  timestamptz,
        outcome     json,
        PRIMARY KEY (run_id, step)) WITH (fillfactor = 85)";

/// Which rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// What the work needs at least.
    Least,
    /// What the promises need, in the product's tables.
    Same,
}

/// Plans that stay the same whatever the size of the tables.
const SESSION: &str = "
    SET enable_mergejoin = off; SET enable_seqscan = off; SET jit = off;
    SET plan_cache_mode = force_generic_plan";

/// As the product's: statistics of large tables do not turn a look-up of few rows into a hash of all. The bare statements
/// need the hash of what they have just claimed.
const SESSION_OF_SAME_ROWS: &str = "SET enable_hashjoin = off";

/// Makes the tables.
pub(crate) async fn create(client: &Client) -> Result<()> {
    Ok(client.batch_execute(SCHEMA).await?)
}

/// Opens a connection with the settings that fit the statements of those rows.
pub(crate) async fn connect(url: &str, rows: Rows) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // A lost connection shows in the client's next call.
    tokio::spawn(connection);
    client.batch_execute(SESSION).await?;
    match rows {
        Rows::Least => {}
        Rows::Same => client.batch_execute(SESSION_OF_SAME_ROWS).await?,
    }
    Ok(client)
}

/// One arrival, parsed and hashed.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) claim: Uuid,
    pub(crate) run: Uuid,
    pub(crate) fingerprint: Uuid,
    pub(crate) key: String,
    pub(crate) input: String,
}

impl Delivery {
    /// Reads the payload, as any server has to, and names it by the digest of its key.
    pub(crate) fn read(body: &[u8]) -> Result<Self> {
        #[derive(serde::Deserialize)]
        struct Order {
            id: String,
        }
        // The whole text is read, not only the key: a payload that is no JSON must not get in.
        let value: serde_json::Value = serde_json::from_slice(body)?;
        let Order { id } = serde::Deserialize::deserialize(&value)?;
        let claim = digest(id.as_bytes(), b"claim");
        Ok(Self {
            claim,
            run: digest(claim.as_bytes(), b"run"),
            fingerprint: digest(body, b"payload"),
            key: id,
            input: String::from_utf8(body.to_vec())?,
        })
    }
}

fn digest(bytes: &[u8], what: &[u8]) -> Uuid {
    let digest = Sha256::new().chain_update(what).chain_update(bytes);
    let mut short = [0; 16];
    short.copy_from_slice(&digest.finalize()[..16]);
    Uuid::from_bytes(short)
}
