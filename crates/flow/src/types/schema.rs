//! Types from JSON Schema and from examples.

use serde_json::Value as Json;

use super::{Field, Fields, Type};
use crate::tree::{Record, Value};

/// How deep a schema is read.
const DEPTH_MAX: usize = 32;
/// Words of JSON Schema that say nothing about types.
const SILENT: [&str; 22] = [
    "title",
    "description",
    "default",
    "examples",
    "format",
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
    "$schema",
    "$id",
    "$comment",
    "deprecated",
];

/// What the flow says about its input, where it does.
pub(crate) fn input_type(flow: &Record) -> Option<Type> {
    let Some(Value::Json(schema)) = flow.value("input_schema") else {
        return None;
    };
    if let Some(name) = schema.get("from_example").and_then(Json::as_str) {
        let mut examples = flow.maps("examples");
        let example = examples.find(|example| example.text("name") == Some(name))?;
        if let Value::Json(input) = example.value("input")? {
            return Some(of_example(input));
        }
        return None;
    }
    of_schema(schema, 0).ok()
}

/// The type of everything that looks like an example.
pub(crate) fn of_example(value: &Json) -> Type {
    match value {
        Json::Null => Type::Any,
        Json::Bool(_) => Type::Bool,
        Json::Number(number) if number.is_f64() => Type::Double,
        Json::Number(_) => Type::Int,
        Json::String(_) => Type::Text,
        Json::Array(items) => {
            let first = items.first().map_or(Type::Any, of_example);
            let alike = items.iter().all(|item| of_example(item) == first);
            Type::List(Box::new(if alike { first } else { Type::Any }))
        }
        Json::Object(fields) => {
            let known = fields.iter().map(|(name, value)| {
                let field = Field {
                    value: of_example(value),
                    required: true,
                };
                (name.clone(), field)
            });
            Type::Map(Fields {
                known: known.collect(),
                closed: false,
            })
        }
    }
}

/// The type that a schema describes, or what is wrong with the schema.
pub(crate) fn of_schema(schema: &Json, depth: usize) -> Result<Type, String> {
    if depth > DEPTH_MAX {
        return Err(format!("a schema nests at most {DEPTH_MAX} deep"));
    }
    if *schema == Json::Bool(true) {
        return Ok(Type::Any);
    }
    let Some(map) = schema.as_object() else {
        return Err("a schema is a map".to_owned());
    };
    let known = [
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
    ];
    for word in map.keys() {
        if !known.contains(&word.as_str()) && !SILENT.contains(&word.as_str()) {
            return Err(format!(
                "`{word}` is not part of the schemas that flows use"
            ));
        }
    }
    let mut found = match map.get("type") {
        Some(Json::String(word)) => of_word(word, schema, depth)?,
        Some(Json::Array(words)) => {
            let types = words.iter().map(|word| {
                let word = word.as_str().ok_or("a `type` is text")?;
                of_word(word, schema, depth)
            });
            Type::Union(types.collect::<Result<_, String>>()?)
        }
        Some(_) => return Err("a `type` is text, or a list of texts".to_owned()),
        None => untyped(schema, depth)?,
    };
    if map.get("nullable") == Some(&Json::Bool(true)) {
        found = Type::Union(vec![found, Type::Null]);
    }
    Ok(found)
}

/// A schema that does not say `type`.
fn untyped(schema: &Json, depth: usize) -> Result<Type, String> {
    for word in ["anyOf", "oneOf"] {
        if let Some(Json::Array(choices)) = schema.get(word) {
            let types = choices.iter().map(|choice| of_schema(choice, depth + 1));
            return Ok(Type::Union(types.collect::<Result<_, _>>()?));
        }
    }
    if schema.get("properties").is_some() {
        return of_word("object", schema, depth);
    }
    if let Some(value) = schema.get("const") {
        return Ok(of_example(value));
    }
    if let Some(Json::Array(values)) = schema.get("enum") {
        return Ok(Type::Union(values.iter().map(of_example).collect()));
    }
    Ok(Type::Any)
}

fn of_word(word: &str, schema: &Json, depth: usize) -> Result<Type, String> {
    Ok(match word {
        "null" => Type::Null,
        "boolean" => Type::Bool,
        "integer" => Type::Int,
        "number" => Type::Union(vec![Type::Int, Type::Double]),
        "string" => Type::Text,
        "array" => {
            let items = schema.get("items");
            let item = items.map_or(Ok(Type::Any), |items| of_schema(items, depth + 1))?;
            Type::List(Box::new(item))
        }
        "object" => Type::Map(fields(schema, depth)?),
        other => return Err(format!("there is no type `{other}`")),
    })
}

fn fields(schema: &Json, depth: usize) -> Result<Fields, String> {
    let required: Vec<&str> = match schema.get("required") {
        Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
        Some(_) => return Err("`required` is a list of names".to_owned()),
        None => vec![],
    };
    let mut fields = Fields {
        closed: schema.get("additionalProperties") == Some(&Json::Bool(false)),
        ..Fields::default()
    };
    match schema.get("properties") {
        Some(Json::Object(known)) => {
            for (name, schema) in known {
                let field = Field {
                    value: of_schema(schema, depth + 1)?,
                    required: required.contains(&name.as_str()),
                };
                fields.known.insert(name.clone(), field);
            }
        }
        Some(_) => return Err("`properties` is a map".to_owned()),
        None => {}
    }
    Ok(fields)
}

/// Why a value is not of a type: where, and what was expected.
pub(crate) fn misfit(value: &Json, of: &Type, path: &str) -> Option<String> {
    let expected = |name: &str| Some(format!("`{path}` is not {name}"));
    match of {
        Type::Any => None,
        Type::Null => (!value.is_null()).then(|| expected("null")).flatten(),
        Type::Bool => (!value.is_boolean())
            .then(|| expected("true or false"))
            .flatten(),
        Type::Int => {
            let whole = value.is_i64() || value.is_u64();
            (!whole).then(|| expected("a whole number")).flatten()
        }
        Type::Double => (!value.is_number()).then(|| expected("a number")).flatten(),
        Type::Text => (!value.is_string()).then(|| expected("text")).flatten(),
        Type::List(item) => match value.as_array() {
            Some(items) => items
                .iter()
                .enumerate()
                .find_map(|(index, value)| misfit(value, item, &format!("{path}[{index}]"))),
            None => expected("a list"),
        },
        Type::Map(fields) => match value.as_object() {
            Some(found) => misfit_fields(found, fields, path),
            None => expected("a map"),
        },
        Type::Union(types) => {
            let fits = types.iter().any(|one| misfit(value, one, path).is_none());
            let names: Vec<&str> = types.iter().map(Type::name).collect();
            (!fits).then(|| expected(&names.join(" or "))).flatten()
        }
    }
}

fn misfit_fields(
    found: &serde_json::Map<String, Json>,
    fields: &Fields,
    path: &str,
) -> Option<String> {
    for (name, field) in &fields.known {
        match found.get(name) {
            Some(value) => {
                if let Some(problem) = misfit(value, &field.value, &format!("{path}.{name}")) {
                    return Some(problem);
                }
            }
            None if field.required => return Some(format!("`{path}` has no `{name}`")),
            None => {}
        }
    }
    let extra = found.keys().find(|name| !fields.known.contains_key(*name));
    match extra {
        Some(name) if fields.closed => Some(format!("`{path}` cannot have `{name}`")),
        Some(_) | None => None,
    }
}
