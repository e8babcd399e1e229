//! `semel flow schema`: what an editor needs to complete and to validate flows.

use crate::answer::{Answer, Problem};

/// Write the JSON Schema of flow files, for editors.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel flow schema > flow.schema.json\n\n\
and in a flow, for editors with a YAML language server:\n  # yaml-language-server: $schema=./flow.schema.json")]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> Result<Answer, Problem> {
    let schema = semel_flow::schema();
    let text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    Ok(Answer::done(schema, text))
}
