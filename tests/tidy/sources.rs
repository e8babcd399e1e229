//! What every source file keeps to.

use anyhow::Result;

use crate::expect_none;
use crate::tree::{Text, texts};

/// The most lines of a file.
const LINES_MAX: usize = 800;

/// The files that may be longer, each with its reason.
const LONG: &[(&str, &str)] = &[];

fn sources() -> Result<Vec<Text>> {
    let mut texts = texts()?;
    texts.retain(|text| text.path.ends_with(".rs"));
    Ok(texts)
}

#[test]
fn a_module_lies_beside_its_folder() -> Result<()> {
    let modules = sources()?
        .into_iter()
        .filter(|text| text.path.ends_with("/mod.rs"));
    expect_none(&modules.map(|text| text.path).collect::<Vec<_>>())
}

#[test]
fn every_file_opens_with_what_it_answers_for() -> Result<()> {
    let silent = sources()?
        .into_iter()
        .filter(|text| !text.content.starts_with("//! "));
    expect_none(
        &silent
            .map(|text| format!("{} opens without //!", text.path))
            .collect::<Vec<_>>(),
    )
}

#[test]
fn what_is_left_to_do_has_an_issue() -> Result<()> {
    // Written in halves, because this file is searched as well.
    let (later, broken) = (concat!("TO", "DO"), concat!("FIX", "ME"));
    let mut objections = Vec::new();
    for text in sources()? {
        for (index, line) in text.content.lines().enumerate() {
            let place = format!("{}:{}", text.path, index + 1);
            if has_word(line, broken) {
                objections.push(format!("{place}: fix it instead of marking it"));
            }
            if has_word(line, later) && !line.contains(&format!("{later}(#")) {
                objections.push(format!("{place}: write {later}(#issue)"));
            }
        }
    }
    expect_none(&objections)
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|letter: char| !letter.is_alphanumeric())
        .any(|found| found == word)
}

#[test]
fn a_file_is_not_too_long() -> Result<()> {
    let sources = sources()?;
    let lines = |path: &str| {
        let found = sources.iter().find(|text| text.path == path);
        found.map_or(0, |text| text.content.lines().count())
    };
    let too_long = sources
        .iter()
        .filter(|text| !LONG.iter().any(|(path, _)| *path == text.path))
        .filter(|text| lines(&text.path) > LINES_MAX)
        .map(|text| format!("{} has {} lines", text.path, lines(&text.path)));
    let excused = LONG
        .iter()
        .filter(|(path, _)| lines(path) <= LINES_MAX)
        .map(|(path, reason)| format!("{path} is no longer long ({reason})"));
    expect_none(&too_long.chain(excused).collect::<Vec<_>>())
}

#[test]
fn migrations_are_numbered_without_a_gap() -> Result<()> {
    let texts = texts()?;
    let names = texts
        .iter()
        .filter_map(|text| text.path.strip_prefix("migrations/"));
    let mut objections = Vec::new();
    for (index, name) in names.filter(|name| name.ends_with(".sql")).enumerate() {
        let expected = format!("{:04}_", index + 1);
        if !name.starts_with(&expected) {
            objections.push(format!("migrations/{name} should begin with {expected}"));
        }
    }
    for text in texts
        .iter()
        .filter(|text| text.path.starts_with("migrations/"))
    {
        if !text.content.starts_with("-- ") {
            objections.push(format!("{} opens without its reason", text.path));
        }
    }
    expect_none(&objections)
}
