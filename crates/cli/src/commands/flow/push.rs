//! `semel flow push`: a file becomes a flow's draft.

use semel_api::types::PushFlow;
use semel_flow::Flow;

use crate::answer::{Answer, Problem};
use crate::commands::read_file;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::output;
use crate::remote;
use crate::style::Style;
use crate::text::{operand, printable};

/// Make a file the draft of its flow.
///
/// Safe to repeat: pushing the same text again changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel flow push greet.flow.yaml")]
pub(crate) struct Arguments {
    /// The file.
    file: String,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let source = read_file(&arguments.file)?;
    let (flow, told) = checked(&arguments.file, &source)?;
    let draft = remote::client(ctx)?
        .push_flow(&flow.name, &PushFlow { source })
        .await?;
    let text = format!("{} has a new draft", draft.flow);
    let answer = Answer::done(&draft, text);
    // What only the server can know: its connections.
    let new = draft
        .diagnostics
        .iter()
        .filter(|found| !told.contains(&found.code));
    let answer = new.fold(answer, |answer, found| {
        let (line, column) = (found.line, found.column);
        let said = format!("{}: {} ({})", found.severity, found.message, found.help);
        answer.note(printable(&format!(
            "{}:{line}:{column}: {said}",
            arguments.file
        )))
    });
    Ok(answer.next(format!("semel flow publish {}", draft.flow)))
}

/// Checks a file before it is sent: the diagnostics then name it. Returns the codes that it
/// reported.
fn checked(file: &str, source: &str) -> Result<(Flow, Vec<String>), Problem> {
    let checked = semel_flow::check(&printable(file), source);
    if !checked.diagnostics.is_empty() {
        output::note(&checked.render(Style::of_stderr().is_colored()));
    }
    let told = checked
        .diagnostics
        .iter()
        .map(|found| found.code.to_string());
    let told: Vec<String> = told.collect();
    let flow = checked.flow.ok_or_else(|| {
        Problem::new(
            Outcome::Failed,
            semel_api::Code::FlowInvalid.as_str(),
            format!("{file} cannot be pushed"),
        )
        .hint("fix what the diagnostics point at")
        .next(format!("semel check {}", operand(file)))
    })?;
    Ok((flow, told))
}
