//! The contract: every response of every test is what the API's document says. A status, a media type,
//! an error code or a member that is not in the document fails the test that met it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use hyper::Method;
use jsonschema::Validator;
use semel_server::{Inspector, SeenResponse, openapi_document};
use serde_json::{Map, Value, json};

/// What the responses of this process are compared with.
static CONTRACT: LazyLock<Contract> = LazyLock::new(|| Contract::of(openapi_document()));

/// The responses of a world, which are compared with the document when the test ends: comparing takes
/// time that a test may count.
#[derive(Default)]
pub(crate) struct Responses(Arc<Mutex<Vec<Kept>>>);

struct Kept {
    method: Method,
    path: String,
    status: u16,
    media_type: String,
    json: Option<Vec<u8>>,
}

impl Responses {
    /// Keeps every response of a server.
    pub(crate) fn inspector(&self) -> Inspector {
        let responses = self.0.clone();
        Inspector::new(move |seen| {
            if let Ok(mut responses) = responses.lock() {
                responses.push(Kept {
                    method: seen.method.clone(),
                    path: seen.path.to_owned(),
                    status: seen.status,
                    media_type: seen.media_type.to_owned(),
                    json: seen.json.map(<[u8]>::to_vec),
                });
            }
        })
    }
}

/// Fails the test where a response was not what the document says.
impl Drop for Responses {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let responses = self.0.lock().map(|mut it| std::mem::take(&mut *it));
        let violations: Vec<String> = responses
            .unwrap_or_default()
            .iter()
            .filter_map(|kept| CONTRACT.check(kept.seen()).err())
            .collect();
        let violations = violations.join("\n");
        assert!(
            violations.is_empty(),
            "not as docs/openapi.json says:\n{violations}"
        );
    }
}

impl Kept {
    fn seen(&self) -> SeenResponse<'_> {
        SeenResponse {
            method: &self.method,
            path: &self.path,
            status: self.status,
            media_type: &self.media_type,
            json: self.json.as_deref(),
        }
    }
}

/// The document, made ready for comparing.
pub(crate) struct Contract {
    document: Value,
    schemas: Value,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Contract {
    pub(crate) fn of(document: Value) -> Self {
        let schemas = document["components"]["schemas"].as_object();
        let schemas = schemas.into_iter().flatten();
        let schemas: Map<String, Value> = schemas
            .map(|(name, schema)| (name.clone(), close(schema, true)))
            .collect();
        Self {
            schemas: Value::Object(schemas),
            document,
            validators: Mutex::default(),
        }
    }

    /// Why a response is not what the document says.
    pub(crate) fn check(&self, seen: SeenResponse<'_>) -> Result<(), String> {
        // Pages for people are no part of the API.
        if seen.path.starts_with("/console") {
            return Ok(());
        }
        let place = format!("{} {} {}", seen.method, seen.path, seen.status);
        let said = seen.json.map(serde_json::from_slice::<Value>);
        let said = said
            .transpose()
            .map_err(|error| format!("{place}: {error}"))?;
        let code = said.as_ref().and_then(|said| said["code"].as_str());
        let Some((pointer, operation)) = self.find(seen.method.as_str(), seen.path) else {
            return match code {
                Some("route-not-found" | "method-not-allowed") => Ok(()),
                _ => Err(format!("{place}: no operation")),
            };
        };
        let responses = &operation["responses"];
        let response = self.resolve(&responses[seen.status.to_string()]);
        let Some(response) = response.as_object() else {
            return Err(format!("{place}: the status is not documented: {said:?}"));
        };
        let media_type = seen.media_type.split(';').next().unwrap_or_default();
        let content = response.get("content").and_then(Value::as_object);
        if media_type.is_empty() {
            return Ok(());
        }
        let content = content.and_then(|it| it.get(media_type).or_else(|| it.get("*/*")));
        let Some(content) = content else {
            return Err(format!("{place}: {media_type} is not documented"));
        };
        let Some(said) = &said else {
            return Ok(());
        };
        if media_type == "application/problem+json" {
            let codes = response.get("x-codes").and_then(Value::as_array);
            let known = codes.is_some_and(|codes| codes.iter().any(|it| it.as_str() == code));
            if !known {
                return Err(format!("{place}: the code is not documented: {said}"));
            }
        }
        let name = format!("{pointer} {} {media_type}", seen.status);
        let validator = self.validator(&name, &content["schema"])?;
        let errors: Vec<String> = validator
            .iter_errors(said)
            .map(|error| format!("{place}: {error} at `{}` of {said}", error.instance_path()))
            .collect();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors.join("\n")),
        }
    }

    /// The operation of a path. A literal part is preferred to a variable one, as the router does.
    fn find(&self, method: &str, path: &str) -> Option<(String, &Value)> {
        let method = match method {
            "HEAD" => "get".to_owned(),
            method => method.to_ascii_lowercase(),
        };
        let fitting = self.document["paths"].as_object()?.iter();
        let fitting = fitting.filter(|(template, _)| fits(template, path));
        let (template, item) = fitting.min_by_key(|(template, _)| template.matches('{').count())?;
        let operation = item.get(&method)?;
        Some((format!("{method} {template}"), operation))
    }

    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        let reference = value["$ref"].as_str();
        let pointer = reference.and_then(|it| it.strip_prefix('#'));
        let target = pointer.and_then(|pointer| self.document.pointer(pointer));
        target.unwrap_or(value)
    }

    fn validator(&self, name: &str, schema: &Value) -> Result<Arc<Validator>, String> {
        let mut known = self.validators.lock().map_err(|error| error.to_string())?;
        if let Some(validator) = known.get(name) {
            return Ok(validator.clone());
        }
        let mut root = close(schema, false);
        root["components"] = json!({ "schemas": self.schemas });
        let built = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            .build(&root);
        let validator = Arc::new(built.map_err(|error| format!("{name}: {error}"))?);
        known.insert(name.to_owned(), validator.clone());
        Ok(validator)
    }
}

fn fits(template: &str, path: &str) -> bool {
    let parts = |text: &str| text.split('/').count();
    parts(template) == parts(path)
        && template
            .split('/')
            .zip(path.split('/'))
            .all(|(part, given)| part == given || part.starts_with('{'))
}

/// A schema that allows no member that it does not name. What is part of a whole stays open: the whole
/// is closed.
fn close(schema: &Value, is_part: bool) -> Value {
    let Value::Object(members) = schema else {
        return schema.clone();
    };
    let each = |value: &Value, is_part: bool| match value.as_array() {
        Some(items) => items.iter().map(|item| close(item, is_part)).collect(),
        None => value.clone(),
    };
    let mut closed = Map::new();
    for (name, value) in members {
        let value = match name.as_str() {
            "allOf" => each(value, true),
            "anyOf" | "oneOf" => each(value, is_part),
            "items" | "additionalProperties" => close(value, false),
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                let properties = properties.map(|(name, it)| (name.clone(), close(it, false)));
                Value::Object(properties.collect())
            }
            _ => value.clone(),
        };
        closed.insert(name.clone(), value);
    }
    let has_members = ["$ref", "properties", "allOf"];
    if !is_part && has_members.iter().any(|name| closed.contains_key(*name)) {
        closed.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
    }
    Value::Object(closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, media_type: &str, json: &Value) -> Result<(), String> {
        let bytes = json.to_string();
        CONTRACT.check(SeenResponse {
            method: &Method::GET,
            path: "/v1/whoami",
            status,
            media_type,
            json: Some(bytes.as_bytes()),
        })
    }

    fn whoami() -> Value {
        json!({ "namespace": "main", "token": "t", "expires_at": "2026-01-01T00:00:00Z", "rights": ["read"] })
    }

    #[test]
    fn what_the_document_says_is_accepted() {
        assert_eq!(check(200, "application/json", &whoami()), Ok(()));
    }

    #[test]
    fn what_the_document_does_not_say_is_found() {
        let with = |name: &str, value: Value| {
            let mut body = whoami();
            body[name] = value;
            check(200, "application/json", &body)
        };
        let mut short = whoami();
        short.as_object_mut().unwrap().remove("token");
        let problem = json!({
            "type": "urn:x", "title": "t", "status": 401, "detail": "d", "hint": "h",
            "code": "run-not-found",
        });

        assert!(with("extra", json!(1)).is_err(), "a member of its own");
        assert!(with("token", json!(1)).is_err(), "another type");
        assert!(with("token", Value::Null).is_err(), "null");
        assert!(with("expires_at", json!("soon")).is_err(), "no time");
        assert!(with("rights", json!(["fly"])).is_err(), "another word");
        assert!(
            check(200, "application/json", &short).is_err(),
            "a member is missing"
        );
        assert!(
            check(201, "application/json", &whoami()).is_err(),
            "another status"
        );
        assert!(
            check(200, "text/html", &whoami()).is_err(),
            "another media type"
        );
        let odd = check(401, "application/problem+json", &problem);
        assert!(odd.is_err(), "another code");
    }

    #[test]
    fn a_member_beside_flattened_ones_is_known_and_another_is_not() {
        let schema = json!({ "allOf": [
            { "$ref": "#/components/schemas/Token" },
            { "type": "object", "properties": { "token": { "type": "string" } } },
        ] });
        let token = json!({
            "id": "tok_00000000000000000000000000000000", "name": "n", "token": "t",
            "created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:00:00Z",
        });
        let mut odd = token.clone();
        odd["secret"] = json!("s");

        let validator = CONTRACT.validator("flattened", &schema).unwrap();

        assert!(validator.is_valid(&token));
        assert!(!validator.is_valid(&odd));
    }
}
