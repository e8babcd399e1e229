//! The command line: the commands, and the words of `--help`.

use clap::Parser;

use crate::commands::Command;
use crate::global::Global;
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }
}
