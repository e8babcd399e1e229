//! No statement looks into JSON that senders, destinations, workers or operators wrote: PostgreSQL
//! refuses to where the character zero is anywhere in it, and one such value stops a whole list, erasure
//! or page. Each thing that a statement needs to know is a column, which the store writes beside the
//! JSON.

use anyhow::Result;

use crate::expect_none;
use crate::tree::{Text, texts};

/// Operators and functions that read JSON, or make it a `jsonb`. Each `json_` has a twin for that.
const READERS: &[&str] = &[
    "->",
    "#>",
    "::jsonb",
    "to_jsonb",
    "json_array_elements",
    "json_array_length",
    "json_each",
    "json_extract_path",
    "json_object_keys",
    "json_populate_record",
    "json_to_record",
    "json_typeof",
];

/// The lines that may, each with its reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "crates/store/src/approvals/changes.rs",
        "json_array_elements_text(t.people::json)",
        "the author's own list of people",
    ),
    (
        "crates/store/src/approvals/changes.rs",
        "json_array_elements_text(t.escalate::json)",
        "the author's own list of people",
    ),
    (
        "crates/store/src/claims/accept/found_again.rs",
        "json_array_length(j.events)",
        "it counts the events of a row, and decodes no text in them",
    ),
    (
        "crates/store/src/named_effects.rs",
        "jsonb_array_length(n.former_holders)",
        "numbers and identities that Semel wrote",
    ),
];

#[test]
fn no_statement_looks_into_json_of_others() -> Result<()> {
    let texts = statements(texts()?);
    assert!(texts.len() > 100, "{} files are not all", texts.len());
    let mut objections = Vec::new();
    for text in &texts {
        for line in reading_lines(text) {
            let mut exceptions = EXCEPTIONS.iter();
            let is_excused =
                exceptions.any(|(path, words, _)| *path == text.path && line.contains(words));
            if !is_excused {
                objections.push(format!("{}: {line}: make it a column", text.path));
            }
        }
    }
    for (path, words, reason) in EXCEPTIONS {
        let mut of_path = texts.iter().filter(|text| text.path == *path);
        if !of_path.any(|text| text.content.contains(words)) {
            objections.push(format!("{path} has no {words} any more ({reason})"));
        }
    }
    expect_none(&objections)
}

/// The sources of the store and the migrations.
fn statements(mut texts: Vec<Text>) -> Vec<Text> {
    let is_rust = |path: &str| path.starts_with("crates/store/src/") && path.ends_with(".rs");
    let is_sql = |path: &str| path.starts_with("migrations/") && path.ends_with(".sql");
    texts.retain(|text| is_rust(&text.path) || is_sql(&text.path));
    texts
}

/// The lines of its SQL that read JSON.
fn reading_lines(text: &Text) -> Vec<&str> {
    let lines: Vec<&str> = match text.path.ends_with(".rs") {
        true => literals(&text.content)
            .into_iter()
            .flat_map(str::lines)
            .collect(),
        false => text.content.lines().map(without_comment).collect(),
    };
    let lines = lines.into_iter().map(str::trim);
    lines.filter(|line| reads_json(line)).collect()
}

fn reads_json(line: &str) -> bool {
    READERS.iter().any(|reader| {
        let twin = reader.replace("json_", "jsonb_");
        line.contains(reader) || line.contains(&twin)
    })
}

fn without_comment(line: &str) -> &str {
    line.split("--").next().unwrap_or(line)
}

/// The string literals of a Rust source, as they are spelled. Statements stand in those, and the arrows
/// of Rust do not.
pub(crate) fn literals(source: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), source);
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (before, from) = rest.split_at(at);
        rest = if from.starts_with("//") {
            from.split_once('\n').map_or("", |(_, next)| next)
        } else if let Some(inside) = from.strip_prefix('"') {
            let (literal, after) = split_literal(before, inside);
            found.push(literal);
            after
        } else {
            from.strip_prefix('\'')
                .and_then(after_character)
                .unwrap_or(&from[1..])
        };
    }
    found
}

/// A literal, and the text behind it. The text before it says whether it is a raw one.
fn split_literal<'a>(before: &str, body: &'a str) -> (&'a str, &'a str) {
    let opening = before.trim_end_matches('#');
    let quote = match opening.ends_with('r') {
        true => format!("\"{}", &before[opening.len()..]),
        false => "\"".to_owned(),
    };
    let mut ends = body.match_indices(&quote).map(|(at, _)| at);
    let is_end = |at: &usize| {
        let escapes = body[..*at].chars().rev().take_while(|c| *c == '\\').count();
        opening.ends_with('r') || escapes.is_multiple_of(2)
    };
    let end = ends.find(is_end).unwrap_or(body.len());
    let after = body.get(end + quote.len()..).unwrap_or_default();
    (&body[..end], after)
}

/// The text behind a character and its closing quote; nothing where the quote begins a lifetime.
fn after_character(rest: &str) -> Option<&str> {
    if let Some(escaped) = rest.strip_prefix('\\') {
        let mut chars = escaped.chars();
        chars.next()?;
        return chars.as_str().split_once('\'').map(|(_, after)| after);
    }
    let mut chars = rest.chars();
    chars.next()?;
    chars.as_str().strip_prefix('\'')
}

#[test]
fn what_reads_json_is_found_in_statements_and_nowhere_else() {
    let text = |path: &str, content: &str| Text {
        path: path.to_owned(),
        content: content.to_owned(),
    };
    let rust = r##"
        // SELECT a ->> 'b' in a comment
        fn read<'a>(row: &'a Row) -> char { '"' }
        const ONE: &str = "SELECT \"x\", body ->> 'type'
              FROM t";
        const TWO: &str = r#"SELECT "e" FROM jsonb_each(t)"#;
        let escaped = '\''; let close = |one: char| -> char { one };
        const THREE: &str = "SELECT a FROM t WHERE b > 1 - 2";
    "##;
    let sql = "-- a ->> 'b'\nCREATE INDEX i ON t ((arrival ->> 'flow'));\nSELECT 1; -- c #> 'd'\n";

    let of_rust = text("crates/store/src/a.rs", rust);
    let of_sql = text("migrations/0001_a.sql", sql);

    assert_eq!(
        reading_lines(&of_rust),
        [
            r#"SELECT \"x\", body ->> 'type'"#,
            r#"SELECT "e" FROM jsonb_each(t)"#
        ]
    );
    assert_eq!(
        reading_lines(&of_sql),
        ["CREATE INDEX i ON t ((arrival ->> 'flow'));"]
    );
    assert_eq!(literals(rust).len(), 3);
}
