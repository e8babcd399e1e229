//! The topics: pages of the documentation, sections of them, tables of the language, error codes.

use std::fmt::Write as _;

use semel_flow::shapes::{ValueField, ValueKind, ValueShape};
use semel_flow::steps::{Docs, KINDS};
use semel_flow::value_shapes;
use serde_json::{Value, json};

use crate::code;

const LANGUAGE: &str = include_str!("../../../../../docs/language.md");
const CONTROL: &str = include_str!("../../../../../docs/control.md");

macro_rules! step {
    ($name:literal) => {
        include_str!(concat!("../../../../../docs/steps/", $name, ".md"))
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
    /// A kind of step: its page, and its fields.
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
        From::Whole(include_str!("../../../../../docs/concepts.md")),
    ),
    page(
        "language",
        "the flow language, with an example of everything",
        From::Language,
    ),
    page(
        "triggers",
        "what starts runs, and how Semel verifies deliveries",
        From::Whole(include_str!("../../../../../docs/triggers.md")),
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
        From::Whole(step!("faults")),
    ),
];

/// What comes behind the kinds of steps.
const LAST: &[Page] = &[page(
    "undo",
    "what compensates an effect",
    From::Way("undo"),
)];

/// A topic by its name: one of the list, a shape's map of fields, or an error's code.
pub(super) fn find(name: &str) -> Option<Topic> {
    if let Some(page) = pages().iter().find(|page| page.name == name) {
        return Some(Topic {
            name: name.to_owned(),
            about: page.about.to_owned(),
            text: text_of(page),
        });
    }
    if let Some(text) = error_page(name) {
        return Some(Topic {
            name: name.to_owned(),
            about: "an error".to_owned(),
            text: text.to_owned(),
        });
    }
    let fields = reference(name)?;
    Some(Topic {
        name: name.to_owned(),
        about: "fields of the language".to_owned(),
        text: fields.to_owned(),
    })
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

/// Every error's code.
pub(super) fn codes() -> Vec<&'static str> {
    let api = semel_api::Code::ALL.iter().map(|code| code.as_str());
    let flow = semel_flow::Code::ALL.iter().map(|code| code.as_str());
    let own = code::PAGES.iter().map(|(code, _)| *code);
    let mut all: Vec<&str> = api.chain(flow).chain(own).collect();
    all.sort_unstable();
    all
}

/// The topic that is meant, where one begins alike or is written almost so.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let known = pages().into_iter().map(|page| page.name);
    let all: Vec<&str> = known.chain(codes()).collect();
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
