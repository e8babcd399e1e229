//! Renews the session of the process, and begins another when it is lost.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{ReadError, sessions};

use crate::boottime::Boottime;
use crate::runtime::{Runtime, WorkerSession};

/// Renews the session for as long as the process lives, and begins another when it is lost.
pub(crate) async fn keep_renewing(runtime: Arc<Runtime>) {
    let every = Duration::from_millis((runtime.options.lease.as_millis() / 3).max(20));
    let mut pause = every;
    loop {
        tokio::time::sleep(pause).await;
        let session = runtime.session();
        pause = match renew(&session, &runtime).await {
            Ok(true) => every,
            Ok(false) => {
                tracing::warn!(session.id = %session.id, "the lease was lost; beginning a new session");
                begin_anew(&runtime).await;
                every
            }
            Err(error) => {
                tracing::warn!(%error, "failed to renew the lease");
                every.min(Duration::from_millis(200))
            }
        };
    }
}

async fn begin_anew(runtime: &Runtime) {
    loop {
        let options = &runtime.options;
        let begun = WorkerSession::begin(
            &runtime.cell,
            &options.process,
            options.lease,
            &runtime.reach,
        )
        .await;
        match begun {
            Ok(session) => {
                runtime.set_session(Arc::new(session));
                runtime.signals.wake.notify_one();
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "failed to begin a new session");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

async fn renew(session: &WorkerSession, runtime: &Runtime) -> Result<bool, ReadError> {
    let begun = Boottime::now();
    let lease = runtime.options.lease;
    match sessions::renew(&runtime.cell, session.id, lease).await? {
        Some(now) => {
            runtime.clock.set(now);
            session.renewed(begun, lease);
            runtime.work.holdings.ask();
            Ok(true)
        }
        None => {
            session.lost();
            Ok(false)
        }
    }
}
