//! `semel run start`: a run, or the one that its key has already.

use std::time::Instant;

use semel_api::types::{StartRun, Started};
use semel_api::{Client, ClientError, Code};
use semel_model::{FlowName, RunId, Span, TriggerKind};
use serde_json::{Value, json};

use super::judged;
use crate::answer::{Answer, Problem};
use crate::commands::read_json;
use crate::context::Context;
use crate::output::Progress;
use crate::remote::{self, key_of};
use crate::views;

/// The longest that one request waits, in seconds; longer waits are made of several.
const WAIT_SECS_MAX: u64 = 20;

/// Start a run, or meet the one that its key has already.
///
/// Safe to repeat: the same key never starts a second run. Where neither --key nor the flow tells
/// the key, it is derived from the input, so that the same input is the same run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel run start greet --input '{\"id\":\"1\",\"name\":\"Ada\"}'
  semel run start greet --input @order.json --key order-42 --wait 30s
  jq .order event.json | semel run start greet --input -

With --wait the exit code is the run's: 0 succeeded, 1 failed, 3 still running, 4 in doubt.")]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// The input: JSON, @FILE, or - for stdin.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    input: String,
    /// What this and every repeat of it have in common.
    #[arg(long, alias = "idempotency-key", value_name = "KEY")]
    key: Option<String>,
    /// Wait this long for the run's end.
    #[arg(long, value_name = "SPAN")]
    wait: Option<Span>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let input = read_json(&arguments.input)?;
    let client = remote::client(ctx)?;
    let begun = Instant::now();
    let (started, replayed) = start(&client, arguments, input).await?;
    let mut answer = match arguments.wait {
        None => told(&started, replayed),
        Some(span) => {
            let progress = Progress::begin(ctx.reader, "waiting for the run's end …");
            let run = wait_for(&client, started.run, span, begun).await?;
            drop(progress);
            let text = views::run::head(&run, ctx.style);
            judged(Answer::done(&run, text), &run)
        }
    };
    if let Value::Object(data) = &mut answer.data {
        data.insert("replayed".to_owned(), json!(replayed));
    }
    if replayed {
        answer = answer.note("this key has its run already: nothing was started twice");
    }
    Ok(answer)
}

fn told(started: &Started, replayed: bool) -> Answer {
    let word = if replayed { "answers" } else { "is accepted" };
    let text = format!("{}  {word}, {}", started.run, started.state);
    Answer::done(started, text).next(format!("semel run show {}", started.run))
}

/// Starts the run as a person's, or through the API where the flow allows only that; and under a
/// derived key where nobody names one. A refused try did nothing, so the next one is safe.
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

/// Waits for a run's end, at most a span since it was asked for.
async fn wait_for(
    client: &Client,
    run: RunId,
    span: Span,
    begun: Instant,
) -> Result<semel_api::types::Run, Problem> {
    loop {
        let left = span.to_duration().saturating_sub(begun.elapsed());
        let left = Span::from_millis(left.as_millis() as u64);
        let found = client
            .await_run(run, left.min(Span::from_secs(WAIT_SECS_MAX)))
            .await?;
        let over = begun.elapsed() >= span.to_duration();
        if over || found.state.state() != semel_model::run::State::Active {
            return Ok(found);
        }
    }
}
