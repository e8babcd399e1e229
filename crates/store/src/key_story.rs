//! What was done under a key, by the ledger: each change that was meant, once, by what is true of it now.
//!
//! Everything of a key begins with the same eight bytes, so one range has the effects of its runs, of their
//! branches and items at any depth, of later runs, and of what undoes them. An effect that runs of several days
//! came to has a row on each of these days: what was performed stays performed, and otherwise the latest row
//! counts. No journal is read, and nothing that callers count themselves is needed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use semel_model::{RunId, SeededBug};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{EveryCell, ReadError};

/// How many effects, and how many runs, are looked at: where there are more, the story is not whole.
pub const STORY_ROWS_MAX: i64 = 30_000;

/// How many external ids, runs and notes are told of each step.
const NAMED_MAX: usize = 3;

/// What ends the path of a step that undoes another.
const UNDO: &str = ".undo";

/// `asked` has the ranges of keys, and what of them: everything; a child run, those before it at its place, and
/// what is inside them; or one step at the place of a run. The place of a child run is the first child run
/// there, and of other runs their key. A run that is active no longer, or is stopped, makes no further attempt:
/// its entry that was to be retried did not happen, and one that is pending may have. What did not happen is not
/// told of a place where another change of the step did, or may have.
const STORY: &str = "
    WITH RECURSIVE asked AS MATERIALIZED (
        SELECT * FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::text[]) AS a (low, high, run_id, step)),
    bounds AS MATERIALIZED (SELECT DISTINCT low, high FROM asked),
    family AS MATERIALIZED (
        SELECT b.low, b.high, r.id, r.partition_date, r.parent_id, r.claim_id, r.state <> 'active' AS is_still,
               r.closed_at, r.erased_at
          FROM bounds b
         CROSS JOIN LATERAL (
               SELECT * FROM runs WHERE id BETWEEN b.low AND b.high AND namespace_id = $1 LIMIT $6) AS r),
    seen AS MATERIALIZED (
        SELECT e.*
          FROM (SELECT DISTINCT low, high, partition_date FROM family) AS d
         CROSS JOIN LATERAL (
               SELECT id, run_id, namespace_id, step, kind, state::text AS state, attempt, intended_at,
                      external_id, note, partition_date
                 FROM effects
                WHERE partition_date = d.partition_date AND id BETWEEN d.low AND d.high
               OFFSET 0) AS e
         WHERE e.namespace_id = $1
         LIMIT $6),
    latest AS MATERIALIZED (
        SELECT DISTINCT ON (id) *
          FROM seen
         ORDER BY id, (state = 'done' AND attempt > 0) DESC, intended_at DESC, partition_date DESC),
    placed AS MATERIALIZED (
        SELECT l.*, f.parent_id IS NOT NULL AS is_child, coalesce(f.is_still, true) AS is_still,
               CASE WHEN right(l.step, 5) = '.undo' THEN left(l.step, -5) ELSE l.step END AS undone,
               CASE WHEN f.parent_id IS NULL THEN coalesce(f.claim_id, l.run_id)
                    ELSE coalesce(c.first_id, f.id) END AS place
          FROM latest l
          LEFT JOIN family f ON f.id = l.run_id
          LEFT JOIN LATERAL (
               SELECT first_id FROM child_runs WHERE run_id = l.run_id AND f.parent_id IS NOT NULL OFFSET 0) AS c
            ON true),
    spots AS MATERIALIZED (
        SELECT a.step, CASE WHEN f.parent_id IS NULL THEN f.claim_id ELSE coalesce(c.first_id, f.id) END AS place
          FROM asked a
          JOIN family f ON f.id = a.run_id
          LEFT JOIN LATERAL (SELECT first_id FROM child_runs WHERE run_id = a.run_id OFFSET 0) AS c ON true
         WHERE a.step IS NOT NULL),
    roots (id) AS (
        SELECT run_id FROM asked WHERE run_id IS NOT NULL AND step IS NULL
         UNION
        SELECT c.last_id
          FROM roots
         CROSS JOIN LATERAL (SELECT last_id FROM child_runs WHERE run_id = roots.id OFFSET 0) AS c
         WHERE c.last_id IS NOT NULL),
    inside (id) AS (
        SELECT id FROM roots
         UNION
        SELECT f.id FROM inside JOIN family f ON f.parent_id = inside.id),
    told AS MATERIALIZED (
        SELECT p.*,
               CASE WHEN state = 'done' AND attempt > 0 THEN 'done'
                    WHEN state = 'done' AND note = 'found before anything was sent' THEN 'found'
                    WHEN state = 'done' THEN 'met'
                    WHEN state = 'in_doubt' THEN 'in_doubt'
                    WHEN state = 'failed' AND starts_with(note, 'given up while in doubt') THEN 'in_doubt'
                    WHEN state = 'failed' OR (state = 'retrying' AND is_still) THEN 'not_done'
                    WHEN is_still THEN 'in_doubt'
                    ELSE 'under_way' END AS outcome
          FROM placed p
         WHERE EXISTS (SELECT FROM asked a WHERE a.run_id IS NULL AND p.id BETWEEN a.low AND a.high)
            OR p.run_id IN (SELECT id FROM inside)
            OR EXISTS (SELECT FROM spots s WHERE s.place = p.place AND s.step = p.undone)),
    counted AS MATERIALIZED (
        SELECT t.*, bool_or(outcome <> 'not_done') OVER (PARTITION BY undone, step, is_child, place) AS came_to_more
          FROM told t),
    grouped AS (
        SELECT undone AS step, step <> undone AS undoes, is_child, outcome, min(kind) AS kind,
               count(*) AS change_count, count(DISTINCT place) AS place_count,
               (array_agg(external_id ORDER BY intended_at, id) FILTER (WHERE external_id IS NOT NULL))[1:3]
                   AS external_ids,
               (array_agg(DISTINCT run_id))[1:3] AS runs,
               (array_agg(DISTINCT note) FILTER (WHERE outcome = 'met'))[1:3] AS notes,
               min(intended_at) AS first_at, max(intended_at) AS last_at
          FROM counted
         WHERE outcome <> 'not_done' OR NOT came_to_more
         GROUP BY undone, step <> undone, is_child, outcome),
    head AS (
        SELECT (SELECT count(*) FROM family) < $6 AND (SELECT count(*) FROM seen) < $6
               AND NOT EXISTS (SELECT FROM family WHERE closed_at IS NOT NULL AND erased_at IS NULL)
               AND NOT EXISTS (
                   SELECT FROM bounds b
                    CROSS JOIN LATERAL (
                          SELECT id, run_number FROM claims WHERE id BETWEEN b.low AND b.high OFFSET 0) AS k
                    WHERE coalesce(k.run_number, 0) >= (SELECT count(*) FROM family f
                                            WHERE f.claim_id = k.id AND f.parent_id IS NULL)) AS is_whole)
    SELECT h.is_whole, g.step, g.undoes, g.is_child, g.outcome, g.kind, g.change_count, g.place_count,
           g.external_ids, g.runs, g.notes, g.first_at, g.last_at
      FROM head h
      LEFT JOIN grouped g ON true
     ORDER BY g.first_at, g.step";

pub(crate) const STATEMENTS: &[&str] = &[STORY];

/// Whose part of the ledger is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoryOf {
    /// Everything of the key of a run: all its runs, and their child runs.
    Key(RunId),
    /// A child run and those before it at its place, with what is inside them.
    Child(RunId),
    /// One step at the place of a run, in all runs of its key.
    Step(RunId, String),
}

impl StoryOf {
    fn run(&self) -> RunId {
        match self {
            Self::Key(run) | Self::Child(run) | Self::Step(run, _) => *run,
        }
    }
}

/// What was done, by step, in the order in which it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerStory {
    /// The steps.
    pub steps: Vec<LedgerStep>,
    /// Whether nothing is left out: there is no more than is looked at, and no run of the key was deleted.
    pub is_whole: bool,
}

/// What became of the changes that were meant at one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerStep {
    /// The step's path.
    pub step: String,
    /// The kind of step.
    pub kind: String,
    /// Whether it is a step of items or branches.
    pub is_child: bool,
    /// Each change once, by what is true of it now.
    pub counts: LedgerCounts,
    /// What destinations call the things that were made or found, the first three.
    pub external_ids: Vec<String>,
    /// The runs that performed it, the first three.
    pub runs: Vec<RunId>,
    /// What the ledger notes of changes that others had made, the first three.
    pub notes: Vec<String>,
    /// When the first of them was meant.
    pub first_at: Timestamp,
    /// When the latest of them was meant.
    pub last_at: Timestamp,
}

/// Changes by what is true of them now. What was performed is in one of the first four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerCounts {
    /// Performed, and stands.
    pub done: u64,
    /// Performed, and taken back.
    pub undone: u64,
    /// Performed; whether it was taken back is unknown.
    pub undo_in_doubt: u64,
    /// Performed, and being taken back.
    pub undo_under_way: u64,
    /// Of those that stand: taking it back was tried, and did not happen.
    pub undo_not_done: u64,
    /// Somebody else had made it under its business key: nothing was sent.
    pub met: u64,
    /// It was at its destination before: nothing was sent.
    pub found: u64,
    /// Whether it happened is unknown.
    pub in_doubt: u64,
    /// Not settled yet.
    pub under_way: u64,
    /// Places at which it is known not to have happened.
    pub not_done: u64,
    /// At how many places it was performed: more changes than places are a second time.
    pub places: u64,
}

impl LedgerCounts {
    /// How many were performed, whatever became of them.
    #[must_use]
    pub fn performed(&self) -> u64 {
        self.done + self.undone + self.undo_in_doubt + self.undo_under_way
    }
}

impl LedgerStory {
    /// Nothing, and it is not said that there is no more.
    #[must_use]
    pub fn unread() -> Self {
        Self {
            steps: Vec::new(),
            is_whole: false,
        }
    }
}

/// Reads what was done; a change that several of the subjects have counts once.
pub async fn read(
    cell: EveryCell<'_>,
    namespace_id: i32,
    of: &[StoryOf],
) -> Result<LedgerStory, ReadError> {
    read_up_to(cell, namespace_id, of, STORY_ROWS_MAX).await
}

/// The same of so many effects and runs.
pub async fn read_up_to(
    cell: EveryCell<'_>,
    namespace_id: i32,
    of: &[StoryOf],
    most: i64,
) -> Result<LedgerStory, ReadError> {
    let (low, high): (Vec<Uuid>, Vec<Uuid>) = of.iter().map(|it| it.run().key_range()).unzip();
    let run = |it: &StoryOf| match it {
        StoryOf::Key(_) => None,
        StoryOf::Child(run) | StoryOf::Step(run, _) => Some(*run.as_uuid()),
    };
    let runs: Vec<Option<Uuid>> = of.iter().map(run).collect();
    let step = |it: &StoryOf| match it {
        StoryOf::Key(_) | StoryOf::Child(_) => None,
        StoryOf::Step(_, step) => Some(step.strip_suffix(UNDO).unwrap_or(step).to_owned()),
    };
    let steps: Vec<Option<String>> = of.iter().map(step).collect();
    // One more tells whether there are more.
    let looked_at = most + 1;
    let values: [&(dyn ToSql + Sync); 6] = [&namespace_id, &low, &high, &runs, &steps, &looked_at];
    let rows = cell.reader().await?.query(statement(), &values).await?;
    let is_whole = rows.first().is_some_and(|row| row.get(0));
    let groups = rows.iter().filter_map(Group::read).collect();
    Ok(fold(groups, is_whole))
}

fn statement() -> &'static str {
    let seeded = [
        (
            SeededBug::StoryOfRunsOnly,
            "p.id BETWEEN a.low AND a.high",
            "p.id BETWEEN a.low AND a.high AND NOT p.is_child",
        ),
        (
            SeededBug::ReuseToldAsDone,
            "WHEN state = 'done' AND attempt > 0 THEN",
            "WHEN state = 'done' THEN",
        ),
        (
            SeededBug::UndoNotTold,
            "right(l.step, 5) = '.undo'",
            "false",
        ),
        (
            SeededBug::EarliestEntryTold,
            "(state = 'done' AND attempt > 0) DESC, intended_at DESC",
            "intended_at",
        ),
        (
            SeededBug::GivenUpToldAsFailed,
            "'given up while in doubt') THEN 'in_doubt'",
            "'given up while in doubt') THEN 'not_done'",
        ),
    ];
    let wrong =
        |text, (bug, right, wrong): (SeededBug, &str, &str)| bug.in_text(text, right, wrong);
    seeded.into_iter().fold(STORY, wrong)
}

/// Changes of one step with one outcome.
#[derive(Clone, Debug)]
struct Group {
    step: String,
    undoes: bool,
    is_child: bool,
    outcome: Outcome,
    kind: String,
    change_count: u64,
    place_count: u64,
    external_ids: Vec<String>,
    runs: Vec<RunId>,
    notes: Vec<String>,
    first_at: Timestamp,
    last_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Met,
    Found,
    InDoubt,
    UnderWay,
    NotDone,
}

impl Group {
    /// Nothing in the one row of a story without steps.
    fn read(row: &Row) -> Option<Self> {
        let step: String = row.get::<_, Option<String>>(1)?;
        let count = |index: usize| row.get::<_, i64>(index).unsigned_abs();
        let texts = |index: usize| row.get::<_, Option<Vec<String>>>(index).unwrap_or_default();
        let outcome = match row.get::<_, &str>(4) {
            "done" => Outcome::Done,
            "met" => Outcome::Met,
            "found" => Outcome::Found,
            "in_doubt" => Outcome::InDoubt,
            "not_done" => Outcome::NotDone,
            _ => Outcome::UnderWay,
        };
        let runs: Option<Vec<Uuid>> = row.get(9);
        let runs = runs.unwrap_or_default().into_iter();
        Some(Self {
            step,
            undoes: row.get(2),
            is_child: row.get(3),
            outcome,
            kind: row.get(5),
            change_count: count(6),
            place_count: count(7),
            external_ids: texts(8),
            runs: runs.map(RunId::from_uuid).collect(),
            notes: texts(10),
            first_at: row.get(11),
            last_at: row.get(12),
        })
    }
}

fn fold(groups: Vec<Group>, is_whole: bool) -> LedgerStory {
    let mut is_whole = is_whole;
    let mut steps: BTreeMap<(String, bool), Vec<Group>> = BTreeMap::new();
    for group in groups {
        let of = (group.step.clone(), group.is_child);
        steps.entry(of).or_default().push(group);
    }
    let mut told: Vec<LedgerStep> = Vec::with_capacity(steps.len());
    for ((step, is_child), groups) in steps {
        let (counts, is_plausible) = count(&groups);
        // An undo of what is not there any more: a part of the history is gone.
        is_whole &= is_plausible;
        told.extend(tell(step, is_child, counts, &groups));
    }
    told.sort_by(|one, next| (one.first_at, &one.step).cmp(&(next.first_at, &next.step)));
    LedgerStory {
        steps: told,
        is_whole,
    }
}

/// The counts of one step, and whether no more was taken back than was performed.
fn count(groups: &[Group]) -> (LedgerCounts, bool) {
    let sum = |undoes: bool, which: &[Outcome]| -> u64 {
        let of = groups.iter().filter(|it| it.undoes == undoes);
        let of = of.filter(|it| which.contains(&it.outcome));
        of.map(|it| it.change_count).sum()
    };
    let performed = sum(false, &[Outcome::Done]);
    let gone = [Outcome::Done, Outcome::Met, Outcome::Found];
    let (undone, doubtful) = (sum(true, &gone), sum(true, &[Outcome::InDoubt]));
    let open = sum(true, &[Outcome::UnderWay]);
    let refused = |undoes: bool| -> u64 {
        let of = groups.iter().filter(|it| it.undoes == undoes);
        let of = of.filter(|it| it.outcome == Outcome::NotDone);
        of.map(|it| it.place_count).sum()
    };
    let is_plausible = undone + doubtful + open <= performed;
    let undone = undone.min(performed);
    let doubtful = doubtful.min(performed - undone);
    let open = open.min(performed - undone - doubtful);
    let done = performed - undone - doubtful - open;
    let mut groups_of_step = groups.iter();
    let places = groups_of_step.find(|it| !it.undoes && it.outcome == Outcome::Done);
    let counts = LedgerCounts {
        done,
        undone,
        undo_in_doubt: doubtful,
        undo_under_way: open,
        undo_not_done: refused(true).min(done),
        met: sum(false, &[Outcome::Met]),
        found: sum(false, &[Outcome::Found]),
        in_doubt: sum(false, &[Outcome::InDoubt]),
        under_way: sum(false, &[Outcome::UnderWay]),
        not_done: refused(false),
        places: places.map_or(0, |it| it.place_count),
    };
    (counts, is_plausible)
}

/// One step; nothing without any change.
fn tell(
    step: String,
    is_child: bool,
    counts: LedgerCounts,
    groups: &[Group],
) -> Option<LedgerStep> {
    let own = groups.iter().filter(|it| !it.undoes);
    let kind = own.clone().next().or_else(|| groups.first())?.kind.clone();
    let made = [Outcome::Done, Outcome::Met, Outcome::Found];
    let made = own.clone().filter(|it| made.contains(&it.outcome));
    let external_ids = made.flat_map(|it| it.external_ids.iter().cloned());
    let mut ids: Vec<String> = Vec::new();
    for id in external_ids {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids.truncate(NAMED_MAX);
    let performed = own.clone().filter(|it| it.outcome == Outcome::Done);
    let mut notes: Vec<String> = own.flat_map(|it| it.notes.iter().cloned()).collect();
    notes.truncate(NAMED_MAX);
    Some(LedgerStep {
        step,
        kind,
        is_child,
        counts,
        external_ids: ids,
        runs: performed.flat_map(|it| it.runs.iter().copied()).collect(),
        notes,
        first_at: groups.iter().map(|it| it.first_at).min()?,
        last_at: groups.iter().map(|it| it.last_at).max()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::{FOUND_BEFORE, GIVEN_UP};
    use crate::retention;

    fn group(undoes: bool, outcome: Outcome, change_count: u64) -> Group {
        Group {
            step: "charge".to_owned(),
            undoes,
            is_child: false,
            outcome,
            kind: "http".to_owned(),
            change_count,
            place_count: 1,
            external_ids: Vec::new(),
            runs: Vec::new(),
            notes: Vec::new(),
            first_at: Timestamp::UNIX_EPOCH,
            last_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn the_notes_that_the_ledger_writes_are_those_that_statements_look_for() {
        assert!(STORY.contains(&format!("note = '{FOUND_BEFORE}'")));
        assert!(STORY.contains(&format!("starts_with(note, '{GIVEN_UP}')")));
        let mut erasing = retention::ERASE.iter();
        assert!(erasing.any(|text| text.contains(&format!("THEN '{GIVEN_UP}' END"))));
    }

    #[test]
    fn what_was_performed_is_counted_once_whatever_became_of_it() {
        let groups = [
            group(false, Outcome::Done, 5),
            group(true, Outcome::Done, 1),
            group(true, Outcome::InDoubt, 1),
            group(true, Outcome::UnderWay, 1),
            Group {
                place_count: 7,
                ..group(true, Outcome::NotDone, 7)
            },
            group(false, Outcome::Met, 2),
        ];
        let (counts, is_plausible) = count(&groups);

        assert!(is_plausible);
        assert_eq!(counts.performed(), 5);
        assert_eq!((counts.done, counts.undone, counts.met), (2, 1, 2));
        assert_eq!((counts.undo_in_doubt, counts.undo_under_way), (1, 1));
        assert_eq!(counts.undo_not_done, 2, "no more than what stands");
    }

    #[test]
    fn an_undo_of_what_is_gone_makes_a_story_that_is_not_whole() {
        let story = fold(vec![group(true, Outcome::Done, 1)], true);

        assert!(!story.is_whole);
        assert_eq!(story.steps[0].counts.undone, 0);
    }
}
