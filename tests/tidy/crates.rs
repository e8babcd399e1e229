//! The crates depend on each other as the table in `ARCHITECTURE.md` says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use toml::Table;

use crate::expect_none;
use crate::tree::root;

/// The product's prefix that package names carry and folders leave out.
const PREFIX: &str = "semel-";

/// For each crate, the crates it may use.
type Rules = BTreeMap<String, BTreeSet<String>>;

#[test]
fn a_crate_uses_only_what_the_table_names() -> Result<()> {
    let rules = read_rules(&fs::read_to_string(root()?.join("ARCHITECTURE.md"))?)?;
    let used = read_manifests()?;
    let mut objections = Vec::new();
    for (name, uses) in &used {
        match rules.get(name) {
            None => objections.push(format!("{name} is not in the table")),
            Some(allowed) => {
                let beyond = uses.difference(allowed);
                objections.extend(beyond.map(|other| format!("{name} may not use {other}")));
            }
        }
    }
    let gone = rules.keys().filter(|name| !used.contains_key(*name));
    objections.extend(gone.map(|name| format!("{name} is in the table and not in the tree")));
    expect_none(&objections)
}

fn read_manifests() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut used = BTreeMap::new();
    for entry in fs::read_dir(root()?.join("crates"))? {
        let entry = entry?;
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml"))?;
        let manifest: Table = manifest.parse().context("a manifest is TOML")?;
        let name = entry.file_name().to_string_lossy().into_owned();
        used.insert(name, own_dependencies(&manifest));
    }
    Ok(used)
}

/// What is shipped. Development dependencies may point anywhere.
fn own_dependencies(manifest: &Table) -> BTreeSet<String> {
    let sections = ["dependencies", "build-dependencies"];
    let tables = sections
        .iter()
        .filter_map(|section| manifest.get(*section)?.as_table());
    let names = tables.flat_map(Table::keys);
    names
        .filter_map(|name| name.strip_prefix(PREFIX))
        .map(str::to_owned)
        .collect()
}

fn read_rules(architecture: &str) -> Result<Rules> {
    let section = architecture
        .split("\n## Crates\n")
        .nth(1)
        .context("a section Crates")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut rules = Rules::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, name, _, may_use, _] = cells[..] else {
            anyhow::bail!("odd row: {row}")
        };
        let allowed = read_allowed(may_use, &rules).with_context(|| format!("row {name}"))?;
        rules.insert(name.trim_matches('`').to_owned(), allowed);
    }
    Ok(rules)
}

/// Reads a cell, given the rows above it.
fn read_allowed(cell: &str, above: &Rules) -> Result<BTreeSet<String>> {
    let named: BTreeSet<String> = cell
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    let unknown = named.iter().find(|name| !above.contains_key(*name));
    anyhow::ensure!(unknown.is_none(), "{unknown:?} does not stand above");
    if cell.starts_with("all") {
        return Ok(above
            .keys()
            .filter(|name| !named.contains(*name))
            .cloned()
            .collect());
    }
    Ok(named)
}

#[test]
fn a_row_may_name_only_rows_above_it() {
    let table = "x\n## Crates\n\n| `a` | first | nothing |\n| `b` | second | `c` |\n";

    let error = read_rules(table).unwrap_err();

    assert!(
        format!("{error:#}").contains("does not stand above"),
        "{error:#}"
    );
}

#[test]
fn all_means_the_rows_above_without_the_excepted() {
    let table =
        "x\n## Crates\n\n| `a` | . | nothing |\n| `b` | . | `a` |\n| `c` | . | all but `a` |\n";

    let rules = read_rules(table).unwrap();

    assert_eq!(rules["c"], BTreeSet::from(["b".to_owned()]));
}
