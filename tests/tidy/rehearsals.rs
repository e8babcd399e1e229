//! The engine of a rehearsal, with its stage and its crash points, is started by the rehearsal alone: no server comes to
//! have one.

use anyhow::Result;

use crate::expect_none;
use crate::tree::{Text, texts};

/// Calls that give an engine the part that only a rehearsal has, each with the one product file that may have it.
const STARTS: &[(&str, &str)] = &[
    ("Engine::rehearse(", "crates/rehearse/src/process.rs"),
    ("options, Some(rehearsal))", "crates/engine/src/engine.rs"),
];

#[test]
fn a_rehearsal_alone_starts_an_engine_with_a_stage_and_crash_points() -> Result<()> {
    expect_none(&objections(&texts()?))
}

#[test]
fn a_server_that_starts_such_an_engine_is_objected_to() {
    let text = |path: &str, content: &str| Text {
        path: path.to_owned(),
        content: content.to_owned(),
    };
    let own = text("crates/rehearse/src/process.rs", "Engine::rehearse(cell)");
    let engine = text(
        "crates/engine/src/engine.rs",
        "start(options, Some(rehearsal))",
    );
    let server = text("crates/server/src/start.rs", "Engine::rehearse(cell)");

    let found = objections(&[own, engine, server]);

    let (place, home) = (
        "crates/server/src/start.rs",
        "crates/rehearse/src/process.rs",
    );
    let wanted = format!("{place} says Engine::rehearse(: only {home} may");
    assert_eq!(found, [wanted]);
}

fn objections(texts: &[Text]) -> Vec<String> {
    let mut found = Vec::new();
    let product = texts
        .iter()
        .filter(|text| text.path.starts_with("crates/") && text.path.contains("/src/"));
    let product: Vec<&Text> = product.collect();
    for (words, home) in STARTS {
        let mut is_home_there = false;
        for text in &product {
            if !text.content.contains(words) {
                continue;
            }
            if text.path == *home {
                is_home_there = true;
            } else {
                found.push(format!("{} says {words}: only {home} may", text.path));
            }
        }
        if !is_home_there {
            found.push(format!("{home} does not say {words}"));
        }
    }
    found
}
