//! `semel check`: reads flows without running them.

use semel_flow::{CheckContext, Diagnostic, Examined, Inventory, KnownConnection};
use serde::Serialize;
use serde_json::Value;

use crate::answer::{Answer, Problem};
use crate::connections;
use crate::context::Context;
use crate::inventory;
use crate::outcome::Outcome;
use crate::style::Style;
use crate::text::printable;

/// Check flows without running them, and list their effects.
///
/// Reports what is wrong, where, and what to write instead; then lists each effect with its key,
/// its guard, what a crash does to it, whether a retry is safe, and what is left to an operator.
/// Exits with 1 if a file has an error; warnings alone are no error.
///
/// Which guard an effect has may depend on its connection. Where a server is configured, it is asked
/// which connections there are; without one they are not known, and the list says so.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  semel check greet.flow.yaml\n  \
                        semel check --offline --connections connections.json *.flow.yaml")]
pub(crate) struct Arguments {
    /// The files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// The connections, as JSON: for each name, how long it honours keys, or null.
    #[arg(long, value_name = "FILE")]
    connections: Option<String>,
    /// Ask no server about connections.
    #[arg(long)]
    offline: bool,
}

/// What was found in one file.
#[derive(Serialize)]
struct Found {
    file: String,
    ok: bool,
    /// Whether this build can run it.
    publishable: bool,
    flow: Option<String>,
    digest: Option<String>,
    diagnostics: Vec<Diagnostic>,
    pending: Vec<Diagnostic>,
    #[serde(flatten)]
    inventory: Inventory,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let mut notes = Vec::new();
    let facts = match &arguments.connections {
        Some(file) => read_facts(file)?,
        None if arguments.offline => CheckContext::default(),
        None => {
            let known = connections::of_configured(ctx).await;
            notes.extend(known.note);
            known.facts
        }
    };
    let mut found = Vec::new();
    for file in &arguments.files {
        let source = super::read_file(file)?;
        let examined = semel_flow::examine(&printable(file), &source, &facts);
        if !examined.diagnostics.is_empty() {
            notes.push(examined.render(Style::of_stderr().is_colored()) + "\n");
        }
        found.push(judge(file, examined));
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

fn read_facts(file: &str) -> Result<CheckContext, Problem> {
    let wrong = || {
        let hint = "write `{\"books\": \"24h\", \"crm\": null}`";
        Problem::usage(format!(
            "{file} does not say how long connections honour keys"
        ))
        .hint(hint)
    };
    let read: Value = serde_json::from_str(&super::read_file(file)?).map_err(|_| wrong())?;
    let mut facts = CheckContext::default();
    for (name, window) in read.as_object().ok_or_else(wrong)? {
        let span = window.as_str().and_then(|span| span.parse().ok());
        if span.is_none() && !window.is_null() {
            return Err(wrong());
        }
        let key_window = span;
        let connection = KnownConnection {
            key_window,
            kind: None,
        };
        facts.connections.insert(name.clone(), connection);
    }
    Ok(facts)
}

fn judge(file: &str, examined: Examined) -> Found {
    Found {
        file: file.to_owned(),
        ok: examined.is_sound(),
        publishable: examined.flow.is_some(),
        flow: examined.name.map(|name| name.to_string()),
        digest: examined.flow.map(|flow| flow.digest().to_string()),
        diagnostics: examined.diagnostics,
        pending: examined.pending,
        inventory: examined.inventory,
    }
}

fn tell(found: &Found, style: Style) -> String {
    let Some(flow) = found.flow.as_ref().filter(|_| found.ok) else {
        return String::new();
    };
    let title = format!("{}: flow {}", printable(&found.file), style.bold(flow));
    let mut text = if found.inventory.effects.is_empty() {
        format!("{title} has no effect\n")
    } else {
        format!("{title}\n")
    };
    let inventory = inventory::tell(&found.inventory, style);
    if !inventory.is_empty() {
        text.push_str(&format!("\n{inventory}\n"));
    }
    if !found.pending.is_empty() {
        let mut what: Vec<&str> = found.pending.iter().map(named).collect();
        what.sort_unstable();
        what.dedup();
        let note = "this build cannot run it yet, so it cannot be published:";
        text.push_str(&format!("\n{note} {}\n", what.join(", ")));
    }
    text
}

/// The construct that a pending diagnostic is about.
fn named(pending: &Diagnostic) -> &str {
    let end = pending.message.find(" cannot be run");
    end.map_or(pending.message.as_str(), |end| &pending.message[..end])
}
