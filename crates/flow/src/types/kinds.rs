//! Types of what each kind of step answers and gives, from the table of shapes.

use super::{Field, Fields, Type};
use crate::shapes::{self, Kind, ValueShape};
use crate::tree::Record;

/// The type of a value of a shape: its fields, and no others.
pub(super) fn of_shape(shape: &ValueShape) -> Type {
    let known = shape.fields.iter().map(|field| {
        let value = of_kind(field.kind);
        let value = match field.nullable && value != Type::Any {
            true => Type::Union(vec![value, Type::Null]),
            false => value,
        };
        let required = !field.optional;
        (field.name.to_owned(), Field { value, required })
    });
    Type::Map(Fields {
        known: known.collect(),
        closed: true,
    })
}

fn of_kind(kind: Kind) -> Type {
    match kind {
        Kind::Any => Type::Any,
        Kind::Text => Type::Text,
        Kind::Int => Type::Int,
        Kind::Number => Type::Union(vec![Type::Int, Type::Double]),
        Kind::Bool => Type::Bool,
        Kind::List => Type::List(Box::new(Type::Any)),
        Kind::Map => Type::Map(Fields::default()),
        Kind::Of(shape) => of_shape(shape),
        Kind::ListOf(shape) => Type::List(Box::new(of_shape(shape))),
    }
}

/// What a step's `result` reads as `response`.
pub(super) fn response(action: &str, body: Option<&Record>) -> Type {
    match action {
        "http" => of_shape(&shapes::HTTP),
        "db" => of_shape(&shapes::DB),
        "llm" => of_shape(&shapes::LLM),
        _ => result(action, body),
    }
}

/// What a probe reads as `probe`.
pub(super) fn probe(probe: &Record) -> Type {
    match probe.has("db") {
        true => of_shape(&shapes::DB),
        false => of_shape(&shapes::HTTP),
    }
}

/// What a step gives whose author does not say `result`.
pub(super) fn result(action: &str, body: Option<&Record>) -> Type {
    let has = |name: &str| body.is_some_and(|body| body.has(name));
    let truth = |name: &str| body.and_then(|body| body.truth(name));
    match action {
        "db" => of_shape(&shapes::DB_RESULT),
        "ssh" if truth("detach") == Some(true) => of_shape(&shapes::SSH_DETACHED),
        "ssh" => of_shape(&shapes::SSH),
        "notify" => of_shape(&shapes::NOTIFY),
        "persist" => of_shape(&shapes::RESOURCE),
        "emit" => of_shape(&shapes::EMIT),
        "kv" if has("add") => Type::Int,
        "kv" if has("lock") => of_shape(&shapes::KV_LOCK),
        "kv" if has("unlock") => of_shape(&shapes::KV_UNLOCK),
        "kv" if has("expect") || truth("if_absent") == Some(true) => of_shape(&shapes::KV_SET),
        "approval" => of_shape(&shapes::APPROVAL),
        "foreach" => of_shape(&shapes::FOREACH),
        "call" if truth("wait") == Some(false) => of_shape(&shapes::CALL),
        // What others decide, and what has no fields that could be mistaken.
        _ => Type::Any,
    }
}
