//! Every text file of the repository, and what none of them may hold.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::expect_none;

/// What is built, or belongs to one machine.
const SKIPPED: &[&str] = &["target", ".git", ".semel"];

/// A text file, by its path from the root of the repository.
pub(crate) struct Text {
    pub(crate) path: String,
    pub(crate) content: String,
}

/// The root of the repository.
pub(crate) fn root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    Ok(root.context("the tests lie in the repository")?.to_owned())
}

/// All text files, in the order of their paths.
pub(crate) fn texts() -> Result<Vec<Text>> {
    let root = root()?;
    let mut texts = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if let Ok(content) = fs::read_to_string(entry.path()) {
                let path = entry.path().strip_prefix(&root)?.display().to_string();
                texts.push(Text { path, content });
            }
        }
    }
    texts.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(texts)
}

#[test]
fn no_file_names_a_place_on_one_machine() -> Result<()> {
    // Written in halves, because this file is searched as well.
    let places = [
        concat!("/ro", "ot/"),
        concat!("/wo", "rk/"),
        concat!("/home", "/"),
    ];
    let mut objections = Vec::new();
    for text in texts()? {
        for (index, line) in text.content.lines().enumerate() {
            if places.iter().any(|place| names(line, place)) {
                objections.push(format!("{}:{}: {}", text.path, index + 1, line.trim()));
            }
        }
    }
    expect_none(&objections)
}

/// Whether a line holds the place itself, and not a longer path or an address that ends like it.
fn names(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && !"-_.}>)".contains(before))
    })
}

#[test]
fn every_link_between_documents_leads_somewhere() -> Result<()> {
    let root = root()?;
    let mut objections = Vec::new();
    for text in texts()?.iter().filter(|text| text.path.ends_with(".md")) {
        let folder = root
            .join(&text.path)
            .parent()
            .map(Path::to_owned)
            .unwrap_or_default();
        for link in links(&text.content) {
            if !folder.join(link).exists() {
                objections.push(format!("{}: {link} is not there", text.path));
            }
        }
    }
    expect_none(&objections)
}

/// The targets of links to files, without the part after `#`.
fn links(markdown: &str) -> impl Iterator<Item = &str> {
    let targets = markdown
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains(':') && !target.contains(' '))
        .filter_map(|target| target.split('#').next())
        .filter(|target| !target.is_empty())
}

#[test]
fn every_file_ends_with_one_newline_and_no_line_with_a_space() -> Result<()> {
    let mut objections = Vec::new();
    for text in texts()? {
        if !text.content.is_empty() && !text.content.ends_with('\n') {
            objections.push(format!("{} ends without a newline", text.path));
        }
        let checked = [".rs", ".toml", ".sql", ".sh"]
            .iter()
            .any(|end| text.path.ends_with(end));
        for (index, line) in text.content.lines().enumerate().filter(|_| checked) {
            if line.ends_with([' ', '\t']) {
                objections.push(format!("{}:{} ends with a space", text.path, index + 1));
            }
        }
    }
    expect_none(&objections)
}
