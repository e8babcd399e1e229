//! `docs/language.md` says what the language is: its examples pass, and it names every field.
//!
//! `SEMEL_BLESS=1` writes the reference at its end anew.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use semel_flow::{CheckContext, examine, schema};
use serde_json::Value;

const MARK: &str = "<!-- reference -->\n";

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/language.md")
}

fn read() -> String {
    fs::read_to_string(page()).expect("the page is there")
}

/// The blocks of YAML, with the word behind `yaml` and the line that they begin on.
fn blocks(page: &str) -> Vec<(usize, String, String)> {
    let mut blocks = vec![];
    let mut open: Option<(usize, String, String)> = None;
    for (number, line) in page.lines().enumerate() {
        if let Some((_, _, text)) = &mut open {
            if line == "```" {
                blocks.extend(open.take());
            } else {
                text.push_str(line);
                text.push('\n');
            }
        } else if let Some(word) = line.strip_prefix("```yaml") {
            open = Some((number + 2, word.trim().to_owned(), String::new()));
        }
    }
    blocks
}

/// A block as a whole flow.
fn whole(word: &str, text: &str) -> String {
    let indented = |by: &str| -> String {
        text.lines().fold(String::new(), |mut all, line| {
            let _ = writeln!(all, "{by}{line}");
            all
        })
    };
    match word {
        "" => text.to_owned(),
        "top" => format!("flow: page\ntrigger: {{ api: {{}} }}\n{text}"),
        "trigger" => format!("flow: page\nsteps: []\ntrigger:\n{}", indented("  ")),
        "steps" => format!(
            "flow: page\ntrigger: {{ api: {{}} }}\nsteps:\n{}",
            indented("  ")
        ),
        other => panic!("no kind of block is called {other}"),
    }
}

#[test]
fn every_example_of_the_page_passes() {
    let page = read();
    let blocks = blocks(&page);
    let mut failures = String::new();
    for (line, word, text) in &blocks {
        let examined = examine(
            &format!("language.md:{line}"),
            &whole(word, text),
            &CheckContext::default(),
        );
        // Examples show one thing at a time: how they are ordered and whom they ask is left aside.
        for one in &examined.diagnostics {
            let aside = ["unguarded-early", "allow-idle"].contains(&one.code.as_str());
            if !aside {
                let _ = writeln!(failures, "{}", one.render(false));
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(blocks.len() > 15, "{} examples", blocks.len());
}

#[test]
fn every_field_stands_in_an_example() {
    let page = read();
    let examples: String = blocks(&page).into_iter().map(|(_, _, text)| text).collect();
    let mut missing = vec![];
    for (shape, definition) in schema()["$defs"].as_object().expect("definitions") {
        for field in definition["properties"].as_object().expect("fields").keys() {
            let shown = [" ", "{", "\n", "-", "["]
                .iter()
                .any(|before| examples.contains(&format!("{before}{field}:")));
            if !shown {
                missing.push(format!("{shape}.{field}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_reference_follows_the_grammar() {
    let page_text = read();
    let (head, tail) = page_text.split_once(MARK).expect("the mark is there");
    let made = reference(&schema());

    if std::env::var_os("SEMEL_BLESS").is_some() {
        fs::write(page(), format!("{head}{MARK}{made}")).expect("it can be written");
    } else {
        assert_eq!(tail, made, "run the test with SEMEL_BLESS=1");
    }
}

fn reference(schema: &Value) -> String {
    let mut text = String::new();
    for (name, definition) in schema["$defs"].as_object().expect("definitions") {
        let about = definition["description"].as_str().unwrap_or_default();
        let _ = write!(text, "\n### `{name}`\n\n{about}\n\n");
        let _ = writeln!(
            text,
            "| field | takes | default | meaning |\n|---|---|---|---|"
        );
        let needed = definition["required"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        for (field, of) in definition["properties"].as_object().expect("fields") {
            let default = of.get("default").map_or(String::new(), |default| {
                let text = default.as_str().map(str::to_owned);
                format!("`{}`", text.unwrap_or_else(|| default.to_string()))
            });
            let default = match needed.iter().any(|name| name == field) {
                true => "required".to_owned(),
                false => default,
            };
            let about = of["description"].as_str().unwrap_or_default();
            let _ = writeln!(text, "| `{field}` | {} | {default} | {about} |", takes(of));
        }
    }
    text
}

/// What a field takes, in a few words.
fn takes(of: &Value) -> String {
    if let Some(shape) = of["$ref"].as_str() {
        let name = shape.trim_start_matches("#/$defs/");
        return format!("[{name}](#{name})");
    }
    if let Some(words) = of["enum"].as_array() {
        let words = words.iter().filter_map(Value::as_str);
        let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
        return if words.len() > 12 {
            "a rule's code".to_owned()
        } else {
            words.join(" ")
        };
    }
    if let Some(forms) = of["anyOf"].as_array() {
        return forms.iter().map(takes).collect::<Vec<_>>().join(" or ");
    }
    if of["type"] == "array" {
        return format!("list of {}", takes(&of["items"]));
    }
    if let Some(least) = of["minimum"].as_i64() {
        return format!("{least} to {}", of["maximum"]);
    }
    if of["$comment"] == "CEL" {
        return "expression".to_owned();
    }
    match of["type"].as_str() {
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("string")
            if of["pattern"]
                .as_str()
                .is_some_and(|pattern| pattern.contains("ms")) =>
        {
            "span".to_owned()
        }
        Some("string") => "name".to_owned(),
        _ if of.get("additionalProperties").is_some() => "map".to_owned(),
        _ if of.get("pattern").is_some() => "name".to_owned(),
        _ if of.get("type").is_some() => "text".to_owned(),
        _ => "any value".to_owned(),
    }
}
