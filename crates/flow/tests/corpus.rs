//! Every file of the corpus: the good ones are flows, the bad ones say what is wrong with them.

#![expect(
    clippy::expect_used,
    reason = "helpers of tests: a corpus that cannot be read is a failure"
)]

use std::fs;
use std::path::{Path, PathBuf};

use semel_flow::{Flow, Severity, check};

fn files(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(kind);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the corpus is there")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    files
}

fn name(file: &Path) -> String {
    file.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
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
fn good_files_are_flows() {
    for file in files("good") {
        let source = fs::read_to_string(&file).expect("it can be read");

        let checked = check(&name(&file), &source);

        assert!(checked.flow.is_some(), "{}", checked.render(false));
        let again = check("other", &source).flow.map(|flow| flow.digest());
        assert_eq!(checked.flow.map(|flow| flow.digest()), again);
    }
}

#[test]
fn bad_files_say_what_is_wrong_with_them() {
    for file in files("bad") {
        let source = fs::read_to_string(&file).expect("it can be read");

        let checked = check(&name(&file), &source);

        assert!(checked.flow.is_none(), "{} is refused", file.display());
        assert!(
            checked
                .diagnostics
                .iter()
                .any(|one| one.severity == Severity::Error)
        );
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(name(&file), checked.render(false));
        });
    }
}

#[test]
fn a_warning_does_not_stop_a_flow() {
    let source = fs::read_to_string(&files("good")[2]).expect("it can be read");

    let checked = check("unstated.yaml", &source);

    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("unstated.yaml", checked.render(false));
    });
    assert!(checked.flow.is_some());
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
