//! Looking into a tree: fields by name, expressions wherever they stand.

use std::ops::Range;

use semel_model::Span;
use serde_json::Value as Json;

use super::{Entry, Item, Placed, Record, Value};
use crate::template::{Template, TextTemplate};

impl Record {
    /// The field of that name, readable or not.
    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.fields.iter().find(|entry| entry.name == name)
    }

    /// Whether the field stands in the file.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entry(name).is_some()
    }

    /// What was read of a field.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.entry(name).and_then(|entry| entry.value.as_ref())
    }

    pub(crate) fn map(&self, name: &str) -> Option<&Record> {
        self.value(name).and_then(Value::as_map)
    }

    pub(crate) fn expr(&self, name: &str) -> Option<&Placed> {
        self.value(name).and_then(Value::as_expr)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.value(name).and_then(Value::as_text)
    }

    pub(crate) fn whole(&self, name: &str) -> Option<i64> {
        if let Some(Value::Whole(number)) = self.value(name) {
            Some(*number)
        } else {
            None
        }
    }

    pub(crate) fn truth(&self, name: &str) -> Option<bool> {
        if let Some(Value::Truth(truth)) = self.value(name) {
            Some(*truth)
        } else {
            None
        }
    }

    /// A span, or the one that holds where nothing is said.
    pub(crate) fn span_of(&self, name: &str) -> Option<Span> {
        let Some(entry) = self.entry(name) else {
            return self.default_text(name).and_then(|text| text.parse().ok());
        };
        if let Some(Value::Span(span)) = &entry.value {
            Some(*span)
        } else {
            None
        }
    }

    /// A word, or the one that holds where nothing is said.
    pub(crate) fn word(&self, name: &str) -> Option<&str> {
        match self.entry(name) {
            Some(entry) => entry.value.as_ref().and_then(Value::as_text),
            None => self.default_text(name),
        }
    }

    pub(crate) fn list(&self, name: &str) -> &[Item] {
        if let Some(Value::List(items)) = self.value(name) {
            items
        } else {
            &[]
        }
    }

    /// The maps of a list.
    pub(crate) fn maps(&self, name: &str) -> impl Iterator<Item = &Record> {
        self.list(name)
            .iter()
            .filter_map(|item| item.value.as_map())
    }

    fn default_text(&self, name: &str) -> Option<&'static str> {
        self.schema.find(name).and_then(|field| field.default)
    }

    /// The place of a field's name; of the map where the field is absent.
    pub(crate) fn name_span(&self, name: &str) -> Range<usize> {
        let entry = self.entry(name);
        entry.map_or_else(|| self.span.clone(), |entry| entry.name_span.clone())
    }

    /// The place of a field's value; of the map where the field is absent.
    pub(crate) fn value_span(&self, name: &str) -> Range<usize> {
        let entry = self.entry(name);
        entry.map_or_else(|| self.span.clone(), |entry| entry.value_span.clone())
    }

    /// The one field of several that stands; the first where there are more.
    pub(crate) fn which(&self, names: &[&'static str]) -> Option<&'static str> {
        names.iter().copied().find(|name| self.has(name))
    }

    /// Every expression in the map and below, with the field of this map that it is under.
    /// Lists of steps are left out.
    pub(crate) fn each_expr<'t>(&'t self, see: &mut impl FnMut(&'static str, &'t Placed)) {
        for entry in &self.fields {
            if let Some(value) = &entry.value {
                value.each_expr(&mut |placed| see(entry.name, placed));
            }
        }
    }
}

impl Value {
    pub(crate) const fn as_map(&self) -> Option<&Record> {
        if let Self::Map(record) = self {
            Some(record)
        } else {
            None
        }
    }

    pub(crate) const fn as_expr(&self) -> Option<&Placed> {
        if let Self::Expr(placed) = self {
            Some(placed)
        } else {
            None
        }
    }

    pub(crate) const fn as_holes(&self) -> Option<&TextTemplate> {
        if let Self::Holes(text, _) = self {
            Some(text)
        } else {
            None
        }
    }

    pub(crate) const fn as_template(&self) -> Option<&Template> {
        if let Self::Template(template, _) = self {
            Some(template)
        } else {
            None
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self {
            return Some(text);
        }
        if let Self::Word(word) = self {
            return Some(word);
        }
        None
    }

    fn each_expr<'t>(&'t self, see: &mut dyn FnMut(&'t Placed)) {
        match self {
            Self::Expr(placed) => see(placed),
            Self::Holes(_, holes) | Self::Template(_, holes) => holes.iter().for_each(see),
            Self::Map(record) if record.schema.name == "step" => {}
            Self::Map(record) => {
                for entry in &record.fields {
                    if let Some(value) = &entry.value {
                        value.each_expr(see);
                    }
                }
            }
            Self::Named(entries) => entries.iter().for_each(|entry| entry.value.each_expr(see)),
            Self::List(items) => items.iter().for_each(|item| item.value.each_expr(see)),
            Self::Text(_)
            | Self::Word(_)
            | Self::Truth(_)
            | Self::Whole(_)
            | Self::Span(_)
            | Self::Json(_) => {}
        }
    }
}

/// The flow's constants as one map.
pub(crate) fn env_of(flow: &Record) -> Json {
    let mut env = serde_json::Map::new();
    if let Some(Value::Named(entries)) = flow.value("env") {
        for entry in entries {
            if let Value::Json(value) = &entry.value {
                env.insert(entry.name.clone(), value.clone());
            }
        }
    }
    Json::Object(env)
}
