//! Every chaos test ends with a look at the invariants of the tables, by itself or by what it calls, or says why not.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::expect_none;
use crate::tree::texts;

/// Tests without that look, each with the reason.
const EXCUSED: &[(&str, &str)] = &[(
    "an_acknowledged_commit_survives_the_killing_of_the_server",
    "PostgreSQL alone, without a database of Semel",
)];

/// Where chaos tests are.
const FOLDER: &str = "tests/chaos/";

/// How a function looks at the invariants.
const LOOK: &str = "invariants::";

/// The least tests that the search must find.
const TESTS_MIN: usize = 80;

/// A function of a test's module, by its text.
struct Function {
    name: String,
    text: String,
    is_test: bool,
}

#[test]
fn every_chaos_test_ends_with_a_look_at_the_invariants() -> Result<()> {
    let mut modules: BTreeMap<String, Vec<Function>> = BTreeMap::new();
    for text in texts()? {
        if let Some(path) = text.path.strip_prefix(FOLDER) {
            let module = path.split(['/', '.']).next().unwrap_or_default();
            let functions = modules.entry(module.to_owned()).or_default();
            functions.extend(read_functions(&text.content));
        }
    }
    let tests: usize = modules.values().map(|of| count_tests(of)).sum();
    anyhow::ensure!(tests >= TESTS_MIN, "{tests} tests");

    let blind: BTreeSet<&str> = modules.values().flat_map(|of| find_blind(of)).collect();
    let excused: BTreeSet<&str> = EXCUSED.iter().map(|(test, _)| *test).collect();
    let beyond = blind.difference(&excused);
    let mut objections: Vec<String> = beyond
        .map(|test| format!("{test} ends without invariants::hold"))
        .collect();
    let idle = excused.difference(&blind);
    objections.extend(idle.map(|test| format!("{test} is excused and looks, or is not there")));
    expect_none(&objections)
}

#[test]
fn a_test_that_does_not_look_is_found() {
    let source = "
#[tokio::test]
async fn looks_by_itself() { invariants::hold(&home).await }

#[tokio::test(flavor = \"multi_thread\")]
async fn looks_by_a_helper() { play(1).await }

#[tokio::test]
#[ignore = \"long\"]
async fn looks_nowhere() { display(1).await }

fn play(of: u8) { rest() }

fn rest() { invariants::hold_but(&home).await }

fn display(of: u8) {}
";

    let functions = read_functions(source);

    assert_eq!(count_tests(&functions), 3);
    assert_eq!(find_blind(&functions), ["looks_nowhere"]);
}

/// The functions of a source: what stands between one and the next belongs to the first, but for the attributes
/// of the next.
fn read_functions(source: &str) -> Vec<Function> {
    let parts: Vec<&str> = source.split("fn ").collect();
    let pairs = parts.iter().zip(parts.iter().skip(1));
    pairs
        .map(|(before, text)| {
            let (_, attributes) = before.rsplit_once("}\n").unwrap_or(("", before));
            let end = text.find(|c: char| !is_of_name(c)).unwrap_or(text.len());
            Function {
                name: text[..end].to_owned(),
                text: (*text).to_owned(),
                is_test: attributes.contains("#[tokio::test"),
            }
        })
        .collect()
}

fn count_tests(functions: &[Function]) -> usize {
    functions.iter().filter(|it| it.is_test).count()
}

/// The tests of a module that do not come to the look, whatever they call.
fn find_blind(functions: &[Function]) -> Vec<&str> {
    let tests = functions.iter().filter(|it| it.is_test);
    let blind = tests.filter(|test| !comes_to_look(test, functions));
    blind.map(|test| test.name.as_str()).collect()
}

fn comes_to_look(test: &Function, functions: &[Function]) -> bool {
    let (mut left, mut seen) = (vec![test], BTreeSet::new());
    while let Some(function) = left.pop() {
        if function.text.contains(LOOK) {
            return true;
        }
        let called = functions.iter().filter(|it| !it.is_test);
        let called = called.filter(|it| calls(&function.text, &it.name));
        for other in called {
            // Functions of one name are taken for one.
            if seen.insert(std::ptr::from_ref(other)) {
                left.push(other);
            }
        }
    }
    false
}

/// Whether a text has the name as a whole word before a parenthesis.
fn calls(text: &str, name: &str) -> bool {
    let call = format!("{name}(");
    text.match_indices(&call).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(is_of_name)
    })
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
