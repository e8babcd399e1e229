//! The examples of a flow: deliveries, and what destinations and people answer to them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;

use crate::diagnostic::Report;
use crate::expr::with_deep_stack;
use crate::read;
use crate::tree::{Record, Value, json_of};

/// One delivery, and what is answered while its run lasts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Example {
    /// Its name.
    pub name: String,
    /// The payload.
    pub input: Json,
    /// The headers of the delivery.
    pub headers: BTreeMap<String, Json>,
    /// The query parameters of the delivery.
    pub query: BTreeMap<String, Json>,
    /// What is answered, by step; `STEP.undo` and `STEP.probe` for what belongs to a step.
    pub answers: BTreeMap<String, Json>,
    /// The expected result of the run.
    pub result: Option<Json>,
    /// The code of the fault that it is expected to fail with.
    pub fails: Option<String>,
}

/// The examples of a flow's text; none of a text that cannot be read.
#[must_use]
pub fn examples(source: &str) -> Vec<Example> {
    with_deep_stack(|| {
        let mut report = Report::new("examples", source);
        let record = read::file(&mut report);
        record.map_or_else(Vec::new, |record| {
            record.maps("examples").map(example).collect()
        })
    })
}

fn example(record: &Record) -> Example {
    Example {
        name: record.text("name").unwrap_or_default().to_owned(),
        input: record.value("input").map(json_of).unwrap_or_default(),
        headers: named(record, "headers"),
        query: named(record, "query"),
        answers: named(record, "answers"),
        result: record.value("result").map(json_of),
        fails: record.text("fails").map(str::to_owned),
    }
}

fn named(record: &Record, field: &str) -> BTreeMap<String, Json> {
    match record.value(field) {
        Some(Value::Named(entries)) => entries
            .iter()
            .map(|entry| (entry.name.clone(), json_of(&entry.value)))
            .collect(),
        Some(_) | None => BTreeMap::new(),
    }
}
