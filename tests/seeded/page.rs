//! The page of seeded bugs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// When a bug is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Played {
    /// With every change.
    EachChange,
    /// By `.ci/long seeded`.
    Long,
    /// Its test seeds the bug itself, and fails where nothing notices.
    ByItsTest,
}

/// A bug, and the test that must notice it.
#[derive(Clone, Debug)]
pub(crate) struct Bug {
    pub(crate) name: String,
    path: String,
    test: String,
    pub(crate) played: Played,
}

impl Bug {
    /// The test's file, and its name.
    pub(crate) fn test(&self) -> (&str, &str) {
        (&self.path, &self.test)
    }
}

/// Reads the table.
pub(crate) fn read() -> Result<Vec<Bug>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/seeded-bugs.md");
    let page = fs::read_to_string(page)?;
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let bugs: Vec<Bug> = rows.map(read_row).collect::<Result<_>>()?;
    ensure!(bugs.len() >= 25, "the page lists its bugs: {}", bugs.len());
    Ok(bugs)
}

fn read_row(row: &str) -> Result<Bug> {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let [_, name, _, test, played, _] = cells[..] else {
        anyhow::bail!("odd row: {row}")
    };
    let mut quoted = test.split('`').skip(1).step_by(2);
    let mut next = || {
        quoted
            .next()
            .map(str::to_owned)
            .context("a file and a test")
    };
    Ok(Bug {
        name: name.trim_matches('`').to_owned(),
        path: next().with_context(|| row.to_owned())?,
        test: next().with_context(|| row.to_owned())?,
        played: match played {
            "each change" => Played::EachChange,
            "long" => Played::Long,
            "by its test" => Played::ByItsTest,
            other => anyhow::bail!("when is {name} played: {other}?"),
        },
    })
}
