//! The JSON Schema of the language, for editors: made from the tables, so that it knows what the
//! reader knows.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{FLOW, Field, STEP, Shape, Takes};

/// The address under which the schema is known.
const ID: &str = "https://semel.dev/schema/flow-1.json";
/// What a span looks like.
const SPAN: &str = "^([0-9]+(w|d|h|m|s|ms))+$";

/// The schema of a flow file (JSON Schema 2020-12).
pub(crate) fn schema() -> Value {
    let mut shapes: BTreeMap<&'static str, &'static Shape> = BTreeMap::new();
    gather(&FLOW, &mut shapes);
    let definitions: Map<String, Value> = shapes
        .iter()
        .map(|(name, shape)| ((*name).to_owned(), of_shape(shape)))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "Semel flow",
        "description": "A flow of Semel, in a file NAME.flow.yaml.",
        "$ref": "#/$defs/flow",
        "$defs": definitions,
    })
}

/// Every map that can be reached from another one.
fn gather(shape: &'static Shape, found: &mut BTreeMap<&'static str, &'static Shape>) {
    if found.insert(shape.name, shape).is_some() {
        return;
    }
    for field in shape.fields {
        gather_from(field.takes, found);
    }
}

fn gather_from(takes: Takes, found: &mut BTreeMap<&'static str, &'static Shape>) {
    match takes {
        Takes::Map(shape) | Takes::Maps(shape) => gather(shape, found),
        Takes::Steps => gather(&STEP, found),
        Takes::Named(takes) | Takes::List(takes) => gather_from(*takes, found),
        Takes::Either(forms) => forms.iter().for_each(|form| gather_from(*form, found)),
        Takes::Text
        | Takes::FlowName
        | Takes::StepName
        | Takes::Label
        | Takes::Word(_)
        | Takes::Words(_)
        | Takes::Truth
        | Takes::Whole(..)
        | Takes::Span(..)
        | Takes::Expr(_)
        | Takes::Condition(_)
        | Takes::Holes
        | Takes::Value
        | Takes::Constant => {}
    }
}

fn of_shape(shape: &Shape) -> Value {
    let properties: Map<String, Value> = shape
        .fields
        .iter()
        .map(|field| (field.name.to_owned(), of_field(field)))
        .collect();
    let required: Vec<&str> = shape
        .fields
        .iter()
        .filter(|field| field.needed)
        .map(|field| field.name)
        .collect();
    // A map without a needed field may be left empty: `api:`.
    let may_be_empty = required.is_empty() && shape.one_of.is_none() && shape.any_of.is_empty();
    let kind = match may_be_empty {
        true => json!(["object", "null"]),
        false => json!("object"),
    };
    let mut schema = json!({
        "description": shape.about,
        "type": kind,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if !shape.any_of.is_empty() {
        let sets = shape.any_of.iter();
        schema["anyOf"] = sets.map(|set| json!({ "required": set })).collect();
    }
    if let Some(one_of) = shape.one_of {
        let choices = one_of.fields.iter();
        schema["oneOf"] = choices.map(|name| json!({ "required": [name] })).collect();
    }
    schema
}

fn of_field(field: &Field) -> Value {
    let mut schema = of_takes(field.takes);
    schema["description"] = json!(field.about);
    if let Some(default) = field.default {
        // Numbers and truths are written as in YAML, everything else is text.
        let plain = matches!(field.takes, Takes::Truth | Takes::Whole(..));
        let parsed = serde_json::from_str(default).ok().filter(|_| plain);
        schema["default"] = parsed.unwrap_or_else(|| json!(default));
    }
    schema
}

fn of_takes(takes: Takes) -> Value {
    // A bare word may be meant as text and be read as something else: `no`, `1`.
    let scalar = json!(["string", "number", "boolean"]);
    match takes {
        Takes::Text | Takes::Holes => json!({ "type": scalar }),
        Takes::FlowName => json!({ "type": "string", "pattern": "^[a-z][a-z0-9-]{0,62}$" }),
        Takes::StepName => json!({ "type": "string", "pattern": "^[a-z][a-z0-9_]{0,62}$" }),
        Takes::Label => json!({ "type": scalar, "pattern": "^[A-Za-z0-9_.-]{1,63}$" }),
        Takes::Word(words) => json!({ "enum": words }),
        Takes::Words(words) => json!({ "enum": words() }),
        Takes::Truth => json!({ "type": "boolean" }),
        Takes::Whole(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Takes::Span(..) => json!({ "type": "string", "pattern": SPAN }),
        Takes::Expr(_) | Takes::Condition(_) => json!({ "type": scalar, "$comment": "CEL" }),
        Takes::Value | Takes::Constant => json!({}),
        Takes::Map(shape) => reference(shape),
        Takes::Maps(shape) => json!({ "type": "array", "items": reference(shape) }),
        Takes::Steps => json!({ "type": "array", "items": reference(&STEP) }),
        Takes::Named(takes) => {
            json!({ "type": ["object", "null"], "additionalProperties": of_takes(*takes) })
        }
        Takes::List(takes) => json!({ "type": "array", "items": of_takes(*takes) }),
        Takes::Either(forms) => {
            json!({ "anyOf": forms.iter().map(|form| of_takes(*form)).collect::<Vec<_>>() })
        }
    }
}

fn reference(shape: &Shape) -> Value {
    json!({ "$ref": format!("#/$defs/{}", shape.name) })
}
