//! `semel init`: a first flow to change.

use std::io::{ErrorKind, Write as _};

use semel_model::FlowName;
use serde_json::json;

use crate::answer::{Answer, Problem};
use crate::code;
use crate::context::Context;
use crate::outcome::Outcome;

const TEMPLATE: &str = include_str!("init/template.flow.yaml");

/// Write a first flow, NAME.flow.yaml.
///
/// Safe to repeat: a file that was changed since is never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel init greet && semel dev")]
pub(crate) struct Arguments {
    /// The flow's name: a-z, 0-9 and '-'.
    name: String,
}

pub(crate) fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let name: FlowName = arguments.name.parse().map_err(|error| {
        Problem::usage(format!("`{}` cannot name a flow: {error}", arguments.name))
    })?;
    let file = format!("{name}.flow.yaml");
    let text = TEMPLATE.replace("NAME", name.as_str());
    let made = write_new(ctx, &file, &text)?;
    let note = if made {
        format!("{file} is a flow with a hook, a key, a function, an effect and a result.")
    } else {
        format!("{file} was there already, just like this.")
    };
    Ok(Answer::done(
        json!({"file": file, "flow": name, "made": made}),
        file.clone(),
    )
    .note(note)
    .next(format!("semel check {file}"))
    .next("semel dev"))
}

/// Writes a file that must not be there, unless it says the same. Tells whether it was made.
fn write_new(ctx: &Context, file: &str, text: &str) -> Result<bool, Problem> {
    let path = ctx.config.directory().join(file);
    match std::fs::File::create_new(&path) {
        Ok(mut made) => {
            let written = made
                .write_all(text.as_bytes())
                .and_then(|()| made.sync_all());
            written.map_err(|error| Problem::local(format!("cannot write {file}: {error}")))?;
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let there = std::fs::read_to_string(&path).unwrap_or_default();
            if there == text {
                Ok(false)
            } else {
                Err(in_the_way(file))
            }
        }
        Err(error) => Err(Problem::local(format!("cannot write {file}: {error}"))),
    }
}

fn in_the_way(file: &str) -> Problem {
    let message = format!("{file} is there already and says something else; it was left as it is");
    Problem::new(Outcome::Conflict, code::FILE_EXISTS, message)
        .hint("choose another name, or move the file away first")
        .next(format!("semel check {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_passes_its_own_check() {
        let checked = semel_flow::check("x.flow.yaml", &TEMPLATE.replace("NAME", "greet"));

        assert!(checked.diagnostics.is_empty(), "{}", checked.render(false));
        assert!(checked.flow.unwrap().trigger.webhook.is_some());
    }
}
