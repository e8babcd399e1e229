//! One word for one thing: public types have names of their own, and retired names do not return.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::expect_none;
use crate::tree::{Text, texts};

/// The crates whose public types must not share a name. `api` may repeat a name of `model` as its
/// form on the wire.
const CRATES: [&str; 5] = ["model", "flow", "store", "steps", "engine"];

/// The names that every crate may have for itself.
const EXEMPT: [&str; 3] = ["Error", "Config", "Options"];

/// Where a retired name is looked for.
#[derive(Clone, Copy, Debug)]
enum Scope {
    /// Rust sources.
    Rust,
    /// Migrations.
    Sql,
    /// Everything that a user reads or writes: documents, flows, connections, the console.
    User,
    /// Every text file.
    Everywhere,
}

/// What is gone, where it is looked for, and what is said instead.
const RETIRED: &[(Scope, &str, &str)] = &[
    (
        Scope::Rust,
        "Standing",
        "RunStatus, RunSnapshot, QueuePosition, PendingEffect or PooledConnection",
    ),
    (Scope::Rust, "Sight", "DecideContext"),
    (Scope::Rust, "Followed", "RowChanges"),
    (Scope::Rust, "Summons", "WakeUp"),
    (Scope::Rust, "Gatekeeper", "ConcurrencyLimiter"),
    (Scope::Rust, "Tenure", "WorkerSession"),
    (Scope::Rust, "Unproven", "SignatureInvalid or auth_failures"),
    (Scope::Rust, "Flaw", "VerifyError or CronErrorPlace"),
    (Scope::Rust, "FirstMove", "FirstEffect"),
    (Scope::Rust, "foresee", "plan"),
    (Scope::Rust, "Mistake", "SeededBug"),
    (Scope::Rust, "Rhythm", "Recurrence"),
    (Scope::Rust, "Refusal", "ApiError"),
    (Scope::Rust, "Witness", "ConfirmedBy"),
    (Scope::Rust, "SignIn", "HttpAuth"),
    (Scope::Rust, "hand_back", "return_to_queue"),
    (Scope::Rust, "hand_in", "record_late_response"),
    (Scope::Rust, "FOLLOWERS", "EXTRA_STATEMENTS"),
    (Scope::Sql, "tickets", "gate_entries"),
    (Scope::Sql, "departures", "gate_exits"),
    (Scope::Sql, "listeners", "event_waits"),
    (Scope::Sql, "evidence", "late_responses"),
    (Scope::Sql, "outgoing", "webhook_deliveries"),
    (Scope::Sql, "refusals", "refused_deliveries"),
    (Scope::Sql, "born", "partition_date"),
    (Scope::User, "honours_keys", "idempotency_keys.window"),
    (Scope::User, "sign_in", "auth"),
    (Scope::User, "break_for", "open_for"),
    (Scope::User, "at_once", "concurrency"),
    (
        Scope::Everywhere,
        "kept for a person",
        "one of the three stopped states",
    ),
    (Scope::Everywhere, "run.parked", "run.stopped"),
];

/// The files that say what a name was before, each with its reason.
const MAY_NAME: &[(&str, &str)] = &[
    ("tests/tidy/words.rs", "the list itself"),
    ("docs/decisions/", "what was decided, and what it replaced"),
    ("changes/", "what a user has to change"),
    (
        "crates/flow/tests/corpus/bad/renamed.yaml",
        "a renamed field is refused with the new name",
    ),
    (
        "crates/flow/tests/snapshots/renamed.yaml.snap",
        "what the refusal says",
    ),
];

impl Scope {
    fn covers(self, path: &str) -> bool {
        let is = |end: &str| path.ends_with(end);
        match self {
            Self::Rust => is(".rs"),
            Self::Sql => is(".sql"),
            Self::User => is(".md") || is(".yaml") || is(".yml") || is(".json") || is(".html"),
            Self::Everywhere => true,
        }
    }
}

#[test]
fn retired_names_do_not_return() -> Result<()> {
    let mut objections = Vec::new();
    for text in texts()? {
        if !MAY_NAME.iter().any(|(path, _)| text.path.starts_with(path)) {
            objections.extend(retired_in(&text));
        }
    }
    expect_none(&objections)
}

fn retired_in(text: &Text) -> Vec<String> {
    let sought = RETIRED
        .iter()
        .filter(|(scope, ..)| scope.covers(&text.path));
    let found = sought.flat_map(|(_, old, new)| {
        let lines = text.content.lines().enumerate();
        lines.filter_map(move |(index, line)| {
            let place = format!("{}:{}", text.path, index + 1);
            has_name(line, old).then(|| format!("{place}: `{old}` is {new} now"))
        })
    });
    found.collect()
}

/// Whether a line has these words, and not as a piece of a longer name.
fn has_name(line: &str, name: &str) -> bool {
    let is_part = |letter: Option<char>| letter.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}

#[test]
fn a_retired_name_is_found_whole_and_only_where_it_is_looked_for() {
    let text = |path: &str, content: &str| Text {
        path: path.to_owned(),
        content: content.to_owned(),
    };

    let found = retired_in(&text(
        "crates/a/src/b.rs",
        "fn a(x: Standing) {}\nUnderstanding",
    ));

    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("crates/a/src/b.rs:1: `Standing` is RunStatus"));
    assert!(retired_in(&text("docs/a.md", "Standing")).is_empty());
    assert_eq!(retired_in(&text("docs/a.md", "set `sign_in`")).len(), 1);
}

#[test]
fn a_public_type_has_a_name_of_its_own() -> Result<()> {
    let texts = texts()?;
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for text in texts.iter().filter(|text| is_product(&text.path)) {
        for name in text.content.lines().filter_map(public_type) {
            places.entry(name).or_default().push(&text.path);
        }
    }
    places.retain(|name, places| places.len() > 1 && !EXEMPT.contains(name));
    let shared = places.iter();
    let shared = shared.map(|(name, places)| format!("{name}: {}", places.join(", ")));
    expect_none(&shared.collect::<Vec<_>>())
}

fn is_product(path: &str) -> bool {
    let mut crates = CRATES.iter();
    path.ends_with(".rs") && crates.any(|name| path.starts_with(&format!("crates/{name}/src/")))
}

/// The type that a line declares to the world. What is private to its crate says `pub(crate)`: the
/// compiler refuses a bare `pub` that nothing outside can reach.
fn public_type(line: &str) -> Option<&str> {
    let declared = line.trim_start().strip_prefix("pub ")?;
    let (kind, rest) = declared.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&kind);
    let end = rest
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(rest.len());
    // A name that a macro fills in begins with `$`.
    (is_type && end > 0).then_some(&rest[..end])
}

#[test]
fn what_declares_a_public_type_is_seen() {
    assert_eq!(public_type("pub struct Claim<State> {"), Some("Claim"));
    assert_eq!(public_type("    pub enum Event {"), Some("Event"));
    assert_eq!(public_type("pub(crate) struct Inner;"), None);
    assert_eq!(public_type("pub fn struct_of() {"), None);
}
