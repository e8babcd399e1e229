//! `semel init`: a first flow to change.

use std::io::{ErrorKind, Write as _};

use semel_model::FlowName;
use serde_json::json;

use crate::answer::{Answer, Problem};
use crate::code;
use crate::context::Context;
use crate::outcome::Outcome;

/// A flow to begin with.
struct Template {
    name: &'static str,
    about: &'static str,
    text: &'static str,
}

/// The templates; the first is taken where none is named.
const TEMPLATES: [Template; 5] = [
    Template {
        name: "hello",
        about: "a hook, a key, a function, an effect and a result; needs no connection",
        text: include_str!("init/hello.flow.yaml"),
    },
    Template {
        name: "webhook-http",
        about: "a signed webhook, and one HTTP request under the delivery's key",
        text: include_str!("init/webhook-http.flow.yaml"),
    },
    Template {
        name: "nightly-sync",
        about: "a schedule, and a list whose failed items can be resumed by themselves",
        text: include_str!("init/nightly-sync.flow.yaml"),
    },
    Template {
        name: "approval-refund",
        about: "a refund that a person has to approve, paid once",
        text: include_str!("init/approval-refund.flow.yaml"),
    },
    Template {
        name: "worker-task",
        about: "work for a program of your own, which takes it from a queue",
        text: include_str!("init/worker-task.flow.yaml"),
    },
];

/// Write a first flow, NAME.flow.yaml.
///
/// Safe to repeat: a file that was changed since is never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel init greet && semel dev
  semel init refund --template approval-refund
  semel init --list")]
pub(crate) struct Arguments {
    /// The flow's name: a-z, 0-9 and '-'.
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// The template.
    #[arg(long, value_name = "TEMPLATE", default_value = "hello")]
    template: String,
    /// List the templates.
    #[arg(long, conflicts_with = "name")]
    list: bool,
}

pub(crate) fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let Some(name) = &arguments.name else {
        return Ok(list());
    };
    let name: FlowName = name
        .parse()
        .map_err(|error| Problem::usage(format!("`{name}` cannot name a flow: {error}")))?;
    let template = find(&arguments.template)?;
    let file = format!("{name}.flow.yaml");
    let text = template.text.replacen("NAME", name.as_str(), 1);
    let made = write_new(ctx, &file, &text)?;
    let note = if made {
        format!("{file}: {}.", template.about)
    } else {
        format!("{file} exists already, with the same content.")
    };
    let data = json!({"file": file, "flow": name, "template": template.name, "made": made});
    Ok(Answer::done(data, file.clone())
        .note(note)
        .next(format!("semel check {file}"))
        .next("semel dev"))
}

fn list() -> Answer {
    let data = TEMPLATES
        .iter()
        .map(|one| json!({"template": one.name, "about": one.about}));
    let data: Vec<serde_json::Value> = data.collect();
    let width = TEMPLATES.iter().map(|one| one.name.len()).max();
    let width = width.unwrap_or_default();
    let lines = TEMPLATES
        .iter()
        .map(|one| format!("{:width$}  {}", one.name, one.about));
    let text = lines.collect::<Vec<_>>().join("\n");
    Answer::done(json!({ "items": data }), text).next("semel init NAME --template TEMPLATE")
}

fn find(name: &str) -> Result<&'static Template, Problem> {
    let found = TEMPLATES.iter().find(|one| one.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = TEMPLATES.iter().map(|one| one.name).collect();
        Problem::usage(format!("unknown template `{name}`"))
            .hint(format!("templates: {}", names.join(", ")))
    })
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
    let message = format!("{file} exists already with other content; it was left as it is");
    Problem::new(Outcome::Conflict, code::FILE_EXISTS, message)
        .hint("choose another name, or move the file away first")
        .next(format!("semel check {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_passes_its_own_check_and_is_formatted() {
        for template in &TEMPLATES {
            let text = template.text.replacen("NAME", "greet", 1);
            let checked = semel_flow::check("x.flow.yaml", &text);

            let said = checked.render(false);
            assert!(checked.diagnostics.is_empty(), "{}: {said}", template.name);
            assert!(checked.flow.is_some(), "{}", template.name);
            let formatted = semel_flow::format("x.flow.yaml", &text).unwrap();
            assert_eq!(formatted, text, "{} is formatted", template.name);
        }
    }
}
