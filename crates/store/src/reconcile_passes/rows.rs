//! Rows of passes, and how a server's copy of one follows it.

use semel_model::ScheduleId;
use tokio_postgres::Row;

use super::{ComparedPage, NewPass, PassCounts, ReconcilePass};

pub(super) fn read_pass(row: &Row) -> ReconcilePass {
    ReconcilePass {
        new: NewPass {
            id: ScheduleId::from_uuid(row.get(0)),
            nominal: row.get(1),
            namespace_id: row.get(2),
            flow: row.get(3),
            release_id: row.get(4),
            window_start: row.get(5),
            dry_run: row.get(6),
            asked_by: row.get(7),
        },
        state: row.get(8),
        epoch: row.get(9),
        attempt: row.get(11),
        page: row.get(12),
        next_page: row.get(13),
        marked_page: row.get(23),
        page_at: row.get(24),
        counts: PassCounts {
            listed: row.get(14),
            known: row.get(15),
            started: row.get(16),
            differing: row.get(17),
            unreadable: row.get(18),
            left_out: row.get(19),
        },
        fault: row.get(20),
        opened_at: row.get(21),
        ended_at: row.get(22),
    }
}

impl ReconcilePass {
    /// Follows what [`record`](super::record) wrote, except for the time.
    pub fn advance(&mut self, page: &ComparedPage) {
        self.page += 1;
        self.attempt = 0;
        self.counts.started += page.counts.started;
        self.next_page.clone_from(&page.next);
        if self.page.count_ones() == 1 {
            self.marked_page.clone_from(&page.next);
        }
    }

    /// Whether the list has led to this address before.
    #[must_use]
    pub fn has_met(&self, next: &str) -> bool {
        [&self.next_page, &self.marked_page]
            .into_iter()
            .any(|met| met.as_deref() == Some(next))
    }
}
