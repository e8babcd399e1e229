//! The grammar as data: which fields there are, what each takes, what it is for.
//!
//! The reader, the JSON Schema, the formatter and the canonical form all go by these tables, so
//! that none of them can know a field that the others do not. What a table cannot say (which
//! guard fits which step) is said by the checks behind the reader.

mod action;
mod control;
mod flow;
mod http;
pub(crate) mod schema;
mod step;
mod trigger;

pub(crate) use flow::FLOW;
pub(crate) use step::{ACTIONS, STEP};

use crate::read::names::Place;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 86_400 * SECOND;
/// The longest time that anything in a flow lasts.
const YEAR: u64 = 366 * DAY;

/// A map with fields.
pub(crate) struct Shape {
    /// What it is, for messages: "a step", "`http`".
    pub(crate) what: &'static str,
    /// The name of its definition in the JSON Schema.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) about: &'static str,
    /// In the order in which the formatter writes them.
    pub(crate) fields: &'static [Field],
    /// Fields of which exactly one must stand.
    pub(crate) one_of: Option<&'static OneOf>,
    /// Sets of fields of which at least one must stand whole; the checks say it in words.
    pub(crate) any_of: &'static [&'static [&'static str]],
}

/// Fields that exclude each other, one of which is needed.
pub(crate) struct OneOf {
    pub(crate) fields: &'static [&'static str],
    /// What to say where none stands, and the mend.
    pub(crate) none: (&'static str, &'static str),
    /// What to say where several stand, and the mend.
    pub(crate) many: (&'static str, &'static str),
}

/// One field of a map.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    pub(crate) about: &'static str,
    pub(crate) needed: bool,
    /// What holds where the field is absent, as it would be written.
    pub(crate) default: Option<&'static str>,
    /// A value for a mend.
    pub(crate) example: &'static str,
}

/// What a field takes.
#[derive(Clone, Copy)]
pub(crate) enum Takes {
    /// Text as written.
    Text,
    /// The name of a flow: letters, digits and `-`.
    FlowName,
    /// The name of a step: letters, digits and `_`.
    StepName,
    /// The name of something that is kept apart from flows: a connection, a secret, a queue.
    Label,
    /// One of a few words.
    Word(&'static [&'static str]),
    /// One of the words that are gathered elsewhere.
    Words(fn() -> Vec<&'static str>),
    Truth,
    Whole(i64, i64),
    /// A span between two lengths in milliseconds.
    Span(u64, u64),
    /// A bare expression.
    Expr(Place),
    /// A bare expression that is true or false.
    Condition(Place),
    /// Text with `${{ }}` in it.
    Holes,
    /// Any value with `${{ }}` in its texts.
    Value,
    /// Any value, as it is.
    Constant,
    Map(&'static Shape),
    /// A list of maps.
    Maps(&'static Shape),
    /// A map from names to values of one kind.
    Named(&'static Takes),
    List(&'static Takes),
    /// By the form in which it is written: text, list or map.
    Either(&'static [Takes]),
    /// A list of steps.
    Steps,
}

/// A field that may be absent.
const fn field(name: &'static str, takes: Takes, about: &'static str) -> Field {
    Field {
        name,
        takes,
        about,
        needed: false,
        default: None,
        example: "…",
    }
}

impl Field {
    /// The field must stand; a mend shows it with this value.
    const fn needed(self, example: &'static str) -> Self {
        Self {
            needed: true,
            example,
            ..self
        }
    }

    const fn default(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }
}

impl Shape {
    const fn new(
        (what, name): (&'static str, &'static str),
        about: &'static str,
        fields: &'static [Field],
    ) -> Self {
        Self {
            what,
            name,
            about,
            fields,
            one_of: None,
            any_of: &[],
        }
    }

    const fn any_of(self, any_of: &'static [&'static [&'static str]]) -> Self {
        Self { any_of, ..self }
    }

    const fn one_of(self, one_of: &'static OneOf) -> Self {
        Self {
            one_of: Some(one_of),
            ..self
        }
    }

    /// The field of that name.
    pub(crate) fn find(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The names of its fields.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}
