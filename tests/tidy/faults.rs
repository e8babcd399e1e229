//! Every code that a step can end in has its line in `docs/steps/faults.md`.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Result;

use crate::expect_none;
use crate::tree::{root, texts};

/// What makes a fault or a doubt of a fixed code.
const MAKERS: [&str; 4] = [
    "Fault::passing(",
    "Fault::permanent(",
    "Doubt::new(",
    "Doubt::for_operator(",
];

/// Where such things are made.
const CRATES: [&str; 3] = [
    "crates/steps/src/",
    "crates/engine/src/",
    "crates/store/src/",
];

#[test]
fn every_fault_of_a_step_is_explained() -> Result<()> {
    let page = fs::read_to_string(root()?.join("docs/steps/faults.md"))?;
    let made = codes()?;
    anyhow::ensure!(made.len() > 50, "the codes are found: {made:?}");
    let told: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let untold = made
        .iter()
        .filter(|code| !told.contains(code.as_str()))
        .map(|code| format!("{code} is not explained in docs/steps/faults.md"));
    let idle = told
        .iter()
        .filter(|code| !made.contains(**code))
        .map(|code| format!("docs/steps/faults.md explains {code}, which nothing ends in"));
    expect_none(&untold.chain(idle).collect::<Vec<_>>())
}

/// The code that a maker is given: a quoted word, or a constant of the same file.
fn first_word(file: &str, rest: &str) -> Option<String> {
    let quoted = match rest.strip_prefix('"') {
        Some(quoted) => quoted,
        None => {
            let is_name = |c: char| c.is_ascii_uppercase() || c == '_';
            let name = rest.split(|c: char| !is_name(c)).next()?;
            let declared = format!("const {name}: &str = \"");
            (!name.is_empty()).then(|| file.split(&declared).nth(1))??
        }
    };
    Some(quoted.split_once('"')?.0.to_owned())
}

fn codes() -> Result<BTreeSet<String>> {
    let mut codes = BTreeSet::new();
    for text in texts()? {
        let is_source = CRATES.iter().any(|place| text.path.starts_with(place));
        if !is_source || !text.path.ends_with(".rs") || text.path.contains("tests") {
            continue;
        }
        let code = text
            .content
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        for maker in MAKERS {
            for rest in code.split(maker).skip(1) {
                codes.extend(first_word(code, rest.trim_start()));
            }
        }
    }
    Ok(codes)
}
