//! `semel completions`: what a shell needs to complete our words.

use clap::CommandFactory as _;
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

pub(crate) fn run(arguments: &Arguments) -> Result<Answer, Problem> {
    let mut script = Vec::new();
    let mut command = crate::arguments::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "semel", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let data = json!({"shell": arguments.shell.to_string(), "script": script});
    Ok(Answer::done(data, script))
}
