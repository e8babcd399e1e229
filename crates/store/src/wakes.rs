//! Waking a run because something has come for it: one definition for every statement that does so.
//!
//! ```text
//! no worker holds the run ──▶ it is due
//! a worker holds it ────────▶ it is marked as woken ──▶ due at once when the worker lets it sleep
//! ```
//!
//! A worker that holds a run may have loaded it before the answer was recorded, and lets it sleep
//! afterwards. The wake and the sleep both change the run's row in `queue`, so one of them comes
//! first. If the wake does, the sleep finds its mark: the fence of the journal, `sleep_on` and the
//! sleep of a pause make the run due instead. If the sleep does, the wake finds no holder. So no
//! recorded answer leaves its run asleep, and a worker asks for nothing before it sleeps.
//!
//! The rule needs the answer and its wake in one transaction. `tests/tidy/wakes.rs` lists the
//! statements that wake, and every other statement that says when a run is due, with the reason why
//! the rule is not for it.

/// The columns of the row `q` of `queue` that a wake sets. `$at` is the due time of a run that no
/// worker holds.
macro_rules! wakes {
    ($at:literal) => {
        concat!(
            "woken = q.woken OR q.holder IS NOT NULL,
           due_at = CASE WHEN q.holder IS NULL THEN ",
            $at,
            " ELSE q.due_at END"
        )
    };
}

pub(crate) use wakes;
