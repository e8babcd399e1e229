//! Types from JSON Schema and from examples.

use serde_json::Value as Json;

use super::{Field, Fields, Type};
use crate::input_schema::{InputSchema, words};
use crate::tree::{Record, Value};

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

/// What inputs have to fit, or what is wrong with the schema; nothing if the flow says nothing.
pub(crate) fn input_schema(flow: &Record) -> Option<Result<InputSchema, String>> {
    let Some(Value::Json(schema)) = flow.value("input_schema") else {
        return None;
    };
    let Some(name) = schema.get("from_example").and_then(Json::as_str) else {
        return Some(InputSchema::compile(schema));
    };
    let mut examples = flow.maps("examples");
    let example = examples.find(|example| example.text("name") == Some(name));
    match example.and_then(|example| example.value("input")) {
        Some(Value::Json(input)) => Some(InputSchema::from_example(input)),
        Some(_) | None => Some(Err(format!("there is no example \"{name}\""))),
    }
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
    let Some(map) = words(schema, depth)? else {
        return Ok(Type::Any);
    };
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
