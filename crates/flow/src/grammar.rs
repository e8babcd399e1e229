//! The vocabulary of the grammar: what a table of fields is made of.
//!
//! The tables themselves stand with what they describe: a kind of step in `steps`, a trigger in
//! `triggers`, the rest in `language`.

mod place;

pub(crate) use place::Place;

pub(crate) const SECOND: u64 = 1_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const DAY: u64 = 86_400 * SECOND;
/// The longest time that anything in a flow lasts.
pub(crate) const YEAR: u64 = 366 * DAY;

/// A map with fields.
pub(crate) struct MapSchema {
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
    /// Fields that had another name once, and the one that they have: the old one is refused.
    pub(crate) renamed: &'static [(&'static str, &'static str)],
}

/// Fields that exclude each other, one of which is needed.
pub(crate) struct OneOf {
    pub(crate) fields: &'static [&'static str],
    /// What to say where none stands, and the fix, in which `{fields}` stands for their names.
    pub(crate) none: (&'static str, &'static str),
    /// What to say where several stand, and the fix.
    pub(crate) many: (&'static str, &'static str),
}

/// One field of a map.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) takes: FieldType,
    pub(crate) about: &'static str,
    pub(crate) needed: bool,
    /// What holds where the field is absent, as it would be written.
    pub(crate) default: Option<&'static str>,
    /// A value for a fix.
    pub(crate) example: &'static str,
    /// Whether expressions in it can name the item that the map is about.
    pub(crate) names_item: bool,
    /// What else expressions in it can name.
    pub(crate) sees: Option<&'static str>,
    /// Words that had another name once, and the one that they have: the old one is refused.
    pub(crate) renamed: &'static [(&'static str, &'static str)],
}

/// What a field takes.
#[derive(Clone, Copy)]
pub(crate) enum FieldType {
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
    Map(&'static MapSchema),
    /// A list of maps.
    Maps(&'static MapSchema),
    /// A map from names to values of one kind.
    Named(&'static FieldType),
    List(&'static FieldType),
    /// By the form in which it is written: text, list or map.
    Either(&'static [FieldType]),
    /// A list of steps.
    Steps,
}

/// The name that something has which had another one once.
pub(crate) fn new_name(
    renamed: &[(&'static str, &'static str)],
    name: &str,
) -> Option<&'static str> {
    let mut renamed = renamed.iter();
    renamed.find(|(old, _)| *old == name).map(|(_, new)| *new)
}

impl FieldType {
    /// Whether it is a list of steps.
    pub(crate) const fn is_steps(self) -> bool {
        matches!(self, Self::Steps)
    }
}

/// A field that may be absent.
pub(crate) const fn field(name: &'static str, takes: FieldType, about: &'static str) -> Field {
    Field {
        name,
        takes,
        about,
        needed: false,
        default: None,
        example: "…",
        names_item: false,
        sees: None,
        renamed: &[],
    }
}

impl Field {
    /// The field must stand; a fix shows it with this value.
    pub(crate) const fn needed(self, example: &'static str) -> Self {
        Self {
            needed: true,
            example,
            ..self
        }
    }

    pub(crate) const fn default(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }

    pub(crate) const fn renamed(self, renamed: &'static [(&'static str, &'static str)]) -> Self {
        Self { renamed, ..self }
    }

    /// Expressions in the field can name this too.
    pub(crate) const fn sees(self, name: &'static str) -> Self {
        Self {
            sees: Some(name),
            ..self
        }
    }

    /// Expressions in the field can name the item.
    pub(crate) const fn names_item(self) -> Self {
        Self {
            names_item: true,
            ..self
        }
    }
}

impl MapSchema {
    pub(crate) const fn new(
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
            renamed: &[],
        }
    }

    pub(crate) const fn renamed(self, renamed: &'static [(&'static str, &'static str)]) -> Self {
        Self { renamed, ..self }
    }

    pub(crate) const fn any_of(self, any_of: &'static [&'static [&'static str]]) -> Self {
        Self { any_of, ..self }
    }

    pub(crate) const fn one_of(self, one_of: &'static OneOf) -> Self {
        Self {
            one_of: Some(one_of),
            ..self
        }
    }

    /// The field of that name.
    pub(crate) fn find(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The field that holds a list of steps, where there is one.
    pub(crate) fn list_of_steps(&self) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.takes.is_steps())
    }

    /// The names of its fields.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }
}
