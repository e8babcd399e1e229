//! Packages, units and images agree with the product that they carry.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use toml::Table;

use crate::expect_none;
use crate::tree::{root, texts};

/// Where the settings are, with the variables that set them.
const SETTINGS: &str = "crates/cli/src/config/key.rs";

/// Variables that the packaging itself reads, or the build.
const OWN: [&str; 4] = [
    "SEMEL_COMMIT",
    "SEMEL_IMAGE",
    "SEMEL_QUEUE",
    "SEMEL_WORKER_COMMAND",
];

#[test]
fn packages_set_only_what_the_product_reads() -> Result<()> {
    let settings = fs::read_to_string(root()?.join(SETTINGS))?;
    let known: BTreeSet<&str> = variables(&settings).chain(OWN).collect();
    anyhow::ensure!(known.len() > 20, "the settings are found: {known:?}");
    let mut objections = Vec::new();
    for text in texts()? {
        if text.path.starts_with("packaging/") {
            let unknown = variables(&text.content).filter(|name| !known.contains(name));
            objections.extend(unknown.map(|name| format!("{}: {name} sets nothing", text.path)));
        }
    }
    expect_none(&objections)
}

/// The words of a text that name variables of ours.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    let is_inside = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.split(move |letter| !is_inside(letter))
        .filter(|word| word.starts_with("SEMEL_"))
}

#[test]
fn whatever_stops_a_server_waits_longer_than_its_bound() -> Result<()> {
    let settings = fs::read_to_string(root()?.join(SETTINGS))?;
    let bound = seconds_behind(&settings, "\"SEMEL_STOP_BOUND\").default(\"")?;

    let unit = fs::read_to_string(root()?.join("packaging/systemd/semel.service"))?;
    let compose = fs::read_to_string(root()?.join("packaging/compose.yaml"))?;

    assert!(seconds_behind(&unit, "\nTimeoutStopSec=")? > bound);
    assert!(seconds_behind(&compose, "\n  stop_grace_period: ")? > bound);
    Ok(())
}

/// A worker runs commands of strangers in the network of the other containers.
#[test]
fn the_compose_file_s_database_listens_on_its_socket_alone() -> Result<()> {
    let compose = fs::read_to_string(root()?.join("packaging/compose.yaml"))?;

    let (_, services) = compose.split_once("\nservices:\n").context("services")?;
    let database = services.strip_prefix("  postgres:\n");
    let database = database.and_then(|rest| rest.split_once("\n\n"));
    let (database, _) = database.context("a database first")?;
    let (_, worker) = services.split_once("\n  worker:\n").context("a worker")?;
    let (worker, _) = worker.split_once("\n\n").context("its end")?;

    assert!(database.contains("command: [postgres, -c, listen_addresses=]"));
    assert!(!database.contains("ports:"), "{database}");
    assert!(!worker.contains("/var/run/postgresql"), "{worker}");
    Ok(())
}

/// The number of seconds that follows the first of a mark, such as `40` of `40s`.
fn seconds_behind(text: &str, mark: &str) -> Result<u32> {
    let rest = text.split_once(mark).with_context(|| mark.to_owned())?.1;
    let (number, _) = rest.split_once('s').context("seconds")?;
    number.parse().with_context(|| format!("{mark}{number}"))
}

#[test]
fn everything_that_the_package_carries_exists() -> Result<()> {
    let manifest = fs::read_to_string(root()?.join("crates/cli/Cargo.toml"))?;
    let manifest: Table = manifest.parse().context("a manifest is TOML")?;
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array();
    let assets = assets.context("the package has assets")?;
    let mut objections = Vec::new();
    for asset in assets {
        let source = asset[0].as_str().context("an asset has a source")?;
        let is_built = source.starts_with("target/");
        if !is_built && !root()?.join("crates/cli").join(source).is_file() {
            objections.push(format!("{source} is not there"));
        }
    }
    expect_none(&objections)
}

#[test]
fn images_are_built_with_the_toolchain_of_the_tree() -> Result<()> {
    let toolchain = fs::read_to_string(root()?.join("rust-toolchain.toml"))?;
    let toolchain: Table = toolchain.parse().context("the toolchain is TOML")?;
    let channel = toolchain["toolchain"]["channel"].as_str();
    let (minor, _) = channel
        .and_then(|channel| channel.rsplit_once('.'))
        .context("a version of three numbers")?;
    let image = format!("rust:{minor}-");
    let users = ["packaging/Containerfile", ".github/workflows/ci.yml"];
    let mut objections = Vec::new();
    for path in users {
        if !fs::read_to_string(root()?.join(path))?.contains(&image) {
            objections.push(format!("{path} does not use {image}…"));
        }
    }
    expect_none(&objections)
}
