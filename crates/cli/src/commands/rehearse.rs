//! `semel rehearse`: plays a flow against duplicates, crashes and lost answers.

use std::time::Duration;

use semel_api::Client;
use semel_api::types::{AskRehearsal, Rehearsal};
use semel_model::FlowName;
use semel_rehearse::Report;
use uuid::Uuid;

use crate::answer::{Answer, Problem};
use crate::code;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::output::Steps;
use crate::remote;

/// How often the server is asked how far it is.
const ASK_EVERY: Duration = Duration::from_millis(300);

/// Play a flow against duplicates, crashes and lost answers.
///
/// The server plays each example on a stage: destinations answer from the example, nothing is sent,
/// and time jumps. Every delivery, commit point and answer has its fault. Exits with 1 if an effect
/// happens twice or is lost.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel rehearse greet.flow.yaml
  semel rehearse greet.flow.yaml --example paid --fault crash
  semel rehearse greet --format junit > rehearsal.xml      the latest release of a flow")]
pub(crate) struct Arguments {
    /// A file, or the name of a flow with a release.
    #[arg(value_name = "FLOW|FILE")]
    subject: String,
    /// Only this example.
    #[arg(long, value_name = "NAME")]
    example: Option<String>,
    /// Only this fault, or this class of faults.
    #[arg(long, value_name = "FAULT")]
    fault: Option<String>,
    /// What the order of the cases is made from; their names, and so their keys, do not depend on it.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// How the report is written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For CI.
    Junit,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let ask = AskRehearsal {
        source: read(&client, &arguments.subject).await?,
        file: arguments.subject.clone(),
        example: arguments.example.clone(),
        fault: arguments.fault.clone(),
        seed: arguments.seed,
    };
    let rehearsal = rehearse(ctx, &client, &ask).await?;
    let report = report_of(&rehearsal)?;
    let text = match arguments.format {
        Format::Text => report.to_text(),
        Format::Junit => report.to_junit(),
    };
    let answer = Answer::done(&report, text);
    Ok(match report.passed {
        true => answer,
        false => {
            let message = format!("the rehearsal of {} shows violations", report.flow);
            answer.with_fault(Outcome::Failed, code::REHEARSAL_FAILED, &message)
        }
    })
}

/// Has a flow rehearsed, and waits for the end.
pub(super) async fn rehearse(
    ctx: &Context,
    client: &Client,
    ask: &AskRehearsal,
) -> Result<Rehearsal, Problem> {
    let id = Uuid::now_v7().to_string();
    let mut rehearsal = client.ask_rehearsal(&id, ask).await?;
    let steps = Steps::begin(ctx.reader, "rehearsing");
    while !rehearsal.is_over() {
        steps.show(rehearsal.done, rehearsal.total);
        tokio::time::sleep(ASK_EVERY).await;
        rehearsal = client.get_rehearsal(&id).await?;
    }
    Ok(rehearsal)
}

/// The report of a rehearsal that has ended.
pub(super) fn report_of(rehearsal: &Rehearsal) -> Result<Report, Problem> {
    let stopped = || {
        let said = rehearsal.problem.as_deref().unwrap_or("no report was made");
        let message = format!("{} was not rehearsed: {said}", rehearsal.flow);
        Problem::new(Outcome::Failed, code::REHEARSAL_FAILED, message)
    };
    let report = rehearsal.report.clone().ok_or_else(stopped)?;
    serde_json::from_value(report)
        .map_err(|error| Problem::local(format!("cannot read the report: {error}")))
}

/// The text of a file, or of the latest release of a flow.
async fn read(client: &Client, subject: &str) -> Result<String, Problem> {
    let is_file = std::path::Path::new(subject).exists();
    match subject.parse::<FlowName>() {
        Ok(flow) if !is_file => {
            let detail = client.get_flow(&flow).await?;
            let latest = detail.releases.into_iter().max_by_key(|one| one.number);
            let source = latest.map(|release| release.source).or(detail.draft);
            source.ok_or_else(|| Problem::usage(format!("{flow} has no release to rehearse")))
        }
        Ok(_) | Err(_) => super::read_file(subject),
    }
}
