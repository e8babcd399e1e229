//! Formatting changes how a file looks, and nothing else.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;

use semel_flow::{CheckContext, examine, format};

fn sources() -> Vec<(String, String)> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = ["good", "bad"].into_iter().flat_map(|kind| {
        let folder = fs::read_dir(corpus.join(kind)).expect("the corpus is there");
        folder.map(|entry| entry.expect("a file").path())
    });
    files
        .map(|file| {
            let source = fs::read_to_string(&file).expect("it can be read");
            (file.display().to_string(), source)
        })
        .collect()
}

#[test]
fn formatting_twice_is_formatting_once_and_changes_no_digest() {
    let mut formatted = 0;
    for (file, source) in sources() {
        let Ok(once) = format(&file, &source) else {
            continue;
        };
        formatted += 1;
        let twice = format(&file, &once).expect("what is formatted can be formatted");
        assert_eq!(once, twice, "{file}");
        let digest = |source: &str| {
            let tree = examine("a", source, &CheckContext::default()).tree;
            tree.map(|tree| tree.digest())
        };
        assert_eq!(digest(&source), digest(&once), "{file}\n{once}");
        let comments = |source: &str| source.matches("# ").count();
        assert_eq!(comments(&source), comments(&once), "{file}\n{once}");
    }
    assert!(formatted > 190, "{formatted} files");
}

#[test]
fn fields_come_in_the_order_of_the_grammar_and_comments_stay() {
    let source = r#"# A flow of two steps.
steps:
    # first this
    - http:
        json: {b: 1,   a: 2}
        put: 'https://a.example/1' # the place
      id:   one
    - {function: input.a, id: two}


# how it starts
trigger: {api: {}}
flow: tidy   # its name
about: >
  a text that
  is folded
"#;

    let formatted = format("tidy.yaml", source).expect("it is YAML");

    let expected = r#"# A flow of two steps.
flow: tidy   # its name
about: |
  a text that is folded

# how it starts
trigger: { api: {} }
steps:
  # first this
  - id: one
    http:
      put: 'https://a.example/1'   # the place
      json: { b: 1, a: 2 }
  - { id: two, function: input.a }
"#;
    assert_eq!(formatted, expected);
}

#[test]
fn the_recipes_are_formatted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes");
    for entry in fs::read_dir(folder).expect("the recipes are there") {
        let file = entry.expect("a file").path();
        if file.extension().is_some_and(|end| end == "yaml") {
            let source = fs::read_to_string(&file).expect("it can be read");
            let formatted = format("recipe.yaml", &source).expect("it is YAML");
            if std::env::var_os("SEMEL_BLESS").is_some() {
                fs::write(&file, formatted).expect("it can be written");
            } else {
                assert_eq!(formatted, source, "{}", file.display());
            }
        }
    }
}
