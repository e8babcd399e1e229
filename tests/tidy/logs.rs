//! No line of the log has what a destination said or the key of a run: both are a customer's, and the log
//! outlives their erasure.

use anyhow::Result;

use crate::expect_none;
use crate::tree::texts;

/// Words of a destination, and keys.
const OF_OTHERS: &[&str] = &[
    "fault.message",
    "doubt.message",
    "receipt",
    "self.key",
    "lost.key",
    " key = %key",
    " note,",
];

/// The lines that may, each with its reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "crates/engine/src/turn/large.rs",
        "fault.message",
        "the resource store's own words",
    ),
    (
        "crates/server/src/resources.rs",
        "fault.message",
        "the resource store's own words",
    ),
];

#[test]
fn no_line_of_the_log_has_words_of_others() -> Result<()> {
    let mut texts = texts()?;
    texts.retain(|text| text.path.starts_with("crates/") && text.path.contains("/src/"));
    let (mut objections, mut line_count) = (Vec::new(), 0);
    for text in &texts {
        for line in logged(&text.content) {
            line_count += 1;
            for words in OF_OTHERS.iter().filter(|words| line.contains(**words)) {
                let mut exceptions = EXCEPTIONS.iter();
                if !exceptions.any(|(path, known, _)| *path == text.path && known == words) {
                    objections.push(format!("{}: `{words}` is logged: {line}", text.path));
                }
            }
        }
    }
    assert!(line_count > 100, "{line_count} lines are not all");
    for (path, words, reason) in EXCEPTIONS {
        let mut of_path = texts.iter().filter(|text| text.path == *path);
        if !of_path.any(|text| {
            logged(&text.content)
                .iter()
                .any(|line| line.contains(words))
        }) {
            objections.push(format!("{path} logs no {words} any more ({reason})"));
        }
    }
    expect_none(&objections)
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
