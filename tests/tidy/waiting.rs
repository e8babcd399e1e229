//! No test lets time pass by itself, none judges how long something took, and none calls a text absent that an
//! identity, a digest or a time has in it by chance.
//!
//! A time that is long enough on one machine is too short on another. The kit waits for conditions
//! (`crates/testkit/src/waiting.rs`), and what a bound in seconds means is counted: statements, requests,
//! attempts, or what was answered before what.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::expect_none;
use crate::tree::{Text, texts};

/// The files whose tests sleep, each with its reason.
const MAY_SLEEP: &[(&str, &str)] = &[(
    "crates/testkit/tests/canary.rs",
    "shows that a disturbed machine is noticed",
)];

/// The files whose tests compare elapsed time, each with its reason.
const MAY_JUDGE: &[(&str, &str)] = &[
    (
        "crates/steps/src/limits/tests.rs",
        "a rate is kept: so many, and not before, on the clock of the process",
    ),
    (
        "tests/chaos/stop.rs",
        "the bound of a stop is the promise; standstills of the machine are taken out",
    ),
    (
        "crates/engine/src/runtime/room.rs",
        "not before: a namespace is crowded for a while",
    ),
    (
        "crates/engine/src/services/service/tests.rs",
        "not before: a service that failed rests",
    ),
    (
        "crates/server/tests/http/auth.rs",
        "a revoked token works for five seconds at most: judged by when a request was sent",
    ),
    (
        "crates/server/tests/http/console/keyboard.rs",
        "a revoked sign-in shows pages for five seconds at most: judged by when a page was asked for",
    ),
    (
        "crates/server/tests/http/console/live/pace.rs",
        "not before: a page rests between two looks",
    ),
    (
        "crates/server/tests/http/respond.rs",
        "not before: a sender waits for its response",
    ),
    ("tests/chaos/audit.rs", "a bound that .ci/long alone judges"),
    (
        "tests/chaos/events.rs",
        "a bound that .ci/long alone judges",
    ),
    (
        "tests/chaos/second_night.rs",
        "the rhythm of kills, which judges nothing",
    ),
    (
        "tests/stories/first_minutes.rs",
        "a bound that is judged where figures are taken",
    ),
];

/// The kit sleeps for all tests.
const SLEEPS_FOR_ALL: &[&str] = &["crates/testkit/src/"];

/// Where time is measured.
const MEASURE: &[&str] = &["crates/testkit/", "crates/bench/"];

/// The functions that let time pass.
const SLEEPS: &[&str] = &["sleep", "sleep_until"];

/// What says how long something took.
const ELAPSED: &str = "elapsed()";

/// The same without the time in which the machine stood still. In halves, because this file is searched as well.
const WATCH: &str = concat!("Stop", "watch");

/// Comparisons, as they are formatted.
const COMPARISONS: &[&str] = &[" < ", " > ", " <= ", " >= "];

#[test]
fn no_test_sleeps_outside_the_kit() -> Result<()> {
    let find = |code: &TestCode<'_>| code.find(|lines, index| sleeps(lines[index]));
    let advice = "wait for a condition by semel_testkit::until";
    expect_none(&object(find, SLEEPS_FOR_ALL, MAY_SLEEP, advice)?)
}

#[test]
fn no_test_judges_how_long_something_took() -> Result<()> {
    let find = |code: &TestCode<'_>| code.find(judges_time);
    let advice = "count what the time stands for";
    expect_none(&object(find, MEASURE, MAY_JUDGE, advice)?)
}

#[test]
fn no_test_calls_a_text_absent_that_chance_writes() -> Result<()> {
    let find = |code: &TestCode<'_>| code.find(|lines, index| denies_digits(lines[index]));
    let advice = "look for a text with a letter after f, a space or a sign in it";
    expect_none(&object(find, &[], &[], advice)?)
}

#[test]
fn digits_that_are_called_absent_are_found() {
    assert!(denies_digits(
        "    assert!(!page.contains(\"4200\"), \"{page}\");"
    ));
    assert!(denies_digits("    assert!(!seen.contains(\"c0de\"));"));
    assert!(!denies_digits("    assert!(page.contains(\"4200\"));"));
    assert!(!denies_digits("    assert!(!page.contains(\"sk_4200\"));"));
}

/// Whether a line says that some hexadecimal digits are not in a text. Identities, digests and fractions of a
/// second have any four of them in one run of some thousands.
fn denies_digits(line: &str) -> bool {
    const CONTAINS: &str = ".contains(\"";
    let Some((before, after)) = line.split_once(CONTAINS) else {
        return false;
    };
    let sought = after.split('"').next().unwrap_or_default();
    let is_denied = before
        .rsplit(['(', ' '])
        .any(|word| word.starts_with('!') && !word.starts_with("!="));
    is_denied && !sought.is_empty() && sought.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Objects to what is found outside of some folders and in files that are not excused, and to excuses that
/// nothing needs.
fn object(
    find: impl Fn(&TestCode<'_>) -> Vec<usize>,
    except: &[&str],
    excused: &[(&str, &str)],
    advice: &str,
) -> Result<Vec<String>> {
    let texts = texts()?;
    let mut objections = Vec::new();
    let mut needed = BTreeSet::new();
    for code in test_code(&texts) {
        if except.iter().any(|folder| code.path.starts_with(folder)) {
            continue;
        }
        let found = find(&code);
        if excused.iter().any(|(path, _)| *path == code.path) {
            needed.extend((!found.is_empty()).then_some(code.path));
            continue;
        }
        let at = |index: usize| (index + 1, code.lines[index].trim());
        let found = found.into_iter().map(at);
        objections
            .extend(found.map(|(line, text)| format!("{}:{line}: {text}: {advice}", code.path)));
    }
    let idle = excused.iter().filter(|(path, _)| !needed.contains(*path));
    objections.extend(idle.map(|(path, reason)| format!("{path} needs no excuse now ({reason})")));
    Ok(objections)
}

/// A file with code for tests. Its other lines, and its comments, are empty.
struct TestCode<'a> {
    path: &'a str,
    lines: Vec<&'a str>,
}

impl TestCode<'_> {
    /// The lines of which something is true.
    fn find(&self, is_found: impl Fn(&[&str], usize) -> bool) -> Vec<usize> {
        let indices = 0..self.lines.len();
        indices
            .filter(|index| is_found(&self.lines, *index))
            .collect()
    }
}

fn test_code(texts: &[Text]) -> Vec<TestCode<'_>> {
    let sources = || texts.iter().filter(|text| text.path.ends_with(".rs"));
    let modules: Vec<String> = sources().flat_map(test_modules).collect();
    let is_module = |path: &str| {
        let rest = |module: &String| path.strip_prefix(module.as_str());
        let mut rests = modules.iter().filter_map(rest);
        rests.any(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    let code = sources().map(|text| {
        let whole = is_whole(&text.path) || is_module(&text.path);
        let lines: Vec<&str> = match whole {
            true => text.content.lines().collect(),
            false => lines_for_tests(&text.content),
        };
        let is_comment = |line: &str| line.trim_start().starts_with("//");
        let lines = lines.into_iter();
        TestCode {
            path: &text.path,
            lines: lines
                .map(|line| if is_comment(line) { "" } else { line })
                .collect(),
        }
    });
    code.collect()
}

/// Whether a file lies in a folder of tests.
fn is_whole(path: &str) -> bool {
    let mut folders = path.split('/');
    match folders.next() {
        Some("tests") => true,
        Some("crates") => folders.nth(1) == Some("tests"),
        Some(_) | None => false,
    }
}

/// The modules that a file declares for tests alone, by their paths without an ending.
fn test_modules(text: &Text) -> Vec<String> {
    let file = text.path.trim_end_matches(".rs");
    let folder = match file.rsplit_once('/') {
        Some((folder, "lib" | "main")) => folder,
        Some(_) | None => file,
    };
    let declared = lines_for_tests(&text.content);
    let names = declared
        .iter()
        .filter_map(|line| line.trim().strip_prefix("mod ")?.strip_suffix(';'));
    names.map(|name| format!("{folder}/{name}")).collect()
}

/// The lines of what is compiled for tests alone. All others are empty.
fn lines_for_tests(source: &str) -> Vec<&str> {
    let mut place = Place::Product;
    let lines = source.lines().map(|line| {
        let (next, is_test) = place.then(line);
        place = next;
        if is_test { line } else { "" }
    });
    lines.collect()
}

/// Where a line of a source stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Product,
    /// Behind the mark of an item for tests, that is indented so far.
    Marked(usize),
    /// In such an item, which ends with a bracket that is indented so far.
    Item(usize),
}

impl Place {
    /// Where the next line stands, and whether this one is for tests alone.
    fn then(self, line: &str) -> (Self, bool) {
        let text = line.trim();
        let indent = line.len() - line.trim_start().len();
        match self {
            Self::Product if text == "#[cfg(test)]" => (Self::Marked(indent), false),
            Self::Product => (Self::Product, false),
            Self::Marked(_) if text.starts_with("#[") => (self, true),
            Self::Marked(_) if text.ends_with([';', '}']) => (Self::Product, true),
            Self::Marked(indent) => (Self::Item(indent), true),
            Self::Item(end) if indent == end && text.starts_with('}') => (Self::Product, true),
            Self::Item(_) => (self, true),
        }
    }
}

/// Whether a line calls a function that lets time pass, and not another of the same name.
fn sleeps(line: &str) -> bool {
    SLEEPS.iter().any(|name| {
        let call = format!("{name}(");
        let mut calls = line.match_indices(call.as_str());
        calls.any(|(at, _)| leads_to_a_clock(&line[..at]))
    })
}

/// Whether the text before a function's name says that it is the runtime's or the standard library's: nothing does
/// where the name was imported.
fn leads_to_a_clock(before: &str) -> bool {
    if let Some(path) = before.strip_suffix("::") {
        return path.ends_with("time") || path.ends_with("thread");
    }
    let is_declared = before.ends_with("fn ");
    let last = before.chars().next_back();
    !is_declared && !last.is_some_and(|last| last.is_alphanumeric() || "_.".contains(last))
}

/// Whether a line compares elapsed time, by itself or by the name that it was given before in its function.
fn judges_time(lines: &[&str], index: usize) -> bool {
    let line = lines[index];
    if has_word(line, WATCH) {
        return true;
    }
    // An operator that begins a line belongs to the line before.
    let next = lines.get(index + 1).map_or("", |next| next.trim());
    let mut comparisons = COMPARISONS.iter();
    let joined = match comparisons.any(|it| next.starts_with(it.trim_start())) {
        true => format!("{line} {next}"),
        false => line.to_owned(),
    };
    let sides = compared(&joined);
    if sides.is_empty() {
        return false;
    }
    let function = lines[..index].iter().rev();
    let function = function.take_while(|line| !declares_function(line));
    let names: Vec<&str> = function.filter_map(|line| named_elapsed(line)).collect();
    let is_time =
        |side: &&str| side.contains(ELAPSED) || names.iter().any(|name| has_word(side, name));
    sides.iter().any(is_time)
}

/// What stands on both sides of every comparison of a line.
fn compared(line: &str) -> Vec<&str> {
    let mut sides = Vec::new();
    for comparison in COMPARISONS {
        for (at, _) in line.match_indices(comparison) {
            let (left, right) = (&line[..at], &line[at + comparison.len()..]);
            let ends = [", ", "&& ", "|| "];
            let begin = ends
                .iter()
                .filter_map(|end| Some(left.rfind(*end)? + end.len()));
            let end = ends.iter().filter_map(|end| right.find(end.trim_end()));
            sides.push(&left[begin.max().unwrap_or(0)..]);
            sides.push(&right[..end.min().unwrap_or(right.len())]);
        }
    }
    sides
}

/// The name that a line gives to elapsed time.
fn named_elapsed(line: &str) -> Option<&str> {
    if !line.contains(ELAPSED) {
        return None;
    }
    let line = line.trim_start();
    let line = line.strip_prefix("let ").unwrap_or(line);
    let line = line.strip_prefix("mut ").unwrap_or(line);
    let end = line.find(|letter: char| !is_of_name(letter))?;
    let (name, rest) = line.split_at(end);
    let is_named = rest.starts_with(" = ") || rest.starts_with(": ");
    (is_named && !name.is_empty()).then_some(name)
}

fn declares_function(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("fn ") || line.contains(" fn ")
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(is_of_name) && !after.starts_with(is_of_name)
    })
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[test]
fn a_call_that_lets_time_pass_is_told_from_others_of_its_name() {
    // In other words, because this file is searched as well.
    let is_found = |line: &str| sleeps(&line.replace("nap", "sleep"));

    for line in [
        "    nap(Duration::from_millis(10)).await;",
        "tokio::time::nap(pause).await",
        "std::thread::nap_until(then);",
    ] {
        assert!(is_found(line), "{line}");
    }
    for line in [
        "\"SELECT pg_nap(1)\"",
        "pauses::nap(cell).await",
        "world.nap(run).await",
        "async fn nap(run: RunId) {",
        "append(\"nap 1\")",
    ] {
        assert!(!is_found(line), "{line}");
    }
}

#[test]
fn elapsed_time_is_seen_under_its_name_and_over_two_lines() {
    let find = |lines: &[&str]| -> Vec<usize> {
        let lines: Vec<String> = lines
            .iter()
            .map(|it| it.replace("gone()", ELAPSED))
            .collect();
        let lines = lines.iter().map(String::as_str).collect();
        TestCode { path: "", lines }.find(judges_time)
    };

    assert_eq!(find(&["assert!(begun.gone() < BOUND);"]), [0]);
    assert_eq!(find(&["begun.gone()", "    >= BOUND,"]), [0]);
    let named = [
        "fn one() {",
        "let took = begun.gone().as_secs();",
        "assert!(took < 3, \"{took}\");",
        "fn other() {",
        "assert!(took < 3);",
    ];
    assert_eq!(find(&named), [2]);
    assert!(find(&["assert!(runs > 3, \"after {:?}\", begun.gone());"]).is_empty());
    assert!(find(&["let each = begun.gone();", "let all: Vec<u8> = read();"]).is_empty());
}

#[test]
fn code_for_tests_is_told_from_the_product_s() {
    let source = "fn a() {}\n#[cfg(test)]\nfn b() {\n    c();\n}\nfn d() {}\n\
                  #[cfg(test)]\nmod e;\n#[cfg(test)]\nmod f {\n    fn g() {}\n}\n";

    let kept: Vec<&str> = lines_for_tests(source);
    let kept: Vec<&str> = kept.into_iter().filter(|line| !line.is_empty()).collect();

    let expected = [
        "fn b() {",
        "    c();",
        "}",
        "mod e;",
        "mod f {",
        "    fn g() {}",
        "}",
    ];
    assert_eq!(kept, expected);
    let text = |path: &str| Text {
        path: path.to_owned(),
        content: source.to_owned(),
    };
    let modules = |path: &str| test_modules(&text(path));
    assert_eq!(modules("crates/a/src/b.rs"), ["crates/a/src/b/e"]);
    assert_eq!(modules("crates/a/src/lib.rs"), ["crates/a/src/e"]);
    assert!(is_whole("crates/a/tests/b/c.rs") && !is_whole("crates/a/src/tests.rs"));
}
