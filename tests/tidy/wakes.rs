//! Every statement that makes a run due because something has come for it wakes the run by the rule
//! of `crates/store/src/wakes.rs`, so that a worker which holds the run hears it. Every other
//! statement that says when a run is due is listed here with the reason why the rule is not for it.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::expect_none;
use crate::tree::texts;

/// Where the statements are.
const STORE: &str = "crates/store/src/";

/// The statements that wake, by file and name.
const WAKES: &[(&str, &str)] = &[
    ("approvals/changes.rs", "HEAR"),
    ("child_runs.rs", "END"),
    ("late_responses.rs", "HAND_IN"),
    ("pauses.rs", "WAKE"),
    ("tasks.rs", "HEAR"),
    ("waits.rs", "WAKE"),
];

/// The statements by which a worker lets a run sleep: each makes the run due instead where it finds
/// the mark of a wake.
const SLEEPS: &[(&str, &str)] = &[
    ("journal/statement.rs", "fenced"),
    ("pauses.rs", "SLEEP"),
    ("queue.rs", "SLEEP_ON"),
];

/// The other statements that say when a run is due, and why they are no wakes.
const OTHERS: &[(&str, &str, &str)] = &[
    (
        "child_runs.rs",
        "CANCEL",
        "a worker reads `cancel` with each write, and so does what lets the run sleep",
    ),
    (
        "journal/seeded_bug.rs",
        "NOT_FENCED",
        "a fence with a hole in it, for the tests of the tests",
    ),
    (
        "late_responses.rs",
        "HEAR",
        "in the commit that stops the run, behind its fence: no worker holds it",
    ),
    (
        "named_effects/waiters.rs",
        "WAKE",
        "a name lives in another slot: the row of a waiter that a worker holds stays, and name \
         repair wakes it",
    ),
    (
        "queue/cancel.rs",
        "CANCEL",
        "a worker reads `cancel` with each write, and so does what lets the run sleep",
    ),
    (
        "queue/lost.rs",
        "RECOVER",
        "frees the runs of a lost session: who takes them next loads what has come",
    ),
    (
        "queue/lost.rs",
        "RECOVER_STRAYS",
        "frees the runs of a lost session: who takes them next loads what has come",
    ),
    (
        "queue/returned.rs",
        "PUT_BACK",
        "the worker returns a run that it has not begun: it is due, or rests for seconds",
    ),
    (
        "queue/returned.rs",
        "RETURN",
        "the worker returns a run that is due, or rests for seconds",
    ),
    (
        "queue/stranded.rs",
        "WAKE_STRANDED",
        "a repair of runs that sleep: who has taken one meanwhile loads what has come",
    ),
    (
        "queue/stuck.rs",
        "DEFER",
        "the worker cannot read the run: it is due again in seconds",
    ),
    (
        "queue/stuck.rs",
        "QUARANTINE",
        "an operator alone resumes the run, and takes it for that",
    ),
    (
        "queue/wake.rs",
        "HEAD_START",
        "moves a run that has not begun among those that are due",
    ),
    (
        "queue/wake.rs",
        "WAKE_AT_GATE",
        "a gate lives in another slot: its entry keeps the wake-up until the run has come, the \
         worker looks at it after the run fell asleep, and gate repair finds it",
    ),
    (
        "runs/amend.rs",
        "UNPARK",
        "an operator's command about a stopped run, refused while a worker holds it",
    ),
    (
        "waits.rs",
        "WAKE_EARLY",
        "in the commit in which the run comes to the wait, behind its fence: a run that keeps its \
         worker has passed the wait",
    ),
];

/// What tells that a statement passes over the runs that a worker holds.
const PASSES_OVER: [&str; 2] = ["AND q.holder IS NULL", "AND num_nulls(q.holder) = 1"];

/// A constant or a macro with a statement.
struct Statement {
    file: String,
    name: String,
    text: String,
}

impl Statement {
    fn place(&self) -> String {
        format!("{} {}", self.file, self.name)
    }

    /// Whether it uses the rule.
    fn wakes(&self) -> bool {
        self.text.contains("wakes!(")
    }

    /// Whether it says by itself when a run is due.
    fn sets_due_time(&self) -> bool {
        let is_named = |letter: Option<char>| {
            letter.is_some_and(|it| it.is_alphanumeric() || it == '_' || it == '.')
        };
        let updates =
            |(at, words): (usize, &str)| !is_named(self.text[at + words.len()..].chars().next());
        let sets = |(at, _): (usize, &str)| !is_named(self.text[..at].chars().next_back());
        let of_queue = self.text.match_indices("UPDATE queue").any(updates)
            || self.text.contains("give_back!(");
        of_queue && self.text.match_indices("due_at = ").any(sets)
    }
}

#[test]
fn whoever_makes_a_run_due_wakes_it_or_says_why_not() -> Result<()> {
    let mut statements = Vec::new();
    for text in texts()? {
        if let Some(file) = text.path.strip_prefix(STORE) {
            statements.extend(read(file, &text.content));
        }
    }
    let others: Vec<(&str, &str)> = OTHERS
        .iter()
        .map(|(file, name, _)| (*file, *name))
        .collect();
    expect_none(&objections(&statements, WAKES, SLEEPS, &others))
}

#[test]
fn a_wake_of_its_own_and_one_that_passes_over_held_runs_are_objected_to() {
    let source = "
const HEAR: &str = \"
    UPDATE queue q
       SET due_at = (SELECT moment()) WHERE q.run_id = ANY ($1) AND q.holder IS NULL\";

pub(crate) const WAKE: &str = concat!(\"UPDATE queue q SET \", wakes!(\"moment()\"), \"
     WHERE q.run_id = $1 AND q.holder IS NULL\");

pub(super) const TAKE: &str = \"UPDATE queue q SET holder = $1 WHERE q.due_at = $2\";

const OTHER: &str = \"UPDATE queues SET due_at = moment()\";

macro_rules! sleeps {
    () => {
        \"UPDATE queue SET due_at = 'infinity'\"
    };
}
";
    let statements = read("a.rs", source);
    let sleeps = [("a.rs", "sleeps")];

    let found = objections(
        &statements,
        &[("a.rs", "WAKE"), ("a.rs", "GONE")],
        &sleeps,
        &[],
    );

    assert_eq!(
        found,
        [
            "a.rs WAKE passes over runs that a worker holds",
            "a.rs GONE is listed and does not wake by the rule",
            "a.rs sleeps does not hear a wake",
            "a.rs HEAR sets due_at: use wakes!, or list it with a reason",
        ]
    );
}

fn objections(
    statements: &[Statement],
    wakes: &[(&str, &str)],
    sleeps: &[(&str, &str)],
    others: &[(&str, &str)],
) -> Vec<String> {
    let places = |list: &[(&str, &str)]| -> BTreeSet<String> {
        let place = |(file, name): &(&str, &str)| format!("{file} {name}");
        list.iter().map(place).collect()
    };
    let (wakes, sleeps, others) = (places(wakes), places(sleeps), places(others));
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for statement in statements.iter().filter(|it| it.wakes()) {
        let place = statement.place();
        if PASSES_OVER
            .iter()
            .any(|words| statement.text.contains(words))
        {
            found.push(format!("{place} passes over runs that a worker holds"));
        }
        if !wakes.contains(&place) {
            found.push(format!("{place} wakes and is not listed"));
        }
        seen.insert(place);
    }
    let gone = wakes.difference(&seen);
    found.extend(gone.map(|place| format!("{place} is listed and does not wake by the rule")));
    let setting: Vec<&Statement> = statements
        .iter()
        .filter(|it| !it.wakes() && it.sets_due_time())
        .collect();
    let by_themselves: BTreeSet<String> = setting.iter().map(|it| it.place()).collect();
    for statement in setting.iter().filter(|it| sleeps.contains(&it.place())) {
        if !statement.text.contains("woken OR (") {
            found.push(format!("{} does not hear a wake", statement.place()));
        }
    }
    let listed: BTreeSet<String> = sleeps.union(&others).cloned().collect();
    let unlisted = by_themselves.difference(&listed);
    found.extend(
        unlisted.map(|place| format!("{place} sets due_at: use wakes!, or list it with a reason")),
    );
    let idle = listed.difference(&by_themselves);
    found.extend(idle.map(|place| format!("{place} is listed and sets no due_at")));
    found
}

/// The constants and macros of a source.
fn read(file: &str, source: &str) -> Vec<Statement> {
    let mut statements: Vec<Statement> = Vec::new();
    let mut is_inside = false;
    for line in source.lines() {
        // A line that begins with a word ends the item before it.
        if line.starts_with(|first: char| !first.is_whitespace() && !")}]\"".contains(first)) {
            let name = name_of(line);
            is_inside = name.is_some();
            statements.extend(name.map(|name| Statement {
                file: file.to_owned(),
                name: name.to_owned(),
                text: String::new(),
            }));
        }
        if let Some(statement) = statements.last_mut().filter(|_| is_inside) {
            statement.text.push_str(line);
            statement.text.push('\n');
        }
    }
    statements
}

/// The name of the constant or macro that a line begins.
fn name_of(line: &str) -> Option<&str> {
    let declared = ["pub(crate) ", "pub(super) ", "pub "]
        .iter()
        .find_map(|scope| line.strip_prefix(scope));
    let declared = declared.unwrap_or(line);
    let constant = declared.strip_prefix("const ");
    let named = constant.or_else(|| declared.strip_prefix("macro_rules! "))?;
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    Some(
        named
            .split(|letter: char| !is_part(letter))
            .next()
            .unwrap_or_default(),
    )
}
