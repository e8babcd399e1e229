//! The command line: the commands, and the words of `--help`.

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    approval, check, completions, config, connection, dev, doctor, doubt, duplicate, effect,
    explain, flow, init, key, migrate, resource, run, schedule, secret, serve, subscription, task,
    wait, worker,
};
use crate::output::Reader;
use crate::version;

const AFTER_HELP: &str = "\
Start here:
  semel init greet        writes greet.flow.yaml
  semel dev               starts everything, and prints a curl line that works
  semel explain           explains the language, the steps, the shapes of values, and every error

Exit codes: 0 done, 1 failed, 2 usage, 3 still running, 4 in doubt, 5 not found, 6 conflict,
7 denied, 8 unreachable. With --json exactly one object is written to stdout, errors included.";

/// Runs workflows whose triggers may fire more than once, and performs each effect once.
#[derive(Debug, Parser)]
#[command(name = "semel", version = version::FULL, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Write exactly one JSON object to stdout, errors included.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The server's URL [env: SEMEL_URL].
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The API token [env: SEMEL_TOKEN].
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

impl Global {
    /// Who reads the output.
    pub(crate) const fn reader(&self) -> Reader {
        if self.json {
            Reader::Program
        } else {
            Reader::Person
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(init::Arguments),
    Dev(dev::Arguments),
    Check(check::Arguments),
    Explain(explain::Arguments),
    #[command(subcommand)]
    Flow(flow::Command),
    #[command(subcommand)]
    Run(run::Command),
    #[command(subcommand)]
    Effect(effect::Command),
    #[command(subcommand)]
    Doubt(doubt::Command),
    #[command(subcommand)]
    Duplicate(duplicate::Command),
    #[command(subcommand)]
    Key(key::Command),
    #[command(subcommand)]
    Resource(resource::Command),
    #[command(subcommand)]
    Wait(wait::Command),
    #[command(subcommand)]
    Approval(approval::Command),
    #[command(subcommand)]
    Task(task::Command),
    Worker(worker::Arguments),
    #[command(subcommand)]
    Schedule(schedule::Command),
    #[command(subcommand)]
    Connection(connection::Command),
    #[command(subcommand)]
    Secret(secret::Command),
    #[command(subcommand)]
    Subscription(subscription::Command),
    Serve(Box<serve::Arguments>),
    Migrate(migrate::Arguments),
    Doctor(doctor::Arguments),
    #[command(subcommand)]
    Config(config::Command),
    Completions(completions::Arguments),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }
}
