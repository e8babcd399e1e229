//! `semel run start`: starts a run, or finds the existing one of its key.

use std::time::Instant;

use semel_api::types::{RunDetail, RunStatus, StartRun, Started};
use semel_api::{Client, ClientError, Code};
use semel_model::run::RunState;
use semel_model::{FlowName, RunId, Span, TriggerKind};
use serde_json::{Value, json};

use super::judged;
use super::person::{Idle, Wanted};
use crate::answer::{Answer, Problem};
use crate::commands::read_json;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::output::Progress;
use crate::remote::{self, key_of};
use crate::views::{self, Extent};

/// How long one request waits for the run's end; then the command checks whether it needs a person.
const LOOK_EVERY_MS: u64 = 500;

/// Start a run, or return the existing run of its key.
///
/// Safe to repeat: the same key never starts a second run. If the flow's trigger has a `key`, that
/// key alone names the run, and --key is refused. If it has none, --key does; by default the key is
/// derived from the input, so that the same input is the same run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel run start greet --input '{\"id\":\"1\",\"name\":\"Ada\"}'
  semel run start import --input @order.json --key order-42 --wait 30s
  jq .order event.json | semel run start greet --input -

With --wait the exit code is the run's: 0 succeeded, 1 failed, 3 still running or waiting for a
person, 4 in doubt. Without it the same holds for a repeat of a run that has ended.")]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// The input: JSON, @FILE, or - for stdin.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    input: String,
    /// The key: the same for this request and every repeat of it, if the flow's trigger has none.
    #[arg(long, alias = "idempotency-key", value_name = "KEY")]
    key: Option<String>,
    /// Wait up to this long for the run's end.
    #[arg(long, value_name = "SPAN")]
    wait: Option<Span>,
    /// Show the whole result, however long it is.
    #[arg(long)]
    full: bool,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let input = read_json(&arguments.input)?;
    let client = remote::client(ctx)?;
    let begun = Instant::now();
    let (started, replayed) = start(&client, arguments, input).await?;
    let ended = started.state.state() != RunState::Active;
    let mut answer = match (arguments.wait, ended) {
        (None, false) => told(&started, replayed),
        (None, true) => match client.get_run(started.run).await {
            Ok(found) => show(ctx, &found, arguments),
            // A token may be for starting runs only.
            Err(error) if refusal(&error) == Some(Code::RightMissing) => {
                told(&started, replayed).with_outcome(Outcome::of_run(started.state.state()))
            }
            Err(error) => return Err(error.into()),
        },
        (Some(span), _) => {
            let progress = Progress::begin(ctx.reader, "waiting for the run's end …");
            // Whatever ends the wait, the run was started.
            let waited = wait_for(&client, started.run, span, begun).await;
            let (found, wanted) = waited
                .map_err(|problem| problem.next(format!("semel run show {}", started.run)))?;
            drop(progress);
            wanted.tell(show(ctx, &found, arguments))
        }
    };
    if let Value::Object(data) = &mut answer.data {
        data.insert("replayed".to_owned(), json!(replayed));
    }
    if replayed {
        answer = answer.note("this key has a run already: no second run was started");
    }
    Ok(answer)
}

fn show(ctx: &Context, found: &RunDetail, arguments: &Arguments) -> Answer {
    let extent = Extent::of(arguments.full);
    let text = views::run::head(&found.run, extent, ctx.style);
    judged(Answer::done(&found.run, text), &found.run)
}

fn told(started: &Started, replayed: bool) -> Answer {
    let (run, state) = (started.run, started.state);
    let text = match replayed {
        true => format!("the key is known: {run} answers for it, {state}; nothing was started"),
        false => format!("{run}  is accepted, {state}"),
    };
    Answer::done(started, text).next(format!("semel run show {}", started.run))
}

/// Starts the run as a person's, or through the API if the flow allows only that; under a derived
/// key if the command line has none. A refused try did nothing, so the next one is safe.
async fn start(
    client: &Client,
    arguments: &Arguments,
    input: Value,
) -> Result<(Started, bool), Problem> {
    let flow = &arguments.flow;
    let mut ask = StartRun {
        input,
        key: arguments.key.clone(),
        trigger: Some(TriggerKind::Manual),
    };
    loop {
        match client.start_run(flow, &ask, None).await {
            Ok(answer) => return Ok((answer.body, answer.replayed)),
            Err(error) => match refusal(&error) {
                Some(Code::TriggerNotDeclared) if ask.trigger == Some(TriggerKind::Manual) => {
                    ask.trigger = Some(TriggerKind::Api);
                }
                Some(Code::KeyMissing) if ask.key.is_none() => {
                    let input = ask.input.to_string();
                    ask.key = Some(key_of(&["run start", flow.as_str(), &input]));
                }
                Some(_) | None => return Err(error.into()),
            },
        }
    }
}

fn refusal(error: &ClientError) -> Option<Code> {
    match error {
        ClientError::Problem(problem) => problem.code(),
        ClientError::Address(_) | ClientError::Unreachable(_) | ClientError::Malformed { .. } => {
            None
        }
    }
}

/// Waits for a run's end, or until it needs a person, at most a span since it was asked for.
async fn wait_for(
    client: &Client,
    run: RunId,
    span: Span,
    begun: Instant,
) -> Result<(RunDetail, Wanted), Problem> {
    let mut idle = Idle::default();
    loop {
        let left = span.to_duration().saturating_sub(begun.elapsed());
        let left = Span::from_millis(left.as_millis() as u64);
        let state = client
            .await_run(run, left.min(Span::from_millis(LOOK_EVERY_MS)))
            .await?
            .state;
        let over = begun.elapsed() >= span.to_duration();
        if !over && state.state() == RunState::Active && state != RunStatus::Waiting {
            continue;
        }
        let found = client.get_run(run).await?;
        let wanted = Wanted::find(client, &found).await?;
        let ended = found.run.state.state() != RunState::Active;
        if over || ended || idle.needs_person(&wanted) {
            return Ok((found, wanted));
        }
    }
}
