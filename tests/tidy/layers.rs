//! The modules of the engine depend on each other as the table in `ARCHITECTURE.md` says: each uses
//! only modules of its own layer's row to the left, or of rows above it. So there is no cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};

use crate::expect_none;
use crate::tree::{root, texts};

/// Where the modules are.
const ENGINE: &str = "crates/engine/src/";

/// For each module, the modules that its code names.
type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn a_module_of_the_engine_uses_only_what_stands_above_it() -> Result<()> {
    let order = read_order(&fs::read_to_string(root()?.join("ARCHITECTURE.md"))?)?;
    let mut uses = Uses::new();
    for text in texts()? {
        let Some(path) = text.path.strip_prefix(ENGINE) else {
            continue;
        };
        let module = path.split(['/', '.']).next().unwrap_or_default();
        if module == "lib" || path.contains("/tests") || !path.ends_with(".rs") {
            continue;
        }
        let named = names(&text.content);
        uses.entry(module.to_owned()).or_default().extend(named);
    }
    expect_none(&objections(&order, &uses))
}

#[test]
fn a_cycle_is_reported() {
    let order = ["state", "decide", "turn"].map(str::to_owned);
    let uses = |state: &str, turn: &str| {
        let of = |source: &str| names(source);
        Uses::from([
            ("state".to_owned(), of(state)),
            ("decide".to_owned(), of("use crate::state::RunState;")),
            ("turn".to_owned(), of(turn)),
        ])
    };
    let sound = uses("", "use crate::{decide, state::RunState};");
    let planted = uses("use crate::turn::Turn;", "use crate::decide;");
    let in_a_comment = uses("/// See [`crate::turn`].", "");

    assert_eq!(objections(&order, &sound), Vec::<String>::new());
    assert_eq!(
        objections(&order, &planted),
        ["state may not use turn: it stands below it"]
    );
    assert_eq!(objections(&order, &in_a_comment), Vec::<String>::new());
}

fn objections(order: &[String], uses: &Uses) -> Vec<String> {
    let rank = |module: &str| order.iter().position(|name| name == module);
    let mut objections = Vec::new();
    for (module, used) in uses {
        let Some(own) = rank(module) else {
            objections.push(format!("{module} is in no layer"));
            continue;
        };
        for other in used.iter().filter(|other| *other != module) {
            match rank(other) {
                Some(theirs) if theirs < own => {}
                Some(_) => {
                    objections.push(format!("{module} may not use {other}: it stands below it"));
                }
                None => objections.push(format!("{module} uses {other}, which is in no layer")),
            }
        }
    }
    let gone = order.iter().filter(|name| !uses.contains_key(*name));
    objections.extend(gone.map(|name| format!("{name} is in a layer and not in the tree")));
    objections
}

/// The modules of the crate that a source names outside comments and unit tests.
fn names(source: &str) -> BTreeSet<String> {
    let product = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String = product
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => found.extend(first_word(rest)),
            Some(group) => found.extend(first_words(group)),
        }
    }
    found
}

fn first_word(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_lowercase() && c != '_')?;
    (end > 0).then(|| text[..end].to_owned())
}

/// The first words of a group's members, up to the brace that closes it.
fn first_words(group: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut depth, mut member) = (0, String::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => words.extend(first_word(&format!("{}:", take(&mut member)))),
            _ if depth == 0 => member.push(c),
            _ => {}
        }
    }
    words.extend(first_word(&format!("{}:", take(&mut member))));
    words
}

fn take(member: &mut String) -> String {
    std::mem::take(member).trim().to_owned()
}

/// The modules in the order of the table.
fn read_order(architecture: &str) -> Result<Vec<String>> {
    let section = architecture
        .split("\n## Layers of the engine\n")
        .nth(1)
        .context("a section Layers of the engine")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let mut order = Vec::new();
    for row in rows {
        let modules = row.split('|').nth(2).unwrap_or_default();
        order.extend(modules.split('`').skip(1).step_by(2).map(str::to_owned));
    }
    anyhow::ensure!(!order.is_empty(), "the table names no module");
    Ok(order)
}
