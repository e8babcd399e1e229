//! Asking at a terminal, without showing what is typed.

use std::io::BufRead as _;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use semel_model::SecretText;

use crate::answer::Problem;
use crate::output;

/// Shows what is typed again, however asking ends.
struct Restore(Termios);

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// Asks for one line.
pub(super) fn ask(prompt: &str) -> Result<SecretText, Problem> {
    let broken = |error: &dyn std::fmt::Display| {
        Problem::local(format!("cannot read from the terminal: {error}"))
            .hint("pipe the value in instead")
    };
    let before = tcgetattr(std::io::stdin()).map_err(|error| broken(&error))?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    silent.local_modes.insert(LocalModes::ECHONL);
    let restore = Restore(before);
    tcsetattr(std::io::stdin(), OptionalActions::Flush, &silent).map_err(|error| broken(&error))?;
    output::ask(prompt);
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    drop(restore);
    read.map_err(|error| broken(&error))?;
    Ok(super::cut(line))
}
