//! Keys that hold are made unstable, one mechanical change at a time: every change is caught.
//!
//! The flows are those of the good half of the corpus that have keys, and the recipes.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "helpers of tests")]

use std::fs;
use std::path::{Path, PathBuf};

use semel_flow::{Examined, Facts, examine};

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
    // Whoever signed for a key that does not hold is not told again.
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

/// The lines of a file that are a key, with the indentation and the expression.
fn keys(source: &str) -> Vec<(usize, String, String)> {
    let keys = source.lines().enumerate().filter_map(|(number, line)| {
        let text = line.trim_start();
        let value = text.strip_prefix("key: ")?.trim();
        let indent = line[..line.len() - text.len()].to_owned();
        let expression = match value
            .strip_prefix('\'')
            .and_then(|rest| rest.strip_suffix('\''))
        {
            Some(quoted) => quoted.replace("''", "'"),
            None if value.starts_with('"') => serde_json::from_str(value).ok()?,
            None => value.to_owned(),
        };
        Some((number, indent, expression))
    });
    keys.collect()
}

/// The file with another key on one line, and with a model that can be asked before the first step.
fn changed(source: &str, number: usize, indent: &str, key: &str) -> String {
    let line = format!("{indent}key: '{}'", key.replace('\'', "''"));
    let model = "steps:\n  - id: made_up\n    llm: { connection: model, prompt: \"Name it.\" }";
    let lines = source.lines().enumerate().map(|(at, old)| {
        if at == number {
            line.clone()
        } else if old == "steps:" {
            model.to_owned()
        } else {
            old.to_owned()
        }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// Whether something is said on the line of a key.
fn is_caught(examined: &Examined, line: usize) -> bool {
    examined.diagnostics.iter().any(|one| one.line == line)
}

#[test]
fn every_change_that_makes_a_key_unstable_is_caught() {
    let (mut made, mut flows) = (0, 0);
    let mut missed = vec![];
    for (file, source) in sources() {
        let keys = keys(&source);
        flows += usize::from(!keys.is_empty());
        for (number, indent, key) in keys {
            for (name, change) in CHANGES {
                let text = changed(&source, number, &indent, &change(&key));
                let examined = examine(&file, &text, &Facts::default());
                let steps = source.lines().position(|line| line == "steps:");
                // The model takes two lines before the steps.
                let shift = if steps.is_some_and(|steps| steps < number) {
                    2
                } else {
                    0
                };
                let line = number + 1 + shift;
                made += 1;
                if !is_caught(&examined, line) {
                    missed.push(format!("{file}:{}: {name}: {}", number + 1, change(&key)));
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
