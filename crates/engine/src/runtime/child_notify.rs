//! Notifies a run in this process that one of its children ended here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_model::RunId;
use tokio::sync::Notify;

/// The waits for children, by run.
#[derive(Default)]
pub(crate) struct ChildNotify {
    waiting: Mutex<HashMap<RunId, Arc<Notify>>>,
}

/// A run's wait for its children, until it is dropped.
pub(crate) struct ChildWatch {
    run: RunId,
    notify_of: Arc<ChildNotify>,
    notify: Arc<Notify>,
}

impl ChildNotify {
    /// Notes that a run waits for its children.
    pub(crate) fn watch(self: &Arc<Self>, run: RunId) -> ChildWatch {
        let notify = Arc::new(Notify::new());
        self.lock().insert(run, notify.clone());
        ChildWatch {
            run,
            notify_of: self.clone(),
            notify,
        }
    }

    /// Notifies a run that one of its children ended.
    pub(crate) fn tell(&self, parent: RunId) {
        if let Some(notify) = self.lock().get(&parent) {
            notify.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Notify>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChildWatch {
    /// A child ended since the last look.
    pub(crate) async fn notified(&self) {
        self.notify.notified().await;
    }
}

impl Drop for ChildWatch {
    fn drop(&mut self) {
        self.notify_of.lock().remove(&self.run);
    }
}
