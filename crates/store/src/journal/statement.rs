//! The one statement that writes a batch, built from the parts that the batch has.
//!
//! A part costs its share of the server's time even when it has no rows, so a batch is written by a
//! statement of exactly its shape. There are few shapes, and each is prepared once per connection.

use std::sync::OnceLock;

use semel_model::SeededBug;

use super::{EffectChange, LeaseChange, Transition};
use crate::clock::PRESENT;
use crate::writer::connection::COMMITS_ALONE;
use crate::writer::rows::of_one_row;
use crate::{effects, kv, runs};

/// Which kinds of change a batch makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChangeKinds {
    /// Runs that continue.
    pub(super) goes_on: bool,
    /// Runs that end.
    pub(super) ends: bool,
    /// New entries of the ledger.
    pub(super) enters: bool,
    /// New entries, of which an earlier run of the key may have left a row.
    pub(super) enters_again: bool,
    /// Entries of the ledger that change.
    pub(super) changes: bool,
    /// Shared entries that are set.
    pub(super) sets: bool,
    /// Records that change.
    pub(super) records: bool,
    /// No table gets or changes more than one row.
    pub(super) one_row: bool,
}

/// How many shapes there are.
const SHAPES: usize = 256;

/// Every batch moves runs.
const MOVES: &str = ",
    moves AS MATERIALIZED (
        SELECT *
          FROM unnest($?::uuid[], $?::int8[], $?::int4[], $?::uuid[], $?::date[], $?::text[],
                      $?::bool[], $?::bool[], $?::timestamptz[], $?::text[], $?::bool[],
                      $?::bool[], $?::int8[])
            AS t (run_id, epoch, seq, holder, partition_date, events, ends, hold, due_at, stage, saw_cancel,
                  progress, pause_version))";

/// The fence: each row must still carry the holder, the epoch and the number that its worker
/// believes in. A transition that was decided under a version of what is paused must also find that
/// version: the row of the clock was read with the time, so that it costs nothing.
///
/// The plan is pinned to the primary key. As plain equalities, run and holder are both fit for an
/// index, and statistics from an hour in which no worker held a run make the holder's look better:
/// each batch would then read every held row once per move.
macro_rules! fenced {
    ($moves:literal) => {
        concat!(
            ",
    fenced AS (
        UPDATE queue q
           SET seq = q.seq + 1, stalled_takes = CASE WHEN t.progress THEN 0 ELSE q.stalled_takes END,
               suspects = CASE WHEN t.progress THEN 0 ELSE q.suspects END,
               stage = t.stage::queue_stage,
               holder = CASE WHEN t.hold THEN q.holder END,
               woken = q.woken AND t.hold,
               due_at = CASE WHEN t.hold THEN q.due_at
                             WHEN q.woken OR (q.cancel AND NOT t.saw_cancel)
                             THEN (SELECT now FROM present)
                             ELSE coalesce(t.due_at, 'infinity') END
          FROM ",
            $moves,
            " t
         WHERE NOT t.ends
           AND q.run_id = ANY (ARRAY[t.run_id]) AND q.epoch = t.epoch AND q.seq = t.seq
           AND q.holder IS NOT DISTINCT FROM t.holder
           AND coalesce(t.pause_version = (SELECT pause_version FROM present), true)
     RETURNING q.run_id, q.cancel)"
        )
    };
}

pub(super) const FENCED: &str = fenced!("moves");

/// The fence of a batch in which other runs end. Their rows are locked on the way, each at its
/// place in the order of identities, so that all rows of the batch are locked in that one order.
/// `OFFSET 0` keeps the filter from being applied before the lock.
pub(super) const FENCED_BESIDE_ENDED: &str = fenced!(
    "(SELECT m.*
                  FROM moves m
                  LEFT JOIN LATERAL (
                       SELECT 1 FROM queue e
                        WHERE m.ends AND e.run_id = ANY (ARRAY[m.run_id])
                          FOR UPDATE) AS locked ON true
                OFFSET 0)"
);

/// The same fence for runs that end, with the intents of what commits together with its outcome.
pub(super) const FENCED_END: &str = ",
    ended AS (
        DELETE FROM queue q
         USING moves t
         WHERE t.ends
           AND q.run_id = ANY (ARRAY[t.run_id]) AND q.epoch = t.epoch AND q.seq = t.seq
           AND q.holder IS NOT DISTINCT FROM t.holder
           AND coalesce(t.pause_version = (SELECT pause_version FROM present), true)
     RETURNING 1)";

pub(super) const WRITTEN: &str = ",
    written AS (
        INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
        SELECT t.partition_date, t.run_id, t.seq + 1, t.epoch, (SELECT now FROM present), t.events::json
          FROM moves t)";

const PASSED_ON: &str = "(SELECT count(*) FROM fenced)";
const PASSED_END: &str = "(SELECT count(*) FROM ended)";
const CANCELLED: &str = "ARRAY(SELECT run_id FROM fenced WHERE cancel)";
const NOBODY: &str = "ARRAY[]::uuid[]";

impl ChangeKinds {
    /// The shape of a batch, whose plain sets are a part of the statement or were made before it.
    pub(super) fn of(batch: &[&Transition], with_sets: bool) -> Self {
        let mut shape = Self {
            one_row: has_one_row(batch),
            ..Self::default()
        };
        for item in batch {
            let ends = item.lease == LeaseChange::End;
            shape.ends |= ends;
            shape.goes_on |= !ends;
            shape.enters |= item.effects.iter().any(|change| change.first);
            let again = |change: &EffectChange| change.first && change.follows;
            shape.enters_again |= item.effects.iter().any(again);
            shape.changes |= item.effects.iter().any(|change| !change.first);
            shape.sets |= with_sets && item.kv.iter().any(kv::is_plain_set);
            shape.records |= item.record.is_some();
        }
        shape
    }

    fn number(self) -> usize {
        let flags = [
            self.goes_on,
            self.ends,
            self.enters,
            self.enters_again,
            self.changes,
            self.sets,
            self.records,
            self.one_row,
        ];
        flags
            .into_iter()
            .fold(0, |number, flag| number * 2 + usize::from(flag))
    }

    /// The statement of this shape.
    pub(super) fn text(self) -> &'static str {
        static TEXTS: [OnceLock<String>; SHAPES] = [const { OnceLock::new() }; SHAPES];
        TEXTS[self.number()].get_or_init(|| self.write())
    }

    fn write(self) -> String {
        let mut text = format!("{COMMITS_ALONE}{PRESENT}{MOVES}");
        let parts = [
            (
                self.goes_on && !self.ends,
                in_any_pause(with_seeded_bug(FENCED)),
            ),
            (
                self.goes_on && self.ends,
                in_any_pause(with_seeded_bug(FENCED_BESIDE_ENDED)),
            ),
            (self.ends, in_any_pause(with_seeded_bug(FENCED_END))),
            (true, with_seeded_bug(WRITTEN)),
            (self.enters && !self.enters_again, effects::ENTERED),
            (self.enters_again, effects::ENTERED_AGAIN),
            (self.changes, effects::CHANGED),
            // Crosses slots (V1): an entry of another slot is set in the same statement. With a second
            // cell, only entries of the run's own cell are.
            (self.sets, kv::SET),
            (self.records, runs::RECORDED),
        ];
        for (_, part) in parts.into_iter().filter(|(has, _)| *has) {
            text.push_str(part);
        }
        let passed = match (self.goes_on, self.ends) {
            (true, true) => format!("{PASSED_ON} + {PASSED_END}"),
            (_, false) => PASSED_ON.to_owned(),
            (false, true) => PASSED_END.to_owned(),
        };
        let cancelled = if self.goes_on { CANCELLED } else { NOBODY };
        let verdict = with_seeded_bug("all_or_nothing");
        text.push_str(&format!(
            "\n    SELECT {verdict}({passed}, $?::int8), {cancelled}"
        ));
        if self.one_row {
            text = of_one_row(&text);
        }
        number_parameters(&text)
    }
}

/// Whether a batch is one transition that enters one effect at most, changes one at most and sets one
/// entry at most.
fn has_one_row(batch: &[&Transition]) -> bool {
    let [only] = batch else {
        return false;
    };
    let entered = only.effects.iter().filter(|change| change.first).count();
    entered <= 1 && only.effects.len() - entered <= 1 && only.kv.len() <= 1
}

/// Numbers the parameters in the order in which they stand.
fn number_parameters(text: &str) -> String {
    let mut numbered = String::with_capacity(text.len() + 64);
    for (index, piece) in text.split("$?").enumerate() {
        if index > 0 {
            numbered.push_str(&format!("${index}"));
        }
        numbered.push_str(piece);
    }
    numbered
}

#[cfg(debug_assertions)]
use super::seeded_bug::with_seeded_bug;

#[cfg(not(debug_assertions))]
fn with_seeded_bug(text: &'static str) -> &'static str {
    text
}

/// The fence, which compares no version where the test build makes that mistake on purpose.
fn in_any_pause(fence: &'static str) -> &'static str {
    let compared = "t.pause_version = (SELECT pause_version FROM present)";
    SeededBug::PauseNotCompared.in_text(fence, compared, "true")
}

/// A shape that has every part, and one that has the fewest, of batches and of one row, for the test
/// that prepares them.
pub(crate) fn examples() -> [&'static str; 8] {
    let whole = ChangeKinds {
        goes_on: true,
        ends: true,
        enters: true,
        enters_again: false,
        changes: true,
        sets: true,
        records: true,
        one_row: false,
    };
    let least = ChangeKinds {
        goes_on: true,
        ..ChangeKinds::default()
    };
    let last = ChangeKinds {
        ends: true,
        ..ChangeKinds::default()
    };
    let again = ChangeKinds {
        enters_again: true,
        ..whole
    };
    let one_row = |shape: ChangeKinds| ChangeKinds {
        one_row: true,
        ..shape
    };
    // One row does not both go on and end.
    let goes_on = |shape: ChangeKinds| ChangeKinds {
        ends: false,
        ..one_row(shape)
    };
    [
        whole,
        again,
        least,
        last,
        goes_on(whole),
        goes_on(again),
        one_row(least),
        one_row(last),
    ]
    .map(ChangeKinds::text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_as_they_stand() {
        assert_eq!(number_parameters("a $? b $?, c"), "a $1 b $2, c");
    }
}
