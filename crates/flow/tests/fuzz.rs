//! Files and expressions that no author would write: none may break the reader, or take more work than
//! the largest that are accepted, or a great deal of memory.
//!
//! `SEMEL_FUZZ_SECS` says for how long (2 by itself, 20 in CI), `SEMEL_TEST_SEED` where chance
//! begins. A failure prints its input.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "helpers of tests")]

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use semel_flow::{CheckContext, Expr, Scope, examine, format};
use serde_json::json;

use crate::effort::{least, within};
use crate::mistakes::long_flow;

const MEMORY_KIB_MAX: u64 = 512 * 1024;

/// Chance that can be had again: xorshift.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or_default() % count.max(1)
    }

    fn one_of<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    let said = std::env::var(name).ok().and_then(|text| text.parse().ok());
    said.unwrap_or(otherwise)
}

/// Feeds inputs to a target until the time is over. None may take more than so many times what `usual` takes.
fn fuzz(
    name: &str,
    mut make: impl FnMut(&mut Chance) -> String,
    target: fn(&str),
    (times, usual): (u32, &str),
) {
    let seed = number("SEMEL_TEST_SEED", 0x5eed_cafe).max(1);
    let most = least(|| target(usual)) * times;
    let end = Instant::now() + Duration::from_secs(number("SEMEL_FUZZ_SECS", 2));
    let mut chance = Chance(seed);
    let mut count = 0_u64;
    while Instant::now() < end {
        let input = make(&mut chance);
        match within(most, || catch_unwind(|| target(&input)).is_ok()) {
            Ok(held) => assert!(held, "{name} broke, seed {seed}, input {count}:\n{input}"),
            Err(taken) => {
                panic!(
                    "{name} took {taken:?} and not {most:?}, seed {seed}, input {count}:\n{input}"
                )
            }
        }
        count += 1;
    }
    let memory = peak_memory_kib();
    println!("{name}: {count} inputs, peak {} MiB", memory / 1024);
    assert!(memory < MEMORY_KIB_MAX, "{name} took {memory} KiB");
}

/// The most memory that this process ever held, where the system tells.
fn peak_memory_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let digits = line.map(|line| line.trim().trim_end_matches(" kB").to_owned());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn corpus() -> Vec<String> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut sources = vec![];
    for kind in ["good", "bad"] {
        for entry in fs::read_dir(corpus.join(kind)).expect("the corpus is there") {
            let file = entry.expect("a file").path();
            sources.push(fs::read_to_string(file).expect("it can be read"));
        }
    }
    sources.sort();
    sources
}

/// Pieces that mean something to YAML, to the grammar or to expressions.
const PIECES: &[&str] = &[
    "&a ",
    "*a",
    "!!x ",
    "---\n",
    "...\n",
    "? ",
    "|\n",
    ">-\n  ",
    "{",
    "}",
    "[",
    "]",
    ": ",
    "- ",
    "#",
    "\"",
    "'",
    "\t",
    "\u{feff}",
    "é",
    "\u{0}",
    "${{",
    "}}",
    "${{ input.a }}",
    "steps:\n",
    "foreach: ",
    "switch: { cases: [",
    "parallel: ",
    "key: ",
    "guard: probe\n",
    "undo: ",
    "allow: [",
    "input_schema: ",
    "steps.a.result",
    "default(",
    "fingerprint(input)",
    "999999999999999999999",
    "1e999",
    "~",
    "null",
    ".map(x, ",
    ".filter(y, ",
    "has(",
    " ? ",
    " && ",
    "matches(\"(a*)*$\")",
    "\\u0000",
    "\r\n",
    "<<: ",
];

fn mutated(chance: &mut Chance, sources: &[String]) -> String {
    let mut text = sources[chance.below(sources.len())].clone();
    for _ in 0..=chance.below(4) {
        let at = text.floor_char_boundary(chance.below(text.len() + 1));
        let to = text.floor_char_boundary((at + chance.below(60)).min(text.len()));
        match chance.below(8) {
            0 => text.replace_range(at..to, ""),
            1 | 2 => text.insert_str(at, chance.one_of(PIECES)),
            3 => {
                let other = &sources[chance.below(sources.len())];
                let from = other.floor_char_boundary(chance.below(other.len() + 1));
                let end = other.floor_char_boundary((from + 200).min(other.len()));
                text.insert_str(at, &other[from..end]);
            }
            4 => {
                let piece = text[at..to].to_owned();
                text.insert_str(at, &piece.repeat(1 + chance.below(40)));
            }
            5 => text.insert_str(at, &chance.one_of(PIECES).repeat(1 + chance.below(300))),
            6 => text.truncate(at),
            _ => {
                let mut lines: Vec<&str> = text.lines().collect();
                let (one, other) = (chance.below(lines.len()), chance.below(lines.len()));
                if !lines.is_empty() {
                    lines.swap(one, other);
                }
                text = lines.join("\n");
            }
        }
    }
    text
}

fn judge_file(source: &str) {
    let examined = examine("fuzz.yaml", source, &CheckContext::default());
    let lines = source.split('\n').count();
    for one in &examined.diagnostics {
        assert!((1..=lines).contains(&one.line), "{one:?}");
        assert!(!one.message.is_empty() && !one.help.is_empty(), "{one:?}");
    }
    assert_eq!(examined.tree.is_some(), examined.is_sound());
    let _ = examined.render(false);
    if let Ok(once) = format("fuzz.yaml", source) {
        let twice = format("fuzz.yaml", &once);
        assert!(twice.is_ok(), "what is formatted can be formatted:\n{once}");
    }
}

const TOKENS: &[&str] = &[
    "input",
    "input.a",
    "input.list",
    "input.text",
    "x",
    "y",
    "steps.a.result",
    "1",
    "-7",
    "0",
    "2.5",
    "9223372036854775807",
    "\"text\"",
    "'a'",
    "true",
    "false",
    "null",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ", ",
    " + ",
    " - ",
    " * ",
    " / ",
    " % ",
    " == ",
    " != ",
    " < ",
    " >= ",
    " in ",
    " && ",
    " || ",
    "!",
    " ? ",
    " : ",
    ".",
    ".a",
    "[0]",
    "[\"a\"]",
    ".size()",
    ".map(x, ",
    ".filter(y, ",
    ".all(x, ",
    ".exists(x, ",
    "size(",
    "string(",
    "int(",
    "json(",
    "parse_json(",
    "fingerprint(",
    "default(",
    "has(",
    "lower(",
    "split(",
    ".join(\",\")",
    ".replace(\"a\", ",
    ".matches(\"(a|b)*c\")",
    "sha256(",
    "date(",
    "epoch(",
    "rfc3339(",
    "hmac_sha256(",
    "é",
    "\\",
    "//",
    "\n",
    "b\"x\"",
    "1u",
    "@",
    "$",
];
/// Inputs that once took a minute, a gigabyte or the stack.
const KNOWN: &[&str] = &[
    "[1,2].map(x, [1,2].map(x, [1,2].map(x, [1,2].map(x, x))))",
    "input.list.map(x, input.list.map(y, input.list + input.list))",
    "((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))",
    "input.text.replace('', input.text).replace('', input.text)",
    "\"a\" + \"a\" + input.text.split(\"\").join(input.text)",
];

fn expression(chance: &mut Chance) -> String {
    if chance.below(20) == 0 {
        let known = chance.one_of(KNOWN);
        return known.repeat(1 + chance.below(3));
    }
    let mut text = String::new();
    let mut open = vec![];
    for _ in 0..=chance.below(30) {
        let token = chance.one_of(TOKENS);
        text.push_str(token);
        for letter in token.chars() {
            match letter {
                '(' => open.push(')'),
                '[' => open.push(']'),
                '{' => open.push('}'),
                _ if open.last() == Some(&letter) => {
                    open.pop();
                }
                _ => {}
            }
        }
    }
    // Most are closed, so that more of them are read.
    if chance.below(4) > 0 {
        text.push_str("input.a");
        text.extend(open.into_iter().rev());
    }
    text
}

fn judge_expression(source: &str) {
    let Ok(expr) = Expr::compile(source, &["input", "steps"]) else {
        return;
    };
    let list: Vec<u32> = (0..300).collect();
    let input = json!({ "a": "2026-03-01T10:00:00Z", "list": list, "text": "ab".repeat(2_000) });
    let steps = json!({ "a": { "result": 3 } });
    let scope = Scope::new().with("input", &input).with("steps", &steps);
    let first = expr.eval(&scope);
    let again = Expr::compile(expr.as_str(), &["input", "steps"]);
    let again = again.expect("the canonical text is an expression");
    assert_eq!(again.as_str(), expr.as_str());
    assert_eq!(again.eval(&scope).ok(), first.ok());
}

#[test]
fn no_file_breaks_the_check() {
    let sources = corpus();
    let make = |chance: &mut Chance| mutated(chance, &sources);
    fuzz("files", make, judge_file, (20, long_flow(200).as_str()));
}

#[test]
fn no_expression_breaks_the_evaluator() {
    // It is stopped when all that an evaluation may take is used up.
    let usual = "input.list.map(x, input.list.map(y, x * y)).size()";
    fuzz("expressions", expression, judge_expression, (20, usual));
}
