//! Logs: sentences on stderr, as text or as one JSON object to a line.

use std::io::IsTerminal as _;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("a log format is text or json, not {other}")),
        }
    }
}

/// Starts logging. `SEMEL_LOG` says how much (e.g. `debug`, or `warn,semel_engine=debug`); without
/// it, `level` does.
pub(crate) fn start(format: Format, level: &str) {
    let filter = std::env::var("SEMEL_LOG")
        .ok()
        .and_then(|text| EnvFilter::try_new(text).ok())
        .unwrap_or_else(|| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    // Fails only where somebody else logs already, who then goes on.
    let _ = match format {
        Format::Text => lines.with_target(false).try_init(),
        Format::Json => lines.json().flatten_event(true).try_init(),
    };
}
