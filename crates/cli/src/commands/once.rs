//! `semel once`: runs a command once under a key, and looks after such keys.

mod begin;
mod channel;
mod free;
mod job;
mod lease;
mod limit;
mod list;
mod process;
mod redo;
mod report;
mod settle;
mod show;
mod signals;
mod stored;
pub(crate) mod supervise;

use std::collections::BTreeSet;
use std::ffi::OsString;

use semel_model::named_effect::OnDoubt;
use semel_model::span::SpanError;
use semel_model::{Label, Span};

use crate::answer::{Answer, Problem};
use crate::context::Context;

/// Run a command once under a key: every repeat prints the stored output instead.
///
/// The first process to come runs the command. A repeat prints the stored output and exits with 0,
/// and runs nothing. While another process runs the command, a repeat waits for it.
///
/// Exit code 0 means that the effect is done. A code that --failed lists means that it did not happen: a
/// repeat runs the command again. With any other code, a signal, or a lost process the effect is in
/// doubt, until an operator settles it.
///
/// The command gets SEMEL_KEY in its environment, the same for every attempt: pass it on to a
/// destination that honours idempotency keys. Its stdin is this command's, unless that is a
/// terminal. Up to 64 KiB of its stdout are stored.
///
/// Exit codes: 0 done; a code that --failed lists, as it is; 3 another process holds the key; 4 in doubt;
/// 6 the key was used with another command line; 8 the server cannot be reached, and nothing ran;
/// 127 the command could not be started.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:
  semel once charge:o-1 -- ./charge.sh o-1
  semel once --scope billing --failed 2 --wait 0 invoice:2026-07 -- ./invoices.sh 2026-07
  semel once show charge:o-1
  semel once settle charge:o-1 --happened --reason 'seen at the bank'")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    perform: Perform,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    List(list::Arguments),
    Show(show::Arguments),
    Settle(settle::Arguments),
    Redo(redo::Arguments),
    Free(free::Arguments),
}

/// What to run, and under which key.
#[derive(Debug, clap::Args)]
pub(crate) struct Perform {
    /// The scope of the key; without one it counts in the whole namespace.
    #[arg(long, value_name = "NAME")]
    scope: Option<Label>,
    /// How long this process may be silent before the effect is in doubt.
    #[arg(long, value_name = "SPAN", default_value = "60s")]
    lease: Span,
    /// What a repeat does if the effect is in doubt: ask an operator, fail, or run the command again
    /// once the first one cannot be running any more.
    #[arg(long, value_name = "ask|fail|retry", default_value = "ask")]
    on_doubt: OnDoubt,
    /// The exit codes that mean that nothing happened: a list such as 2,9, or any. Codes 3 to 8
    /// cannot be listed; any maps them to 1.
    #[arg(long, value_name = "CODES", default_value = "")]
    failed: FailedCodes,
    /// How long to wait for another process that holds the key.
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = read_wait)]
    wait: Span,
    /// How long the key is remembered after it is done.
    #[arg(long, value_name = "SPAN", default_value = "365d")]
    keep: Span,
    /// The key: the name of what is to happen once.
    #[arg(required = true)]
    key: Option<String>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    match (&arguments.verb, &arguments.perform.key) {
        (Some(Verb::List(arguments)), _) => list::run(ctx, arguments).await,
        (Some(Verb::Show(arguments)), _) => show::run(ctx, arguments).await,
        (Some(Verb::Settle(arguments)), _) => settle::run(ctx, arguments).await,
        (Some(Verb::Redo(arguments)), _) => redo::run(ctx, arguments).await,
        (Some(Verb::Free(arguments)), _) => free::run(ctx, arguments).await,
        (None, Some(key)) => begin::run(ctx, key, &arguments.perform).await,
        (None, None) => Err(Problem::usage("no key is given")),
    }
}

/// How long to wait; `0` needs no unit.
fn read_wait(text: &str) -> Result<Span, SpanError> {
    match text {
        "0" => Ok(Span::from_secs(0)),
        text => text.parse(),
    }
}

/// The exit codes that mean that nothing happened.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FailedCodes {
    Any,
    These(BTreeSet<u8>),
}

/// The exit codes that this command has a meaning of its own for.
const OWN_CODES: std::ops::RangeInclusive<u8> = 3..=8;

impl FailedCodes {
    /// What to exit with if this exit code means that nothing happened.
    fn exit_code(&self, code: i32) -> Option<u8> {
        let code = u8::try_from(code).ok().filter(|code| *code > 0)?;
        match self {
            Self::Any if OWN_CODES.contains(&code) => Some(1),
            Self::Any => Some(code),
            Self::These(codes) => codes.contains(&code).then_some(code),
        }
    }
}

impl std::str::FromStr for FailedCodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "any" {
            return Ok(Self::Any);
        }
        let words = text.split(',').filter(|word| !word.is_empty());
        let codes: Result<BTreeSet<u8>, String> = words
            .map(|word| match word.trim().parse() {
                Ok(0) => Err("0 means done".to_owned()),
                Ok(code) if OWN_CODES.contains(&code) => Err(format!(
                    "{code} is an exit code of `semel once` itself; let the command use another"
                )),
                Ok(code) => Ok(code),
                Err(_) => Err(format!("`{word}` is no exit code: use e.g. 2,9, or any")),
            })
            .collect();
        codes.map(Self::These)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_our_own_cannot_be_listed_and_any_maps_them() {
        let codes: FailedCodes = "2,75".parse().unwrap();
        let any: FailedCodes = "any".parse().unwrap();

        let exits = [0, 2, 3, 75, 127].map(|code| codes.exit_code(code));
        assert_eq!(exits, [None, Some(2), None, Some(75), None]);
        assert_eq!(
            [0, 2, 3, 8, 9].map(|code| any.exit_code(code)),
            [None, Some(2), Some(1), Some(1), Some(9)]
        );
        for wrong in ["0", "3", "8", "2,x", "256", "-1"] {
            assert!(wrong.parse::<FailedCodes>().is_err(), "{wrong}");
        }
        assert_eq!("".parse::<FailedCodes>().unwrap().exit_code(1), None);
    }
}
