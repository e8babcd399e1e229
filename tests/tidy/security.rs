//! Rules of the tree for the sake of security, and that each of the numbered requirements has its row in
//! `docs/guarantees.md`.

use std::fs;

use anyhow::{Context, Result};
use toml::Table;

use crate::expect_none;
use crate::tree::{root, texts};

/// The numbered requirements of security.
const REQUIREMENTS: [&str; 52] = [
    "S-01", "S-02", "S-03", "S-04", "S-05", "S-06", "S-10", "S-11", "S-12", "S-13", "S-14", "S-15",
    "S-20", "S-21", "S-22", "S-30", "S-31", "S-32", "S-33", "S-34", "S-35", "S-40", "S-41", "S-42",
    "S-43", "S-44", "S-45", "S-50", "S-51", "S-52", "S-53", "S-54", "S-55", "S-60", "S-61", "S-62",
    "S-63", "S-64", "S-70", "S-71", "S-72", "S-73", "S-74", "S-75", "S-80", "S-81", "S-82", "S-83",
    "S-84", "S-85", "S-86", "S-87",
];

/// The places that compare what somebody presents with a secret, a code or its digest.
const COMPARISONS: [&str; 7] = [
    "crates/engine/src/address.rs",
    "crates/engine/src/ingest/signature.rs",
    "crates/engine/src/ingest/signature/mac.rs",
    "crates/engine/src/ingest/signature/message.rs",
    "crates/server/src/auth/signed_in.rs",
    "crates/server/src/auth/token_format.rs",
    "crates/server/src/oidc/flow.rs",
];

/// The first version of the SSH library whose key exchange is strict.
const STRICT_KEY_EXCHANGE: [u32; 3] = [0, 40, 2];

#[test]
fn every_requirement_of_security_has_a_test_or_a_reason() -> Result<()> {
    let page = read("docs/guarantees.md")?;
    let rows: Vec<(&str, &str)> = page.lines().filter_map(id_and_proof).collect();
    let mut objections = Vec::new();
    for id in REQUIREMENTS {
        let row = rows
            .iter()
            .find(|(ids, _)| ids.split(", ").any(|it| it == id));
        match row {
            None => objections.push(format!("{id} has no row")),
            Some((_, proof)) => {
                let is_shown = proof.contains(".rs` `");
                let is_said = ["*declined*: ", "*open*: "]
                    .iter()
                    .any(|it| proof.contains(it));
                if !(is_shown || is_said) {
                    objections.push(format!("{id} names no test and no reason"));
                }
            }
        }
    }
    expect_none(&objections)
}

/// The first and the last cell of a row.
fn id_and_proof(line: &str) -> Option<(&str, &str)> {
    let (id, rest) = line.strip_prefix("| ")?.split_once(" | ")?;
    let (_, proof) = rest.split_once(" | ")?;
    Some((id, proof))
}

#[test]
fn secrets_are_compared_in_constant_time() -> Result<()> {
    let mut objections = Vec::new();
    for path in COMPARISONS {
        let source = read(path)?;
        if !(source.contains(".ct_eq(") || source.contains(".verify_slice(")) {
            objections.push(format!("{path} compares in no constant time"));
        }
    }
    expect_none(&objections)
}

#[test]
fn no_crate_may_have_unsafe_code() -> Result<()> {
    let lints = table("Cargo.toml")?;
    let lint = lints["workspace"]["lints"]["rust"]["unsafe_code"].as_str();
    assert_eq!(lint, Some("forbid"));
    let mut objections = Vec::new();
    for text in texts()? {
        if !(text.path.starts_with("crates/") && text.path.ends_with("/Cargo.toml")) {
            continue;
        }
        let manifest: Table = text.content.parse().context("a manifest is TOML")?;
        let lints = manifest.get("lints").and_then(|it| it.get("workspace"));
        if lints.and_then(toml::Value::as_bool) != Some(true) {
            objections.push(format!("{} has lints of its own", text.path));
        }
    }
    expect_none(&objections)
}

#[test]
fn dependencies_come_locked_from_the_registry() -> Result<()> {
    let lock = table("Cargo.lock")?;
    let packages = lock["package"].as_array().context("packages")?;
    let mut objections = Vec::new();
    for package in packages {
        let source = package.get("source").and_then(toml::Value::as_str);
        if source.is_some_and(|source| !source.starts_with("registry+")) {
            objections.push(format!("{}: {source:?}", package["name"]));
        }
    }
    let ci = read(".ci/run")?;
    for command in [
        "cargo build ",
        "cargo test ",
        "cargo nextest run ",
        "cargo deny --all",
    ] {
        let lines = ci.lines().filter(|line| line.contains(command));
        let unlocked = lines.filter(|line| !line.contains("--locked"));
        objections.extend(unlocked.map(|line| format!(".ci/run: {}", line.trim())));
    }
    let rules = table("deny.toml")?;
    for rule in ["unknown-registry", "unknown-git"] {
        assert_eq!(rules["sources"][rule].as_str(), Some("deny"), "{rule}");
    }
    expect_none(&objections)
}

#[test]
fn the_key_exchange_of_ssh_is_strict() -> Result<()> {
    let lock = table("Cargo.lock")?;
    let packages = lock["package"].as_array().context("packages")?;
    let russh = packages
        .iter()
        .find(|package| package["name"].as_str() == Some("russh"));
    let version = russh.context("the library is used")?["version"].as_str();
    let numbers = version.context("a version")?.split('.');
    let numbers: Vec<u32> = numbers.filter_map(|it| it.parse().ok()).collect();

    assert!(numbers.as_slice() >= STRICT_KEY_EXCHANGE.as_slice());
    let connection = read("crates/steps/src/ssh/connection.rs")?;
    assert!(connection.contains("..Preferred::default()"));
    assert!(!connection.contains("kex:"), "the library's own choice");
    Ok(())
}

/// A shortfall that is closed leaves the page and the scripts together.
#[test]
fn every_shortfall_that_a_script_prints_as_open_is_on_the_page_of_security() -> Result<()> {
    let page = read("SECURITY.md")?;
    let mut texts = texts()?;
    texts.retain(|text| text.path.starts_with("tests/adversaries/") && text.path.ends_with(".py"));
    let (mut objections, mut printed) = (Vec::new(), 0);
    for text in &texts {
        for rest in text.content.split("known('").skip(1) {
            let id = rest.split('\'').next().unwrap_or_default();
            printed += 1;
            if !page.contains(&format!("\n| `{id}` | ")) {
                objections.push(format!("{}: SECURITY.md lists no {id}", text.path));
            }
        }
    }
    assert!(printed > 3, "{printed} are not all");
    expect_none(&objections)
}

#[test]
fn the_page_of_security_says_how_to_report_and_how_soon_it_is_mended() -> Result<()> {
    let page = read("SECURITY.md")?;

    for words in ["Report it privately", "within seven days", "90 days"] {
        assert!(page.contains(words), "{words}");
    }
    Ok(())
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(root()?.join(path)).with_context(|| path.to_owned())
}

fn table(path: &str) -> Result<Table> {
    read(path)?
        .parse()
        .with_context(|| format!("{path} is TOML"))
}
