//! `kv`: one operation on an entry that the flows of a namespace share.

use semel_model::kv::{Operation, Verb};
use semel_model::request::LocalChange;
use semel_model::{EffectId, Guard, Span};
use serde::Serialize;

use super::body::{BodyCheck, Lowering, template, text};
use super::descriptor::{Docs, ResultOrigin, StepKind, no_link, waits_for_nobody};
use super::effect::{EffectKind, EffectRule, transaction};
use super::{Action, ActionKind, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::diagnostic::Code;
use crate::expr::{EvalError, Expr, Scope};
use crate::grammar::{DAY, FieldType, MapSchema, OneOf, SECOND, YEAR, field};
use crate::shapes::{ValueKind, ValueShape, value};
use crate::template::{Template, TextTemplate};
use crate::tree::Record;
use crate::types::{Type, of_shape};

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Kv,
    about: "Reads or changes an entry that flows share.",
    summary: "entries that flows share",
    docs: Docs::Page(include_str!("../../../../docs/steps/kv.md")),
    article: "a",
    takes: FieldType::Map(&SCHEMA),
    effect: Some(EffectRule {
        changes: |body| Some(!body.has("get")),
        verb: |body| body.which(VERBS),
        effect_kind: |_| EffectKind::Update,
        guards: &[Guard::Transaction],
        default_guard: transaction,
        asks_connection: false,
        review_is_usual: false,
        commits_here: true,
    }),
    undoable: true,
    connection: &[],
    check: Some(check),
    lower: |step| lower(step).map(Action::Kv),
    response: result,
    result,
    takes_result: false,
    takes_external_id: false,
    origin: ResultOrigin::World,
    holds: None,
    pauses: false,
    shapes: &[&SET, &LOCK, &UNLOCK],
    ends_run: false,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

const VERBS: &[&str] = &["get", "set", "add", "delete", "lock", "unlock"];

static SCHEMA: MapSchema = MapSchema::new(
    ("`kv`", "kv"),
    "One operation on an entry that the flows of a namespace share.",
    &[
        field("get", FieldType::Holes, "Reads the entry."),
        field("set", FieldType::Holes, "Writes the entry."),
        field(
            "add",
            FieldType::Holes,
            "Adds to the entry, which is a whole number.",
        ),
        field("delete", FieldType::Holes, "Removes the entry."),
        field(
            "lock",
            FieldType::Holes,
            "Takes or extends the lock of that name; the step is retried while another run holds it.",
        ),
        field("unlock", FieldType::Holes, "Releases the lock of that name."),
        field("value", FieldType::Value, "With `set`: the value to write."),
        field(
            "if_absent",
            FieldType::Truth,
            "With `set`: only if the entry does not exist.",
        ),
        field(
            "expect",
            FieldType::Value,
            "With `set`: only if the entry has this value.",
        ),
        field(
            "by",
            FieldType::Whole(-9_007_199_254_740_991, 9_007_199_254_740_991),
            "With `add`: the amount. Absent: 1.",
        ),
        field(
            "ttl",
            FieldType::Span(SECOND, YEAR),
            "After how long the entry expires.",
        ),
        field(
            "lease",
            FieldType::Span(SECOND, DAY),
            "With `lock`: after how long it expires, unless it is extended or released.",
        )
        .default("5m"),
    ],
)
.one_of(&OneOf {
    fields: &["get", "set", "add", "delete", "lock", "unlock"],
    none: (
        "`kv` does one of get, set, add, delete, lock and unlock",
        "write `get: name`, `set: name`, `add: name`, `delete: name`, `lock: name` or `unlock: name`",
    ),
    many: (
        "`kv` does one of get, set, add, delete, lock and unlock",
        "write `get: name`, `set: name`, `add: name`, `delete: name`, `lock: name` or `unlock: name`",
    ),
});

/// The result of a conditional `set`.
static SET: ValueShape = ValueShape {
    name: "kv result of a conditional `set`",
    about: "result of `kv: { set }` with `if_absent` or `expect`",
    fields: &[
        value("set", ValueKind::Bool, "Whether it was set."),
        value("value", ValueKind::Any, "The current value."),
    ],
};

/// The result of a `lock`.
static LOCK: ValueShape = ValueShape {
    name: "kv result of `lock`",
    about: "result of `kv: { lock }`",
    fields: &[
        value(
            "token",
            ValueKind::Int,
            "Grows each time another run takes the lock.",
        ),
        value("until", ValueKind::Text, "Until when this run holds it."),
    ],
};

/// The result of an `unlock`.
static UNLOCK: ValueShape = ValueShape {
    name: "kv result of `unlock`",
    about: "result of `kv: { unlock }`",
    fields: &[value(
        "released",
        ValueKind::Bool,
        "False if this run no longer held it.",
    )],
};

fn result(body: Option<&Record>) -> Type {
    let Some(body) = body else {
        return Type::Any;
    };
    if body.has("add") {
        Type::Int
    } else if body.has("lock") {
        of_shape(&LOCK)
    } else if body.has("unlock") {
        of_shape(&UNLOCK)
    } else if body.has("expect") || body.truth("if_absent") == Some(true) {
        of_shape(&SET)
    } else {
        Type::Any
    }
}

/// The fields that a verb has beside itself.
fn fields_of(verb: &str) -> &'static [&'static str] {
    match verb {
        "set" => &["value", "if_absent", "expect", "ttl"],
        "add" => &["by", "ttl"],
        "lock" => &["lease"],
        _ => &[],
    }
}

fn check(check: &mut BodyCheck<'_, '_>, body: &Record) {
    let fields = ["value", "if_absent", "expect", "by", "ttl", "lease"];
    let Some(verb) = body.which(VERBS) else {
        return;
    };
    for field in fields.into_iter().filter(|field| body.has(field)) {
        if !fields_of(verb).contains(&field) {
            let message = format!("`{verb}` has no `{field}`");
            let span = body.name_span(field);
            check.add(Code::FieldConflict, span, &message, "leave it out");
        }
    }
    if verb == "set" && !body.has("value") {
        let (message, help) = ("`kv` needs `value`", "add `value: …`");
        check.add(Code::MissingField, body.span.clone(), message, help);
    }
    if body.truth("if_absent") == Some(true) && body.has("expect") {
        let message = "`if_absent` and `expect` exclude each other";
        let help = "keep `if_absent` or `expect`";
        check.add(Code::FieldConflict, body.name_span("expect"), message, help);
    }
}

fn lower(step: &Lowering<'_>) -> Option<KvStep> {
    let body = step.body?;
    let verb = body.which(VERBS)?;
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
            "delete" => KvVerb::Delete,
            "lock" => KvVerb::Lock {
                lease: body.span_of("lease")?,
            },
            "unlock" => KvVerb::Unlock,
            _ => return None,
        },
    })
}

/// One operation on one entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KvStep {
    /// The entry's name.
    pub entry: TextTemplate,
    /// What is done with it.
    #[serde(flatten)]
    pub verb: KvVerb,
}

/// What is done with an entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum KvVerb {
    /// Reads the value.
    Get,
    /// Writes a value.
    Set {
        /// The value.
        value: Template,
        /// Only where there is no value yet.
        if_absent: bool,
        /// Only where this value is there.
        #[serde(skip_serializing_if = "Option::is_none")]
        expect: Option<Template>,
        /// After how long the entry vanishes.
        ttl: Option<Span>,
    },
    /// Adds to a whole number.
    Add {
        /// How much.
        by: i64,
        /// After how long the entry vanishes.
        ttl: Option<Span>,
    },
    /// Removes the entry.
    Delete,
    /// Takes the lock of that name, or keeps it for longer.
    Lock {
        /// For how long, unless it is released before.
        lease: Span,
    },
    /// Releases the lock of that name.
    Unlock,
}

impl KvStep {
    /// Whether it changes anything.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        matches!(self.verb, KvVerb::Get)
    }

    /// The operation with every hole evaluated.
    ///
    /// # Errors
    ///
    /// If a hole cannot be evaluated.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Operation, EvalError> {
        let entry = self.entry.render(scope)?;
        let verb = match &self.verb {
            KvVerb::Get => Verb::Get,
            KvVerb::Set {
                value,
                if_absent,
                expect,
                ttl,
            } => Verb::Set {
                value: value.render(scope)?,
                if_absent: *if_absent,
                expect: expect.as_ref().map(|it| it.render(scope)).transpose()?,
                ttl: *ttl,
            },
            KvVerb::Add { by, ttl } => Verb::Add { by: *by, ttl: *ttl },
            KvVerb::Delete => Verb::Delete,
            KvVerb::Lock { lease } => Verb::Lock { lease: *lease },
            KvVerb::Unlock => Verb::Unlock,
        };
        Ok(Operation { entry, verb })
    }
}

impl ReleasedStep for KvStep {
    fn exprs(&self) -> Vec<&Expr> {
        let mut exprs: Vec<&Expr> = self.entry.exprs().collect();
        if let KvVerb::Set { value, expect, .. } = &self.verb {
            exprs.extend(value.exprs());
            exprs.extend(expect.iter().flat_map(Template::exprs));
        }
        exprs
    }

    fn connection(&self) -> Option<&str> {
        None
    }

    fn work(
        &self,
        scope: &Scope<'_>,
        _: FindConnection<'_>,
        _: Option<EffectId>,
    ) -> Result<StepWork<'_>, RenderError> {
        Ok(StepWork::request(LocalChange::Kv(self.render(scope)?)))
    }
}
