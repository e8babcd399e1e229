//! Looking into what an author wrote for a step, to check it and to lower it.

use std::ops::Range;

use serde_json::Value as Json;

use crate::diagnostic::{Code, Report};
use crate::grammar::{Field, FieldType, field};
use crate::template::{Template, TextMap, TextTemplate};
use crate::tree::{Record, Value, env_of};

/// The field that names a connection.
pub(super) const CONNECTION: Field = field(
    "connection",
    FieldType::Label,
    "The connection, which has the address, authentication and limits.",
);

/// What the check of a kind can say, and read.
pub(crate) struct BodyCheck<'r, 's> {
    report: &'r mut Report<'s>,
    flow: &'r Record,
}

impl<'r, 's> BodyCheck<'r, 's> {
    pub(crate) const fn new(report: &'r mut Report<'s>, flow: &'r Record) -> Self {
        Self { report, flow }
    }

    pub(super) fn add(&mut self, code: Code, span: Range<usize>, message: &str, help: &str) {
        self.report.add(code, span, message, help);
    }

    /// The flow's constants.
    pub(super) fn env(&self) -> Json {
        env_of(self.flow)
    }
}

/// A step on its way into a release.
pub(crate) struct Lowering<'l> {
    /// The map that the kind's field stands in: a step or an `undo`.
    pub(crate) step: &'l Record,
    /// What that field says, where it is a map.
    pub(crate) body: Option<&'l Record>,
    /// The flow's constants.
    pub(crate) env: &'l Json,
    /// Where a list of steps that it holds begins, by its number among them.
    pub(crate) first: &'l dyn Fn(usize) -> Option<usize>,
    /// The step behind it.
    pub(crate) after: Option<usize>,
}

pub(super) fn text(record: &Record, field: &str) -> Option<TextTemplate> {
    record.value(field).and_then(Value::as_holes).cloned()
}

pub(super) fn template(record: &Record, field: &str) -> Option<Template> {
    record.value(field).and_then(Value::as_template).cloned()
}

/// The texts of a list.
pub(super) fn list_of_texts(record: &Record, field: &str) -> Option<Vec<TextTemplate>> {
    let items = record.list(field).iter();
    items.map(|item| item.value.as_holes().cloned()).collect()
}

/// The plain words of a list.
pub(super) fn words(record: &Record, field: &str) -> Vec<String> {
    let items = record.list(field).iter();
    let texts = items.filter_map(|item| item.value.as_text());
    texts.map(str::to_owned).collect()
}

/// The texts of a map, under names that are spelled in one way.
pub(super) fn texts(
    record: &Record,
    field: &str,
    spell: impl Fn(&str) -> String,
) -> Option<TextMap<TextTemplate>> {
    let mut texts = TextMap::new();
    let Some(Value::Named(entries)) = record.value(field) else {
        return (!record.has(field)).then_some(texts);
    };
    for entry in entries {
        if let Value::Holes(text, _) = &entry.value {
            texts.insert(spell(&entry.name), text.clone());
        }
    }
    Some(texts)
}
