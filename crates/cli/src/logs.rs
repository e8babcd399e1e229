//! Logs: sentences on stderr, as text or as one JSON object to a line.

use std::io::IsTerminal as _;
use std::str::FromStr;

use tracing::Level;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

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
/// it, `level` does. What libraries say below `info` is never shown: some of them print what goes
/// over the wire, and secrets go over it.
pub(crate) fn start(format: Format, level: &str) {
    let filter = std::env::var("SEMEL_LOG")
        .ok()
        .and_then(|text| EnvFilter::try_new(text).ok())
        .unwrap_or_else(|| EnvFilter::new(level));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    let lines = match format {
        Format::Text => lines.with_target(false).boxed(),
        Format::Json => lines.json().flatten_event(true).boxed(),
    };
    let ours = filter_fn(|line| is_shown(line.target(), *line.level()));
    // Fails only if another subscriber is installed already, which then stays.
    let _ = tracing_subscriber::registry()
        .with(filter)
        .with(ours)
        .with(lines)
        .try_init();
}

/// Whether a line may be shown at all.
fn is_shown(target: &str, level: Level) -> bool {
    level <= Level::INFO || target.starts_with("semel")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libraries_say_of_the_wire_is_not_shown() {
        assert!(is_shown("semel_engine::turn", Level::TRACE));
        assert!(is_shown("deadpool.postgres", Level::WARN));
        assert!(!is_shown("tokio_postgres::query", Level::DEBUG));
        assert!(!is_shown("h2::codec", Level::TRACE));
    }
}
