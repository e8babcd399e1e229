//! The recipes of the documentation: each passes, its examples come out, and every change that
//! makes one of its keys unstable is caught.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

mod keys;
mod mutations;
mod play;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use semel_flow::check::{Examined, examine};
use semel_flow::{CheckContext, KnownConnection, Severity};
use serde_json::Value;

struct Recipe {
    name: String,
    source: String,
}

impl Recipe {
    fn examine(&self) -> Examined {
        examine(&self.name, &self.source, &CheckContext::default())
    }

    /// The flow in its canonical form.
    fn tree(&self) -> Value {
        let tree = self.examine().tree.unwrap();
        serde_json::from_str(&tree.to_canonical_json()).unwrap()
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes")
}

fn recipes() -> Vec<Recipe> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.ends_with(".flow.yaml"))
        .collect();
    names.sort();
    let read = |name: String| Recipe {
        source: std::fs::read_to_string(folder().join(&name)).unwrap(),
        name,
    };
    names.into_iter().map(read).collect()
}

#[test]
fn there_are_ten_and_each_has_its_page_and_its_row() {
    let overview = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let recipes = recipes();
    assert_eq!(recipes.len(), 10);
    for recipe in recipes {
        let stem = recipe.name.strip_suffix(".flow.yaml").unwrap();
        let flow = format!("flow: {stem}\n");
        let page = std::fs::read_to_string(folder().join(format!("{stem}.md"))).unwrap();
        assert!(recipe.source.starts_with(&flow), "{stem}");
        assert!(page.contains(&format!("]({})", recipe.name)), "{stem}");
        assert!(overview.contains(&format!("]({stem}.md)")), "{stem}");
    }
}

#[test]
fn each_passes_without_an_alarm_and_without_an_exception() {
    for recipe in recipes() {
        let examined = recipe.examine();
        assert!(
            examined.diagnostics.is_empty(),
            "{}\n{}",
            recipe.name,
            examined.render(false)
        );
        assert!(!recipe.source.contains("allow:"), "{}", recipe.name);
    }
}

#[test]
fn each_can_be_published() {
    for recipe in recipes() {
        let examined = recipe.examine();
        assert!(examined.pending.is_empty(), "{}", recipe.name);
        assert!(examined.flow.is_some(), "{}", recipe.name);
    }
}

#[test]
fn each_passes_where_its_connections_are_known() {
    for recipe in recipes() {
        let window = recipe.source.split("window: ").nth(1);
        let key_window = window.map(|rest| rest.lines().next().unwrap().parse().unwrap());
        let connected = recipe.source.split("connection: ").skip(1);
        let connections = connected.map(|rest| {
            let name = rest.split([',', '\n', ' ']).next().unwrap();
            (
                name.to_owned(),
                KnownConnection {
                    key_window,
                    kind: None,
                },
            )
        });
        let facts = CheckContext {
            connections: connections.collect(),
            unknown: Some(Severity::Error),
        };
        let examined = examine(&recipe.name, &recipe.source, &facts);
        assert!(
            examined.diagnostics.is_empty(),
            "{}\n{}",
            recipe.name,
            examined.render(false)
        );
    }
}

#[test]
fn every_example_starts_a_run_and_yields_what_it_says() {
    for recipe in recipes() {
        let tree = recipe.tree();
        let examples = tree["examples"].as_array().unwrap();
        assert!(!examples.is_empty(), "{}", recipe.name);
        let mut keys = BTreeSet::new();
        for example in examples {
            let name = format!("{}: {}", recipe.name, example["name"]);
            assert!(example["answers"].is_object(), "{name}");
            if let Some(key) = play::key(&tree, example) {
                assert!(keys.insert(key.to_string()), "{name}: {key} stands twice");
            }
            assert_eq!(play::result(&tree, example), example["result"], "{name}");
        }
    }
}

#[test]
fn what_the_pages_propose_to_try_is_noticed() {
    let recipes = recipes();
    let tried = |name: &str, from: &str, to: &str| {
        let recipe = recipes.iter().find(|recipe| recipe.name == name).unwrap();
        assert!(recipe.source.contains(from), "{name}: {from}");
        codes(name, &recipe.source.replacen(from, to, 1))
    };

    let token = "'\"deal/\" + input.form_response.token'";
    let model = tried(
        "form-to-crm.flow.yaml",
        token,
        "steps.reading.result.summary",
    );
    let term = "'\"renewal/\" + string(subscription.id) + \"/\" + string(subscription.term)'";
    let party = tried("renewal-reminders.flow.yaml", term, "subscription.email");
    let refund = &recipes
        .iter()
        .find(|recipe| recipe.name == "refund.flow.yaml");
    let refund = &refund.unwrap().source;
    let (before, rest) = refund.split_once("  - id: agreed\n").unwrap();
    let after = &rest[rest.find("  - id: refund\n").unwrap()..];
    let answered = "      agreed: { approved: true, by: finance }\n";
    let unapproved = format!("{before}{after}").replace(answered, "");
    let money = codes("refund.flow.yaml", &unapproved);

    assert_eq!(model, ["key-model"]);
    assert_eq!(party, ["key-party"]);
    assert_eq!(money, ["money-unapproved"]);
}

#[test]
fn every_unstable_key_is_caught() {
    let (mut made, mut missed) = (BTreeMap::new(), vec![]);
    for recipe in recipes() {
        let tree = recipe.tree();
        let keys = keys::find(&recipe.source);
        let own = keys.iter().filter(|key| !key.from_preset).count();
        assert_eq!(own, keys::count(&tree), "{}: every key", recipe.name);
        for key in &keys {
            let unchanged = codes(&recipe.name, &key.with(&key.expr));
            assert!(unchanged.is_empty(), "{}: {unchanged:?}", recipe.name);
            for mutation in mutations::of(key, &tree) {
                *made.entry(mutation.kind).or_insert(0) += 1;
                let found = codes(&recipe.name, &mutation.source);
                if !found.iter().any(|code| mutation.codes.contains(code)) {
                    let (name, kind, expr) = (&recipe.name, mutation.kind, &mutation.expr);
                    missed.push(format!("{name}: {:?}, {kind}: {expr}: {found:?}", key.role));
                }
            }
        }
    }
    let total: usize = made.values().sum();
    let caught = total - missed.len();
    println!("keys made unstable: caught {caught} / made {total}, by kind {made:?}");
    assert!(total > 1000, "only {total} changes were made");
    assert!(missed.is_empty(), "missed:\n{}", missed.join("\n"));
}

fn codes(name: &str, source: &str) -> Vec<&'static str> {
    let found = examine(name, source, &CheckContext::default()).diagnostics;
    found.iter().map(|found| found.code.as_str()).collect()
}
