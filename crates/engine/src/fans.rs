//! Fans: telling a run in this process that one of its parts ended here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_model::RunId;
use tokio::sync::Notify;

/// Who waits for parts, by run.
#[derive(Default)]
pub(crate) struct Fans {
    waiting: Mutex<HashMap<RunId, Arc<Notify>>>,
}

/// A run's wait for its parts, until it is dropped.
pub(crate) struct FanWatch {
    run: RunId,
    fans: Arc<Fans>,
    notify: Arc<Notify>,
}

impl Fans {
    /// Notes that a run waits for its parts.
    pub(crate) fn watch(self: &Arc<Self>, run: RunId) -> FanWatch {
        let notify = Arc::new(Notify::new());
        self.lock().insert(run, notify.clone());
        FanWatch {
            run,
            fans: self.clone(),
            notify,
        }
    }

    /// Tells a run that one of its parts ended.
    pub(crate) fn tell(&self, parent: RunId) {
        if let Some(notify) = self.lock().get(&parent) {
            notify.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Notify>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FanWatch {
    /// A part ended since the last look.
    pub(crate) async fn notified(&self) {
        self.notify.notified().await;
    }
}

impl Drop for FanWatch {
    fn drop(&mut self) {
        self.fans.lock().remove(&self.run);
    }
}
