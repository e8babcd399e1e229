//! What every step can have, and what it can do: one field for each kind of the registry.

use crate::diagnostic::Code;
use crate::grammar::{DAY, Field, FieldType, MINUTE, MapSchema, OneOf, Place, YEAR, field};
use crate::steps::{EffectKind, KINDS, StepKind, db, http};

pub(crate) static STEP: MapSchema =
    MapSchema::new(("a step", "step"), "One unit of work of a run.", &FIELDS).one_of(&OneOf {
        fields: &NAMES,
        none: ("this step does nothing", "add one of: {fields}"),
        many: ("a step does one thing", "split it into two steps"),
    });

static UNDO: MapSchema = MapSchema::new(
    ("`undo`", "undo"),
    "Compensates an effect: an effect of its own, with its own key.",
    &UNDO_FIELDS,
)
.one_of(&OneOf {
    fields: &UNDO_NAMES,
    none: ("`undo` does nothing", "add one of: {fields}"),
    many: ("`undo` does one thing", "keep one of them"),
});

const KIND_COUNT: usize = KINDS.len();
const UNDO_COUNT: usize = undoable_count();
const FIELD_COUNT: usize = HEAD.len() + KIND_COUNT + TAIL.len();

/// Common fields, then one for each kind, then what is said about an effect.
static FIELDS: [Field; FIELD_COUNT] = {
    let mut fields = [HEAD[0]; FIELD_COUNT];
    let mut at = 0;
    while at < FIELD_COUNT {
        fields[at] = if at < HEAD.len() {
            HEAD[at]
        } else if at < HEAD.len() + KIND_COUNT {
            of_kind(KINDS[at - HEAD.len()])
        } else {
            TAIL[at - HEAD.len() - KIND_COUNT]
        };
        at += 1;
    }
    fields
};

static NAMES: [&str; KIND_COUNT] = {
    let mut names = [""; KIND_COUNT];
    let mut at = 0;
    while at < KIND_COUNT {
        names[at] = KINDS[at].name();
        at += 1;
    }
    names
};

static UNDO_FIELDS: [Field; UNDO_COUNT] = {
    let mut fields = [HEAD[0]; UNDO_COUNT];
    let (mut at, mut found) = (0, 0);
    while at < KIND_COUNT {
        if KINDS[at].undoable {
            fields[found] = of_kind(KINDS[at]);
            found += 1;
        }
        at += 1;
    }
    fields
};

static UNDO_NAMES: [&str; UNDO_COUNT] = {
    let mut names = [""; UNDO_COUNT];
    let mut at = 0;
    while at < UNDO_COUNT {
        names[at] = UNDO_FIELDS[at].name;
        at += 1;
    }
    names
};

const fn of_kind(kind: &StepKind) -> Field {
    field(kind.name(), kind.takes, kind.about)
}

const fn undoable_count() -> usize {
    let (mut at, mut count) = (0, 0);
    while at < KIND_COUNT {
        if KINDS[at].undoable {
            count += 1;
        }
        at += 1;
    }
    count
}

const HEAD: &[Field] = &[
    field(
        "id",
        FieldType::StepName,
        "The name of the step; its outcome is `steps.ID`.",
    )
    .needed("name"),
    field("about", FieldType::Text, "The purpose of the step."),
    field(
        "if",
        FieldType::Condition(Place::Step),
        "Skips the step if false.",
    ),
];

const TAIL: &[Field] = &[
    field(
        "does",
        FieldType::Word(EffectKind::WORDS),
        "The kind of change, if the request does not show it.",
    ),
    field(
        "key",
        FieldType::Expr(Place::Step),
        "A business key: the effect happens once per key across runs, not once per run.",
    ),
    field(
        "scope",
        FieldType::Word(&["step", "flow", "namespace"]),
        "Where `key` counts: for this step, for all steps of the flow, or for the whole namespace.",
    )
    .default("step"),
    field(
        "keep",
        FieldType::Span(MINUTE, YEAR),
        "With `key`: how long the done or failed effect is remembered.",
    )
    .default("366d"),
    field(
        "mismatch",
        FieldType::Word(&["review", "accept"]),
        "With `key`: what happens if the key is done with another request.",
    )
    .default("review"),
    field(
        "guard",
        FieldType::Word(&["transaction", "key", "natural", "probe", "review", "repeat"]),
        "What makes the effect safe to repeat.",
    ),
    field(
        "window",
        FieldType::Span(1_000, YEAR),
        "With `guard: key`: how long the destination remembers a key. Absent: 24h, or what the \
         connection says.",
    ),
    field(
        "because",
        FieldType::Text,
        "With `guard: repeat`: why a repeat does no harm.",
    ),
    field(
        "probe",
        FieldType::Map(&PROBE),
        "With `guard: probe`: the read that finds out whether the effect happened.",
    ),
    field(
        "result",
        FieldType::Expr(Place::Response),
        "The result, computed from `response`, whose fields depend on the kind of step: docs/shapes.md.",
    ),
    field(
        "external_id",
        FieldType::Expr(Place::ExternalId),
        "The destination's id for it, computed from `result`.",
    ),
    field(
        "undo",
        FieldType::Map(&UNDO),
        "Compensates the effect, with `on_failure: undo` or when an operator asks for it.",
    ),
    field(
        "undo_shared",
        FieldType::Word(&["review", "always"]),
        "With `key` and `undo`: what happens if other runs reused the effect that is to be undone.",
    )
    .default("review"),
    field(
        "retry",
        FieldType::Map(&RETRY),
        "How often Semel retries a failed attempt.",
    ),
    field(
        "allow",
        FieldType::Maps(&ALLOW),
        "Rules to suppress for this step, each with a reason.",
    ),
];

static PROBE: MapSchema = MapSchema::new(
    ("`probe`", "probe"),
    "The read that finds out whether an effect happened.",
    &[
        field(
            "http",
            FieldType::Map(&http::SCHEMA),
            "The request: a `get` or a `head`.",
        ),
        field("db", FieldType::Map(&db::SCHEMA), "The statement: a `query`."),
        field(
            "found",
            FieldType::Condition(Place::Probe),
            "Whether the effect happened, from `probe`: `status`, `headers`, `json`, `text`; with `db`: `rows`, `records`.",
        )
        .needed("probe.json.size() > 0"),
        field(
            "result",
            FieldType::Expr(Place::Probe),
            "The step's result if it happened, from `probe`: `status`, `headers`, `json`, `text`; with `db`: `rows`, `records`.",
        ),
        field(
            "before",
            FieldType::Truth,
            "Asks before the first attempt too: what is there already is done, and nothing is sent.",
        )
        .default("false"),
        field(
            "after",
            FieldType::Span(0, DAY),
            "The delay after a doubt before the first request.",
        )
        .default("5s"),
        field(
            "because",
            FieldType::Text,
            "Why nothing can arrive later than `after`: Semel then accepts *absent* at once.",
        ),
    ],
)
.one_of(&OneOf {
    fields: &["http", "db"],
    none: (
        "`probe` does not say what to ask",
        "add `http: { get: \"https://…\" }`",
    ),
    many: ("a probe asks one question", "keep `http` or `db`"),
});

pub(super) static RETRY: MapSchema = MapSchema::new(
    ("`retry`", "retry"),
    "Exponential backoff with full jitter.",
    &[
        field(
            "attempts",
            FieldType::Whole(1, 100),
            "The maximum number of attempts, including the first.",
        ),
        field(
            "delay",
            FieldType::Span(1, YEAR),
            "The upper bound of the first delay; it doubles with every attempt.",
        ),
        field(
            "max_delay",
            FieldType::Span(1, YEAR),
            "The upper bound of every delay.",
        ),
        field(
            "within",
            FieldType::Span(1, YEAR),
            "The maximum time from the first attempt to the last.",
        ),
    ],
)
.renamed(&[("first", "delay"), ("most", "max_delay")]);

pub(super) static ALLOW: MapSchema = MapSchema::new(
    ("`allow`", "allow"),
    "A rule to suppress, and why.",
    &[
        field(
            "code",
            FieldType::Words(Code::rule_names),
            "The code of the rule.",
        )
        .needed("key-party"),
        field(
            "because",
            FieldType::Text,
            "Why it does not apply here. The inventory shows it.",
        )
        .needed("why it does not hold here"),
    ],
);
