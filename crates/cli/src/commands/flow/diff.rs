//! `semel flow diff`.

use semel_api::types::FlowDetail;
use semel_flow::{CheckContext, Difference, Examined, compare, examine};
use semel_model::FlowName;
use serde::Serialize;

use super::promote::read_number;
use crate::answer::{Answer, Problem};
use crate::connections;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::remote;
use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::printable;

/// Show what a release means that the live one does not.
///
/// Compares effects, keys, guards, retries, approvals and triggers, not the spelling; and says what a
/// difference means for deliveries, runs and effects of before.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel flow diff charge                      the draft, beside the live release
  semel flow diff charge r3 r4
  semel flow diff charge --file charge.flow.yaml")]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// The release to compare with; the live one by default.
    #[arg(value_name = "rN", value_parser = read_number)]
    before: Option<i32>,
    /// The release to look at; the draft by default.
    #[arg(value_name = "rM", value_parser = read_number, conflicts_with = "file")]
    after: Option<i32>,
    /// A file to look at instead of a release.
    #[arg(long, value_name = "FILE")]
    file: Option<String>,
}

/// What was compared, and what differs.
#[derive(Serialize)]
struct Compared<'a> {
    flow: &'a FlowName,
    before: String,
    after: String,
    differences: &'a [Difference],
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let found = client.get_flow(&arguments.flow).await?;
    let known = connections::of_server(&client).await;
    let (before, old) = before(&found, arguments)?;
    let (after, new) = after(&found, arguments)?;
    let old = read(&before, &old, &known.facts)?;
    let new = read(&after, &new, &known.facts)?;
    let differences = compare(&old, &new);
    let text = match differences.is_empty() {
        true => format!("{before} and {after} mean the same"),
        false => tell(&before, &after, &differences, ctx.style),
    };
    let compared = Compared {
        flow: &arguments.flow,
        before,
        after,
        differences: &differences,
    };
    let mut answer = Answer::done(&compared, text);
    answer.notes.extend(known.note);
    Ok(answer)
}

fn before(found: &FlowDetail, arguments: &Arguments) -> Result<(String, String), Problem> {
    match arguments.before.or(found.flow.live) {
        Some(number) => release(found, number),
        None => {
            let message = format!("{} has no live release", arguments.flow);
            let problem = Problem::new(Outcome::NotFound, "release-not-found", message);
            Err(problem.hint("name two releases, or promote one"))
        }
    }
}

fn after(found: &FlowDetail, arguments: &Arguments) -> Result<(String, String), Problem> {
    if let Some(file) = &arguments.file {
        return Ok((printable(file), crate::commands::read_file(file)?));
    }
    if let Some(number) = arguments.after {
        return release(found, number);
    }
    match &found.draft {
        Some(draft) => Ok(("the draft".to_owned(), draft.clone())),
        None => Err(Problem::usage("there is no draft").hint("name two releases, or a --file")),
    }
}

fn release(found: &FlowDetail, number: i32) -> Result<(String, String), Problem> {
    let mut releases = found.releases.iter();
    match releases.find(|release| release.number == number) {
        Some(release) => Ok((format!("r{number}"), release.source.clone())),
        None => {
            let message = format!("there is no release r{number}");
            let problem = Problem::new(Outcome::NotFound, "release-not-found", message);
            Err(problem.next(format!("semel flow show {}", found.flow.name)))
        }
    }
}

fn read(name: &str, source: &str, facts: &CheckContext) -> Result<Examined, Problem> {
    let examined = examine(name, source, facts);
    match &examined.flow {
        Some(_) => Ok(examined),
        None => {
            let message = format!("{name} has errors:\n{}", examined.render(false));
            Err(Problem::new(
                Outcome::Failed,
                semel_api::Code::FlowInvalid.as_str(),
                message,
            ))
        }
    }
}

fn tell(before: &str, after: &str, differences: &[Difference], style: Style) -> String {
    let mut table = style.table(&["WHAT", "STEP", before, after]);
    for found in differences {
        let tone = match found.means {
            Some(_) => Tone::Odd,
            None => Tone::Plain,
        };
        let kind = serde_json::to_value(found.kind).unwrap_or_default();
        let kind = kind.as_str().unwrap_or_default().replace('_', " ");
        let shown = |side: &Option<String>| side.as_deref().map_or("-".to_owned(), printable);
        table.add_row([
            toned_cell(tone, kind),
            cell(found.step.as_deref().map_or("-".to_owned(), printable)),
            cell(shown(&found.before)),
            cell(shown(&found.after)),
        ]);
    }
    let mut means: Vec<String> = Vec::new();
    for found in differences {
        let Some(meaning) = found.means else { continue };
        let line = match &found.step {
            Some(step) => format!("note: {}: {meaning}", printable(step)),
            None => format!("note: {meaning}"),
        };
        if !means.contains(&line) {
            means.push(line);
        }
    }
    let mut text = render(&table);
    if !means.is_empty() {
        text.push_str(&format!("\n\n{}", means.join("\n")));
    }
    text
}
