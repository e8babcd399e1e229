//! The topics: pages of the documentation, sections of them, tables of the language, error codes.

use std::fmt::Write as _;

use semel_flow::shapes::{ValueField, ValueKind, ValueShape};
use semel_flow::steps::{Docs, KINDS};
use semel_flow::value_shapes;
use serde_json::{Value, json};

use super::{faults, links};
use crate::code;

const LANGUAGE: &str = include_str!("../../../../../docs/language.md");
const CONTROL: &str = include_str!("../../../../../docs/control.md");

macro_rules! step {
    ($name:literal) => {
        include_str!(concat!("../../../../../docs/steps/", $name, ".md"))
    };
}

const FAULTS: &str = step!("faults");

/// A page of the documentation, whole.
macro_rules! whole {
    ($name:literal) => {
        From::Whole(include_str!(concat!("../../../../../docs/", $name, ".md")))
    };
}

/// What a topic tells.
pub(super) struct Topic {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) text: String,
}

/// A topic of the list.
#[derive(Clone, Copy)]
pub(super) struct Page {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    from: From,
}

/// Where the text of a topic comes from.
#[derive(Clone, Copy)]
enum From {
    /// A whole page.
    Whole(&'static str),
    /// A section of the language's page, by its heading.
    Section(&'static str),
    /// The language's page without its reference.
    Language,
    /// A kind of step, or another field of a flow with a page: the page, and its fields.
    Step(&'static str),
    /// A kind of step that leads a run: a section of the page on control, and its fields.
    Way(&'static str),
    /// The table of shapes.
    Shapes,
}

const fn page(name: &'static str, about: &'static str, from: From) -> Page {
    Page { name, about, from }
}

/// Every topic, in reading order: the kinds of steps are those of the registry.
pub(super) fn pages() -> Vec<Page> {
    let kinds = KINDS.iter().map(|kind| {
        let from = match kind.docs {
            Docs::Page(text) => From::Step(text),
            Docs::Control => From::Way(kind.name()),
        };
        page(kind.name(), kind.summary, from)
    });
    FIRST
        .iter()
        .copied()
        .chain(kinds)
        .chain(LAST.iter().copied())
        .collect()
}

/// What comes before the kinds of steps.
const FIRST: &[Page] = &[
    page(
        "concepts",
        "what a key, a run, an effect and a doubt are",
        whole!("concepts"),
    ),
    page(
        "language",
        "the flow language, with an example of everything",
        From::Language,
    ),
    page(
        "triggers",
        "what starts runs, and how Semel verifies deliveries",
        whole!("triggers"),
    ),
    page(
        "steps",
        "the kinds of steps, and what all of them have",
        From::Whole(step!("README")),
    ),
    page(
        "shapes",
        "what `response`, `probe` and the results of steps have in them",
        From::Shapes,
    ),
    page(
        "functions",
        "names and functions of expressions",
        From::Section("Expressions"),
    ),
    page(
        "guards",
        "what makes an effect safe to repeat",
        From::Section("Guards"),
    ),
    page("keys", "what makes a key hold", From::Section("Keys")),
    page(
        "control",
        "control flow: conditions, branches, lists, calls, compensation, resuming",
        From::Whole(CONTROL),
    ),
    page(
        "faults",
        "the codes of what goes wrong in steps",
        From::Whole(FAULTS),
    ),
];

/// What comes behind the kinds of steps: pages for those who write flows, then for those who operate them.
const LAST: &[Page] = &[
    page("undo", "what compensates an effect", From::Way("undo")),
    page(
        "overlap",
        "order, overlap and limits of runs",
        From::Step(include_str!("../../../../../docs/overlap.md")),
    ),
    page(
        "reconcile",
        "a source's list, compared with the runs",
        From::Step(include_str!("../../../../../docs/reconcile.md")),
    ),
    page(
        "business-keys",
        "an effect once per key, whichever run or flow comes first",
        whole!("business-keys"),
    ),
    page("approvals", "decisions of people", whole!("approvals")),
    page(
        "tasks",
        "work for your own program, over HTTP",
        whole!("tasks"),
    ),
    page(
        "schedules",
        "instants, missed ones, and changes of a schedule",
        whole!("schedules"),
    ),
    page(
        "events",
        "events to other flows and to webhooks",
        whole!("events"),
    ),
    page(
        "connections",
        "destinations, their fields by kind, and secrets",
        whole!("connections"),
    ),
    page(
        "presets",
        "sources that sign, ready to use: stripe, github, …",
        whole!("presets/README"),
    ),
    page("cloudevents", "the preset", whole!("presets/cloudevents")),
    page("github", "the preset", whole!("presets/github")),
    page("hubspot", "the preset", whole!("presets/hubspot")),
    page(
        "idempotency-key",
        "the preset",
        whole!("presets/idempotency-key"),
    ),
    page("linear", "the preset", whole!("presets/linear")),
    page("pagerduty", "the preset", whole!("presets/pagerduty")),
    page("shopify", "the preset", whole!("presets/shopify")),
    page("slack", "the preset", whole!("presets/slack")),
    page(
        "standard-webhooks",
        "the preset",
        whole!("presets/standard-webhooks"),
    ),
    page("stripe", "the preset", whole!("presets/stripe")),
    page("twilio", "the preset", whole!("presets/twilio")),
    page("typeform", "the preset", whole!("presets/typeform")),
    page(
        "once",
        "a command once under a key, without a flow",
        whole!("once"),
    ),
    page(
        "rehearse",
        "a flow against duplicates, crashes and lost answers",
        whole!("rehearse"),
    ),
    page("replay", "a run of the key again", whole!("replay")),
    page(
        "held",
        "deliveries that an operator has to judge",
        whole!("held"),
    ),
    page(
        "pause",
        "a flow or a connection that stands still",
        whole!("pause"),
    ),
    page(
        "alerts",
        "people learn of what waits for them",
        whole!("alerts"),
    ),
    page(
        "access",
        "tokens, rights, people and namespaces",
        whole!("access"),
    ),
    page("console", "the pages for people", whole!("console")),
    page(
        "operations",
        "servers, backup, upgrades, monitoring, retention",
        whole!("operations"),
    ),
    page(
        "install",
        "installing, upgrading and removing",
        whole!("install"),
    ),
    page("scale", "how much one database carries", whole!("scale")),
    page(
        "crash-table",
        "one effect, and a crash at every point of it",
        whole!("crash-table"),
    ),
    page(
        "misbehaving-destinations",
        "destinations that do not do as they say",
        whole!("misbehaving-destinations"),
    ),
    page("glossary", "one word, one meaning", whole!("glossary")),
    page("api", "every route of the HTTP API", whole!("api")),
];

/// Other words for a topic.
const ALIASES: &[(&str, &str)] = &[
    ("archive", "operations"),
    ("backup", "operations"),
    ("connection", "connections"),
    ("doubt", "concepts"),
    ("effect", "concepts"),
    ("limit", "overlap"),
    ("monitoring", "operations"),
    ("order", "overlap"),
    ("preset", "presets"),
    ("release", "concepts"),
    ("restore", "operations"),
    ("secret", "connections"),
    ("secrets", "connections"),
    ("tokens", "access"),
    ("uninstall", "install"),
    ("upgrade", "install"),
];

/// A topic by its name: one of the list, an error's or a fault's code, a shape's map of fields, or another word for
/// one of the list.
pub(super) fn find(name: &str) -> Option<Topic> {
    let topic = |about: &str, text: &str| Topic {
        name: name.to_owned(),
        about: about.to_owned(),
        text: links::printable(text, &|target| is_topic(target)),
    };
    if let Some(page) = pages().iter().find(|page| page.name == name) {
        return Some(topic(page.about, &text_of(page)));
    }
    match (error_page(name), faults::text(FAULTS, name)) {
        (Some(error), Some(fault)) => {
            let fault = fault.split_once('\n').map_or("", |(_, rest)| rest.trim());
            let text = format!("{}\n\n## Of a step\n\n{fault}", error.trim_end());
            return Some(topic("an error, and a fault of a step", &text));
        }
        (Some(error), None) => return Some(topic("an error", error)),
        (None, Some(fault)) => return Some(topic("a fault of a step", &fault)),
        (None, None) => {}
    }
    if let Some(fields) = reference(name) {
        return Some(topic("fields of the language", fields));
    }
    if let Some(fault) = faults::family_text(name) {
        return Some(topic("a fault of a step", &fault));
    }
    let (_, meant) = ALIASES.iter().find(|(alias, _)| *alias == name)?;
    find(meant)
}

/// Whether `semel explain` has a text for it.
fn is_topic(name: &str) -> bool {
    pages().iter().any(|page| page.name == name)
        || error_page(name).is_some()
        || faults::text(FAULTS, name).is_some()
        || faults::family_text(name).is_some()
        || reference(name).is_some()
}

fn text_of(page: &Page) -> String {
    match page.from {
        From::Whole(text) => text.to_owned(),
        From::Section(heading) => section(LANGUAGE, &format!("## {heading}\n")).to_owned(),
        From::Language => match LANGUAGE.split_once("## Reference\n") {
            Some((before, _)) => before.trim_end().to_owned(),
            None => LANGUAGE.to_owned(),
        },
        From::Step(text) => with_fields(text, page.name),
        From::Way(name) => {
            let quoted = format!("`{name}`");
            let heading = CONTROL
                .lines()
                .find(|line| line.starts_with("## ") && line.contains(&quoted));
            let text = heading.map_or("", |line| section(CONTROL, &format!("{line}\n")));
            with_fields(text, page.name)
        }
        From::Shapes => shapes_text(),
    }
}

/// A text followed by the fields of the reference.
fn with_fields(text: &str, name: &str) -> String {
    match reference(name) {
        Some(fields) => format!("{}\n\n## Fields\n\n{}", text.trim_end(), body_of(fields)),
        None => text.to_owned(),
    }
}

fn reference(name: &str) -> Option<&'static str> {
    let found = section(LANGUAGE, &format!("### `{name}`\n"));
    (!found.is_empty()).then_some(found)
}

fn body_of(section: &str) -> &str {
    section
        .split_once('\n')
        .map_or("", |(_, body)| body.trim_start())
}

/// The part of a page that begins with a heading, to the next one of its level or above.
fn section(page: &'static str, heading: &str) -> &'static str {
    let Some(start) = page.find(heading) else {
        return "";
    };
    let level = heading.chars().take_while(|c| *c == '#').count();
    let rest = &page[start..];
    let ends = rest.match_indices("\n#").find(|(at, _)| {
        let marks = rest[at + 1..].chars().take_while(|c| *c == '#').count();
        marks <= level
    });
    ends.map_or(rest, |(at, _)| &rest[..at]).trim_end()
}

/// The page of an error's code.
fn error_page(name: &str) -> Option<&'static str> {
    let api = name.parse::<semel_api::Code>().ok();
    let flow = || {
        let mut codes = semel_flow::Code::ALL.iter();
        codes.find(|code| code.as_str() == name)
    };
    let own = || code::PAGES.iter().find(|(code, _)| *code == name);
    api.map(semel_api::Code::page_text)
        .or_else(|| flow().map(|code| code.page()))
        .or_else(|| own().map(|(_, text)| *text))
}

/// Every code of an error, and of a fault of a step.
pub(super) fn codes() -> Vec<&'static str> {
    let api = semel_api::Code::ALL.iter().map(|code| code.as_str());
    let flow = semel_flow::Code::ALL.iter().map(|code| code.as_str());
    let own = code::PAGES.iter().map(|(code, _)| *code);
    let mut all: Vec<&str> = api.chain(flow).chain(own).collect();
    all.extend(faults::codes(FAULTS));
    all.sort_unstable();
    all.dedup();
    all
}

/// The topic that is meant, where one begins alike or is written almost so.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let known = pages().into_iter().map(|page| page.name);
    let aliases = ALIASES.iter().map(|(alias, _)| *alias);
    let all: Vec<&str> = known.chain(aliases).chain(codes()).collect();
    let singular = name.trim_end_matches('s');
    let begins = all
        .iter()
        .find(|one| one.starts_with(singular) && singular.len() > 2);
    begins.copied()
}

/// The shapes as `docs/shapes.md` shows them.
pub(super) fn shapes_text() -> String {
    let mut text = String::from(
        "# Shapes of values\n\nThe fields that `semel check` knows in expressions: any other field is an error.\n\
         What a destination, a worker or a caller decides is `any`. Semel stores a result over 64 KiB as a resource, and later\n\
         steps read its reference. `semel explain shapes` prints this page, with `--json` as data.\n",
    );
    for shape in value_shapes() {
        let _ = write!(
            text,
            "\n## {}\n\n{}.\n\n",
            shape.name,
            sentence(shape.about)
        );
        text.push_str("| field | type | meaning |\n|---|---|---|\n");
        for field in shape.fields {
            let _ = writeln!(
                text,
                "| `{}` | {} | {} |",
                field.name,
                is(field),
                field.about
            );
        }
    }
    text
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn is(field: &ValueField) -> String {
    let mut text = match field.kind {
        ValueKind::Of(shape) => shape.name.to_owned(),
        ValueKind::ListOf(shape) => format!("list of {}", shape.name),
        ValueKind::Any
        | ValueKind::Text
        | ValueKind::Int
        | ValueKind::Number
        | ValueKind::Bool
        | ValueKind::List
        | ValueKind::Map => field.kind.as_str().to_owned(),
    };
    text.push_str(if field.nullable { " or null" } else { "" });
    text.push_str(if field.optional {
        ", may be absent"
    } else {
        ""
    });
    text
}

/// The shapes as data.
pub(super) fn shapes_data() -> Value {
    let described = |shape: &&ValueShape| {
        let fields = shape.fields.iter().map(|field| {
            json!({ "field": field.name, "is": field.kind.as_str(), "nullable": field.nullable,
                "optional": field.optional, "about": field.about })
        });
        let fields: Vec<Value> = fields.collect();
        json!({ "shape": shape.name, "about": shape.about, "fields": fields })
    };
    value_shapes().iter().map(described).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_a_text() {
        for page in pages() {
            let text = text_of(&page);
            assert!(text.len() > 100, "{} says too little: {text}", page.name);
        }
        let foreach = find("foreach").unwrap().text;
        assert!(foreach.contains("on_error"), "{foreach}");
        assert!(foreach.contains("| `parallel` |"), "{foreach}");
        assert!(!foreach.contains("## Calling another flow"), "{foreach}");
        assert!(find("nothing-like-it").is_none());
    }

    #[test]
    fn every_error_is_explained() {
        for code in codes() {
            let text = find(code).unwrap().text;
            assert!(text.starts_with(&format!("# {code}\n")), "{code}");
        }
    }

    #[test]
    fn every_fault_is_explained() {
        let codes = faults::codes(FAULTS);
        assert!(codes.len() > 100, "{codes:?}");
        for code in codes {
            let text = find(code).unwrap().text;
            assert!(text.starts_with(&format!("# {code}\n")), "{code}: {text}");
            assert!(text.len() > 60, "{code} says too little: {text}");
        }
        for family in [
            "http-402",
            "sql-23505",
            "smtp-550",
            "slack-channel_not_found",
            "exit-3",
            "task-card-declined",
        ] {
            let text = find(family).unwrap().text;
            assert!(text.starts_with(&format!("# {family}\n")), "{text}");
        }
        assert!(find("exit-137").unwrap().text.contains("signal 9"));
        let error = find("task-answered").unwrap();
        assert_eq!(error.about, "an error", "its code begins like a worker's");
        let both = find("connection-unfit").unwrap();
        assert!(both.text.contains("## Of a step"), "{}", both.text);
        for none in ["http-", "http-abc", "exit-x", "sql-1", "smtp-"] {
            assert!(find(none).is_none(), "{none}");
        }
    }

    #[test]
    fn operating_is_explained_and_every_other_word_leads_to_a_topic() {
        for topic in [
            "connections",
            "once",
            "alerts",
            "approvals",
            "schedules",
            "replay",
            "tasks",
            "pause",
            "business-keys",
            "presets",
            "operations",
            "api",
            "access",
            "events",
            "rehearse",
        ] {
            assert!(find(topic).is_some(), "{topic}");
        }
        for (alias, meant) in ALIASES {
            let own = pages().iter().any(|page| page.name == *alias);
            assert!(!own && is_topic(meant), "{alias} leads to {meant}");
        }
        let operations = find("backup").unwrap().text;
        assert!(operations.starts_with("# Operations\n"), "{operations}");
        for word in ["restore", "backup"] {
            assert!(operations.contains(word), "{word}");
        }
    }

    #[test]
    fn no_topic_links_to_a_file_that_a_reader_of_the_binary_lacks() {
        let known = pages().into_iter().map(|page| page.name);
        for name in known.chain(codes()) {
            let text = find(name).unwrap().text;
            for link in ["](../", ".md)", ".md#", "](#"] {
                assert!(!text.contains(link), "{name} has {link}");
            }
        }
        let text = find("faults").unwrap().text;
        assert!(text.contains("(semel explain replay)"), "{text}");
    }

    #[test]
    fn the_page_of_shapes_follows_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/shapes.md");
        let text = shapes_text();
        if std::env::var_os("SEMEL_BLESS").is_some() {
            std::fs::write(path, &text).unwrap();
        }

        let page = std::fs::read_to_string(path).unwrap_or_default();

        assert_eq!(page, text, "run the test with SEMEL_BLESS=1");
    }
}
