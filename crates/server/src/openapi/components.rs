//! What the operations of the document share: schemas, responses and headers.

use std::collections::{BTreeMap, BTreeSet};

use semel_api::{Code, Problem};
use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};

use crate::operation::TypeSchema;

/// Schemas and responses, by name.
#[derive(Default)]
pub(super) struct Components {
    schemas: BTreeMap<String, Value>,
    responses: BTreeMap<String, Value>,
}

impl Components {
    /// Names a type.
    pub(super) fn reference(&mut self, of: TypeSchema) -> Value {
        let name = self.add(of);
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    /// The schema of a type, with the types that it names added.
    pub(super) fn schema(&mut self, of: TypeSchema) -> Value {
        let mut parts = Vec::new();
        (of.parts)(&mut parts);
        for (name, schema) in parts {
            self.schemas.entry(name).or_insert_with(|| write(&schema));
        }
        write(&(of.schema)())
    }

    /// Whether a type has members that have to be there.
    pub(super) fn has_required(&mut self, of: TypeSchema) -> bool {
        let schema = self.schema(of);
        let required = schema["required"].as_array();
        required.is_some_and(|required| !required.is_empty())
    }

    fn add(&mut self, of: TypeSchema) -> String {
        let name = (of.name)().into_owned();
        if !self.schemas.contains_key(&name) {
            let schema = self.schema(of);
            self.schemas.insert(name.clone(), schema);
        }
        name
    }

    /// Names a page of a list of a type.
    pub(super) fn page(&mut self, of: TypeSchema) -> Value {
        let item = self.add(of);
        let name = format!("{item}Page");
        let page = json!({
            "type": "object",
            "description": "A stretch of a longer list.",
            "required": ["items"],
            "properties": {
                "items": {
                    "type": "array",
                    "description": "What is on it.",
                    "items": { "$ref": format!("#/components/schemas/{item}") },
                },
                "cursor": {
                    "type": "string",
                    "description": "What to send as `cursor` for the next one; absent on the last.",
                },
            },
        });
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        self.schemas.insert(name, page);
        reference
    }

    /// The response to requests that fail with one of these codes.
    pub(super) fn problem(&mut self, codes: &BTreeSet<&'static str>) -> Value {
        let schema = self.reference(TypeSchema::of::<Problem>());
        let known = Code::ALL
            .iter()
            .filter(|code| codes.contains(code.as_str()));
        let about: Vec<String> = known
            .map(|code| format!("`{}`: {}.", code.as_str(), code.title()))
            .collect();
        json!({
            "description": about.join(" "),
            "content": { "application/problem+json": { "schema": schema } },
            "x-codes": codes,
        })
    }

    /// Names that response.
    pub(super) fn problem_reference(&mut self, codes: &BTreeSet<&'static str>) -> Value {
        let words: Vec<&str> = codes.iter().copied().collect();
        let name = words.join(".");
        let reference = json!({ "$ref": format!("#/components/responses/{name}") });
        if !self.responses.contains_key(&name) {
            let problem = self.problem(codes);
            self.responses.insert(name, problem);
        }
        reference
    }

    /// All of them.
    pub(super) fn into_json(self) -> Value {
        json!({
            "schemas": self.schemas,
            "responses": self.responses,
            "headers": {
                "Idempotency-Replayed": {
                    "description": "`true` where this is the response to an earlier request of the same key.",
                    "schema": { "type": "string", "enum": ["true"] },
                },
            },
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API token; docs/access.md says how to make one.",
                },
            },
        })
    }
}

/// A schema as JSON.
fn write(schema: &RefOr<Schema>) -> Value {
    without_null(serde_json::to_value(schema).unwrap_or_default())
}

/// A schema that does not allow null: what may be absent is left out, and is never null.
fn without_null(schema: Value) -> Value {
    match schema {
        Value::Array(items) => items.into_iter().map(without_null).collect(),
        Value::Object(mut members) => {
            if let Some(Value::Array(kinds)) = members.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [kind] = kinds.as_slice() {
                    let kind = kind.clone();
                    members.insert("type".to_owned(), kind);
                }
            }
            if let Some(Value::Array(choices)) = members.get_mut("oneOf") {
                choices.retain(|choice| choice["type"] != "null");
                if let [Value::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    members.remove("oneOf");
                    members.extend(only);
                }
            }
            let members = members.into_iter();
            Value::Object(members.map(|(name, it)| (name, without_null(it))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema,
    }
}
