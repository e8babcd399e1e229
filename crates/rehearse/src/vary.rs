//! Other payloads: one that differs under the same key, and one of another intent.

use std::collections::{BTreeMap, BTreeSet};

use semel_flow::{Example, Expr, Flow};
use serde_json::{Map, Value, json};

/// The field that another payload under the same key carries.
const EXTRA: &str = "semel_rehearsal";

/// The same payload with something else in it that no key reads.
pub(crate) fn other_payload(input: &Value) -> Value {
    let mut other = input.clone();
    match &mut other {
        Value::Object(fields) => {
            fields.insert(EXTRA.to_owned(), json!("another payload"));
        }
        Value::Array(items) => items.push(json!({ EXTRA: "another payload" })),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            other = json!({ EXTRA: "another payload" });
        }
    }
    other
}

/// The example as another intent: what keys read and what is an identifier has other values, in the
/// payload and in the answers.
pub(crate) fn second_intent(flow: &Flow, example: &Example) -> Example {
    let mut changed = Replacements::default();
    let mut paths = BTreeSet::new();
    key_exprs(flow).for_each(|expr| {
        for path in expr.references() {
            paths.insert((path.root.clone(), path.fields.clone()));
        }
    });
    for (root, fields) in &paths {
        match root.as_str() {
            "input" => changed.add_at(&example.input, fields),
            "headers" => changed.add_named(&example.headers, fields),
            "query" => changed.add_named(&example.query, fields),
            _ => {}
        }
    }
    changed.add_identifiers(&example.input);
    changed.keep(flow, example);
    let mut second = example.clone();
    second.result = None;
    changed.apply(&mut second.input);
    let named = second.headers.values_mut().chain(second.query.values_mut());
    named.for_each(|value| changed.apply(value));
    let effects = |step: &str| {
        let step = flow.find_step(step);
        step.is_some_and(|step| step.guard().is_some())
    };
    for (step, answer) in &mut second.answers {
        if effects(step) {
            changed.add_texts(answer);
        }
    }
    second
        .answers
        .values_mut()
        .for_each(|answer| changed.apply(answer));
    second
}

/// The example with the first item of a list once more at its end. Nothing where the list is no plain
/// part of the input or of a step's answer, or where the flow would refuse the input.
pub(crate) fn item_twice(flow: &Flow, example: &Example, list: &Expr) -> Option<Example> {
    let [path] = list.references() else {
        return None;
    };
    let mut varied = example.clone();
    varied.result = None;
    let found = match (path.root.as_str(), path.fields.as_slice()) {
        ("input", fields) => field_of(&mut varied.input, fields)?,
        ("steps", [step, result, fields @ ..]) if result == "result" => {
            let answer = varied.answers.get_mut(step)?;
            let payload = match answer.get("json").is_some() {
                true => answer.get_mut("json")?,
                false => answer,
            };
            field_of(payload, fields)?
        }
        _ => return None,
    };
    let items = found.as_array_mut()?;
    let first = items.first()?.clone();
    items.push(first);
    let schema = flow.input_schema.as_ref();
    let fits = schema.is_none_or(|schema| schema.misfit(&varied.input).is_none());
    fits.then_some(varied)
}

fn field_of<'a>(value: &'a mut Value, fields: &[String]) -> Option<&'a mut Value> {
    let mut found = value;
    for field in fields {
        found = found.get_mut(field)?;
    }
    Some(found)
}

/// The same with other values: what a second sender says who contradicts the first.
pub(crate) fn contradicted(value: &Value) -> Value {
    match value {
        Value::Null => json!(EXTRA),
        Value::Bool(said) => json!(!said),
        Value::Number(number) => match number.as_i64() {
            Some(number) => json!(number.wrapping_add(1)),
            None => json!(0),
        },
        Value::String(text) => json!(format!("{text}-2")),
        Value::Array(items) => items.iter().map(contradicted).collect(),
        Value::Object(fields) => {
            let other = |(name, value): (&String, &Value)| (name.clone(), contradicted(value));
            Value::Object(fields.iter().map(other).collect())
        }
    }
}

/// The expressions that tell one intent from another.
fn key_exprs(flow: &Flow) -> impl Iterator<Item = &Expr> {
    let triggers = &flow.trigger;
    let webhook = triggers.webhook.as_ref();
    let starts = [triggers.api.as_ref(), triggers.manual.as_ref()];
    let starts = starts
        .into_iter()
        .flatten()
        .filter_map(|start| start.key.as_ref());
    let event = triggers.event.as_ref().and_then(|event| event.key.as_ref());
    let order = webhook.and_then(|webhook| webhook.order.as_ref());
    let overlap = flow
        .overlap
        .as_ref()
        .and_then(|overlap| overlap.key.as_ref());
    let steps = flow.steps.iter().filter_map(|step| step.named.as_ref());
    webhook
        .map(|webhook| &webhook.key)
        .into_iter()
        .chain(starts)
        .chain(event)
        .chain(order.map(|order| &order.object))
        .chain(overlap)
        .chain(steps.map(|named| &named.key))
}

/// Values and what stands in their place.
#[derive(Default)]
struct Replacements {
    texts: BTreeSet<String>,
    numbers: BTreeSet<i64>,
}

impl Replacements {
    /// What the trigger's `when` reads stays as it is: another intent starts a run too.
    fn keep(&mut self, flow: &Flow, example: &Example) {
        let triggers = &flow.trigger;
        let webhook = triggers.webhook.as_ref().and_then(|it| it.when.as_ref());
        let event = triggers.event.as_ref().and_then(|it| it.when.as_ref());
        let mut read = Self::default();
        for path in webhook.into_iter().chain(event).flat_map(Expr::references) {
            match path.root.as_str() {
                "input" => read.add_at(&example.input, &path.fields),
                "headers" => read.add_named(&example.headers, &path.fields),
                "query" => read.add_named(&example.query, &path.fields),
                _ => {}
            }
        }
        self.texts.retain(|text| !read.texts.contains(text));
        self.numbers.retain(|number| !read.numbers.contains(number));
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.texts.insert(text.clone());
            }
            Value::Number(number) => self.numbers.extend(number.as_i64()),
            Value::Object(fields) => fields
                .values()
                .for_each(|value| self.add_identifiers(value)),
            Value::Array(items) => items.iter().for_each(|item| self.add_identifiers(item)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn add_at(&mut self, input: &Value, fields: &[String]) {
        let mut found = Some(input);
        for field in fields {
            found = found.and_then(|value| value.get(field));
        }
        if let Some(value) = found {
            self.add(value);
        }
    }

    fn add_named(&mut self, named: &BTreeMap<String, Value>, fields: &[String]) {
        if let Some(value) = fields.first().and_then(|field| named.get(field)) {
            self.add(value);
        }
    }

    /// Adds every value that is an identifier by its name.
    fn add_identifiers(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match is_identifier(name) && !value.is_object() && !value.is_array() {
                        true => self.add(value),
                        false => self.add_identifiers(value),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_identifiers(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Adds every text inside the body of an answer.
    fn add_texts(&mut self, answer: &Value) {
        if let Some(body) = answer.get("json") {
            self.add_all_texts(body);
        }
    }

    fn add_all_texts(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.texts.insert(text.clone());
            }
            Value::Object(fields) => fields.values().for_each(|value| self.add_all_texts(value)),
            Value::Array(items) => items.iter().for_each(|item| self.add_all_texts(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) if self.texts.contains(text) => text.push_str("-2"),
            Value::Number(number) => {
                let known = number
                    .as_i64()
                    .filter(|number| self.numbers.contains(number));
                if let Some(known) = known {
                    *value = json!(known.saturating_add(1_000_000));
                }
            }
            Value::Object(fields) => self.apply_to_fields(fields),
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }

    fn apply_to_fields(&self, fields: &mut Map<String, Value>) {
        fields.values_mut().for_each(|value| self.apply(value));
    }
}

/// Whether a field holds an identifier, by its name.
fn is_identifier(name: &str) -> bool {
    name == "id" || name.ends_with("_id") || name.ends_with("Id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_contradicts_differs_in_every_value() {
        let said = json!({ "exit": 0, "ok": true, "out": ["a", null] });

        let other = contradicted(&said);

        assert_eq!(
            other,
            json!({ "exit": 1, "ok": false, "out": ["a-2", EXTRA] })
        );
    }

    #[test]
    fn identifiers_change_wherever_they_stand() {
        let mut changed = Replacements::default();
        let input = json!({ "id": "a1", "kind": "paid", "order": { "customer_id": 7 } });
        changed.add_identifiers(&input);
        let mut other = json!({ "id": "a1", "see": "a1", "kind": "paid", "n": 7 });

        changed.apply(&mut other);

        assert_eq!(
            other,
            json!({ "id": "a1-2", "see": "a1-2", "kind": "paid", "n": 1_000_007 })
        );
    }
}
