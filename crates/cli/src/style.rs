//! Style: colours if a terminal shows them and the user did not turn them off.

use std::io::{self, IsTerminal as _};

use comfy_table::{Cell, Color, ContentArrangement, Table};

use crate::text::printable;

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    color: bool,
}

/// What a colour says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it should be.
    Good,
    /// Worth a look.
    Odd,
    /// Not as it should be.
    Bad,
    /// On its way.
    Plain,
}

impl Style {
    /// No colour.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { color: false };

    /// The style of what goes to stdout.
    pub(crate) fn of_stdout() -> Self {
        Self::of(io::stdout().is_terminal())
    }

    /// The style of what goes to stderr.
    pub(crate) fn of_stderr() -> Self {
        Self::of(io::stderr().is_terminal())
    }

    fn of(terminal: bool) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            color: terminal && !unwanted && !dumb,
        }
    }

    /// Whether to colour.
    pub(crate) const fn is_colored(self) -> bool {
        self.color
    }

    /// Text that stands out.
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Text that stands back.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Text that warns.
    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Text in a tone.
    pub(crate) fn toned(self, tone: Tone, text: &str) -> String {
        match tone {
            Tone::Good => self.paint("32", text),
            Tone::Odd => self.paint("33", text),
            Tone::Bad => self.paint("31", text),
            Tone::Plain => text.to_owned(),
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// A table without lines: a header and columns. Nothing wraps, so that ids can be copied.
    pub(crate) fn table(self, header: &[&str]) -> Table {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        if self.color {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let cells = header
            .iter()
            .map(|name| Cell::new(name).fg(Color::DarkGrey));
        table.set_header(cells.collect::<Vec<_>>());
        table
    }
}

/// A cell of foreign text.
pub(crate) fn cell(text: impl AsRef<str>) -> Cell {
    Cell::new(printable(text.as_ref()))
}

/// A cell in a tone.
pub(crate) fn toned_cell(tone: Tone, text: impl AsRef<str>) -> Cell {
    let cell = cell(text);
    match tone {
        Tone::Good => cell.fg(Color::Green),
        Tone::Odd => cell.fg(Color::Yellow),
        Tone::Bad => cell.fg(Color::Red),
        Tone::Plain => cell,
    }
}

/// The table as text; lines end where their last word ends.
pub(crate) fn render(table: &Table) -> String {
    let lines: Vec<String> = table
        .lines()
        .map(|line| {
            line.strip_prefix(' ')
                .unwrap_or(&line)
                .trim_end()
                .to_owned()
        })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_colour_has_no_escape_and_no_line() {
        let mut table = Style::PLAIN.table(&["FLOW", "STATE"]);
        table.add_row([cell("orders"), toned_cell(Tone::Bad, "failed")]);

        assert_eq!(render(&table), "FLOW    STATE\norders  failed");
    }

    #[test]
    fn what_a_server_sends_cannot_steer_the_terminal() {
        let mut table = Style::PLAIN.table(&["KEY"]);
        table.add_row([cell("a\u{1b}[2Jb\nc")]);

        assert_eq!(render(&table), "KEY\na\\u{1b}[2Jb\\nc");
    }
}
