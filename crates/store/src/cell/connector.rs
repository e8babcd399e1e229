//! Connections: how each is made, and which settings its session has.

use tokio::task::AbortHandle;
use tokio_postgres::{Client, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::durability::ASSERT_DURABLE;

/// Settings of the sessions that write. Hash and merge joins are off because every hot statement
/// joins an array of identities to a primary key: the plan must stay the same whether the table
/// has ten rows or ten million, and rows must be locked in the array's order.
pub(crate) const WRITER_SESSION: &str = "
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off;
    SET jit = off; SET statement_timeout = '15s'; SET lock_timeout = '5s';
    SET idle_in_transaction_session_timeout = '2s';
   ";

const ENGINE_SESSION: &str = "
    SET jit = off; SET statement_timeout = '15s'; SET idle_in_transaction_session_timeout = '10s';";

const PEOPLE_SESSION: &str = "
    SET jit = off; SET statement_timeout = '15s'; SET idle_in_transaction_session_timeout = '10s';
    SET lock_timeout = '1s'; SET default_transaction_read_only = on;";

/// Settings of the sessions that list for requests. A list that takes long is given up, and none
/// scans a table while an index leads to its rows, whatever PostgreSQL last analysed. A page is a few
/// rows: workers beside it would read ahead of what it needs.
pub(crate) const LIST_SESSION: &str = "
    SET jit = off; SET statement_timeout = '2s'; SET idle_in_transaction_session_timeout = '10s';
    SET lock_timeout = '1s'; SET default_transaction_read_only = on; SET enable_seqscan = off;
    SET max_parallel_workers_per_gather = 0;";

/// What a session is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Session {
    /// A writer's, or another connection with a single owner.
    Writer,
    /// One of the engine's pool.
    Engine,
    /// One of the pool that serves requests, which can only read.
    People,
    /// One of the pool that lists for requests, which can only read.
    List,
}

/// How to reach the server.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
    pub(crate) accept_unsafe: bool,
}

/// A connection and the task that moves its bytes. Dropping it closes the socket at once, even
/// when the server never answers.
pub(crate) struct PgConnection {
    pub(crate) client: Client,
    pump: AbortHandle,
}

impl Drop for PgConnection {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

impl Connector {
    /// A connection of its own for a writer.
    pub(crate) async fn open_writer(&self) -> Result<PgConnection, Error> {
        let wire = self.open().await?;
        let opening = self.opening(Session::Writer);
        wire.client.batch_execute(&opening).await?;
        Ok(wire)
    }

    /// A connection with the server's own settings, of which nothing is asserted yet.
    pub(crate) async fn open(&self) -> Result<PgConnection, Error> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        let pump = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a database connection ended");
            }
        });
        Ok(PgConnection {
            client,
            pump: pump.abort_handle(),
        })
    }

    /// What a new session begins with: its settings, and the assertion. One round trip.
    pub(crate) fn opening(&self, session: Session) -> String {
        let settings = match session {
            Session::Writer => WRITER_SESSION,
            Session::Engine => ENGINE_SESSION,
            Session::People => PEOPLE_SESSION,
            Session::List => LIST_SESSION,
        };
        match self.accept_unsafe {
            true => settings.to_owned(),
            false => format!("{settings}{ASSERT_DURABLE}"),
        }
    }
}
