//! The JSON Schema of the language, for editors: made from the tables, so that it knows what the
//! reader knows.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{FLOW, STEP};
use crate::grammar::{Field, FieldType, MapSchema};

/// The address under which the schema is known.
const ID: &str = "https://semel.dev/schema/flow-1.json";
/// What a span looks like.
const SPAN: &str = "^([0-9]+(w|d|h|m|s|ms))+$";

/// The JSON Schema of a flow file, for editors (draft 2020-12).
#[must_use]
pub fn schema() -> Value {
    let mut maps: BTreeMap<&'static str, &'static MapSchema> = BTreeMap::new();
    gather(&FLOW, &mut maps);
    let definitions: Map<String, Value> = maps
        .iter()
        .map(|(name, map)| ((*name).to_owned(), of_map(map)))
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
fn gather(map: &'static MapSchema, found: &mut BTreeMap<&'static str, &'static MapSchema>) {
    if found.insert(map.name, map).is_some() {
        return;
    }
    for field in map.fields {
        gather_from(field.takes, found);
    }
}

fn gather_from(takes: FieldType, found: &mut BTreeMap<&'static str, &'static MapSchema>) {
    match takes {
        FieldType::Map(map) | FieldType::Maps(map) => gather(map, found),
        FieldType::Steps => gather(&STEP, found),
        FieldType::Named(takes) | FieldType::List(takes) => gather_from(*takes, found),
        FieldType::Either(forms) => forms.iter().for_each(|form| gather_from(*form, found)),
        FieldType::Text
        | FieldType::FlowName
        | FieldType::StepName
        | FieldType::Label
        | FieldType::Word(_)
        | FieldType::Words(_)
        | FieldType::Truth
        | FieldType::Whole(..)
        | FieldType::Span(..)
        | FieldType::Expr(_)
        | FieldType::Condition(_)
        | FieldType::Holes
        | FieldType::Value
        | FieldType::Constant => {}
    }
}

fn of_map(map: &MapSchema) -> Value {
    let properties: Map<String, Value> = map
        .fields
        .iter()
        .map(|field| (field.name.to_owned(), of_field(field)))
        .collect();
    let required: Vec<&str> = map
        .fields
        .iter()
        .filter(|field| field.needed)
        .map(|field| field.name)
        .collect();
    // A map without a needed field may be left empty: `api:`.
    let may_be_empty = required.is_empty() && map.one_of.is_none() && map.any_of.is_empty();
    let kind = match may_be_empty {
        true => json!(["object", "null"]),
        false => json!("object"),
    };
    let mut schema = json!({
        "description": map.about,
        "type": kind,
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if !map.any_of.is_empty() {
        let sets = map.any_of.iter();
        schema["anyOf"] = sets.map(|set| json!({ "required": set })).collect();
    }
    if let Some(one_of) = map.one_of {
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
        let plain = matches!(field.takes, FieldType::Truth | FieldType::Whole(..));
        let parsed = serde_json::from_str(default).ok().filter(|_| plain);
        schema["default"] = parsed.unwrap_or_else(|| json!(default));
    }
    schema
}

fn of_takes(takes: FieldType) -> Value {
    // A bare word may be meant as text and be read as something else: `no`, `1`.
    let scalar = json!(["string", "number", "boolean"]);
    match takes {
        FieldType::Text | FieldType::Holes => json!({ "type": scalar }),
        FieldType::FlowName => json!({ "type": "string", "pattern": "^[a-z][a-z0-9-]{0,62}$" }),
        FieldType::StepName => json!({ "type": "string", "pattern": "^[a-z][a-z0-9_]{0,62}$" }),
        FieldType::Label => json!({ "type": scalar, "pattern": "^[A-Za-z0-9_.-]{1,63}$" }),
        FieldType::Word(words) => json!({ "enum": words }),
        FieldType::Words(words) => json!({ "enum": words() }),
        FieldType::Truth => json!({ "type": "boolean" }),
        FieldType::Whole(least, most) => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        FieldType::Span(..) => json!({ "type": "string", "pattern": SPAN }),
        FieldType::Expr(_) | FieldType::Condition(_) => {
            json!({ "type": scalar, "$comment": "CEL" })
        }
        FieldType::Value | FieldType::Constant => json!({}),
        FieldType::Map(map) => reference(map),
        FieldType::Maps(map) => json!({ "type": "array", "items": reference(map) }),
        FieldType::Steps => json!({ "type": "array", "items": reference(&STEP) }),
        FieldType::Named(takes) => {
            json!({ "type": ["object", "null"], "additionalProperties": of_takes(*takes) })
        }
        FieldType::List(takes) => json!({ "type": "array", "items": of_takes(*takes) }),
        FieldType::Either(forms) => {
            json!({ "anyOf": forms.iter().map(|form| of_takes(*form)).collect::<Vec<_>>() })
        }
    }
}

fn reference(map: &MapSchema) -> Value {
    json!({ "$ref": format!("#/$defs/{}", map.name) })
}
