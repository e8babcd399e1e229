//! Steps of a release.

use semel_model::{Guard, RetryPolicy, Span};
use serde_json::Value as Json;

use crate::check::folded;
use crate::effect::{Facts, guards, method};
use crate::grammar::ACTIONS;
use crate::release::{
    Action, Body, HttpGuard, HttpStep, KvStep, KvVerb, Method, Probe, Request, Step, TextMap, Wait,
};
use crate::template::{Template, TextTemplate};
use crate::tree::{Record, Value};

/// How long most destinations remember a key.
const WINDOW: Span = Span::from_const_secs(24 * 3_600);

pub(super) fn step(record: &Record, retry: RetryPolicy, env: &Json) -> Option<Step> {
    Some(Step {
        id: record.text("id")?.parse().ok()?,
        condition: record.expr("if").map(|placed| placed.expr.clone()),
        action: action(record, env)?,
        retry: super::retry(record, retry),
    })
}

fn action(step: &Record, env: &Json) -> Option<Action> {
    let action = step.which(ACTIONS)?;
    if action == "function" {
        return Some(Action::Function(step.expr(action)?.expr.clone()));
    }
    let body = step.map(action)?;
    match action {
        "http" => Some(Action::Http(Box::new(http(step, body, env)?))),
        "kv" => Some(Action::Kv(kv(body)?)),
        "wait" => Some(Action::Wait(wait(body)?)),
        _ => None,
    }
}

fn http(step: &Record, body: &Record, env: &Json) -> Option<HttpStep> {
    Some(HttpStep {
        request: request(body, env)?,
        guard: guard(step, body, env)?,
        result: step.expr("result").map(|placed| placed.expr.clone()),
        external_id: step.expr("external_id").map(|placed| placed.expr.clone()),
    })
}

fn request(body: &Record, env: &Json) -> Option<Request> {
    let name = method(body)?;
    let method = Method::ALL
        .into_iter()
        .find(|method| method.field() == name)?;
    Some(Request {
        method,
        url: folded(&text(body, name)?, env).ok()?,
        headers: texts(body, "headers", str::to_ascii_lowercase)?,
        query: texts(body, "query", str::to_owned)?,
        body: match (template(body, "json"), text(body, "text")) {
            (Some(json), _) => Some(Body::Json(json)),
            (None, text) => text.map(Body::Text),
        },
        timeout: body.span_of("timeout")?,
    })
}

fn guard(step: &Record, body: &Record, env: &Json) -> Option<HttpGuard> {
    let named: Option<Guard> = step.text("guard").and_then(|word| word.parse().ok());
    let fitting = guards("http", Some(body), &Facts::default());
    let Some(guard) = named.or(fitting.first().copied()) else {
        return Some(HttpGuard::Read);
    };
    match guard {
        Guard::Key => Some(HttpGuard::Key {
            window: step.span_of("window").unwrap_or(WINDOW),
        }),
        Guard::Natural => Some(HttpGuard::Natural),
        Guard::Review => Some(HttpGuard::Review),
        Guard::Repeat => Some(HttpGuard::Repeat {
            because: step.text("because")?.trim().to_owned(),
        }),
        Guard::Probe => probe(step.map("probe")?, env),
        Guard::Transaction => None,
    }
}

fn probe(probe: &Record, env: &Json) -> Option<HttpGuard> {
    Some(HttpGuard::Probe(Box::new(Probe {
        request: request(probe.map("http")?, env)?,
        found: probe.expr("found")?.expr.clone(),
        result: probe.expr("result").map(|placed| placed.expr.clone()),
        after: probe.span_of("after")?,
    })))
}

fn kv(body: &Record) -> Option<KvStep> {
    let verb = body.which(&["get", "set", "add", "delete"])?;
    let ttl = body.span_of("ttl");
    Some(KvStep {
        entry: text(body, verb)?,
        verb: match verb {
            "get" => KvVerb::Get,
            "set" => KvVerb::Set {
                value: template(body, "value")?,
                if_absent: body.truth("if_absent").unwrap_or(false),
                ttl,
            },
            "add" => KvVerb::Add {
                by: body.whole("by").unwrap_or(1),
                ttl,
            },
            _ => KvVerb::Delete,
        },
    })
}

fn wait(body: &Record) -> Option<Wait> {
    match body.span_of("for") {
        Some(span) => Some(Wait::Timer(span)),
        None => Some(Wait::Callback {
            within: body.span_of("within")?,
        }),
    }
}

fn text(record: &Record, field: &str) -> Option<TextTemplate> {
    if let Some(Value::Holes(text, _)) = record.value(field) {
        Some(text.clone())
    } else {
        None
    }
}

fn template(record: &Record, field: &str) -> Option<Template> {
    if let Some(Value::Template(template, _)) = record.value(field) {
        Some(template.clone())
    } else {
        None
    }
}

fn texts(
    record: &Record,
    field: &str,
    spell: impl Fn(&str) -> String,
) -> Option<TextMap<TextTemplate>> {
    let mut texts = TextMap::new();
    let Some(Value::Named(entries)) = record.value(field) else {
        return (!record.has(field)).then_some(texts);
    };
    for entry in entries {
        if let Value::Holes(text, _) = &entry.value {
            texts.insert(spell(&entry.name), text.clone());
        }
    }
    Some(texts)
}
