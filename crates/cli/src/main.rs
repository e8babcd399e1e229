//! The `semel` binary: commands, configuration, output; it wires the rest for `serve` and `dev`.

mod access;
mod answer;
mod archive;
mod arguments;
mod code;
mod commands;
mod config;
mod connections;
mod context;
mod curl;
mod global;
mod hardening;
mod inventory;
mod logs;
mod outcome;
mod output;
mod paging;
mod remote;
mod resources;
mod service;
mod style;
mod text;
mod version;
mod views;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use answer::{Answer, Problem};
use arguments::Arguments;
use commands::Command;
use commands::once::supervise as once_supervise;
use commands::worker::supervise;
use context::Context;
use global::Global;
use output::Reader;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    // No command of people's: it is how a worker runs one, and must not fail over configuration.
    if let [_, word, mark, command @ ..] = &words[..]
        && word == supervise::WORD
        && mark == "--"
    {
        return supervise::run(command);
    }
    if let [_, word, parent, mark, command @ ..] = &words[..]
        && word == once_supervise::WORD
        && mark == "--"
    {
        return once_supervise::run(parent, command);
    }
    match Arguments::try_parse_from(&words) {
        Ok(Arguments { global, command }) => {
            let reader = global.reader();
            finish(&carry_out(global, command), reader)
        }
        Err(error) => refuse(&error, &words),
    }
}

fn carry_out(global: Global, command: Command) -> Answer {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => Context::new(global).and_then(|ctx| {
            let words = Arguments::command();
            runtime.block_on(commands::carry_out(&ctx, command, words))
        }),
        Err(error) => Err(Problem::local(format!("cannot start threads: {error}"))),
    };
    done.unwrap_or_else(Problem::into_answer)
}

fn finish(answer: &Answer, reader: Reader) -> ExitCode {
    output::show(answer, reader);
    let own = answer.outcome.exit_code();
    ExitCode::from(answer.exit_code.unwrap_or(own))
}

/// Arguments that cannot be understood, or that ask for help.
fn refuse(error: &clap::Error, words: &[OsString]) -> ExitCode {
    let help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    let wants_json = words
        .iter()
        .take_while(|word| *word != "--")
        .any(|word| word == "--json");
    if !wants_json {
        // Help goes to stdout, complaints to stderr, both in clap's own style.
        let _ = error.print();
        return ExitCode::from(if help {
            0
        } else {
            outcome::Outcome::Usage.exit_code()
        });
    }
    let text = error.to_string();
    let answer = if error.kind() == ErrorKind::DisplayVersion {
        let told = serde_json::json!({ "version": version::NUMBER, "build": version::BUILD });
        Answer::done(told, String::new())
    } else if help {
        Answer::done(serde_json::json!({ "help": text }), String::new())
    } else {
        let text = text.trim().trim_start_matches("error: ");
        let problem = Problem::usage(text).hint("semel --help lists the commands");
        problem.into_answer()
    };
    finish(&answer, Reader::Program)
}
