//! Output: the only module that writes to the terminal. Data on stdout, everything else on stderr.

use std::io::{self, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::answer::Answer;
use crate::style::Style;
use crate::text::printable_lines;

/// Whom the output is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A person, at a terminal or behind a pipe.
    Person,
    /// A program that asked for one object.
    Program,
}

/// Writes an answer where it belongs.
pub(crate) fn show(answer: &Answer, reader: Reader) {
    match reader {
        Reader::Program if answer.shown => {}
        Reader::Program => data(&answer.envelope()),
        Reader::Person => show_person(answer, Style::of_stderr()),
    }
}

fn show_person(answer: &Answer, style: Style) {
    if !answer.text.is_empty() {
        data(&answer.text);
    }
    for line in &answer.notes {
        note(line);
    }
    if let Some(fault) = &answer.fault {
        let message = printable_lines(&fault.message);
        note(&format!("{}: {message}", style.bad("error")));
        if let Some(hint) = &fault.hint {
            note(&format!("{}: {}", style.dim("hint"), printable_lines(hint)));
        }
    }
    for next in &answer.next {
        note(&format!("{}: {}", style.dim("next"), next.command));
    }
}

/// Writes data, with one newline at its end.
///
/// The reader may have gone away (`semel run list | head`), which is no error of ours.
pub(crate) fn data(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = stdout.write_all(b"\n");
    }
    let _ = stdout.flush();
}

/// Writes a message that is not data.
pub(crate) fn note(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "{}", text.trim_end_matches('\n'));
}

/// Passes on what a program of the user's says.
pub(crate) fn pass(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}

/// Where bytes go that are data.
pub(crate) struct Stdout;

impl io::Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().lock().flush()
    }
}

/// Shows how many of so many bytes are through, until it is dropped; to people at a terminal only.
pub(crate) struct Transfer(ProgressBar);

impl Transfer {
    /// Begins to show it.
    pub(crate) fn begin(reader: Reader, bytes: u64) -> Self {
        let bar = match reader {
            Reader::Person => ProgressBar::new(bytes),
            Reader::Program => ProgressBar::hidden(),
        };
        let look = "{bar:30} {bytes} of {total_bytes}, {binary_bytes_per_sec}";
        if let Ok(style) = ProgressStyle::with_template(look) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// So many more are through.
    pub(crate) fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Asks for something that is typed behind the question.
pub(crate) fn ask(question: &str) {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{question}");
    let _ = stderr.flush();
}

/// Shows that something takes its time, until it is dropped; to people at a terminal only.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Begins to show it.
    pub(crate) fn begin(reader: Reader, what: &str) -> Self {
        let bar = match reader {
            // Hides itself where stderr is no terminal.
            Reader::Person => ProgressBar::new_spinner(),
            Reader::Program => ProgressBar::hidden(),
        };
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    /// Says how far it has come.
    pub(crate) fn say(&self, what: String) {
        self.0.set_message(what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Shows how many of some steps are done, until it is dropped; to people at a terminal only.
pub(crate) struct Steps(ProgressBar);

impl Steps {
    /// Begins to show them.
    pub(crate) fn begin(reader: Reader, what: &str) -> Self {
        let bar = match reader {
            // Hides itself where stderr is no terminal.
            Reader::Person => ProgressBar::new(0),
            Reader::Program => ProgressBar::hidden(),
        };
        bar.set_message(what.to_owned());
        Self(bar)
    }

    /// Shows that so many of so many are done.
    pub(crate) fn show(&self, done: i32, total: i32) {
        self.0.set_length(total.unsigned_abs().into());
        self.0.set_position(done.unsigned_abs().into());
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
