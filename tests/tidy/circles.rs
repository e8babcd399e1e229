//! Modules use only modules that do not use them: there is no circle, so each can be read without
//! those that rest on it.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use crate::expect_none;
use crate::modules::{Modules, Uses};
use crate::tree::root;

/// Where modules still use each other, as `crate` or `crate::parent`, and why.
const CIRCULAR: &[(&str, &str)] = &[
    (
        "steps",
        "executors and their registry share what they reach",
    ),
    (
        "steps::http",
        "a body has parts; a token is asked for as a request is authenticated",
    ),
    (
        "store",
        "a transition is written to the tables, which read their columns from it",
    ),
    (
        "store::journal",
        "seeded bugs change the statements that they are called by",
    ),
];

#[test]
fn no_module_rests_on_one_that_rests_on_it() -> Result<()> {
    let mut objections = Vec::new();
    for entry in std::fs::read_dir(root()?.join("crates"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        for (parent, uses) in Modules::of_crate(&name)?.by_parent() {
            let mut place = vec![name.clone()];
            place.extend(parent);
            let place = place.join("::");
            let rest = circle(uses);
            if !rest.is_empty() && !CIRCULAR.iter().any(|(known, _)| *known == place) {
                objections.push(format!("{place}: these rest on each other: {rest:?}"));
            }
        }
    }
    expect_none(&objections)
}

#[test]
fn the_modules_of_a_crate_are_read() -> Result<()> {
    let flow = Modules::of_crate("flow")?.at_root();

    assert!(flow.len() > 15, "{flow:?}");
    let check = flow.get("check").context("a module check")?;
    assert!(check.contains("steps"), "{check:?}");
    Ok(())
}

/// What is left when everything is taken away that uses nothing else, or that nothing else uses,
/// until only circles and what lies between them remain.
fn circle(mut left: Uses) -> Uses {
    loop {
        let used: BTreeSet<String> = left.values().flatten().cloned().collect();
        let is_tied = |module: &String, others: &BTreeSet<String>| {
            used.contains(module) && others.iter().any(|other| left.contains_key(other))
        };
        let tied: Uses = left
            .iter()
            .filter(|(module, others)| is_tied(module, others))
            .map(|(module, others)| (module.clone(), others.clone()))
            .collect();
        if tied.len() == left.len() {
            return left;
        }
        left = tied;
    }
}

#[test]
fn a_circle_is_found_and_a_chain_is_not() {
    let sources = |last: &'static str| {
        [("a", "use crate::b;"), ("b", "use crate::c;"), ("c", last)].into_iter()
    };
    let chain = Modules::of_sources(sources("")).at_root();
    let closed = Modules::of_sources(sources("use crate::a::Item;")).at_root();

    assert!(circle(chain).is_empty());
    assert_eq!(circle(closed).len(), 3);
}
