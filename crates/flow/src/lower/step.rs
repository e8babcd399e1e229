//! Steps of a release.

use semel_model::request::CacheScope;
use semel_model::{Guard, RetryPolicy, Span};
use serde_json::Value as Json;

use super::control;
use super::http::request;
use super::outside;
use crate::effect::{Facts, guards, is_decided_by_connection};
use crate::grammar::ACTIONS;
use crate::release::{
    Action, Ask, CallStep, DbStep, EmitStep, FailStep, Follow, KvStep, KvVerb, LlmStep, NotifyStep,
    PersistStep, Probe, SshStep, Step, StepGuard, TextMap, Topic, Wait,
};
use crate::template::{Template, TextTemplate};
use crate::tree::{Item, Outline, Record, StepIndex, Value};

/// How long most destinations remember a key.
const WINDOW: Span = Span::from_const_secs(24 * 3_600);

/// Quiet time before the marker of a command is asked for.
const MARKER_AFTER: Span = Span::from_const_secs(1);

pub(super) fn step(
    outline: &Outline<'_>,
    place: StepIndex,
    retry: RetryPolicy,
    env: &Json,
) -> Option<Step> {
    let record = outline.steps[place].record;
    let name = record.which(ACTIONS)?;
    let body = record.map(name);
    let action = match control::action(outline, place, name, body)? {
        Some(action) => action,
        None => action(name, record, body, env)?,
    };
    Some(Step {
        id: record.text("id")?.parse().ok()?,
        condition: record.expr("if").map(|placed| placed.expr.clone()),
        action,
        guard: guard(name, record, body, env)?,
        result: record.expr("result").map(|placed| placed.expr.clone()),
        external_id: record.expr("external_id").map(|placed| placed.expr.clone()),
        retry: super::retry(record, retry),
        follow: control::follow(outline, place),
        inside: control::inside(outline, place),
        undo: None,
    })
}

/// The step that takes another one back: an effect of its own.
pub(super) fn undo(record: &Record, of: &Step, env: &Json) -> Option<Step> {
    let undo = record.map("undo")?;
    let name = undo.which(&["http", "db", "kv", "notify", "ssh", "emit"])?;
    let body = undo.map(name);
    Some(Step {
        id: of.id.undo(),
        condition: None,
        action: action(name, undo, body, env)?,
        guard: guard(name, undo, body, env)?,
        result: None,
        external_id: None,
        retry: of.retry,
        follow: Follow::End,
        inside: of.inside,
        undo: None,
    })
}

fn action(name: &str, step: &Record, body: Option<&Record>, env: &Json) -> Option<Action> {
    if name == "function" {
        return Some(Action::Function(step.expr(name)?.expr.clone()));
    }
    if name == "return" {
        return Some(Action::Return(step.expr(name)?.expr.clone()));
    }
    let body = body?;
    match name {
        "call" => Some(Action::Call(CallStep {
            flow: body.text("flow")?.parse().ok()?,
            input: template(body, "input"),
            wait: body.truth("wait").unwrap_or(true),
        })),
        "fail" => Some(Action::Fail(FailStep {
            code: body.text("code").unwrap_or("failed").to_owned(),
            message: text(body, "message")?,
        })),
        "http" => Some(Action::Http(Box::new(request(body, env)?))),
        "kv" => Some(Action::Kv(kv(body)?)),
        "wait" => Some(Action::Wait(wait(body)?)),
        "db" => Some(Action::Db(db(body)?)),
        "ssh" => Some(Action::Ssh(Box::new(ssh(body)?))),
        "notify" => Some(Action::Notify(Box::new(notify(body)?))),
        "llm" => Some(Action::Llm(Box::new(llm(body)?))),
        "persist" => Some(Action::Persist(Box::new(persist(body)?))),
        "emit" => Some(Action::Emit(EmitStep {
            event: body.text("event")?.to_owned(),
            data: template(body, "data"),
        })),
        "task" => Some(Action::Task(Box::new(outside::task(body)?))),
        "approval" => Some(Action::Approval(Box::new(outside::approval(body)))),
        _ => None,
    }
}

fn guard(name: &str, step: &Record, body: Option<&Record>, env: &Json) -> Option<StepGuard> {
    let named: Option<Guard> = step.text("guard").and_then(|word| word.parse().ok());
    let fitting = guards(name, body, &Facts::default());
    let Some(first) = fitting.first().copied() else {
        return Some(StepGuard::Read);
    };
    if named.is_none() && first == Guard::Review && is_decided_by_connection(name, body) {
        return Some(StepGuard::Connection);
    }
    match named.unwrap_or(first) {
        Guard::Key => {
            // Over a connection, what that says holds when the intent is written.
            let connected = body.is_some_and(|body| body.has("connection"));
            let said = step.span_of("window");
            Some(StepGuard::Key {
                window: said.or((!connected).then_some(WINDOW)),
            })
        }
        Guard::Natural => Some(StepGuard::Natural),
        Guard::Review => Some(StepGuard::Review),
        Guard::Repeat => Some(StepGuard::Repeat {
            because: step.text("because")?.trim().to_owned(),
        }),
        Guard::Probe => probe(step, env).map(|probe| StepGuard::Probe(Box::new(probe))),
        Guard::Transaction => Some(StepGuard::Transaction),
    }
}

fn probe(step: &Record, env: &Json) -> Option<Probe> {
    let Some(probe) = step.map("probe") else {
        // The marker that the command itself leaves.
        return Some(Probe {
            ask: Ask::Marker,
            result: None,
            after: MARKER_AFTER,
            because: None,
        });
    };
    let found = probe.expr("found")?.expr.clone();
    let ask = match probe.map("db") {
        Some(query) => Ask::Db {
            query: Box::new(db(query)?),
            found,
        },
        None => Ask::Http {
            request: Box::new(request(probe.map("http")?, env)?),
            found,
        },
    };
    Some(Probe {
        ask,
        result: probe.expr("result").map(|placed| placed.expr.clone()),
        after: probe.span_of("after")?,
        because: probe
            .text("because")
            .map(|because| because.trim().to_owned())
            .filter(|because| !because.is_empty()),
    })
}

fn kv(body: &Record) -> Option<KvStep> {
    let verb = body.which(&["get", "set", "add", "delete", "lock", "unlock"])?;
    let ttl = body.span_of("ttl");
    Some(KvStep {
        entry: text(body, verb)?,
        verb: match verb {
            "get" => KvVerb::Get,
            "set" => KvVerb::Set {
                value: template(body, "value")?,
                if_absent: body.truth("if_absent").unwrap_or(false),
                expect: template(body, "expect"),
                ttl,
            },
            "add" => KvVerb::Add {
                by: body.whole("by").unwrap_or(1),
                ttl,
            },
            "lock" => KvVerb::Lock {
                lease: body.span_of("lease")?,
            },
            "unlock" => KvVerb::Unlock,
            _ => KvVerb::Delete,
        },
    })
}

fn db(body: &Record) -> Option<DbStep> {
    let statement = body.text("query").or_else(|| body.text("execute"))?;
    let values = body.list("values").iter();
    let values = values.map(|item| item.value.as_template().cloned());
    Some(DbStep {
        connection: body.text("connection")?.to_owned(),
        statement: statement.to_owned(),
        values: values.collect::<Option<_>>()?,
        rows: body.whole("rows").and_then(|rows| u64::try_from(rows).ok()),
        timeout: body.span_of("timeout")?,
    })
}

fn ssh(body: &Record) -> Option<SshStep> {
    let detach = body.truth("detach") == Some(true);
    Some(SshStep {
        connection: body.text("connection")?.to_owned(),
        command: list_of_texts(body.list("command"))?,
        stdin: text(body, "stdin"),
        env: texts(body, "env", str::to_owned)?,
        marker: detach || body.truth("marker") == Some(true),
        callback: match detach {
            true => Some(text(body, "callback")?),
            false => None,
        },
        timeout: body.span_of("timeout")?,
    })
}

fn notify(body: &Record) -> Option<NotifyStep> {
    let to = match text(body, "to") {
        Some(to) => vec![to],
        None => list_of_texts(body.list("to"))?,
    };
    Some(NotifyStep {
        connection: body.text("connection")?.to_owned(),
        to,
        subject: text(body, "subject"),
        text: text(body, "text")?,
        html: text(body, "html"),
    })
}

fn llm(body: &Record) -> Option<LlmStep> {
    let schema = match body.value("schema") {
        Some(Value::Json(schema)) => Some(schema.clone()),
        _ => None,
    };
    Some(LlmStep {
        connection: body.text("connection")?.to_owned(),
        model: body.text("model").map(str::to_owned),
        system: text(body, "system"),
        prompt: text(body, "prompt")?,
        schema,
        max_tokens: body
            .whole("max_tokens")
            .and_then(|most| u32::try_from(most).ok()),
        cache: match body.word("cache") {
            Some("flow") => CacheScope::Flow,
            Some("namespace") => CacheScope::Namespace,
            Some(_) | None => CacheScope::Run,
        },
        timeout: body.span_of("timeout")?,
    })
}

fn persist(body: &Record) -> Option<PersistStep> {
    Some(PersistStep {
        value: template(body, "value")?,
        name: text(body, "name"),
        media_type: body.word("type")?.to_owned(),
        keep: body.span_of("keep")?,
    })
}

fn list_of_texts(items: &[Item]) -> Option<Vec<TextTemplate>> {
    let texts = items.iter().map(|item| item.value.as_holes().cloned());
    texts.collect()
}

fn wait(body: &Record) -> Option<Wait> {
    let goes_on = body.word("on_timeout") == Some("continue");
    let within = body.span_of("within");
    match body.which(&["for", "until", "event", "callback"])? {
        "for" => Some(Wait::Timer(body.span_of("for")?)),
        "until" => Some(Wait::Until(body.expr("until")?.expr.clone())),
        "event" => Some(Wait::Event {
            name: body.text("event")?.to_owned(),
            matching: body.expr("match").map(|placed| placed.expr.clone()),
            topic: body
                .expr("match")
                .and_then(|placed| Topic::of(&placed.expr)),
            within,
            goes_on,
        }),
        _ => Some(Wait::Callback {
            within: within?,
            goes_on,
        }),
    }
}

pub(super) fn text(record: &Record, field: &str) -> Option<TextTemplate> {
    record.value(field).and_then(Value::as_holes).cloned()
}

pub(super) fn template(record: &Record, field: &str) -> Option<Template> {
    record.value(field).and_then(Value::as_template).cloned()
}

pub(super) fn texts(
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
