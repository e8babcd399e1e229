//! The options that every command takes.

use clap::Args;

use crate::output::Reader;

/// What every command takes.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Write exactly one JSON object to stdout, errors included.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The server to speak to [env: SEMEL_URL].
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The token to show [env: SEMEL_TOKEN, which other users of this machine cannot read].
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Send the token over plain HTTP to another machine, too: whoever reads the network has it then.
    #[arg(long, global = true)]
    pub(crate) insecure: bool,
}

impl Global {
    /// Whom the output is for.
    pub(crate) const fn reader(&self) -> Reader {
        if self.json {
            Reader::Program
        } else {
            Reader::Person
        }
    }
}
