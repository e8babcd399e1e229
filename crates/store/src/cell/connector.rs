//! Connections: how each is made, and which settings its session has.

use tokio::task::AbortHandle;
use tokio_postgres::{Client, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::durability::{ASSERT_DURABLE, IS_DURABLE, is_shown};

/// Settings of the sessions that write. Hash and merge joins are off because every hot statement
/// joins an array of identities to a primary key: the plan must stay the same whether the table
/// has ten rows or ten million, and rows must be locked in the array's order.
pub(crate) const WRITER_SESSION: &str = "
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off;
    SET jit = off; SET statement_timeout = '15s'; SET lock_timeout = '5s';
    SET idle_in_transaction_session_timeout = '2s';
   ";

/// Statements of the pools are planned for their values each time, although they are prepared: a plan that is kept
/// from the days of an empty table would be used until somebody analyses it.
const ENGINE_SESSION: &str = "
    SET plan_cache_mode = force_custom_plan; SET jit = off;
    SET statement_timeout = '15s'; SET idle_in_transaction_session_timeout = '10s';";

const PEOPLE_SESSION: &str = "
    SET plan_cache_mode = force_custom_plan; SET jit = off;
    SET statement_timeout = '15s'; SET idle_in_transaction_session_timeout = '10s';
    SET lock_timeout = '1s'; SET default_transaction_read_only = on;";

/// Settings of the sessions that list for requests. A list that takes long is given up, and none
/// scans a table while an index leads to its rows, whatever PostgreSQL last analysed. A page is a few
/// rows: workers beside it would read ahead of what it needs.
pub(crate) const LIST_SESSION: &str = "
    SET plan_cache_mode = force_custom_plan; SET jit = off;
    SET statement_timeout = '2s'; SET idle_in_transaction_session_timeout = '10s';
    SET lock_timeout = '1s'; SET default_transaction_read_only = on; SET enable_seqscan = off;
    SET max_parallel_workers_per_gather = 0;";

/// Where a session looks for names, in place of what its role or database says. PostgreSQL would look in the schema
/// named like the role first, which that role can make: tables there would be taken for the audit record, which
/// another role guards. Temporary tables come last.
pub(super) const LIVE_SCHEMA: &str = "public";

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
    /// The only schema in which names are looked for, besides PostgreSQL's own.
    pub(crate) schema: String,
    pub(crate) accept_unsafe: bool,
    pub(crate) read_slack: u32,
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
        let wire = self.dial().await?;
        self.begin(&wire.client, Session::Writer).await?;
        Ok(wire)
    }

    /// A connection with the server's own settings, save where it looks for names. Nothing is asserted yet.
    pub(crate) async fn open(&self) -> Result<PgConnection, Error> {
        let wire = self.dial().await?;
        wire.client.batch_execute(&self.search_path()).await?;
        Ok(wire)
    }

    async fn dial(&self) -> Result<PgConnection, Error> {
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

    /// Begins a new session: its settings, and the assertion. One round trip where all is well.
    pub(crate) async fn begin(&self, client: &Client, session: Session) -> Result<(), Error> {
        let settings = match session {
            Session::Writer => WRITER_SESSION,
            Session::Engine => ENGINE_SESSION,
            Session::People => PEOPLE_SESSION,
            Session::List => LIST_SESSION,
        };
        let (path, longer) = (self.search_path(), self.longer_limits(session));
        let settings = format!("{path}{settings}{longer}");
        if self.accept_unsafe {
            return client.batch_execute(&settings).await;
        }
        let asked = format!("{settings}{IS_DURABLE}");
        let answers = client.simple_query(&asked).await?;
        match is_shown(&answers) {
            true => Ok(()),
            // The assertion finds the words.
            false => client.batch_execute(ASSERT_DURABLE).await,
        }
    }

    fn search_path(&self) -> String {
        format!("SET search_path = {}, pg_temp;", self.schema)
    }

    /// Settings that lengthen the limits of a session by `read_slack`. Empty without slack, and for the writer: an
    /// unanswered write is submitted again.
    fn longer_limits(&self, session: Session) -> String {
        let slack = self.read_slack;
        let statement_secs = match session {
            Session::Writer => return String::new(),
            _ if slack <= 1 => return String::new(),
            Session::Engine | Session::People => 15 * slack,
            Session::List => 2 * slack,
        };
        let idle_secs = 10 * slack;
        let lock_secs = match session {
            Session::Writer | Session::Engine => 0,
            Session::People | Session::List => slack,
        };
        format!(
            " SET statement_timeout = '{statement_secs}s'; SET lock_timeout = '{lock_secs}s';
              SET idle_in_transaction_session_timeout = '{idle_secs}s';"
        )
    }
}
