//! Effects: what a step changes in the outside world, and how that is made safe.

use std::collections::BTreeMap;

use semel_model::{Guard, Span};
use serde::Serialize;

use crate::diagnostic::Severity;
use crate::tree::{Record, StepInfo};

/// What is known about the world that a flow runs in, apart from the flow.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The connections, by name.
    pub connections: BTreeMap<String, Connection>,
    /// How much one matters that is not among them; where this is absent, it is not judged.
    pub unknown: Option<Severity>,
}

/// What is known about a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// How long its destination remembers an idempotency key; absent where it honours none.
    pub honours_keys: Option<Span>,
    /// What kind of destination it leads to, where that is known.
    pub kind: Option<&'static str>,
}

/// What kind of change an effect is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// Something new comes into being; already handled means that it exists.
    Create,
    /// Something that exists changes; already handled means that it has the new value.
    Update,
    /// Somebody is told; already handled means that the message was sent.
    Notify,
}

impl Does {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Notify => "notify",
        }
    }
}

/// A step's effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    pub(crate) guard: Guard,
    /// Whether the author named the guard.
    pub(crate) stated: bool,
    pub(crate) does: Does,
}

const METHODS: [&str; 6] = ["get", "head", "post", "put", "patch", "delete"];

/// The method that an `http` map asks for.
pub(crate) fn method(http: &Record) -> Option<&'static str> {
    http.which(&METHODS)
}

/// Whether an action as it is written changes anything.
pub(crate) fn changes(action: &str, body: Option<&Record>) -> bool {
    match action {
        "http" => !matches!(body.and_then(method), None | Some("get" | "head")),
        "db" => body.is_some_and(|body| body.has("execute")),
        "kv" => body.is_some_and(|body| !body.has("get")),
        "notify" | "ssh" | "persist" | "emit" | "task" | "call" => true,
        _ => false,
    }
}

/// The guards that an action can have, the one that holds by itself first.
pub(crate) fn guards(action: &str, body: Option<&Record>, facts: &Facts) -> Vec<Guard> {
    use Guard::{Key, Natural, Probe, Repeat, Review, Transaction};
    if !changes(action, body) {
        return vec![];
    }
    let mut guards = match action {
        "db" | "kv" | "persist" | "emit" | "call" => return vec![Transaction],
        "notify" => vec![Review, Key, Repeat],
        "http" | "ssh" | "task" => vec![Review, Key, Natural, Probe, Repeat],
        _ => return vec![],
    };
    let by_nature = body
        .is_some_and(|body| matches!(method(body), Some("put" | "delete")) || body.has("if_match"));
    let marked = body.is_some_and(|body| {
        body.truth("marker") == Some(true) || body.truth("detach") == Some(true)
    });
    let first = if action == "http" && by_nature {
        Natural
    } else if action == "ssh" && marked {
        Probe
    } else if connection(body, facts).is_some_and(|known| known.honours_keys.is_some()) {
        Key
    } else {
        Review
    };
    guards.retain(|guard| *guard != first);
    guards.insert(0, first);
    guards
}

/// Whether the connection says at run time how an action that names no guard is made safe.
pub(crate) fn is_decided_by_connection(action: &str, body: Option<&Record>) -> bool {
    let connected = body.is_some_and(|body| body.has("connection"));
    connected && matches!(action, "http" | "notify")
}

/// What is known about the connection that a map names.
pub(crate) fn connection(body: Option<&Record>, facts: &Facts) -> Option<Connection> {
    let name = body?.text("connection")?;
    facts.connections.get(name).copied()
}

impl Effect {
    /// The effect of a step, if it has one.
    pub(crate) fn of(step: &StepInfo<'_>, facts: &Facts) -> Option<Self> {
        let action = step.action?;
        let body = step.record.map(action);
        let fitting = guards(action, body, facts);
        let named: Option<Guard> = step.record.text("guard").and_then(|word| word.parse().ok());
        let guard = named
            .filter(|guard| fitting.contains(guard))
            .or(fitting.first().copied())?;
        Some(Self {
            guard,
            stated: step.record.has("guard"),
            does: does(step.record, action, body),
        })
    }

    /// Whether nothing but a person or luck keeps it from happening twice.
    pub(crate) const fn is_unguarded(&self) -> bool {
        matches!(self.guard, Guard::Review)
    }
}

fn does(step: &Record, action: &str, body: Option<&Record>) -> Does {
    match step.text("does") {
        Some("create") => return Does::Create,
        Some("update") => return Does::Update,
        Some("notify") => return Does::Notify,
        Some(_) | None => {}
    }
    match action {
        "notify" | "emit" => Does::Notify,
        "http" if matches!(body.and_then(method), Some("post")) => Does::Create,
        "db" => match body.and_then(|body| body.text("execute")) {
            Some(sql) if sql.trim_start().to_ascii_lowercase().starts_with("insert") => {
                Does::Create
            }
            Some(_) | None => Does::Update,
        },
        "call" | "persist" | "task" => Does::Create,
        _ => Does::Update,
    }
}
