//! The modules of this crate use only those below them: there is no circle, so each can be read
//! without those that rest on it.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("a file").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect()
}

/// The modules of the crate that a text names, its own tests aside.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let product = text.split("#[cfg(test)]").next().unwrap_or(text);
    let lines = product
        .lines()
        .filter(|line| !line.trim().starts_with("//"));
    lines
        .flat_map(|line| line.split("crate::").skip(1))
        .map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            end.map_or(rest, |end| &rest[..end])
        })
}

fn uses() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files(&root) {
        let inside = file.strip_prefix(&root).expect("it is inside");
        let first = inside.iter().next().unwrap_or_default().to_string_lossy();
        let module = first.trim_end_matches(".rs").to_owned();
        if module == "lib" || file.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("it can be read");
        let others = named(&text).filter(|name| *name != module);
        let known = uses.entry(module.clone()).or_default();
        known.extend(others.map(str::to_owned));
    }
    uses
}

#[test]
fn modules_have_no_cycles() {
    let mut left = uses();
    assert!(left.len() > 15, "{left:?}");
    assert!(left["check"].contains("steps"), "{left:?}");

    // Whatever rests on nothing that is left is taken away, until nothing is left but circles.
    loop {
        let free = |others: &BTreeSet<String>| !others.iter().any(|it| left.contains_key(it));
        let settled = left.iter().filter(|(_, others)| free(others));
        let settled: Vec<String> = settled.map(|(module, _)| module.clone()).collect();
        if settled.is_empty() {
            break;
        }
        left.retain(|module, _| !settled.contains(module));
    }

    assert!(left.is_empty(), "these rest on each other: {left:#?}");
}
