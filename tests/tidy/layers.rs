//! The modules of the engine depend on each other as the table in `ARCHITECTURE.md` says: each uses
//! only modules of its own layer's row to the left, or of rows above it. So there is no cycle.

use std::fs;

use anyhow::{Context, Result};

use crate::expect_none;
use crate::modules::{Modules, Uses};
use crate::tree::root;

#[test]
fn a_module_of_the_engine_uses_only_what_stands_above_it() -> Result<()> {
    let order = read_order(&fs::read_to_string(root()?.join("ARCHITECTURE.md"))?)?;
    let uses = Modules::of_crate("engine")?.at_root();
    expect_none(&objections(&order, &uses))
}

#[test]
fn a_cycle_is_reported() {
    let order = ["state", "decide", "turn"].map(str::to_owned);
    let uses = |state: &str, turn: &str| {
        let decide = "use crate::state::FoldedRun;";
        let sources = [("state", state), ("decide", decide), ("turn", turn)];
        Modules::of_sources(sources.into_iter()).at_root()
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
