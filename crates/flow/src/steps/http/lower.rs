//! Requests of steps, probes and undos alike, lowered.

use semel_model::connection::KeyPlace;
use semel_model::request::{NextPage, Pagination};
use serde_json::Value as Json;

use super::super::body::{template, text, texts};
use super::{HttpStep, PartTemplate, RequestBody, method};
use crate::template::TextMap;
use crate::tree::{Record, Value};

impl HttpStep {
    /// The request that a map asks for.
    pub(crate) fn of(body: &Record, env: &Json) -> Option<Self> {
        let method = method(body)?;
        let mut headers = texts(body, "headers", str::to_ascii_lowercase)?;
        if let Some(version) = text(body, "if_match") {
            headers.insert("if-match".to_owned(), version);
        }
        Some(Self {
            connection: body.text("connection").map(str::to_owned),
            method,
            url: text(body, method.field())?.with_env(env).ok()?,
            headers,
            query: texts(body, "query", str::to_owned)?,
            body: body_of(body)?,
            key_as: body.map("key_as").and_then(key_place),
            pages: body.map("pages").and_then(pages),
            timeout: body.span_of("timeout")?,
        })
    }
}

/// The body of a request: nothing, or what one of its fields says.
fn body_of(body: &Record) -> Option<Option<RequestBody>> {
    let field = body.which(&["json", "text", "form", "multipart", "file"]);
    Some(match field {
        Some("json") => Some(RequestBody::Json(template(body, "json")?)),
        Some("text") => Some(RequestBody::Text(text(body, "text")?)),
        Some("form") => Some(RequestBody::Form(texts(body, "form", str::to_owned)?)),
        Some("multipart") => Some(RequestBody::Multipart(parts(body)?)),
        Some("file") => Some(RequestBody::File(text(body, "file")?)),
        Some(_) | None => None,
    })
}

fn parts(body: &Record) -> Option<TextMap<PartTemplate>> {
    let Some(Value::Named(entries)) = body.value("multipart") else {
        return None;
    };
    let mut parts = TextMap::new();
    for entry in entries {
        let part = match entry.value.as_holes() {
            Some(text) => PartTemplate::Text(text.clone()),
            None => {
                let file = entry.value.as_map()?;
                PartTemplate::File {
                    file: text(file, "file")?,
                    name: text(file, "name"),
                }
            }
        };
        parts.insert(entry.name.clone(), part);
    }
    Some(parts)
}

fn key_place(record: &Record) -> Option<KeyPlace> {
    let field = record.which(&["header", "field", "query"])?;
    let name = record.text(field)?.to_owned();
    Some(match field {
        "header" => KeyPlace::Header(name),
        "field" => KeyPlace::Field(name),
        _ => KeyPlace::Query(name),
    })
}

fn pages(record: &Record) -> Option<Pagination> {
    let next = match record.text("cursor") {
        Some(path) => NextPage::Cursor {
            path: path.to_owned(),
            query: record.text("query").unwrap_or("cursor").to_owned(),
        },
        None => NextPage::Link,
    };
    Some(Pagination {
        items: record.text("items").unwrap_or_default().to_owned(),
        next,
        most: u32::try_from(record.whole("most").unwrap_or(100)).ok()?,
    })
}
