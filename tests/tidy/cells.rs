//! Functions of the store say by type which rows they touch, and the places that cross slots are
//! marked where they are and listed in `ARCHITECTURE.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};

use crate::expect_none;
use crate::tree::{root, texts};

/// How a mark begins.
const MARK: &str = "// Crosses slots";

/// How many crossings there are.
const CROSSINGS: u32 = 10;

/// The functions that take a plain `&Cell`, because they are about a database and not about a slot:
/// what belongs to one PostgreSQL, writers, and the work that a server takes from it.
const PLAIN: &[(&str, &[&str])] = &[
    ("approvals.rs", &["start_deciding"]),
    ("audit/guard.rs", &["can_rewrite_record"]),
    ("broadcasts.rs", &["take"]),
    ("claims/accept.rs", &["callers_beside", "start_accepting"]),
    ("clock.rs", &["start", "move_ahead"]),
    ("duplicates/tally.rs", &["start"]),
    ("gate_exits.rs", &["take_overdue"]),
    ("gates.rs", &["list_overdue"]),
    ("gates/admission_batch.rs", &["start_visiting"]),
    ("health.rs", &["read", "read_identity"]),
    (
        "invariants.rs",
        &[
            "check",
            "find_silent",
            "find_standing",
            "read_overdue",
            "read_page",
            "walk",
        ],
    ),
    ("invariants/lists.rs", &["read_all"]),
    ("journal.rs", &["callers", "start_recording"]),
    (
        "migrate.rs",
        &["migrate", "apply_all", "list_pending", "list_missing"],
    ),
    ("named_effects/notices.rs", &["take_overdue_notices"]),
    ("object_versions.rs", &["start_noting"]),
    ("outbox/leases.rs", &["take"]),
    ("partitions.rs", &["keep_up"]),
    ("partitions/days.rs", &["split_by_day"]),
    ("partitions/emptied.rs", &["drop_emptied"]),
    ("pauses.rs", &["await_writers"]),
    ("queue.rs", &["new"]),
    ("queue/lost.rs", &["recover", "recover_strays"]),
    (
        "queue/returned.rs",
        &["put_back", "return_runs", "list_held_besides"],
    ),
    ("refused_deliveries.rs", &["append"]),
    (
        "rehearsals.rs",
        &[
            "create_schema",
            "start_clock",
            "drop_abandoned",
            "drop_schema",
        ],
    ),
    ("rehearsals/observe.rs", &["jump"]),
    ("schedules.rs", &["look"]),
    ("schedules/leases.rs", &["take"]),
    (
        "sessions.rs",
        &[
            "open",
            "open_with_lock",
            "note_lock",
            "end_dead",
            "renew",
            "close",
            "sweep",
        ],
    ),
    ("tasks/settling.rs", &["start_settling"]),
    ("waits.rs", &["start_answering"]),
    ("webhook_deliveries.rs", &["take_due"]),
    ("writer.rs", &["callers", "callers_beside", "start"]),
    ("writer/connection.rs", &["new"]),
];

/// For each crossing, the files that it is in.
type Crossings = BTreeMap<String, BTreeSet<String>>;

#[test]
fn every_crossing_of_slots_is_marked_and_listed() -> Result<()> {
    let listed = read_table(&fs::read_to_string(root()?.join("ARCHITECTURE.md"))?)?;
    let mut marked = Crossings::new();
    let mut objections = Vec::new();
    for text in texts()? {
        let Some(path) = text.path.strip_prefix("crates/") else {
            continue;
        };
        for mark in text.content.lines().filter_map(read_mark) {
            match mark {
                Some(number) => {
                    let file = path.replace("/src/", "/");
                    marked.entry(number.to_owned()).or_default().insert(file);
                }
                None => objections.push(format!("{}: a mark without a number", text.path)),
            }
        }
    }
    objections.extend(compare(&listed, &marked));
    expect_none(&objections)
}

#[test]
fn a_function_of_the_store_takes_a_plain_cell_only_where_it_is_about_a_database() -> Result<()> {
    let mut found = BTreeSet::new();
    for text in texts()? {
        if let Some(path) = text.path.strip_prefix("crates/store/src/") {
            let names = plain_functions(&text.content);
            found.extend(names.map(|name| format!("{path} {name}")));
        }
    }
    let allowed: BTreeSet<String> = PLAIN
        .iter()
        .flat_map(|(path, names)| names.iter().map(move |name| format!("{path} {name}")))
        .collect();
    let beyond = found.difference(&allowed);
    let mut objections: Vec<String> = beyond
        .map(|one| format!("{one} takes &Cell: say SlotCell, HomeCell or EveryCell"))
        .collect();
    let gone = allowed.difference(&found);
    objections.extend(gone.map(|one| format!("{one} is listed and takes no &Cell")));
    expect_none(&objections)
}

#[test]
fn a_crossing_that_is_not_listed_or_not_marked_is_objected_to() -> Result<()> {
    let listed = read_table("\n## Cells\n\n| V1 | `a.rs` `b.rs` | two |\n| V2 | `a.rs` | one |\n")?;
    let marked = |pairs: &[(&str, &str)]| {
        let mut marked = Crossings::new();
        for (number, file) in pairs {
            let files = marked.entry((*number).to_owned()).or_default();
            files.insert((*file).to_owned());
        }
        marked
    };
    let (sound, planted) = (
        marked(&[("V1", "a.rs"), ("V1", "b.rs"), ("V2", "a.rs")]),
        marked(&[("V1", "a.rs"), ("V11", "c.rs")]),
    );

    let unlisted = |objections: Vec<String>| -> Vec<String> {
        let of_the_table = |it: &String| !it.ends_with("is in no row");
        objections.into_iter().filter(of_the_table).collect()
    };
    assert_eq!(unlisted(compare(&listed, &sound)), Vec::<String>::new());
    assert_eq!(
        unlisted(compare(&listed, &planted)),
        [
            "V1 is listed and not marked in b.rs",
            "V11 is not one of V1 to V10",
            "V11 is marked and not listed in c.rs",
            "V2 is listed and not marked in a.rs",
        ]
    );
    assert_eq!(
        read_mark("    // Crosses slots (V3): a row."),
        Some(Some("V3"))
    );
    assert_eq!(read_mark("// Crosses slots: a row."), Some(None));
    Ok(())
}

fn compare(listed: &Crossings, marked: &Crossings) -> Vec<String> {
    let known: Vec<String> = (1..=CROSSINGS).map(|number| format!("V{number}")).collect();
    let missing = known.iter().filter(|number| !listed.contains_key(*number));
    let mut objections: Vec<String> = missing
        .map(|number| format!("{number} is in no row"))
        .collect();
    let numbers: BTreeSet<&String> = listed.keys().chain(marked.keys()).collect();
    let none = BTreeSet::new();
    for number in numbers {
        if !known.contains(number) {
            objections.push(format!("{number} is not one of V1 to V{CROSSINGS}"));
        }
        let rows = listed.get(number).unwrap_or(&none);
        let marks = marked.get(number).unwrap_or(&none);
        let unmarked = rows.difference(marks);
        objections
            .extend(unmarked.map(|file| format!("{number} is listed and not marked in {file}")));
        let unlisted = marks.difference(rows);
        objections
            .extend(unlisted.map(|file| format!("{number} is marked and not listed in {file}")));
    }
    objections
}

/// The number of a mark; nothing where the line is no mark, and no number where it lacks one.
fn read_mark(line: &str) -> Option<Option<&str>> {
    let rest = line.trim_start().strip_prefix(MARK)?;
    let number = rest
        .strip_prefix(" (")
        .and_then(|rest| rest.split_once("): "));
    Some(number.map(|(number, _)| number))
}

fn read_table(architecture: &str) -> Result<Crossings> {
    let section = architecture
        .split("\n## Cells\n")
        .nth(1)
        .context("a section Cells")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut listed = Crossings::new();
    for row in section.lines().filter(|line| line.starts_with("| V")) {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, number, files, _, _] = columns[..] else {
            anyhow::bail!("odd row: {row}")
        };
        let files = files.split('`').skip(1).step_by(2).map(str::to_owned);
        listed.insert(number.to_owned(), files.collect());
    }
    Ok(listed)
}

/// The functions of a source that have a parameter of type `&Cell`.
fn plain_functions(source: &str) -> impl Iterator<Item = &str> {
    let product = source.split("#[cfg(test)]").next().unwrap_or_default();
    let signatures = product.split("fn ").skip(1).map(|rest| {
        let end = rest.find('{').unwrap_or(rest.len());
        &rest[..end]
    });
    signatures
        .filter(|signature| signature.contains(": &Cell,") || signature.contains(": &Cell)"))
        .filter_map(|signature| signature.split(['(', '<']).next())
}
