//! Types: what is known about values before a run, from a schema, an example or a literal.

mod infer;
mod schema;
mod shape;

pub(crate) use infer::infer;
pub(crate) use schema::{input_schema, input_type, of_schema};
pub(crate) use shape::of_shape;

use std::collections::BTreeMap;

/// What is known about a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// Nothing.
    Any,
    Null,
    Bool,
    Int,
    Double,
    Text,
    List(Box<Type>),
    Map(Fields),
    /// One of several.
    Union(Vec<Type>),
}

/// What is known about the fields of a map.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fields {
    pub(crate) known: BTreeMap<String, Field>,
    /// Whether there are no others.
    pub(crate) closed: bool,
}

/// What is known about a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) value: Type,
    pub(crate) required: bool,
}

/// Whether a path leads somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Always,
    Optional,
    Nullable,
    Unknown,
}

impl Type {
    /// The name of a type, for a message.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Any => "anything",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Double => "double",
            Self::Text => "string",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Union(_) => "one of several types",
        }
    }

    /// Whether the value may be of a type that `test` accepts.
    pub(crate) fn may_be(&self, test: impl Fn(&Self) -> bool + Copy) -> bool {
        match self {
            Self::Any => true,
            Self::Union(types) => types.iter().any(|one| one.may_be(test)),
            Self::Null
            | Self::Bool
            | Self::Int
            | Self::Double
            | Self::Text
            | Self::List(_)
            | Self::Map(_) => test(self),
        }
    }

    pub(crate) const fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Double)
    }

    /// Whether the value at the end of some fields is always there.
    pub(crate) fn presence(&self, fields: &[String]) -> Presence {
        let Some((first, rest)) = fields.split_first() else {
            let nullable = self.may_be(|one| *one == Self::Null) && *self != Self::Any;
            return if nullable {
                Presence::Nullable
            } else if *self == Self::Any {
                Presence::Unknown
            } else {
                Presence::Always
            };
        };
        let Self::Map(map) = self else {
            return Presence::Unknown;
        };
        match map.known.get(first) {
            Some(field) if field.required => field.value.presence(rest),
            Some(_) => Presence::Optional,
            None => Presence::Unknown,
        }
    }
}
