//! Quotas: permits that run out, and what each namespace holds of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A number of permits, and how many of them each namespace holds.
pub(super) struct Quota {
    permits: Arc<Semaphore>,
    held: Arc<HeldByNamespace>,
}

/// How much each namespace holds.
#[derive(Default)]
pub(super) struct HeldByNamespace(Mutex<HashMap<i32, usize>>);

/// A part of what a namespace holds, until it is dropped.
pub(crate) struct HeldPart {
    held: Arc<HeldByNamespace>,
    namespace_id: i32,
    amount: usize,
}

/// One permit, until it is dropped.
pub(crate) struct QuotaPermit {
    _permit: Option<OwnedSemaphorePermit>,
    held: Option<HeldPart>,
}

impl HeldByNamespace {
    /// Adds to what a namespace holds, unless it were more than so much.
    pub(super) fn enter(
        self: &Arc<Self>,
        namespace_id: i32,
        amount: usize,
        most: usize,
    ) -> Option<HeldPart> {
        let mut held = self.lock();
        let before = held.get(&namespace_id).copied().unwrap_or_default();
        if before.saturating_add(amount) > most {
            return None;
        }
        held.insert(namespace_id, before + amount);
        Some(HeldPart {
            held: self.clone(),
            namespace_id,
            amount,
        })
    }

    pub(super) fn count(&self, namespace_id: i32) -> usize {
        self.lock().get(&namespace_id).copied().unwrap_or_default()
    }

    pub(super) fn list(&self) -> Vec<(i32, usize)> {
        let held = self.lock();
        held.iter().map(|(id, count)| (*id, *count)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldPart {
    pub(super) fn amount(&self) -> usize {
        self.amount
    }
}

impl Drop for HeldPart {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        if let Some(count) = held.get_mut(&self.namespace_id) {
            *count = count.saturating_sub(self.amount);
            if *count == 0 {
                held.remove(&self.namespace_id);
            }
        }
    }
}

impl QuotaPermit {
    /// Counts a permit that is nobody's for a namespace that has fewer than so many; false where it has as many.
    pub(super) fn count_for(
        &mut self,
        held: &Arc<HeldByNamespace>,
        namespace_id: i32,
        most: usize,
    ) -> bool {
        if self.held.is_none() {
            self.held = held.enter(namespace_id, 1, most);
        }
        self.held.is_some()
    }
}

impl Quota {
    pub(super) fn new(most: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(most)),
            held: Arc::default(),
        }
    }

    /// How many permits are left.
    pub(super) fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// A permit for a namespace that has fewer than so many, as soon as there is one; none where it has as many.
    pub(super) async fn enter(&self, namespace_id: i32, most: usize) -> Option<QuotaPermit> {
        let permit = self.permits.clone().acquire_owned().await.ok()?;
        let held = self.held.enter(namespace_id, 1, most)?;
        Some(QuotaPermit {
            _permit: Some(permit),
            held: Some(held),
        })
    }

    /// A permit that is nobody's, as soon as there is one.
    pub(super) async fn enter_uncounted(&self) -> Option<QuotaPermit> {
        let permit = self.permits.clone().acquire_owned().await.ok()?;
        Some(QuotaPermit {
            _permit: Some(permit),
            held: None,
        })
    }

    /// What each namespace holds.
    pub(super) fn held(&self) -> &Arc<HeldByNamespace> {
        &self.held
    }

    /// A permit for a namespace that has fewer than so many, unless there is none now.
    pub(super) fn try_enter(&self, namespace_id: i32, most: usize) -> Option<QuotaPermit> {
        let held = self.held.enter(namespace_id, 1, most)?;
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        Some(QuotaPermit {
            _permit: Some(permit),
            held: Some(held),
        })
    }

    /// The same; the first of a namespace is there even where the others have all.
    pub(super) fn try_enter_first(&self, namespace_id: i32, most: usize) -> Option<QuotaPermit> {
        if let Some(first) = self.held.enter(namespace_id, 1, 1) {
            return Some(QuotaPermit {
                _permit: None,
                held: Some(first),
            });
        }
        self.try_enter(namespace_id, most)
    }
}
