//! Parameters: the variable parts of a path, the query, and the header that carries a key.

use semel_api::schema;
use serde_json::{Value, json};

use super::components::Components;
use crate::operation::{KeyUse, Operation, TypeSchema};

/// The parameters of an operation: those of its path, of its query, and its key.
pub(super) fn list(path: &str, operation: &Operation, components: &mut Components) -> Vec<Value> {
    let mut listed: Vec<Value> = path
        .split(['{', '}'])
        .skip(1)
        .step_by(2)
        .map(|name| of_path(path, name, components))
        .collect();
    for query in &operation.queries {
        listed.extend(of_type(*query, components));
    }
    for parameter in &operation.parameters {
        listed.push(json!({
            "name": parameter.name,
            "in": "query",
            "required": parameter.required,
            "description": parameter.about,
            "schema": plain(parameter.schema, components),
        }));
    }
    if let Some(key) = operation.key {
        let about = match key {
            KeyUse::Derived => "The key of this command: a repeat under it gets the first answer.",
            KeyUse::Required => "The key of what is started; it may stand in the body instead.",
        };
        listed.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "description": about,
            "schema": { "type": "string", "minLength": 1, "maxLength": 4096 },
        }));
    }
    listed
}

/// A parameter's schema: a primitive type has no name in the document.
fn plain(of: TypeSchema, components: &mut Components) -> Value {
    match (of.name)().chars().next() {
        Some(first) if first.is_lowercase() => components.schema(of),
        Some(_) if (of.name)() == "String" => components.schema(of),
        Some(_) | None => components.reference(of),
    }
}

/// The fields of a type, as parameters of a query.
fn of_type(of: TypeSchema, components: &mut Components) -> Vec<Value> {
    let described = components.schema(of);
    let required = described["required"].as_array().cloned();
    let required = required.unwrap_or_default();
    let fields = described["properties"].as_object().cloned();
    let fields = fields.unwrap_or_default().into_iter();
    let parameters = fields.map(|(name, mut schema)| {
        let about = schema
            .as_object_mut()
            .and_then(|it| it.remove("description"));
        json!({
            "name": name,
            "in": "query",
            "required": required.iter().any(|it| *it == name.as_str()),
            "description": about,
            "schema": schema,
        })
    });
    parameters.collect()
}

/// A variable part of a path. One that is not known here has no description, which a test refuses.
fn of_path(path: &str, name: &str, components: &mut Components) -> Value {
    let mut of = |schema: TypeSchema, about: &str| (components.reference(schema), about.to_owned());
    let text = |about: &str| (json!({ "type": "string" }), about.to_owned());
    let (schema, about) = match name {
        "run" => of(TypeSchema::of::<schema::RunId>(), "The run."),
        "effect" if path.starts_with("/v1/once") => of(
            TypeSchema::of::<schema::EffectId>(),
            "The key that the destination was sent.",
        ),
        "effect" => of(TypeSchema::of::<schema::EffectId>(), "The effect."),
        "task" => of(TypeSchema::of::<schema::EffectId>(), "The task."),
        "event" => of(TypeSchema::of::<schema::EffectId>(), "The event."),
        "wait" => of(TypeSchema::of::<schema::WaitId>(), "The wait."),
        "approval" => of(TypeSchema::of::<schema::WaitId>(), "The approval."),
        "duplicate" => of(
            TypeSchema::of::<schema::DuplicateId>(),
            "The stopped delivery.",
        ),
        "job" => of(TypeSchema::of::<schema::RunJobId>(), "The job."),
        "plan" => of(TypeSchema::of::<schema::ReplayPlanId>(), "The plan."),
        "token" if path.starts_with("/v1/") => {
            of(TypeSchema::of::<schema::TokenId>(), "The token's id.")
        }
        "person" => of(TypeSchema::of::<schema::TokenId>(), "The person's id."),
        "flow" => of(TypeSchema::of::<schema::FlowName>(), "The flow."),
        "name" => of(TypeSchema::of::<schema::Label>(), "Its name."),
        "namespace" if path.starts_with("/v1/namespaces") => {
            of(TypeSchema::of::<schema::NamespaceName>(), "The namespace.")
        }
        "namespace" => of(
            TypeSchema::of::<schema::NamespaceName>(),
            "The namespace of the flow.",
        ),
        "token" => text("The secret part of a link."),
        "path" => text("What the webhook trigger of a flow calls itself."),
        "digest" => (
            json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" }),
            "The SHA-256 of the bytes.".to_owned(),
        ),
        "rehearsal" => (
            json!({ "type": "string", "format": "uuid" }),
            "The rehearsal, by an id that the client makes.".to_owned(),
        ),
        "nominal" => (
            json!({ "type": "string", "format": "date-time" }),
            "The instant of the pass.".to_owned(),
        ),
        _ => (json!({ "type": "string" }), String::new()),
    };
    json!({ "name": name, "in": "path", "required": true, "description": about, "schema": schema })
}
