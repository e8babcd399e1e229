//! Pooled connections, and what happens to a statement whose caller went away.
//!
//! A connection of the engine's pool always goes back to it: what the engine asks for is bounded,
//! and a cancelled write would be one more answer that is not known. A connection of the requests'
//! pool can only read. When a request is dropped (its client hung up, or its time was over) while a
//! statement runs, the statement is cancelled and the connection closed, so that a client cannot
//! keep the database busy with answers that it no longer waits for.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, Pool, QueueMode,
    RecyclingMethod, Runtime, Transaction,
};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, ToStatement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::cell::{Connector, Session};

/// How long a cancellation may take to reach the server.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);

/// How long a pooled connection may take to show that it is alive, and to be made again.
const CHECK_PATIENCE: Duration = Duration::from_secs(2);

/// How long a new connection of a pool may take.
const CREATE_PATIENCE: Duration = Duration::from_secs(10);

/// Makes a pool of connections of a kind.
pub(crate) fn pool(connector: &Connector, session: Session, size: usize, wait: Duration) -> Pool {
    // Verified recycling notices dead sockets and sessions that were left in a transaction.
    let recycling = ManagerConfig {
        recycling_method: RecyclingMethod::Verified,
    };
    let manager = Manager::from_config(connector.config.clone(), connector.tls.clone(), recycling);
    let opening = std::sync::Arc::new(connector.opening(session));
    let build = Pool::builder(manager)
        .max_size(size)
        // The connection that was used last is used next: its caches are warm, and a quiet server keeps few busy.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(wait))
        .create_timeout(Some(CREATE_PATIENCE))
        .recycle_timeout(Some(CHECK_PATIENCE))
        .post_create(Hook::async_fn(move |client, _| {
            let opening = opening.clone();
            Box::pin(async move {
                client
                    .batch_execute(&opening)
                    .await
                    .map_err(HookError::Backend)
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

    /// Asks for rows.
    pub async fn query<T: ?Sized + ToStatement>(
        &self,
        statement: &T,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        let answer = self.wrapper().query(statement, values).await;
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
        answer
    }

    /// Asks for one row.
    pub async fn query_one<T: ?Sized + ToStatement>(
        &self,
        statement: &T,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, Error> {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        let answer = self.wrapper().query_one(statement, values).await;
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
        answer
    }

    /// Asks for one row or none.
    pub async fn query_opt<T: ?Sized + ToStatement>(
        &self,
        statement: &T,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        let answer = self.wrapper().query_opt(statement, values).await;
        self.unanswered.fetch_sub(1, Ordering::AcqRel);
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

    fn deref(&self) -> &ClientWrapper {
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
        let (Some(object), Some(tls)) = (self.object.take(), self.cancels_by.take()) else {
            return;
        };
        let busy = *self.unanswered.get_mut() > 0 || *self.uncounted.get_mut();
        if !busy {
            return;
        }
        let cancel = object.cancel_token();
        // Closes the socket; the server would notice only when it has something to send.
        drop(Object::take(object));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(tokio::time::timeout(CANCEL_PATIENCE, async move {
                if let Err(error) = cancel.cancel_query(tls).await {
                    tracing::debug!(%error, "a statement could not be cancelled");
                }
            }));
        }
    }
}
