//! `semel flow fmt`: files in one form.

use serde_json::json;

use crate::answer::{Answer, Problem};
use crate::commands::read_file;
use crate::outcome::Outcome;
use crate::output;
use crate::style::Style;
use crate::text::printable;

/// Write flows in one form: fields in the order of the language, indented alike.
///
/// Comments stay where they are. Safe to repeat: a formatted file stays as it is.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  semel flow fmt *.flow.yaml\n  semel flow fmt --check *.flow.yaml"
)]
pub(crate) struct Arguments {
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Change nothing; exit with 1 if a file is not formatted.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Answer, Problem> {
    let mut changed = Vec::new();
    for file in &arguments.files {
        let source = read_file(file)?;
        let formatted = semel_flow::format(&printable(file), &source).map_err(|diagnostics| {
            let color = Style::of_stderr().is_colored();
            for diagnostic in &diagnostics {
                output::note(&diagnostic.render(color));
            }
            let code = semel_api::Code::FlowInvalid.as_str();
            Problem::new(Outcome::Failed, code, format!("{file} cannot be formatted"))
                .hint("fix what the diagnostics point at")
        })?;
        if formatted == source {
            continue;
        }
        if !arguments.check {
            std::fs::write(file, &formatted)
                .map_err(|error| Problem::local(format!("cannot write {file}: {error}")))?;
        }
        changed.push(file.clone());
    }
    let text = changed.join("\n");
    let answer = Answer::done(json!({ "changed": changed }), text);
    if arguments.check && !changed.is_empty() {
        let message = format!("{} files are not formatted", changed.len());
        let code = semel_api::Code::FlowInvalid.as_str();
        return Ok(answer.with_fault(Outcome::Failed, code, &message));
    }
    Ok(answer)
}
