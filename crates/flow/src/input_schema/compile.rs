//! From a schema's JSON to rules.

use std::collections::{BTreeMap, BTreeSet};

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};

use super::words::words;

/// The most bytes of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

/// A kind of JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool,
    Whole,
    Number,
    Text,
    List,
    Map,
}

impl Kind {
    const ALL: [(&'static str, Self); 7] = [
        ("null", Self::Null),
        ("boolean", Self::Bool),
        ("integer", Self::Whole),
        ("number", Self::Number),
        ("string", Self::Text),
        ("array", Self::List),
        ("object", Self::Map),
    ];

    /// What a schema calls it.
    pub(super) fn word(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, kind)| *kind == self);
        named.map_or("anything", |(word, _)| *word)
    }

    pub(super) fn holds(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Bool => value.is_boolean(),
            // As expressions have it: 1.0 is a double.
            Self::Whole => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::Text => value.is_string(),
            Self::List => value.is_array(),
            Self::Map => value.is_object(),
        }
    }
}

/// How many of something there may be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    pub(super) least: Option<u64>,
    pub(super) most: Option<u64>,
}

/// What numbers may be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) above: Option<f64>,
    pub(super) below: Option<f64>,
    pub(super) multiple_of: Option<f64>,
}

/// What one schema asks of a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Rule {
    /// Empty: any kind.
    pub(super) kinds: Vec<Kind>,
    pub(super) one_of_values: Option<Vec<Value>>,
    pub(super) any_of: Option<Vec<Rule>>,
    pub(super) one_of: Option<Vec<Rule>>,
    pub(super) known: BTreeMap<String, Rule>,
    pub(super) required: Vec<String>,
    /// What fields beside the known ones may be; nothing if there must be none.
    pub(super) others: Option<Option<Box<Rule>>>,
    pub(super) items: Option<Box<Rule>>,
    pub(super) unique: bool,
    pub(super) bounds: Bounds,
    pub(super) chars: Range,
    pub(super) count: Range,
    pub(super) fields: Range,
    pub(super) pattern: Option<Regex>,
}

impl Rule {
    pub(super) fn compile(schema: &Value, depth: usize) -> Result<Self, String> {
        let Some(map) = words(schema, depth)? else {
            return Ok(Self::default());
        };
        Ok(Self {
            kinds: kinds(map)?,
            one_of_values: values(map)?,
            any_of: choices(map, "anyOf", depth)?,
            one_of: choices(map, "oneOf", depth)?,
            known: known(map, depth)?,
            required: required(map)?,
            others: others(map, depth)?,
            items: match map.get("items") {
                Some(items) => Some(Box::new(Self::compile(items, depth + 1)?)),
                None => None,
            },
            unique: map.get("uniqueItems") == Some(&Value::Bool(true)),
            bounds: Bounds {
                minimum: number(map, "minimum")?,
                maximum: number(map, "maximum")?,
                above: number(map, "exclusiveMinimum")?,
                below: number(map, "exclusiveMaximum")?,
                multiple_of: number(map, "multipleOf")?.filter(|step| *step > 0.0),
            },
            chars: range(map, "minLength", "maxLength")?,
            count: range(map, "minItems", "maxItems")?,
            fields: range(map, "minProperties", "maxProperties")?,
            pattern: pattern(map)?,
        })
    }
}

fn kinds(map: &Map<String, Value>) -> Result<Vec<Kind>, String> {
    let one = |word: &Value| {
        let word = word
            .as_str()
            .ok_or("a `type` is text, or a list of texts")?;
        let found = Kind::ALL.iter().find(|(known, _)| *known == word);
        let (_, kind) = found.ok_or_else(|| format!("there is no type `{word}`"))?;
        Ok::<Kind, String>(*kind)
    };
    let mut kinds = match map.get("type") {
        Some(Value::Array(words)) => words.iter().map(one).collect::<Result<_, _>>()?,
        Some(word) => vec![one(word)?],
        None if map.contains_key("properties") => vec![Kind::Map],
        None => vec![],
    };
    if !kinds.is_empty() && map.get("nullable") == Some(&Value::Bool(true)) {
        kinds.push(Kind::Null);
    }
    Ok(kinds)
}

fn values(map: &Map<String, Value>) -> Result<Option<Vec<Value>>, String> {
    let mut values = match (map.get("enum"), map.get("const")) {
        (Some(Value::Array(values)), None) => values.clone(),
        (None, Some(value)) => vec![value.clone()],
        (None, None) => return Ok(None),
        (Some(_), None) => return Err("`enum` is a list".to_owned()),
        (Some(_), Some(_)) => return Err("`enum` and `const` exclude each other".to_owned()),
    };
    if map.get("nullable") == Some(&Value::Bool(true)) {
        values.push(Value::Null);
    }
    Ok(Some(values))
}

fn choices(
    map: &Map<String, Value>,
    word: &str,
    depth: usize,
) -> Result<Option<Vec<Rule>>, String> {
    match map.get(word) {
        None => Ok(None),
        Some(Value::Array(choices)) if !choices.is_empty() => {
            let rules = choices.iter().map(|one| Rule::compile(one, depth + 1));
            rules.collect::<Result<_, _>>().map(Some)
        }
        Some(_) => Err(format!("`{word}` is a list of schemas")),
    }
}

fn known(map: &Map<String, Value>, depth: usize) -> Result<BTreeMap<String, Rule>, String> {
    match map.get("properties") {
        None => Ok(BTreeMap::new()),
        Some(Value::Object(known)) => known
            .iter()
            .map(|(name, schema)| Ok((name.clone(), Rule::compile(schema, depth + 1)?)))
            .collect(),
        Some(_) => Err("`properties` is a map".to_owned()),
    }
}

fn required(map: &Map<String, Value>) -> Result<Vec<String>, String> {
    let wrong = || "`required` is a list of names".to_owned();
    match map.get("required") {
        None => Ok(vec![]),
        Some(Value::Array(names)) => {
            let names = names.iter().map(|name| name.as_str().map(str::to_owned));
            let names: Option<BTreeSet<String>> = names.collect();
            Ok(names.ok_or_else(wrong)?.into_iter().collect())
        }
        Some(_) => Err(wrong()),
    }
}

#[expect(
    clippy::option_option,
    reason = "no word about others, no others, others of a kind: three cases"
)]
fn others(map: &Map<String, Value>, depth: usize) -> Result<Option<Option<Box<Rule>>>, String> {
    match map.get("additionalProperties") {
        None | Some(Value::Bool(true)) => Ok(None),
        Some(Value::Bool(false)) => Ok(Some(None)),
        Some(schema) => Ok(Some(Some(Box::new(Rule::compile(schema, depth + 1)?)))),
    }
}

fn number(map: &Map<String, Value>, word: &str) -> Result<Option<f64>, String> {
    match map.get(word) {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => Err(format!("`{word}` is a number")),
        },
    }
}

fn range(map: &Map<String, Value>, least: &str, most: &str) -> Result<Range, String> {
    let whole = |word: &str| match map.get(word) {
        None => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) => Ok(Some(number)),
            None => Err(format!("`{word}` is a whole number from 0")),
        },
    };
    Ok(Range {
        least: whole(least)?,
        most: whole(most)?,
    })
}

fn pattern(map: &Map<String, Value>) -> Result<Option<Regex>, String> {
    match map.get("pattern") {
        None => Ok(None),
        Some(Value::String(source)) => RegexBuilder::new(source)
            .size_limit(PATTERN_BYTES_MAX)
            .build()
            .map(Some)
            .map_err(|error| format!("`pattern` cannot be read: {error}")),
        Some(_) => Err("`pattern` is text".to_owned()),
    }
}

/// The schema of everything that looks like an example. A null says nothing about its field.
pub(super) fn schema_of(example: &Value) -> Value {
    match example {
        Value::Null => json!({}),
        Value::Bool(_) => json!({ "type": "boolean" }),
        Value::Number(number) if number.is_f64() => json!({ "type": "number" }),
        Value::Number(_) => json!({ "type": "integer" }),
        Value::String(_) => json!({ "type": "string" }),
        Value::Array(items) => {
            let mut schemas = items.iter().map(schema_of);
            let first = schemas.next();
            match first.filter(|first| schemas.all(|schema| schema == *first)) {
                Some(items) => json!({ "type": "array", "items": items }),
                None => json!({ "type": "array" }),
            }
        }
        Value::Object(fields) => {
            let known = fields
                .iter()
                .map(|(name, value)| (name.clone(), schema_of(value)));
            let known: Map<String, Value> = known.collect();
            let required: Vec<&String> = fields.keys().collect();
            json!({ "type": "object", "properties": known, "required": required })
        }
    }
}
