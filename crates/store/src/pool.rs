//! Pooled connections, and what happens to a statement whose caller went away.
//!
//! A connection of the engine's pool goes back to it once it has answered: what the engine asks for is bounded,
//! and a cancelled write would be one more answer that is not known. A connection of the requests'
//! pool can only read. When a request is dropped (its client hung up, or its time was over) while a
//! statement runs, the statement is cancelled and the connection closed, so that a client cannot
//! keep the database busy with answers that it no longer waits for.

use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, Pool, QueueMode,
    RecyclingMethod, Runtime, Transaction,
};
use futures_util::TryStreamExt as _;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::cell::{Connector, Session};

/// How long a cancellation may take to reach the server.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);

/// After how long without use a pooled connection has to show that it is alive.
const CHECK_AFTER: Duration = Duration::from_secs(1);

/// How long a pooled connection may take to show that it is alive, and to be made again.
const CHECK_PATIENCE: Duration = Duration::from_secs(2);

/// How long a connection may take to answer what nobody waits for any more: longer than a statement may run.
const ANSWER_PATIENCE: Duration = Duration::from_secs(20);

/// How many bytes of rows are read and thrown away behind those that were wanted. Where there are more, the statement is
/// cancelled and its connection closed.
const REST_BYTES_MAX: usize = 8 << 20;

/// What PostgreSQL says of a prepared statement that no longer fits.
const OUTDATED: [SqlState; 2] = [
    SqlState::FEATURE_NOT_SUPPORTED,
    SqlState::INVALID_SQL_STATEMENT_NAME,
];

/// How long a new connection of a pool may take.
const CREATE_PATIENCE: Duration = Duration::from_secs(10);

/// Makes a pool of connections of a kind.
pub(crate) fn pool(connector: &Connector, session: Session, size: usize, wait: Duration) -> Pool {
    // A socket that is known to be closed is noticed; whether the other end lives is asked below.
    let recycling = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    let manager = Manager::from_config(connector.config.clone(), connector.tls.clone(), recycling);
    let opens = std::sync::Arc::new(connector.clone());
    let slack = connector.read_slack;
    let (check_patience, create_patience) = (CHECK_PATIENCE * slack, CREATE_PATIENCE * slack);
    let build = Pool::builder(manager)
        .max_size(size)
        // The connection that was used last is used next: its caches are warm, and a quiet server keeps few busy.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(wait * slack))
        .create_timeout(Some(create_patience))
        .recycle_timeout(Some(check_patience))
        .pre_recycle(Hook::async_fn(move |client, used| {
            let is_fresh = used.last_used() < CHECK_AFTER;
            Box::pin(async move {
                if is_fresh {
                    return Ok(());
                }
                // The pool sets its hooks no limit.
                match timeout(check_patience, client.simple_query("")).await {
                    Ok(alive) => alive.map(drop).map_err(HookError::Backend),
                    Err(_) => Err(HookError::message("no answer in time")),
                }
            })
        }))
        .post_create(Hook::async_fn(move |client, _| {
            let opens = opens.clone();
            Box::pin(async move {
                match timeout(create_patience, opens.begin(client, session)).await {
                    Ok(begun) => begun.map_err(HookError::Backend),
                    Err(_) => Err(HookError::message("no answer in time")),
                }
            })
        }))
        .build();
    match build {
        Ok(pool) => pool,
        Err(error) => unreachable!("the runtime of the pool's timeouts is named: {error}"),
    }
}

/// A pooled connection.
pub struct PooledClient {
    object: Option<Object>,
    /// How to cancel a statement, where one may be cancelled.
    cancels_by: Option<MakeRustlsConnect>,
    /// Statements that were sent and whose answer was not read to its end.
    unanswered: AtomicUsize,
    /// Whether statements were sent that are not counted.
    uncounted: AtomicBool,
}

impl PooledClient {
    pub(crate) fn new(object: Object, cancels_by: Option<MakeRustlsConnect>) -> Self {
        Self {
            object: Some(object),
            cancels_by,
            unanswered: AtomicUsize::new(0),
            uncounted: AtomicBool::new(false),
        }
    }

    /// Asks for rows. `query`, `query_one`, `query_opt` and `execute` prepare the statement once per connection.
    pub async fn query(
        &self,
        text: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        self.answered(async {
            let statement = self.wrapper().prepare_cached(text).await?;
            self.wrapper().query(&statement, values).await
        })
        .await
    }

    /// Asks for rows until they have so many bytes, and one at least; says whether rows were left.
    pub async fn query_within(
        &self,
        text: &str,
        values: &[&(dyn ToSql + Sync)],
        bytes_max: usize,
    ) -> Result<(Vec<Row>, bool), Error> {
        let mut is_over = true;
        let read = self
            .answered(async {
                let statement = self.wrapper().prepare_cached(text).await?;
                let values = values.iter().copied();
                let mut rows = pin!(self.wrapper().query_raw(&statement, values).await?);
                let (mut kept, mut bytes, mut rest) = (Vec::new(), 0, 0);
                while let Some(row) = rows.try_next().await? {
                    bytes += row.raw_size_bytes();
                    if bytes <= bytes_max || kept.is_empty() {
                        kept.push(row);
                        continue;
                    }
                    rest += row.raw_size_bytes();
                    if rest > REST_BYTES_MAX {
                        is_over = false;
                        break;
                    }
                }
                Ok((kept, rest > 0))
            })
            .await;
        if !is_over {
            // More of it comes: dropping this cancels the statement.
            self.uncounted.store(true, Ordering::Release);
        }
        read
    }

    /// Asks for one row.
    pub async fn query_one(
        &self,
        text: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, Error> {
        self.answered(async {
            let statement = self.wrapper().prepare_cached(text).await?;
            self.wrapper().query_one(&statement, values).await
        })
        .await
    }

    /// Asks for one row or none.
    pub async fn query_opt(
        &self,
        text: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        self.answered(async {
            let statement = self.wrapper().prepare_cached(text).await?;
            self.wrapper().query_opt(&statement, values).await
        })
        .await
    }

    /// Carries a statement out, and says how many rows it touched.
    pub async fn execute(&self, text: &str, values: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        self.answered(async {
            let statement = self.wrapper().prepare_cached(text).await?;
            self.wrapper().execute(&statement, values).await
        })
        .await
    }

    /// Notes whether an answer was read to its end. A statement that no longer fits the schema, because a migration
    /// changed what it gives, is prepared anew the next time.
    async fn answered<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        let answer = asked.await;
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
        if let Err(error) = &answer
            && matches!(error.code(), Some(code) if OUTDATED.contains(code))
        {
            self.wrapper().statement_cache.clear();
        }
        answer
    }

    /// Begins a transaction. A connection of the requests' pool is closed after it.
    pub async fn transaction(&mut self) -> Result<Transaction<'_>, Error> {
        self.uncounted.store(true, Ordering::Release);
        self.deref_mut().transaction().await
    }

    fn wrapper(&self) -> &ClientWrapper {
        match &self.object {
            Some(object) => object,
            None => unreachable!("only dropping takes the connection out"),
        }
    }
}

impl Deref for PooledClient {
    type Target = ClientWrapper;

    /// What is sent through this is not counted: a connection of the engine's pool shows that it is free before it
    /// goes back.
    fn deref(&self) -> &ClientWrapper {
        if self.cancels_by.is_none() {
            self.uncounted.store(true, Ordering::Release);
        }
        self.wrapper()
    }
}

impl DerefMut for PooledClient {
    /// What is sent through this is not counted: the connection is treated as busy.
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        self.uncounted.store(true, Ordering::Release);
        match &mut self.object {
            Some(object) => object,
            None => unreachable!("only dropping takes the connection out"),
        }
    }
}

impl Drop for PooledClient {
    fn drop(&mut self) {
        let busy = *self.unanswered.get_mut() > 0 || *self.uncounted.get_mut();
        let Some(object) = self.object.take().filter(|_| busy) else {
            return;
        };
        match (
            self.cancels_by.take(),
            tokio::runtime::Handle::try_current(),
        ) {
            (Some(tls), runtime) => {
                let cancel = object.cancel_token();
                // Closes the socket; the server would notice only when it has something to send.
                drop(Object::take(object));
                if let Ok(runtime) = runtime {
                    runtime.spawn(timeout(CANCEL_PATIENCE, async move {
                        if let Err(error) = cancel.cancel_query(tls).await {
                            tracing::debug!(%error, "a statement could not be cancelled");
                        }
                    }));
                }
            }
            (None, Ok(runtime)) => drop(runtime.spawn(give_back(object))),
            // The statement is carried out, and the connection closed after it.
            (None, Err(_)) => drop(Object::take(object)),
        }
    }
}

/// Gives a connection back to its pool once it has answered everything. One that does not is closed when it has: the
/// next caller would wait behind a statement that nobody waits for.
async fn give_back(object: Object) {
    let answered = timeout(ANSWER_PATIENCE, object.simple_query("")).await;
    if !matches!(answered, Ok(Ok(_))) {
        drop(Object::take(object));
    }
}
