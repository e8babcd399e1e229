//! What every step can have, and what it can do: one field for each kind of the registry.

use crate::diagnostic::Code;
use crate::grammar::{DAY, Field, FieldType, MapSchema, OneOf, Place, YEAR, field};
use crate::steps::{EffectKind, KINDS, StepKind, db, http};

pub(crate) static STEP: MapSchema =
    MapSchema::new(("a step", "step"), "One thing that a run does.", &FIELDS).one_of(&OneOf {
        fields: &NAMES,
        none: ("this step does nothing", "add one of: {fields}"),
        many: ("a step does one thing", "make two steps of it"),
    });

static UNDO: MapSchema = MapSchema::new(
    ("`undo`", "undo"),
    "What takes an effect back: an effect of its own, with its own key.",
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
        "What the step is called; its outcome is read as `steps.ID`.",
    )
    .needed("name"),
    field("about", FieldType::Text, "What the step is for."),
    field(
        "if",
        FieldType::Condition(Place::Step),
        "The step is skipped where this is false.",
    ),
];

const TAIL: &[Field] = &[
    field(
        "does",
        FieldType::Word(EffectKind::WORDS),
        "What kind of change it is, where that does not follow from the call.",
    ),
    field(
        "key",
        FieldType::Expr(Place::Step),
        "A business key of the effect, instead of one derived from run and step.",
    ),
    field(
        "scope",
        FieldType::Word(&["flow", "namespace"]),
        "How far `key` holds.",
    )
    .default("flow"),
    field(
        "guard",
        FieldType::Word(&["transaction", "key", "natural", "probe", "review", "repeat"]),
        "How the effect is made safe to meet twice.",
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
        "With `guard: repeat`: why a second time does no harm.",
    ),
    field(
        "probe",
        FieldType::Map(&PROBE),
        "With `guard: probe`: the read that tells whether it happened.",
    ),
    field(
        "result",
        FieldType::Expr(Place::Response),
        "What is kept of the answer, over `response`, which has what its kind of step answers: docs/shapes.md.",
    ),
    field(
        "external_id",
        FieldType::Expr(Place::ExternalId),
        "What the destination calls it, over `result`.",
    ),
    field(
        "undo",
        FieldType::Map(&UNDO),
        "What takes the effect back, where `on_failure: undo` or a person asks for it.",
    ),
    field(
        "retry",
        FieldType::Map(&RETRY),
        "How often a failed attempt is made again.",
    ),
    field(
        "allow",
        FieldType::Maps(&ALLOW),
        "Rules that do not hold for this step, each with a reason.",
    ),
];

static PROBE: MapSchema = MapSchema::new(
    ("`probe`", "probe"),
    "The read that tells whether an effect happened.",
    &[
        field(
            "http",
            FieldType::Map(&http::SCHEMA),
            "What is asked: a `get` or a `head`.",
        ),
        field("db", FieldType::Map(&db::SCHEMA), "What is asked: a `query`."),
        field(
            "found",
            FieldType::Condition(Place::Probe),
            "Whether it happened, over `probe`: `status`, `headers`, `json`, `text`; by `db`: `rows`, `records`.",
        )
        .needed("probe.json.size() > 0"),
        field(
            "result",
            FieldType::Expr(Place::Probe),
            "The step's result where it happened, over `probe`: `status`, `headers`, `json`, `text`; by `db`: `rows`, `records`.",
        ),
        field(
            "after",
            FieldType::Span(0, DAY),
            "Quiet time before the first question.",
        )
        .default("5s"),
        field(
            "because",
            FieldType::Text,
            "Why nothing can arrive later than `after`: then a first answer of *absent* is believed.",
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
            "The most attempts in all, the first included.",
        ),
        field(
            "delay",
            FieldType::Span(1, YEAR),
            "The ceiling of the first delay; it doubles with every attempt.",
        ),
        field(
            "max_delay",
            FieldType::Span(1, YEAR),
            "The ceiling that no delay exceeds.",
        ),
        field(
            "within",
            FieldType::Span(1, YEAR),
            "The most time from the first attempt to the last.",
        ),
    ],
)
.renamed(&[("first", "delay"), ("most", "max_delay")]);

pub(super) static ALLOW: MapSchema = MapSchema::new(
    ("`allow`", "allow"),
    "A rule that does not hold here, and why.",
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
            "Why it does not hold here. The inventory shows it.",
        )
        .needed("why it does not hold here"),
    ],
);
