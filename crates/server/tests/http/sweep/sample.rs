//! Values of a schema, made of its examples.

use serde_json::{Map, Value, json};

/// Which members a value has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Members {
    /// Those that have to be there.
    Needed,
    /// All that the schema names.
    All,
}

/// A value that fits a schema.
pub(super) fn sample(document: &Value, schema: &Value, members: Members) -> Value {
    if let Some(pointer) = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#')) {
        return match document.pointer(pointer) {
            Some(target) => sample(document, target, members),
            None => Value::Null,
        };
    }
    if let Some(example) = schema["examples"].get(0) {
        return example.clone();
    }
    if let Some(word) = schema["enum"].get(0) {
        return word.clone();
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("object"), _) => {
            let required = schema["required"].as_array();
            let is_needed = |name: &str| required.is_some_and(|it| it.iter().any(|it| it == name));
            let named = schema["properties"].as_object().into_iter().flatten();
            let members: Map<String, Value> = named
                .filter(|(name, _)| members == Members::All || is_needed(name))
                .map(|(name, schema)| (name.clone(), sample(document, schema, members)))
                .collect();
            Value::Object(members)
        }
        (Some("string"), Some("date-time")) => json!("2026-01-01T00:00:00Z"),
        (Some("string"), _) => json!("1"),
        (Some("integer" | "number"), _) => json!(1),
        (Some("boolean"), _) => json!(false),
        (Some("array"), _) => json!([]),
        (Some(_) | None, _) => json!({}),
    }
}
