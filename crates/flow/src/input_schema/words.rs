//! The words of JSON Schema that flows use: one list, for what inputs are compared with and for the
//! types that expressions are checked against.

use serde_json::{Map, Value};

/// How deep a schema is read.
const DEPTH_MAX: usize = 32;

/// Words that describe and do not restrict.
const ANNOTATIONS: [&str; 9] = [
    "title",
    "description",
    "default",
    "examples",
    "format",
    "$schema",
    "$id",
    "$comment",
    "deprecated",
];

/// Words that restrict.
const RULES: [&str; 23] = [
    "type",
    "properties",
    "required",
    "items",
    "enum",
    "const",
    "additionalProperties",
    "nullable",
    "anyOf",
    "oneOf",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

/// The words of a schema; nothing if it is `true`, which anything fits.
///
/// # Errors
///
/// If it is no schema, nests too deeply, or says something that flows do not use.
pub(crate) fn words(schema: &Value, depth: usize) -> Result<Option<&Map<String, Value>>, String> {
    if depth > DEPTH_MAX {
        return Err(format!("a schema nests at most {DEPTH_MAX} deep"));
    }
    if *schema == Value::Bool(true) {
        return Ok(None);
    }
    let Some(map) = schema.as_object() else {
        return Err("a schema is a map".to_owned());
    };
    let is_known = |word: &str| RULES.contains(&word) || ANNOTATIONS.contains(&word);
    match map.keys().find(|word| !is_known(word)) {
        Some(word) => Err(format!(
            "`{word}` is not part of the schemas that flows use"
        )),
        None => Ok(Some(map)),
    }
}
