//! What a long campaign asks for by its environment: how much is played, and where figures go.

use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result};
use serde_json::Value;

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

/// Keeps figures in the folder that `SEMEL_FIGURES` names, if it names one.
pub(crate) fn keep_figures(name: &str, figures: &Value) -> Result<()> {
    if let Some(folder) = std::env::var_os("SEMEL_FIGURES") {
        let page = Path::new(&folder).join(format!("{name}.json"));
        std::fs::write(page, format!("{figures:#}\n"))?;
    }
    Ok(())
}
