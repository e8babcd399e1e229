//! How much memory the bodies of requests and of answers may take together.

use std::sync::Arc;

use semel_engine::Budget;
use semel_store::listed::PAGE_BYTES_MAX;

use crate::places::FairPlaces;

/// The least that bodies may take, whatever the machine is.
const BUDGET_BYTES_MIN: usize = 64 << 20;

/// The most that bodies may take, however large the machine is.
const BUDGET_BYTES_MAX: usize = 1 << 30;

/// How much of the memory bodies may take.
#[derive(Clone, Debug)]
pub struct BodyBudget {
    /// For bodies while they arrive and are answered.
    pub(crate) arriving: Budget,
    /// For what they become when they are parsed.
    pub(crate) parsed: Budget,
    /// For journals while they are read and sent.
    pub(crate) shown: Budget,
    /// For what pages of the console make of them.
    pub(crate) viewed: Budget,
    /// For pages of lists.
    pub(crate) listed: Budget,
    /// How many pages are made or sent at once, by namespace: one has half at most.
    pub(crate) list_places: Arc<FairPlaces<i32>>,
    /// For tasks that workers claim, which wait for no list.
    pub(crate) claimed: Budget,
}

impl BodyBudget {
    /// A quarter of the memory that the process may use, within sensible bounds.
    pub fn quarter_of(memory_bytes: u64) -> Self {
        let quarter = usize::try_from(memory_bytes / 4).unwrap_or(usize::MAX);
        Self::of_bytes(quarter.clamp(BUDGET_BYTES_MIN, BUDGET_BYTES_MAX))
    }

    /// So many bytes, half of them for bodies as they come and half for what they become. As many as one half are for
    /// journals that are shown, a quarter of these for pages: whoever makes a page of a journal still has the journal,
    /// and would wait for itself in one budget. Lists have as many as half of one half: small ones need not wait for
    /// large journals. Claims of tasks have half as many as lists.
    pub fn of_bytes(bytes: usize) -> Self {
        Self {
            arriving: Budget::of_bytes(bytes / 2),
            parsed: Budget::of_bytes(bytes / 2),
            shown: Budget::of_bytes(bytes / 8 * 3),
            viewed: Budget::of_bytes(bytes / 8),
            listed: Budget::of_bytes(bytes / 4),
            list_places: Arc::new(FairPlaces::new(
                (bytes / 4 / PAGE_BYTES_MAX).max(2),
                (bytes / 8 / PAGE_BYTES_MAX).max(1),
            )),
            claimed: Budget::of_bytes(bytes / 8),
        }
    }
}
