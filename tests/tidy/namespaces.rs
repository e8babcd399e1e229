//! Every statement that reads or changes rows of a table of namespaces compares their namespace, or is listed here
//! with the reason why it needs not. A statement without its namespace is a leak that only the sweep over all routes
//! would find otherwise (`docs/decisions/0019-namespaces-in-statements.md`).
//!
//! A statement is judged by the text of its constant, with that of the macros that it is composed of.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use regex::Regex;

use crate::expect_none;
use crate::strangers_json::literals;
use crate::tree::{Text, texts};

/// Where the statements are.
const STORE: &str = "crates/store/src/";

/// The sum of the migrations.
const SCHEMA: &str = "docs/schema.sql";

/// The statements that need no namespace: the reason, then the files and their constants.
const EXCEPTIONS: &[(&str, &[(&str, &str)])] = &[
    (
        "by a run, or an entry of it (an effect, a wait, a task, an approval, a child run): the caller holds its lease, or has found it in its namespace",
        &[
            ("approvals.rs", "DECIDE LOCK_RUNS LOOK RECORDED"),
            ("approvals/changes.rs", "DEFER ELAPSE HEAR WITHDRAW"),
            ("attention.rs", "OF_EFFECTS OF_RUNS"),
            ("audit.rs", "DONE"),
            (
                "child_runs.rs",
                "BEGIN BEGIN_AGAIN CANCEL END LOAD LOADED LOAD_AGAIN LOOK STEP_OF",
            ),
            ("child_runs/reopen.rs", "REOPEN REOPEN_ONE"),
            (
                "child_runs/view.rs",
                "ALL COUNT FIRST_SUCCEEDED LEFT LEFT_OF_STEP OF_STEP STEPS SUCCEEDED SUCCEEDED_OF_STEP",
            ),
            ("claims/accept/found_again.rs", "MOVED"),
            ("effects.rs", "CHANGED"),
            ("event_waits.rs", "CLOSE FIND_AGAIN"),
            ("journal.rs", "EXAMINE LOCK LOCK_ROWS"),
            ("journal/seeded_bug.rs", "NOT_FENCED NOT_FENCED_END"),
            (
                "journal/statement.rs",
                "FENCED FENCED_BESIDE_ENDED FENCED_END",
            ),
            ("late_responses.rs", "HAND_IN HEAR"),
            ("named_effects/notices.rs", "LIST REMOVE"),
            ("named_effects/waiters.rs", "WAKE"),
            ("pauses.rs", "SLEEP"),
            ("pauses/views.rs", "OF_RUN"),
            ("queue.rs", "ABOUT SLEEP_ON TAKE_ONE"),
            ("queue/returned.rs", "HELD_BESIDES PUT_BACK RETURN"),
            ("queue/stuck.rs", "DEFER"),
            ("queue/wake.rs", "HEAD_START WAKE_AT_GATE"),
            ("retention/erase.rs", "ERASE ERASED RUNS STORED"),
            ("runs.rs", "KNOWN RECORDED STATES SUCCESSOR"),
            ("runs/amend.rs", "EXTERNAL_ID UNPARK"),
            ("runs/reopen.rs", "NAMED REOPEN REOPEN_FOR_STEP"),
            ("tasks.rs", "HEAR LOCK_RUNS LOOK"),
            ("tasks/changes.rs", "DEFER REOPEN WITHDRAW"),
            ("tasks/lost.rs", "OVER"),
            (
                "waits.rs",
                "ANSWER ANSWERS CANCEL DEFER ELAPSE HOLDER LOAD LOCK_RUNS RECORDED WAKE WAKE_EARLY",
            ),
            ("webhook_deliveries/settle.rs", "ERASE"),
        ],
    ),
    (
        "by an identity that is made of the namespace and the names in it: a claim, a command, a duplicate, a business key, a schedule",
        &[
            ("archives.rs", "OF_KEY"),
            ("claims.rs", "DROP FIND"),
            ("claims/accept.rs", "MEET"),
            ("claims/known.rs", "KNOWN"),
            ("claims/next_run.rs", "MAKE MAKE_OR_NOTHING"),
            ("commands.rs", "ABANDON FIND FINISH"),
            ("duplicates/held.rs", "DECIDE FINISH REOPEN"),
            ("duplicates/statements.rs", "KNOWN"),
            ("named_effects/reuses.rs", "REUSE"),
            ("reconcile_passes.rs", "LATEST OPEN"),
            ("retention/erase.rs", "ERASE_NAMED NAMED"),
            ("schedules.rs", "PAUSE"),
            ("schedules/leases.rs", "TAKE_ONE"),
            ("schedules/views.rs", "FIND"),
        ],
    ),
    (
        "by an identity of which this server, or the worker that asks, took the lease",
        &[
            ("claims/accept/statement.rs", "LEASED"),
            (
                "outbox/leases.rs",
                "DEFER FREE_OWN GIVE_BACK LEASED LEASED_OF_RANGE RENEW SETTLE",
            ),
            ("outbox/receivers.rs", "ASK MARK"),
            ("reconcile_passes.rs", "GIVE_BACK HOLD POSTPONE RECORD"),
            ("schedules/leases.rs", "DECIDE GIVE_BACK"),
            ("tasks/settling.rs", "ANSWER RECORDED"),
            ("webhook_deliveries/settle.rs", "SETTLE"),
        ],
    ),
    (
        "a duty of servers for all namespaces: due, lost, late or past its time is a row wherever it belongs",
        &[
            ("alerts/groups.rs", "FOLD"),
            ("alerts/messages.rs", "FORGET_MESSAGES"),
            ("archives.rs", "CHANGE_RUNS EXPIRE"),
            ("broadcasts.rs", "ADVANCE END FINISH_PAGES RETRY"),
            ("named_effects/holds.rs", "FREE KEEP LIST"),
            ("named_effects/notices.rs", "OVERDUE"),
            ("named_effects/upkeep.rs", "FORGET REMOVE"),
            ("named_effects/waiters.rs", "LEFT_BEHIND"),
            ("object_versions.rs", "FORGET_STALE"),
            ("outbox/leases.rs", "FREE_LOST"),
            ("pauses.rs", "ENDED TAKE_ENDED WAKE"),
            ("queue/lost.rs", "RECOVER RECOVER_STRAYS"),
            ("queue/stranded.rs", "WAKE_STRANDED"),
            ("reconcile_passes.rs", "FORGET"),
            ("refused_deliveries.rs", "FORGET"),
            ("replay_plans.rs", "END RETURN"),
            ("resources.rs", "LIST_EXPIRED"),
            ("retention.rs", "COMMANDS FORGET"),
            ("retention/archived.rs", "STAMPS"),
            ("retention/claims.rs", "IN_USE REMEMBER"),
            ("retention/judge.rs", "JUDGE"),
            ("retention/runs.rs", "CLOSE DELETE PAGE RELEASES TREE"),
            ("run_jobs.rs", "END RETURN RUNNING"),
            ("schedules.rs", "LOOK WAKE"),
            ("schedules/leases.rs", "TAKE"),
            ("schedules/views.rs", "LIST"),
            ("sessions.rs", "SWEEP"),
            ("tasks/lost.rs", "LEASES_OVER LOSE"),
            ("tokens/shown.rs", "FORGET"),
            ("webhook_deliveries.rs", "FORGET"),
        ],
    ),
    (
        "a count or a check of the whole installation",
        &[
            ("attention.rs", "DIFFERENCES"),
            (
                "invariants/statements.rs",
                "ASLEEP ASLEEP_OVER_APPROVAL ASLEEP_OVER_TASK DISPATCHED DOUBTED_NAMES LISTED_DOUBTS LISTED_NAMES LISTED_RUNS NOTIFIED OVERDUE_BROADCASTS OVERDUE_EVENTS QUEUED ROWS TAKEN UNENDED",
            ),
            ("outbox/depth.rs", "DEPTH"),
            ("partitions/days.rs", "BUSIEST"),
            ("sessions.rs", "LIST"),
            ("tokens.rs", "COUNT"),
        ],
    ),
    (
        "by a token, a code or a person: a person may be in several namespaces, and is signed out of all of them",
        &[
            ("namespaces.rs", "INSERT"),
            ("people.rs", "END_ALL END_SESSION_OF EXTEND RENEW SIGN_IN"),
            ("sign_ins.rs", "END_EVERYWHERE EXCHANGE"),
            ("tokens.rs", "EXISTS NOTE_USE STANDING"),
        ],
    ),
    (
        "by something else that the caller has found in its namespace: a release, a pause, a rehearsal",
        &[
            ("key_audit.rs", "DIFFERING LATE SHARED TOTALS"),
            ("pauses.rs", "IS_DRAINED"),
            ("rehearsals/records.rs", "ADVANCE FINISH"),
        ],
    ),
    (
        "the caller compares the namespace that it returns",
        &[("approvals/views.rs", "FIND"), ("runs.rs", "NAMESPACE")],
    ),
    (
        "in the schema of one rehearsal, which has its namespace alone",
        &[("rehearsals/observe.rs", "EFFECTS JOURNAL OPEN PULSE RUNS")],
    ),
];

/// Compares a namespace with another value: alone, in a row of values, or as the second half of a join.
const COMPARED: &str = r"namespace_id\s*(=|IN\b|<|>|IS NOT DISTINCT|\)\s*(=|IN\b|<|>)|,[^()]*\)\s*(=|IN\b|<|>))|(=|DISTINCT FROM)\s*(ANY \()?\w+\.namespace_id";

/// A table whose rows are read or changed.
const USED: &str = r"\b(?:FROM|JOIN|UPDATE|USING)\s+(?:ONLY\s+)?(\w+)";

/// An item of a source: a constant, a macro, or a function with statements of its own.
struct Item {
    file: String,
    name: String,
    source: String,
}

impl Item {
    fn place(&self) -> String {
        format!("{} {}", self.file, self.name)
    }
}

#[test]
fn each_statement_on_a_table_of_namespaces_names_its_namespace_or_says_why_not() -> Result<()> {
    let texts = texts()?;
    let schema = texts.iter().find(|text| text.path == SCHEMA);
    let tables = tables_of_namespaces(&schema.context(SCHEMA)?.content)?;
    assert!(tables.len() > 40, "{} tables are not all", tables.len());
    let mut listed = BTreeSet::new();
    let mut twice = Vec::new();
    for (_, files) in EXCEPTIONS {
        for (file, names) in *files {
            for name in names.split(' ') {
                let place = format!("{file} {name}");
                if !listed.insert(place.clone()) {
                    twice.push(format!("{place} is listed twice"));
                }
            }
        }
    }
    let (judged, mut objections) = objections(&items(&texts), &tables, &listed)?;
    assert!(judged > 400, "{judged} statements are not all");
    objections.extend(twice);
    expect_none(&objections)
}

#[test]
fn a_statement_without_its_namespace_and_an_exception_without_need_are_objected_to() -> Result<()> {
    let source = r##"
/// SELECT 1 FROM runs in a comment.
const OPEN: &str = "SELECT namespace_id FROM runs WHERE id = $1";
pub(crate) const CLOSED: &str = "SELECT id FROM runs r WHERE r.namespace_id = $1";
const PAIR: &str = "DELETE FROM runs WHERE (namespace_id, id) IN (SELECT $1, $2)";
const OTHER: &str = "UPDATE clock SET time_offset = $1";
const LISTED: &str = "UPDATE runs SET result = NULL";
macro_rules! select {
    ($condition:literal) => {
        concat!("SELECT 1 FROM runs", $condition)
    };
}
const BY_ID: &str = select!(" WHERE id = $1");
const BY_NAMESPACE: &str = select!(" WHERE namespace_id = $1");
async fn inline(client: &Client) {
    client.execute("DELETE FROM runs", &[]).await;
}

#[cfg(test)]
mod tests {
    const MADE_UP: &str = "DELETE FROM runs";
}
"##;
    let text = Text {
        path: format!("{STORE}a.rs"),
        content: source.to_owned(),
    };
    let schema = "CREATE TABLE runs (\n    id uuid NOT NULL,\n    namespace_id integer NOT NULL\n);\n\
                  CREATE TABLE clock (\n    time_offset interval NOT NULL\n);\n";
    let tables = tables_of_namespaces(schema)?;
    let listed = ["a.rs LISTED", "a.rs CLOSED"].map(str::to_owned).into();

    let (judged, found) = objections(&items(&[text]), &tables, &listed)?;

    assert_eq!(tables, BTreeSet::from(["runs".to_owned()]));
    assert_eq!(judged, 7);
    assert_eq!(
        found,
        [
            "a.rs BY_ID compares no namespace_id of runs: name the namespace, or list it with a reason",
            "a.rs OPEN compares no namespace_id of runs: name the namespace, or list it with a reason",
            "a.rs inline compares no namespace_id of runs: name the namespace, or list it with a reason",
            "a.rs CLOSED is listed and needs no exception",
        ]
    );
    Ok(())
}

/// The tables that have a namespace, by the schema.
fn tables_of_namespaces(schema: &str) -> Result<BTreeSet<String>> {
    let table = Regex::new(r"(?m)^CREATE TABLE (\w+) \(\n((?:[^)\n].*\n|\n)*)\)")?;
    let column = Regex::new(r"(?m)^\s+namespace_id ")?;
    let found = table.captures_iter(schema);
    let of_namespaces = found.filter(|it| column.is_match(&it[2]));
    Ok(of_namespaces.map(|it| it[1].to_owned()).collect())
}

/// How many statements use such a table, and what is objected to.
fn objections(
    items: &[Item],
    tables: &BTreeSet<String>,
    listed: &BTreeSet<String>,
) -> Result<(usize, Vec<String>)> {
    let (compared, used) = (Regex::new(COMPARED)?, Regex::new(USED)?);
    let called = Regex::new(r"(\w+)!\s*[({\[]")?;
    let mut macros: BTreeMap<&str, Vec<&Item>> = BTreeMap::new();
    for item in items.iter().filter(|it| is_macro(it)) {
        macros.entry(&item.name).or_default().push(item);
    }
    let (mut judged, mut open) = (0, BTreeMap::new());
    for item in items.iter().filter(|it| !is_macro(it)) {
        let text = sql(item, &macros, &called, 0);
        let of_namespaces: BTreeSet<&str> = used
            .captures_iter(&text)
            .filter_map(|it| it.get(1).map(|table| table.as_str()))
            .filter(|table| tables.contains(*table))
            .collect();
        if of_namespaces.is_empty() {
            continue;
        }
        judged += 1;
        if !compared.is_match(&text) {
            let named: Vec<&str> = of_namespaces.into_iter().collect();
            open.insert(item.place(), named.join(", "));
        }
    }
    let unlisted = open.iter().filter(|(place, _)| !listed.contains(*place));
    let mut found: Vec<String> = unlisted
        .map(|(place, named)| {
            format!("{place} compares no namespace_id of {named}: name the namespace, or list it with a reason")
        })
        .collect();
    let idle = listed.iter().filter(|place| !open.contains_key(*place));
    found.extend(idle.map(|place| format!("{place} is listed and needs no exception")));
    Ok((judged, found))
}

fn is_macro(item: &Item) -> bool {
    item.source.starts_with("macro_rules! ")
}

/// The texts of an item, with those of the macros that it calls: of its own file where that has one of the name.
fn sql(item: &Item, macros: &BTreeMap<&str, Vec<&Item>>, called: &Regex, depth: u8) -> String {
    let mut text = literals(&item.source).join("\n");
    let names: BTreeSet<&str> = called
        .captures_iter(&item.source)
        .filter_map(|it| it.get(1).map(|name| name.as_str()))
        .collect();
    for name in names.into_iter().filter(|_| depth < 4) {
        let known = macros.get(name).map_or(&[][..], Vec::as_slice);
        let own = known.iter().position(|it| it.file == item.file);
        let used = own.map_or(known, |at| &known[at..=at]);
        for other in used.iter().filter(|it| it.place() != item.place()) {
            text.push('\n');
            text.push_str(&sql(other, macros, called, depth + 1));
        }
    }
    text
}

/// The items of the store, without its unit tests.
fn items(texts: &[Text]) -> Vec<Item> {
    let mut items = Vec::new();
    for text in texts {
        let Some(file) = text.path.strip_prefix(STORE) else {
            continue;
        };
        if !file.ends_with(".rs") || file.ends_with("/tests.rs") {
            continue;
        }
        let tests = "\n#[cfg(test)]\nmod tests {";
        let source = text.content.split(tests).next().unwrap_or_default();
        let mut is_inside = false;
        for line in source.lines() {
            // A line that begins with a word ends the item before it.
            if line.starts_with(|first: char| !first.is_whitespace() && !")}]\"".contains(first)) {
                let name = name_of(line);
                is_inside = name.is_some();
                items.extend(name.map(|name| Item {
                    file: file.to_owned(),
                    name: name.to_owned(),
                    source: String::new(),
                }));
            }
            if let Some(item) = items.last_mut().filter(|_| is_inside) {
                item.source.push_str(line);
                item.source.push('\n');
            }
        }
    }
    items
}

/// The name of the item that a line begins; none for comments, attributes and imports.
fn name_of(line: &str) -> Option<&str> {
    let declared = match line.strip_prefix("pub(") {
        Some(scoped) => scoped.split_once(") ")?.1,
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let declared = declared.strip_prefix("async ").unwrap_or(declared);
    let kinds = [
        "const fn ",
        "fn ",
        "const ",
        "static ",
        "macro_rules! ",
        "impl",
        "mod ",
    ];
    let rest = kinds.iter().find_map(|kind| declared.strip_prefix(kind))?;
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut words = rest.split(|letter: char| !is_part(letter));
    words.find(|word| !word.is_empty())
}
