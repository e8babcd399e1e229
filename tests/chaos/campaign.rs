//! The environment of a long campaign: how much is played, whether figures are taken, and where they go.

use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result};
use semel_testkit::Options;
use serde_json::Value;

/// The folder of figures, which only a campaign names: `.ci/long chaos`.
const FIGURES: &str = "SEMEL_FIGURES";

/// The number that a variable gives, or the usual one.
pub(crate) fn size<T>(variable: &str, usual: T) -> Result<T>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    match std::env::var(variable) {
        Ok(text) => text.parse().with_context(|| format!("{variable}={text}")),
        Err(_) => Ok(usual),
    }
}

/// The same where a campaign that sets no variable plays another number than a change does.
pub(crate) fn scaled<T>(variable: &str, usual: T, full: T) -> Result<T>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    size(variable, if is_measured() { full } else { usual })
}

/// Whether figures are taken. Only then is anything demanded of time: a change is judged on a machine
/// that others share.
pub(crate) fn is_measured() -> bool {
    std::env::var_os(FIGURES).is_some()
}

/// How the PostgreSQL of a storm keeps its data: on disk where figures are taken, else in memory. No
/// storm kills PostgreSQL itself.
pub(crate) fn storage() -> Options {
    match is_measured() {
        true => Options::durable(),
        false => Options::quick(),
    }
}

/// Keeps figures in the folder that `SEMEL_FIGURES` names, if it names one.
pub(crate) fn keep_figures(name: &str, figures: &Value) -> Result<()> {
    if let Some(folder) = std::env::var_os(FIGURES) {
        let page = Path::new(&folder).join(format!("{name}.json"));
        std::fs::write(page, format!("{figures:#}\n"))?;
    }
    Ok(())
}
