//! Types from shapes.

use super::{Field, Fields, Type};
use crate::shapes::{ValueKind, ValueShape};

/// The type of a value of a shape: its fields, and no others.
pub(crate) fn of_shape(shape: &ValueShape) -> Type {
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

fn of_kind(kind: ValueKind) -> Type {
    match kind {
        ValueKind::Any => Type::Any,
        ValueKind::Text => Type::Text,
        ValueKind::Int => Type::Int,
        ValueKind::Number => Type::Union(vec![Type::Int, Type::Double]),
        ValueKind::Bool => Type::Bool,
        ValueKind::List => Type::List(Box::new(Type::Any)),
        ValueKind::Map => Type::Map(Fields::default()),
        ValueKind::Of(shape) => of_shape(shape),
        ValueKind::ListOf(shape) => Type::List(Box::new(of_shape(shape))),
    }
}
