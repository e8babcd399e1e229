//! `semel check`: reads flows without running them.

use semel_flow::{Checked, Diagnostic, Severity};
use serde::Serialize;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::inventory::{self, Effect};
use crate::outcome::Outcome;
use crate::style::Style;
use crate::text::printable;

/// Check flows without running them, and list their effects.
///
/// Says what is wrong, where, and what to write instead; then lists each effect with its key,
/// its guard, what a crash does to it, and whether a retry is safe. Exits with 1 where a file has
/// an error; warnings alone are no error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel check greet.flow.yaml")]
pub(crate) struct Arguments {
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
}

/// What was found in one file.
#[derive(Serialize)]
struct Found {
    file: String,
    ok: bool,
    flow: Option<String>,
    digest: Option<String>,
    diagnostics: Vec<Diagnostic>,
    effects: Vec<Effect>,
}

pub(crate) fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let mut notes = Vec::new();
    let mut found = Vec::new();
    for file in &arguments.files {
        let checked = semel_flow::check(&printable(file), &read(file)?);
        if !checked.diagnostics.is_empty() {
            notes.push(checked.render(Style::of_stderr().is_colored()) + "\n");
        }
        found.push(judge(file, checked));
    }
    let texts: Vec<String> = found.iter().map(|found| tell(found, ctx.style)).collect();
    let wrong = found.iter().filter(|found| !found.ok).count();
    let mut answer = Answer::done(serde_json::json!({ "files": found }), texts.join("\n"));
    answer.notes = notes;
    if wrong > 0 {
        let message = format!("{wrong} of {} files cannot be published", found.len());
        answer = answer.with_fault(
            Outcome::Failed,
            semel_api::Code::FlowInvalid.as_str(),
            &message,
        );
    }
    Ok(answer)
}

fn judge(file: &str, checked: Checked) -> Found {
    let ok = checked
        .diagnostics
        .iter()
        .all(|diagnostic| diagnostic.severity != Severity::Error);
    let flow = checked.flow.as_ref();
    Found {
        file: file.to_owned(),
        ok,
        flow: flow.map(|flow| flow.name.to_string()),
        digest: flow.map(|flow| flow.digest().to_string()),
        effects: flow.map(inventory::of).unwrap_or_default(),
        diagnostics: checked.diagnostics,
    }
}

fn tell(found: &Found, style: Style) -> String {
    let Some(flow) = &found.flow else {
        return String::new();
    };
    let title = format!("{}: flow {}", printable(&found.file), style.bold(flow));
    if found.effects.is_empty() {
        return format!("{title} has no effect\n");
    }
    format!("{title}\n\n{}\n", inventory::table(&found.effects, style))
}

fn read(file: &str) -> Result<String, Problem> {
    super::read_file(file)
}
