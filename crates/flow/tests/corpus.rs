//! Every file of the corpus: on the good ones not a word is said, the bad ones say what is wrong
//! with them, with code, line and column.
//!
//! The expectations stand at the end of each bad file. `SEMEL_BLESS=1` writes them anew, for a person
//! to read before they are kept.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests: a corpus that cannot be read is a failure"
)]

use std::fs;
use std::path::{Path, PathBuf};

use semel_flow::{
    CheckContext, Code, Examined, Flow, KnownConnection, Severity, check, examine, load,
};

const EXPECT: &str = "# expect: ";
const CONNECTIONS: &str = "# connections: ";
const KINDS: [&str; 7] = ["http", "postgres", "smtp", "ssh", "slack", "webhook", "llm"];

fn files(kind: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = match kind {
        "recipes" => root.join("../../docs/recipes"),
        kind => root.join("tests/corpus").join(kind),
    };
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the corpus is there")
        .map(|entry| entry.expect("a file").path())
        .filter(|file| file.extension().is_some_and(|end| end == "yaml"))
        .collect();
    files.sort();
    files
}

fn name(file: &Path) -> String {
    file.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn examined(file: &Path) -> (String, Examined) {
    let source = fs::read_to_string(file).expect("it can be read");
    let examined = examine(&name(file), &source, &facts(&source));
    (source, examined)
}

/// What a file says about its connections: `{"books": "24h", "crm": null}`, or their kinds, which
/// makes those that are not among them unknown: `{"books": "http"}`.
fn facts(source: &str) -> CheckContext {
    let mut facts = CheckContext::default();
    let said = source
        .lines()
        .find_map(|line| line.strip_prefix(CONNECTIONS));
    let said: serde_json::Value = said.map_or_else(Default::default, |said| {
        serde_json::from_str(said).expect("connections are JSON")
    });
    for (name, window) in said.as_object().into_iter().flatten() {
        let word = window.as_str();
        let kind = KINDS.into_iter().find(|kind| word == Some(*kind));
        let window = word.filter(|_| kind.is_none());
        let key_window = window.map(|span| span.parse().expect("a span"));
        let connection = KnownConnection { key_window, kind };
        facts.connections.insert(name.clone(), connection);
        if kind.is_some() {
            facts.unknown = Some(Severity::Error);
        }
    }
    facts
}

fn good(file: &str) -> Flow {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus/good")
        .join(file);
    let checked = check(file, &fs::read_to_string(path).expect("the file is there"));
    checked
        .flow
        .clone()
        .unwrap_or_else(|| panic!("{}", checked.render(false)))
}

#[test]
fn good_files_and_recipes_have_no_diagnostics() {
    let mut alarms = String::new();
    assert!(files("recipes").len() >= 10);
    for file in files("good").into_iter().chain(files("recipes")) {
        let (source, examined) = examined(&file);

        alarms.push_str(&examined.render(false));
        assert!(examined.tree.is_some() || !alarms.is_empty(), "{file:?}");
        assert_eq!(
            examined.flow.is_some(),
            examined.pending.is_empty() && examined.is_sound()
        );
        let again = examine("other", &source, &facts(&source)).tree;
        assert_eq!(
            examined.tree.map(|tree| tree.digest()),
            again.map(|tree| tree.digest())
        );
    }
    assert!(alarms.is_empty(), "{alarms}");
}

#[test]
fn bad_files_say_what_is_wrong_with_them() {
    let bless = std::env::var_os("SEMEL_BLESS").is_some();
    let mut differences = vec![];
    for file in files("bad") {
        let (source, examined) = examined(&file);
        let said: Vec<String> = examined
            .diagnostics
            .iter()
            .map(|one| format!("{EXPECT}{} {}:{}", one.code, one.line, one.column))
            .collect();
        let expected: Vec<&str> = source
            .lines()
            .filter(|line| line.starts_with(EXPECT))
            .collect();
        if bless {
            let lines = source.lines().filter(|line| !line.starts_with(EXPECT));
            let text: Vec<&str> = lines.chain(said.iter().map(String::as_str)).collect();
            fs::write(&file, text.join("\n") + "\n").expect("it can be written");
        } else if said != expected {
            let shown = examined.render(false);
            differences.push(format!("{}\n{}\n{shown}", name(&file), said.join("\n")));
        }
        assert!(!said.is_empty(), "{} is bad", file.display());
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// The rules whose files begin with another word.
#[test]
fn every_rule_has_its_files() {
    let names = |kind: &str| {
        files(kind)
            .iter()
            .map(|file| name(file))
            .collect::<Vec<_>>()
    };
    let (bad, good) = (names("bad"), names("good"));
    let count = |names: &[String], start: String| {
        names.iter().filter(|name| name.starts_with(&start)).count()
    };
    for code in Code::ALL.iter().filter(|code| code.is_rule()) {
        let fires = count(&bad, format!("{code}-"));
        let silent = count(&good, format!("{code}-not-"));

        assert!(fires >= 3, "{code} fires in {fires} files");
        assert!(silent >= 1, "{code} stays silent in {silent} files");
    }
    assert!(bad.len() + good.len() >= 150);
    println!("{} good, {} bad", good.len(), bad.len());
}

#[test]
fn every_rule_fires_in_the_files_that_are_named_for_it() {
    for file in files("bad") {
        let (_, examined) = examined(&file);
        let name = name(&file);
        let code = Code::ALL
            .iter()
            .find(|code| name.starts_with(&format!("{code}-")));
        if let Some(code) = code {
            let fires = examined.diagnostics.iter().any(|one| one.code == *code);
            assert!(fires, "{name}: {}", examined.render(false));
        }
    }
}

#[test]
fn messages_match_their_snapshots() {
    for file in files("bad") {
        let whole = file.file_stem().is_some_and(|stem| {
            let stem = stem.to_string_lossy();
            !stem.contains('-') || stem.ends_with("-clock-field")
        });
        if !whole {
            continue;
        }
        let (_, examined) = examined(&file);
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(name(&file), examined.render(false));
        });
    }
}

#[test]
fn a_warning_does_not_stop_a_flow() {
    let source = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/bad/unstated.yaml"),
    );

    let checked = check("unstated.yaml", &source.expect("it can be read"));

    let warned = checked
        .diagnostics
        .iter()
        .all(|one| one.severity == Severity::Warning);
    assert!(warned && !checked.diagnostics.is_empty());
    assert!(checked.flow.is_some());
}

#[test]
fn what_this_build_cannot_run_is_named_before_it_is_published() {
    let source = "flow: count\ntrigger: { api: {} }\nsteps:\n  - id: count\n    \
                  key: '\"order:\" + input.id'\n    kv: { add: orders }\n";

    let checked = check("count.yaml", source);

    assert!(checked.flow.is_none());
    let codes: Vec<Code> = checked.diagnostics.iter().map(|one| one.code).collect();
    assert!(codes.iter().all(|code| *code == Code::NotInThisBuild));
    assert!(!codes.is_empty());
}

#[test]
fn a_release_is_read_back_whatever_rules_have_come_since() {
    let source = "flow: old\ntrigger: { api: { key: input.sent_at } }\nsteps: []\n";

    let refused = check("old.yaml", source);
    let live = load(source);

    assert!(refused.flow.is_none());
    assert_eq!(
        live.map(|flow| flow.name.to_string()),
        Some("old".to_owned())
    );
    assert!(load("flow: [").is_none());
    let whole = good("whole.yaml");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/good/whole.yaml");
    let again = load(&fs::read_to_string(path).expect("it can be read"));
    assert_eq!(again.map(|flow| flow.digest()), Some(whole.digest()));
}

#[test]
fn a_flow_has_one_canonical_form() {
    let flow = good("whole.yaml");

    let canonical = flow.to_canonical_json();

    let value: serde_json::Value = serde_json::from_str(&canonical).expect("it is JSON");
    let pretty = serde_json::to_string_pretty(&value).expect("it can be written");
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("whole.json", pretty);
        insta::assert_snapshot!("whole.digest", flow.digest().to_string());
    });
}

#[test]
fn spelling_does_not_change_the_digest() {
    let whole = good("whole.yaml");
    let respelled = good("respelled.yaml");

    assert_eq!(whole.to_canonical_json(), respelled.to_canonical_json());
    assert_eq!(whole.digest(), respelled.digest());
}

#[test]
fn diagnostics_serialise_for_programs() {
    let checked = check("a.yaml", "flow: a\nabuot: b\n");

    let json = serde_json::to_value(checked.diagnostics.last()).expect("it serialises");

    assert_eq!(
        json,
        serde_json::json!({
            "code": "unknown-field", "severity": "error", "file": "a.yaml", "line": 2, "column": 1,
            "width": 5, "text": "abuot: b", "message": "a flow has no field `abuot`",
            "help": "did you mean `about`?",
        })
    );
}
