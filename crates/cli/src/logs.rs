//! Logs: sentences on stderr, as text or as one JSON object to a line.

use std::io::IsTerminal as _;
use std::str::FromStr;

use tracing::{Level, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

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
    let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = lines(format, std::io::stderr, ansi);
    let ours = filter_fn(|line| is_shown(line.target(), *line.level()));
    // Fails only if another subscriber is installed already, which then stays.
    let _ = tracing_subscriber::registry()
        .with(filter)
        .with(ours)
        .with(lines)
        .try_init();
}

/// The lines of a format. Escape sequences in them are shown and not obeyed.
fn lines<S, W>(format: Format, writer: W, ansi: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(ansi);
    match format {
        Format::Text => lines.with_target(false).boxed(),
        Format::Json => lines.json().flatten_event(true).boxed(),
    }
}

/// Whether a line may be shown at all.
fn is_shown(target: &str, level: Level) -> bool {
    level <= Level::INFO || target.starts_with("semel")
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that are logged of a key.
    fn logged(format: Format, key: &str) -> String {
        let written = Written::default();
        let to = written.clone();
        let lines = lines(format, move || to.clone(), false);
        let subscriber = tracing_subscriber::registry().with(lines);
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(key, "refused {key}");
        });
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_key_in_a_log_line_steers_no_terminal() {
        for format in [Format::Text, Format::Json] {
            let said = logged(format, "\u{1b}]0;owned\u{7}\u{1b}[2J");

            assert!(said.contains("owned"), "{said:?}");
            assert!(!said.contains(['\u{1b}', '\u{7}']), "{said:?}");
        }
        let said = logged(Format::Json, "a\n{\"level\":\"INFO\"}");
        assert_eq!(said.lines().count(), 1, "{said:?}");
    }

    #[test]
    fn what_libraries_say_of_the_wire_is_not_shown() {
        assert!(is_shown("semel_engine::turn", Level::TRACE));
        assert!(is_shown("deadpool.postgres", Level::WARN));
        assert!(!is_shown("tokio_postgres::query", Level::DEBUG));
        assert!(!is_shown("h2::codec", Level::TRACE));
    }
}
