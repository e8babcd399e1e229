//! The one canonical form of a flow: what is said, without how it is spelled.

use std::fmt;

use serde_json::{Map, Value as Json};

use super::{Record, Value};
use crate::digest::ReleaseDigest;

/// A flow of the whole language, read and checked.
#[derive(Clone)]
pub struct Tree {
    record: Record,
}

impl Tree {
    pub(crate) const fn new(record: Record) -> Self {
        Self { record }
    }

    /// The flow as canonical JSON (RFC 8785): fields sorted, expressions in their one spelling,
    /// defaults left out.
    #[must_use]
    pub fn to_canonical_json(&self) -> String {
        let json = record(&self.record);
        let written = serde_json_canonicalizer::to_string(&json);
        assert!(written.is_ok(), "a checked flow has a canonical form");
        written.unwrap_or_default()
    }

    /// What the flow is, in 32 bytes: equal for equal meaning, whatever the spelling.
    #[must_use]
    pub fn digest(&self) -> ReleaseDigest {
        ReleaseDigest::of(&self.to_canonical_json())
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tree({})", self.to_canonical_json())
    }
}

fn record(of: &Record) -> Json {
    let mut fields = Map::new();
    for entry in &of.fields {
        let Some(value) = &entry.value else {
            continue;
        };
        let default = of.schema.find(entry.name).and_then(|field| field.default);
        let json = json(value);
        let text = json.as_str().map(str::to_owned);
        let as_written = text.unwrap_or_else(|| json.to_string());
        if default != Some(as_written.as_str()) {
            fields.insert(entry.name.to_owned(), json);
        }
    }
    Json::Object(fields)
}

pub(crate) fn json(value: &Value) -> Json {
    match value {
        Value::Text(text) => Json::from(text.as_str()),
        Value::Word(word) => Json::from(*word),
        Value::Truth(truth) => Json::from(*truth),
        Value::Whole(number) => Json::from(*number),
        Value::Span(span) => Json::from(span.to_string()),
        Value::Expr(placed) => Json::from(placed.expr.as_str()),
        Value::Holes(text, _) => serde_json::to_value(text).unwrap_or_default(),
        Value::Template(template, _) => serde_json::to_value(template).unwrap_or_default(),
        Value::Json(json) => json.clone(),
        Value::Map(of) => record(of),
        Value::Named(entries) => {
            let fields = entries
                .iter()
                .map(|entry| (entry.name.clone(), json(&entry.value)));
            Json::Object(fields.collect())
        }
        Value::List(items) => items.iter().map(|item| json(&item.value)).collect(),
    }
}
