//! The API's document as a page for people.

use std::fmt::Write as _;

use serde_json::Value;

use super::operations;

/// The page.
pub(super) fn render(document: &Value) -> String {
    let mut page = String::from(
        "# The HTTP API\n\nThis page is made from `docs/openapi.json`, which the server serves as \
         `GET /v1/openapi.json`. Do not edit it: run the server's tests with `SEMEL_BLESS=1`.\n\n",
    );
    let about = document["info"]["description"].as_str();
    page.push_str(about.unwrap_or_default());
    page.push_str(
        "\n\nIn the examples, `$SEMEL_URL` is the server's address and `$SEMEL_TOKEN` a token.\n",
    );
    let mut listed = operations(document);
    let tag = |operation: &Value| operation["tags"][0].as_str().unwrap_or_default().to_owned();
    listed.sort_by_key(|(_, path, operation)| (tag(operation), path.clone()));
    let mut under = String::new();
    for (method, path, operation) in listed {
        if tag(operation) != under {
            under = tag(operation);
            let _ = write!(page, "\n## {under}\n");
        }
        page.push_str(&section(document, &method, &path, operation));
    }
    page
}

fn section(document: &Value, method: &str, path: &str, operation: &Value) -> String {
    let text = |name: &str| operation[name].as_str().unwrap_or_default();
    let mut out = format!("\n### `{method} {path}`\n\n{}", text("summary"));
    let _ = write!(
        out,
        " `{}`; right `{}`",
        text("operationId"),
        text("x-right")
    );
    match text("x-key") {
        "" => out.push_str(".\n"),
        key => {
            let _ = writeln!(out, "; key `{key}`.");
        }
    }
    let parameters = operation["parameters"].as_array();
    let parameters: Vec<&Value> = parameters.into_iter().flatten().collect();
    if !parameters.is_empty() {
        out.push_str("\n| parameter | in | type | |\n|---|---|---|---|\n");
    }
    for parameter in parameters {
        let about = parameter["description"].as_str().unwrap_or_default();
        let needed = match parameter["required"] == true {
            true => "",
            false => "Optional. ",
        };
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {needed}{} |",
            parameter["name"].as_str().unwrap_or_default(),
            parameter["in"].as_str().unwrap_or_default(),
            kind(&parameter["schema"]),
            about.replace('|', "\\|"),
        );
    }
    let body = operation["requestBody"]["content"].as_object();
    for (media_type, content) in body.into_iter().flatten() {
        let schema = &content["schema"];
        let _ = writeln!(out, "\nBody `{media_type}`: {}\n", kind(schema));
        out.push_str(&members(document, schema));
    }
    out.push_str("\n| status | |\n|---|---|\n");
    let responses = operation["responses"].as_object();
    for (status, response) in responses.into_iter().flatten() {
        let _ = writeln!(out, "| {status} | {} |", answer(response));
    }
    let _ = write!(out, "\n```sh\n{}\n", curl(method, path, operation));
    if path.starts_with("/v1/") {
        let _ = writeln!(out, "{}", command(method, path, operation));
    }
    out.push_str("```\n");
    out
}

/// What a schema is called.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return format!("`{name}`");
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let choices: Vec<String> = choices.iter().map(kind).collect();
        return choices.join(" or ");
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("array"), _) => format!("list of {}", kind(&schema["items"])),
        (Some(_), Some("date-time")) => "time".to_owned(),
        (Some(kind), _) => kind.to_owned(),
        (None, _) => "any JSON".to_owned(),
    }
}

/// The members of a request's body.
fn members(document: &Value, schema: &Value) -> String {
    let pointer = schema["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
    let Some(schema) = pointer.and_then(|pointer| document.pointer(pointer)) else {
        return String::new();
    };
    let required = schema["required"].as_array();
    let required: Vec<&Value> = required.into_iter().flatten().collect();
    let mut out = String::from("| member | type | |\n|---|---|---|\n");
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let needed = match required.iter().any(|it| **it == name.as_str()) {
            true => "",
            false => "Optional. ",
        };
        let about = member["description"].as_str().unwrap_or_default();
        let about = about.replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(out, "| `{name}` | {} | {needed}{about} |", kind(member));
    }
    out
}

/// What a response is: its type, or its error codes.
fn answer(response: &Value) -> String {
    if let Some(name) = response["$ref"]
        .as_str()
        .and_then(|it| it.rsplit('/').next())
    {
        return codes(name.split('.'));
    }
    let mut parts: Vec<String> = Vec::new();
    for (media_type, content) in response["content"].as_object().into_iter().flatten() {
        match media_type.as_str() {
            "application/json" => parts.push(kind(&content["schema"])),
            "application/problem+json" => {
                let words = response["x-codes"].as_array().into_iter().flatten();
                parts.push(codes(words.filter_map(Value::as_str)));
            }
            other => parts.push(format!("`{other}`")),
        }
    }
    match parts.is_empty() {
        true => "no body".to_owned(),
        false => parts.join("; "),
    }
}

/// Error codes, each with its page.
fn codes<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let links: Vec<String> = words
        .map(|word| format!("[`{word}`](errors/{word}.md)"))
        .collect();
    links.join(", ")
}

fn curl(method: &str, path: &str, operation: &Value) -> String {
    let mut words = vec!["curl".to_owned()];
    if method != "GET" {
        words.push(format!("-X {method}"));
    }
    if operation["x-right"] != "none" {
        words.push("-H \"Authorization: Bearer $SEMEL_TOKEN\"".to_owned());
    }
    if !operation["x-key"].is_null() {
        words.push("-H 'Idempotency-Key: KEY'".to_owned());
    }
    if !operation["requestBody"]["content"]["application/json"].is_null() {
        words.push("-H 'Content-Type: application/json' -d @body.json".to_owned());
    }
    words.push(format!("\"$SEMEL_URL{path}\""));
    words.join(" ")
}

/// The same by the command line, which has the server and the token from its configuration.
fn command(method: &str, path: &str, operation: &Value) -> String {
    let body = match operation["requestBody"]["content"]["application/json"].is_null() {
        true => "",
        false => " --body @body.json",
    };
    format!("semel api {method} '{path}'{body}")
}
