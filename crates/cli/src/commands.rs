//! The commands, one module each, and the dispatch to them.
//!
//! Apart from `serve`, `dev`, `migrate`, `doctor`, `check`, `explain` and `init`, a command is a
//! client of the API and nothing else. `token` is one too, and can reach the database where there is
//! no token to use the API with.

pub(crate) mod alert;
pub(crate) mod api;
pub(crate) mod approval;
pub(crate) mod audit;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod connection;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod doubt;
pub(crate) mod duplicate;
pub(crate) mod effect;
pub(crate) mod explain;
pub(crate) mod find;
pub(crate) mod flow;
pub(crate) mod init;
pub(crate) mod key;
pub(crate) mod kv;
pub(crate) mod member;
pub(crate) mod migrate;
pub(crate) mod namespace;
pub(crate) mod once;
pub(crate) mod open;
pub(crate) mod reconcile;
pub(crate) mod refusal;
pub(crate) mod rehearse;
pub(crate) mod replay;
pub(crate) mod resource;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod subscription;
pub(crate) mod task;
pub(crate) mod token;
pub(crate) mod wait;
pub(crate) mod worker;

use std::io::ErrorKind;

use clap::Subcommand;

use crate::answer::{Answer, Problem};
use crate::code;
use crate::context::Context;
use crate::outcome::Outcome;

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(init::Arguments),
    Dev(dev::Arguments),
    Check(check::Arguments),
    Rehearse(rehearse::Arguments),
    Explain(explain::Arguments),
    #[command(subcommand)]
    Flow(flow::Command),
    #[command(subcommand)]
    Run(run::Command),
    #[command(subcommand)]
    Replay(replay::Command),
    #[command(subcommand)]
    Effect(effect::Command),
    #[command(subcommand)]
    Doubt(doubt::Command),
    #[command(subcommand)]
    Duplicate(duplicate::Command),
    Find(find::Arguments),
    Open(open::Arguments),
    #[command(subcommand, name = "refusal")]
    RefusedDelivery(refusal::Command),
    #[command(subcommand)]
    Key(key::Command),
    #[command(subcommand)]
    Kv(kv::Command),
    #[command(subcommand)]
    Resource(resource::Command),
    #[command(subcommand)]
    Wait(wait::Command),
    #[command(subcommand)]
    Approval(approval::Command),
    #[command(subcommand)]
    Task(task::Command),
    Worker(worker::Arguments),
    Once(Box<once::Arguments>),
    #[command(subcommand)]
    Schedule(schedule::Command),
    #[command(subcommand)]
    Reconcile(reconcile::Command),
    #[command(subcommand)]
    Connection(connection::Command),
    #[command(subcommand)]
    Secret(secret::Command),
    #[command(subcommand)]
    Subscription(subscription::Command),
    #[command(subcommand)]
    Alert(alert::Command),
    #[command(subcommand)]
    Token(token::Command),
    #[command(subcommand)]
    Member(member::Command),
    #[command(subcommand)]
    Namespace(namespace::Command),
    #[command(subcommand)]
    Audit(audit::Command),
    Api(api::Arguments),
    Serve(Box<serve::Arguments>),
    Migrate(migrate::Arguments),
    Doctor(doctor::Arguments),
    #[command(subcommand)]
    Config(config::Command),
    Completions(completions::Arguments),
}

/// Carries out what was asked for. `words` is the whole command line, for what completes it.
pub(crate) async fn carry_out(
    ctx: &Context,
    command: Command,
    words: clap::Command,
) -> Result<Answer, Problem> {
    match command {
        Command::Init(arguments) => init::run(ctx, &arguments),
        Command::Dev(arguments) => dev::run(ctx, &arguments).await,
        Command::Check(arguments) => check::run(ctx, &arguments).await,
        Command::Rehearse(arguments) => rehearse::run(ctx, &arguments).await,
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Flow(command) => flow::run(ctx, &command).await,
        Command::Run(command) => run::run(ctx, &command).await,
        Command::Replay(command) => replay::run(ctx, &command).await,
        Command::Effect(command) => effect::run(ctx, &command).await,
        Command::Doubt(command) => doubt::run(ctx, &command).await,
        Command::Duplicate(command) => duplicate::run(ctx, &command).await,
        Command::Find(arguments) => find::run(ctx, &arguments).await,
        Command::Open(arguments) => open::run(ctx, &arguments).await,
        Command::RefusedDelivery(command) => refusal::run(ctx, &command).await,
        Command::Key(command) => key::run(ctx, &command).await,
        Command::Kv(command) => kv::run(ctx, &command).await,
        Command::Resource(command) => resource::run(ctx, &command).await,
        Command::Wait(command) => wait::run(ctx, &command).await,
        Command::Approval(command) => approval::run(ctx, &command).await,
        Command::Task(command) => task::run(ctx, &command).await,
        Command::Worker(arguments) => worker::run(ctx, &arguments).await,
        Command::Once(arguments) => once::run(ctx, &arguments).await,
        Command::Schedule(command) => schedule::run(ctx, &command).await,
        Command::Reconcile(command) => reconcile::run(ctx, &command).await,
        Command::Connection(command) => connection::run(ctx, &command).await,
        Command::Secret(command) => secret::run(ctx, &command).await,
        Command::Subscription(command) => subscription::run(ctx, &command).await,
        Command::Alert(command) => alert::run(ctx, &command).await,
        Command::Token(command) => token::run(ctx, &command).await,
        Command::Member(command) => member::run(ctx, &command).await,
        Command::Namespace(command) => namespace::run(ctx, &command).await,
        Command::Audit(command) => audit::run(ctx, &command).await,
        Command::Api(arguments) => api::run(ctx, &arguments).await,
        Command::Serve(arguments) => serve::run(ctx, &arguments).await,
        Command::Migrate(arguments) => migrate::run(ctx, &arguments).await,
        Command::Doctor(arguments) => doctor::run(ctx, &arguments).await,
        Command::Config(command) => config::run(ctx, &command),
        Command::Completions(arguments) => completions::run(&arguments, words),
    }
}

/// Reads a file that was named on the command line.
fn read_file(file: &str) -> Result<String, Problem> {
    std::fs::read_to_string(file).map_err(|error| {
        if error.kind() != ErrorKind::NotFound {
            return Problem::local(format!("cannot read {file}: {error}"));
        }
        let message = format!("file {file} does not exist");
        Problem::new(Outcome::NotFound, code::FILE_NOT_FOUND, message)
            .hint("check the path; `semel init NAME` writes a first flow")
    })
}

/// Reads JSON that was given as text, as `@FILE`, or as `-` for stdin.
fn read_json(given: &str) -> Result<serde_json::Value, Problem> {
    let text = match given.strip_prefix('@') {
        Some(file) => read_file(file)?,
        None if given == "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|error| Problem::local(format!("cannot read stdin: {error}")))?,
        None => given.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| {
        Problem::usage(format!("invalid JSON: {error}"))
            .hint("quote it for the shell, e.g. '{\"id\": 1}', or use @FILE or - for stdin")
    })
}

/// The option that names the key under which a command may be repeated.
#[derive(Debug, clap::Args)]
pub(crate) struct Repeat {
    /// The key that makes it safe to repeat this; derived from the command by default.
    #[arg(long = "idempotency-key", alias = "key", value_name = "KEY")]
    key: Option<String>,
}

impl Repeat {
    /// The key that was given.
    fn given(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The key that was given, or the one that these words have.
    fn key_or(&self, words: &[&str]) -> String {
        match &self.key {
            Some(key) => key.clone(),
            None => crate::remote::key_of(words),
        }
    }
}
