//! `semel explain`: what the language is, from the pages and tables that this binary was built with.

mod faults;
mod links;
mod topics;

use serde_json::json;

use crate::answer::{Answer, Problem};
use crate::outcome::Outcome;
use topics::{Topic, pages};

/// Explain a topic of the language or of operating, a kind of step, or the code of an error or a fault.
///
/// The text is the documentation of this very version, and needs no network.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel explain                   the topics
  semel explain language          the flow language, with an example of everything
  semel explain http              one kind of step: guard, result, faults, limits, fields
  semel explain shapes            what `response`, `probe` and the results of steps have in them
  semel explain connections       destinations, their fields by kind, and secrets
  semel explain input-invalid     what an error means, and what to do
  semel explain no-answer         what the fault of a run means")]
pub(crate) struct Arguments {
    /// The topic; by default all of them are listed.
    topic: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Answer, Problem> {
    let Some(name) = &arguments.topic else {
        return Ok(list());
    };
    let Some(topic) = topics::find(name) else {
        let near = topics::nearest(name);
        let hint = match near {
            Some(near) => format!("did you mean `semel explain {near}`?"),
            None => "semel explain lists the topics".to_owned(),
        };
        let message = format!("unknown topic `{name}`");
        let code = crate::code::TOPIC_NOT_FOUND;
        return Err(Problem::new(Outcome::NotFound, code, message).hint(hint));
    };
    let Topic { name, about, text } = topic;
    let mut data = json!({ "topic": name, "about": about, "text": text });
    if name == "shapes" {
        data["shapes"] = topics::shapes_data();
    }
    Ok(Answer::done(data, text))
}

fn list() -> Answer {
    let pages = pages();
    let width = pages.iter().map(|page| page.name.len()).max();
    let width = width.unwrap_or_default();
    let lines = pages
        .iter()
        .map(|page| format!("{:width$}  {}", page.name, page.about));
    let mut text = lines.collect::<Vec<_>>().join("\n");
    text.push_str("\n\nand every code of an error or a fault, such as `semel explain payload-mismatch`, `no-answer` or `http-402`");
    let items = pages
        .iter()
        .map(|page| json!({ "topic": page.name, "about": page.about }));
    let items: Vec<_> = items.collect();
    Answer::done(json!({ "items": items, "errors": topics::codes() }), text)
        .next("semel explain language")
}
