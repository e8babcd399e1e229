//! `semel completions`: what a shell needs to complete our words.

use serde_json::json;

use crate::answer::{Answer, Problem};

/// Write a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  semel completions bash > ~/.local/share/bash-completion/completions/semel"
)]
pub(crate) struct Arguments {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Writes the script for a command line.
pub(crate) fn run(arguments: &Arguments, mut words: clap::Command) -> Result<Answer, Problem> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut words, "semel", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let data = json!({"shell": arguments.shell.to_string(), "script": script});
    Ok(Answer::done(data, script))
}
