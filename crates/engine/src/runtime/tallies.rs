//! What this process counted and has not added to the database yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use semel_store::tallies::{TallyKind, TallyRow};

/// Counts by namespace, flow and kind. A flow that nothing happened to costs nothing.
#[derive(Default)]
pub(crate) struct Tallies {
    counts: Mutex<HashMap<(i32, i32, TallyKind), i64>>,
}

impl Tallies {
    /// Counts something of a flow, which is named by its namespace and itself.
    pub(crate) fn add(&self, (namespace_id, flow_id): (i32, i32), what: TallyKind, count: u64) {
        if count == 0 {
            return;
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        *self
            .lock()
            .entry((namespace_id, flow_id, what))
            .or_default() += count;
    }

    /// Takes everything out.
    pub(crate) fn take(&self) -> Vec<TallyRow> {
        let counts = std::mem::take(&mut *self.lock());
        let read = |((namespace_id, flow_id, what), count)| TallyRow {
            namespace_id,
            flow_id,
            what,
            count,
        };
        counts.into_iter().map(read).collect()
    }

    /// Counts again what could not be added.
    pub(crate) fn put_back(&self, rows: &[TallyRow]) {
        let mut counts = self.lock();
        for row in rows {
            let key = (row.namespace_id, row.flow_id, row.what);
            *counts.entry(key).or_default() += row.count;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(i32, i32, TallyKind), i64>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_added_is_counted_with_what_came_since() {
        let tallies = Tallies::default();
        tallies.add((1, 2), TallyKind::Accepted, 3);
        tallies.add((1, 2), TallyKind::Failed, 0);
        let taken = tallies.take();
        tallies.add((1, 2), TallyKind::Accepted, 4);
        tallies.put_back(&taken);
        let row = TallyRow {
            namespace_id: 1,
            flow_id: 2,
            what: TallyKind::Accepted,
            count: 7,
        };
        assert_eq!(tallies.take(), [row]);
    }
}
