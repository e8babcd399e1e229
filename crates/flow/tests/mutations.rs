//! Keys that hold are made unstable, one mechanical change at a time: every change is caught.
//!
//! The flows are those of the good half of the corpus that have keys, and the recipes.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use semel_flow::{CheckContext, Examined, examine, provider};

/// What can be done to a key: a name, and the key that comes of it.
type Change = (&'static str, fn(&str) -> String);

const CHANGES: [Change; 13] = [
    ("append a clock function", |key| {
        format!("({key}) + string(now())")
    }),
    ("append the time of sending", |key| {
        format!("({key}) + input.sent_at")
    }),
    ("append a deep time of sending", |key| {
        format!("({key}) + input.meta.receivedAt")
    }),
    ("append a date header", |key| {
        format!("({key}) + headers[\"date\"]")
    }),
    ("append a timestamp header", |key| {
        format!("({key}) + headers[\"x-signed-timestamp\"]")
    }),
    ("append a random function", |key| {
        format!("({key}) + uuid()")
    }),
    ("append a trace", |key| {
        format!("({key}) + headers[\"traceparent\"]")
    }),
    ("append a nonce", |key| format!("({key}) + input.nonce")),
    ("append the run", |key| format!("({key}) + run.id")),
    ("append the attempt", |key| {
        format!("({key}) + string(input.attempt)")
    }),
    ("take a model's output", |_| {
        "steps.made_up.result.text".to_owned()
    }),
    ("drop the specific part", |_| "\"work\"".to_owned()),
    ("keep only who it is for", |_| {
        "\"work:\" + input.customer_id".to_owned()
    }),
];

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<PathBuf> = vec![];
    for folder in [
        root.join("tests/corpus/good"),
        root.join("../../docs/recipes"),
    ] {
        let entries = fs::read_dir(folder).into_iter().flatten();
        files.extend(entries.map(|entry| entry.expect("a file").path()));
    }
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml"));
    // An author who allowed a key that does not hold gets no diagnostic again.
    files.retain(|file| {
        !file
            .display()
            .to_string()
            .ends_with("-not-where-allowed.yaml")
    });
    files.sort();
    let read = |file: &PathBuf| {
        let source = fs::read_to_string(file).expect("it can be read");
        (file.display().to_string(), source)
    };
    files.iter().map(read).collect()
}

/// A key that stands in a file: the bytes of its value, and the expression.
struct Key {
    place: Range<usize>,
    expression: String,
}

/// The keys of triggers, steps and items. Those of `overlap` and `limit` are for grouping.
fn keys(source: &str) -> Vec<Key> {
    let mut keys = vec![];
    let mut start = 0;
    for line in source.split_inclusive('\n') {
        let grouping = line.starts_with("overlap:") || line.starts_with("limit:");
        if let Some(at) = line
            .find("key: ")
            .filter(|at| !grouping && is_name_start(line, *at))
        {
            let from = at + "key: ".len();
            let (length, expression) = value(&line[from..], line[..at].contains('{'));
            let place = start + from..start + from + length;
            keys.push(Key { place, expression });
        }
        start += line.len();
    }
    keys
}

fn is_name_start(line: &str, at: usize) -> bool {
    at == 0 || line[..at].ends_with([' ', '{'])
}

/// How long a value is as it is written, and what it says.
fn value(text: &str, in_braces: bool) -> (usize, String) {
    for quote in ['\'', '"'] {
        if let Some(rest) = text.strip_prefix(quote) {
            let end = rest.find(quote).unwrap_or(rest.len());
            return (end + 2, rest[..end].to_owned());
        }
    }
    let ends: &[char] = if in_braces {
        &[',', '}', '\n']
    } else {
        &['#', '\n']
    };
    let end = text.find(ends).unwrap_or(text.len());
    let bare = text[..end].trim_end();
    (bare.len(), bare.to_owned())
}

/// The file with a key of its own where a provider brings one and the author does not.
fn with_key(source: &str) -> String {
    if source.lines().any(|line| line.starts_with("    key: ")) {
        return source.to_owned();
    }
    let lines = source.lines().map(|line| {
        let named = line.trim_start().strip_prefix("provider: ");
        let provider = named.and_then(|name| provider::find(name.trim()));
        let indent = line.len() - line.trim_start().len();
        match provider {
            Some(known) => format!("{line}\n{:indent$}key: '{}'", "", known.key),
            None => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// The file with another key, and with a model that can be asked before the first step; and the line
/// that the key then stands on.
fn changed(source: &str, place: &Range<usize>, key: &str) -> (String, usize) {
    let key = format!("'{}'", key.replace('\'', "''"));
    let mut text = source.to_owned();
    text.replace_range(place.clone(), &key);
    let line = source[..place.start].matches('\n').count() + 1;
    let model = "\nsteps:\n  - id: made_up\n    llm: { connection: model, prompt: \"Name it.\" }\n";
    let steps = text.find("\nsteps:\n").unwrap_or(text.len());
    let text = text.replacen("\nsteps:\n", model, 1);
    // The model takes two lines before the steps.
    let shift = if steps < place.start { 2 } else { 0 };
    (text, line + shift)
}

/// Whether the key itself is objected to: a file that cannot be read any more does not count.
fn is_caught(examined: &Examined, line: usize) -> bool {
    let objects = |code: &str| {
        code.starts_with("key-") || ["expression-function", "expression-name"].contains(&code)
    };
    let readable = examined
        .diagnostics
        .iter()
        .all(|one| !matches!(one.code.as_str(), "expression-syntax" | "yaml-syntax"));
    let said = examined.diagnostics.iter();
    readable
        && said
            .filter(|one| one.line == line)
            .any(|one| objects(one.code.as_str()))
}

#[test]
fn every_change_that_makes_a_key_unstable_is_caught() {
    let (mut made, mut flows) = (0, 0);
    let mut missed = vec![];
    for (file, source) in sources() {
        let source = with_key(&source);
        let keys = keys(&source);
        flows += usize::from(!keys.is_empty());
        for key in keys {
            for (name, change) in CHANGES {
                let other = change(&key.expression);
                let (text, line) = changed(&source, &key.place, &other);
                let examined = examine(&file, &text, &CheckContext::default());
                made += 1;
                if !is_caught(&examined, line) {
                    missed.push(format!("{file}:{line}: {name}: {other}"));
                }
            }
        }
    }
    println!(
        "caught {} of {made} changes in {flows} flows",
        made - missed.len()
    );
    assert!(made > 200, "{made}");
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}
