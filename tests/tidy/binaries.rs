//! Every file of tests belongs to a test binary.
//!
//! Crates with many files of tests build one binary of them, `tests/all.rs`, because each binary links
//! everything that it uses. A file that its parent does not name would never be compiled.

use anyhow::Result;

use crate::expect_none;
use crate::tree::{Text, texts};

/// Files that begin a binary or a library.
const ROOTS: [&str; 3] = ["main", "all", "lib"];

#[test]
fn every_file_of_tests_is_a_module_of_a_binary() -> Result<()> {
    let mut sources = texts()?;
    sources.retain(|text| text.path.ends_with(".rs"));
    let tests = sources
        .iter()
        .filter(|text| text.path.starts_with("tests/") || text.path.contains("/tests/"));
    let lost = tests.filter(|text| !belongs(&text.path, &sources));
    let objections = lost.map(|text| format!("{} is a module of nothing", text.path));
    expect_none(&objections.collect::<Vec<_>>())
}

/// Whether a file begins a binary, or the file above it names it as a module.
fn belongs(path: &str, sources: &[Text]) -> bool {
    let Some((folder, stem)) = path.trim_end_matches(".rs").rsplit_once('/') else {
        return true;
    };
    let above = [
        format!("{folder}/main.rs"),
        format!("{folder}/all.rs"),
        format!("{folder}.rs"),
    ];
    let mut above = sources.iter().filter(|text| above.contains(&text.path));
    let names = |text: &Text| text.content.contains(&format!("mod {stem};"));
    // Cargo makes a binary of each file in `tests` where the crate has no binary for all.
    let begins = above.clone().next().is_none() && folder.ends_with("/tests");
    ROOTS.contains(&stem) || begins || above.any(names)
}
