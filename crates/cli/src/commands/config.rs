//! `semel config`: what is configured, and where each value came from.

use serde::Serialize;

use crate::answer::{Answer, Problem};
use crate::config::Key;
use crate::context::Context;
use crate::style::{cell, render};

/// Show the configuration.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show each value and where it came from.
    Show,
}

/// One value.
#[derive(Serialize)]
struct Shown {
    name: &'static str,
    value: Option<String>,
    source: Option<String>,
    env: &'static str,
}

pub(crate) fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Show => Ok(show(ctx)),
    }
}

fn show(ctx: &Context) -> Answer {
    let shown = Key::ALL.map(|key| {
        let setting = ctx.find(key);
        Shown {
            name: key.name(),
            value: setting.as_ref().map(|setting| key.shown(&setting.value)),
            source: setting.map(|setting| setting.source.to_string()),
            env: key.env(),
        }
    });
    let mut table = ctx.style.table(&["NAME", "VALUE", "FROM", "ENVIRONMENT"]);
    for shown in &shown {
        table.add_row([
            cell(shown.name),
            cell(shown.value.as_deref().unwrap_or("-")),
            cell(shown.source.as_deref().unwrap_or("-")),
            cell(shown.env),
        ]);
    }
    Answer::done(&shown[..], render(&table))
}
