//! No line of the log has what a destination, a sender or a worker said, nor the key of a run: all of it is a customer's, and
//! the log outlives its erasure. Judged are the names in each call: of fields, of values, and of captures in its text.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::expect_none;
use crate::strangers_json::literals;
use crate::tree::texts;

/// Names that values of others have throughout the tree.
const OF_OTHERS: &[&str] = &[
    "bodies",
    "body",
    "comment",
    "external_id",
    "header",
    "headers",
    "input",
    "key",
    "message",
    "note",
    "payload",
    "query",
    "receipt",
    "result",
    "url",
];

/// The calls that may, by file and name, each with its reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "crates/engine/src/services/alerts.rs",
        "key",
        "an identity that Semel makes: `EffectId`",
    ),
    (
        "crates/engine/src/services/alerts.rs",
        "message",
        "the record of an alert, of which the identity is logged",
    ),
    (
        "crates/engine/src/services/recovery.rs",
        "message",
        "a constant of each caller",
    ),
    (
        "crates/engine/src/services/supervision.rs",
        "message",
        "a constant: the words of a panic go to standard error alone",
    ),
    (
        "crates/engine/src/turn/large.rs",
        "message",
        "the resource store's own words",
    ),
    (
        "crates/server/src/once.rs",
        "key",
        "an identity that Semel makes: `EffectId`",
    ),
    (
        "crates/server/src/resources.rs",
        "message",
        "the resource store's own words",
    ),
    (
        "crates/store/src/writer.rs",
        "message",
        "the database's own words about a connection or a conflict, without their detail",
    ),
];

#[test]
fn no_line_of_the_log_has_words_of_others() -> Result<()> {
    let mut texts = texts()?;
    texts.retain(|text| text.path.starts_with("crates/") && text.path.contains("/src/"));
    let (mut objections, mut line_count) = (Vec::new(), 0);
    let mut needed = BTreeSet::new();
    for text in &texts {
        let product = text.content.split("\n#[cfg(test)]\nmod tests {").next();
        for line in logged(product.unwrap_or_default()) {
            line_count += 1;
            for word in names(line).filter(|word| OF_OTHERS.contains(word)) {
                let mut exceptions = EXCEPTIONS.iter();
                if exceptions.any(|(path, known, _)| *path == text.path && *known == word) {
                    needed.insert((text.path.as_str(), word));
                } else {
                    objections.push(format!("{}: `{word}` is logged: {line}", text.path));
                }
            }
        }
    }
    assert!(line_count > 100, "{line_count} lines are not all");
    for (path, word, reason) in EXCEPTIONS {
        if !needed.contains(&(*path, *word)) {
            objections.push(format!("{path} logs no {word} any more ({reason})"));
        }
    }
    expect_none(&objections)
}

#[test]
fn a_field_a_value_and_a_capture_of_others_are_found_and_texts_are_not() {
    let source = r#"
        tracing::warn!(run.id = %run, "the body (of a key) is large");
        tracing::warn!(effect.key = %id, "a");
        tracing::info!(cause = %chain(&fault.message), "b");
        tracing::error!("refused {note:?} of {run}");
        tracing::debug!(key_count = 1, status = response.status().as_u16(), "c");
    "#;

    let found: Vec<Vec<&str>> = logged(source)
        .into_iter()
        .map(|line| {
            names(line)
                .filter(|word| OF_OTHERS.contains(word))
                .collect()
        })
        .collect();

    assert_eq!(
        found,
        [vec![], vec!["key"], vec!["message"], vec!["note"], vec![]]
    );
}

/// Awaited as a future, a connection to a database logs the notices of its server at `info`, and they may
/// have anything in them.
#[test]
fn no_notice_of_a_flow_s_database_is_logged_by_its_driver() -> Result<()> {
    let mut texts = texts()?;
    texts.retain(|text| text.path.starts_with("crates/steps/src/db"));
    assert!(
        texts
            .iter()
            .any(|text| text.content.contains(".poll_message("))
    );
    let awaited = texts
        .iter()
        .filter(|text| text.content.contains("connection.await"));
    let objections: Vec<String> = awaited
        .map(|text| format!("{}: a connection is awaited as a whole", text.path))
        .collect();
    expect_none(&objections)
}

/// The arguments of everything that writes to the log.
fn logged(source: &str) -> Vec<&str> {
    let calls = source.split("tracing::").skip(1);
    let arguments = calls.filter_map(|call| {
        let (level, rest) = call.split_once("!(")?;
        let levels = ["error", "warn", "info", "debug", "trace"];
        levels.contains(&level).then(|| &rest[..end_of_call(rest)])
    });
    arguments.collect()
}

/// The names in a call: those outside of its texts, and those that its texts capture.
fn names(call: &str) -> impl Iterator<Item = &str> {
    let texts = literals(call);
    let captured: Vec<&str> = texts
        .iter()
        .flat_map(|text| text.split('{').skip(1))
        .collect();
    let mut outside = vec![call];
    for text in texts {
        // A text stands in what is behind the one before it.
        let rest = outside.pop().unwrap_or_default();
        let (before, behind) = rest.split_once(text).unwrap_or((rest, ""));
        outside.extend([before, behind]);
    }
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let captured = captured
        .into_iter()
        .filter_map(move |text| text.split(|letter| !is_part(letter)).next());
    let outside = outside
        .into_iter()
        .flat_map(move |text| text.split(move |letter| !is_part(letter)));
    outside.chain(captured)
}

/// How far the arguments go: to the bracket that ends the call, outside of texts.
fn end_of_call(rest: &str) -> usize {
    let (mut depth, mut in_text, mut is_escaped) = (1_usize, false, false);
    for (at, letter) in rest.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if in_text => is_escaped = true,
            '"' => in_text = !in_text,
            '(' if !in_text => depth += 1,
            ')' if !in_text => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}
