//! The file as a whole.

use super::step::{ALLOW, RETRY};
use crate::grammar::{DAY, Field, FieldType, MINUTE, MapSchema, Place, YEAR, field};
use crate::reconcile::RECONCILE;
use crate::triggers::TRIGGER;

pub(crate) static FLOW: MapSchema = MapSchema::new(
    ("a flow", "flow"),
    "A workflow: what starts it, what it does, and how it treats repeats.",
    FIELDS,
);

const FIELDS: &[Field] = &[
    field(
        "flow",
        FieldType::FlowName,
        "The name: a letter, then up to 62 of a-z, 0-9 and '-'.",
    )
    .needed("name"),
    field(
        "about",
        FieldType::Text,
        "The purpose of the flow, in a sentence.",
    ),
    field("trigger", FieldType::Map(&TRIGGER), "What starts runs.").needed("{ api: {} }"),
    field(
        "reconcile",
        FieldType::Map(&RECONCILE),
        "Compares what exists at the source with the runs of this flow, and starts what no delivery brought.",
    ),
    field(
        "keep",
        FieldType::Either(KEEP_FORMS),
        "How long a key is remembered after its run has ended. A repeat after that is a new run behind the same ledger.",
    )
    .default("30d"),
    field(
        "history",
        FieldType::Span(DAY, TEN_YEARS),
        "How long an ended run is kept, with its journal and effects: at least `keep`. The namespace's or the server's setting if it is not given.",
    ),
    field(
        "overlap",
        FieldType::Map(&OVERLAP),
        "What happens to a run while another run of the same object is active.",
    ),
    field(
        "limit",
        FieldType::Map(&LIMIT),
        "How many runs, and how fast.",
    ),
    field(
        "retry",
        FieldType::Map(&RETRY),
        "How often Semel retries a failed attempt, for steps without their own `retry`.",
    ),
    field(
        "env",
        FieldType::Named(&FieldType::Constant),
        "Constants, read as `env.NAME`.",
    ),
    field(
        "input_schema",
        FieldType::Constant,
        "What the input looks like: JSON Schema, or `{ from_example: NAME }`.",
    ),
    field(
        "steps",
        FieldType::Steps,
        "The steps of a run, in order.",
    )
    .needed("[…]"),
    field(
        "result",
        FieldType::Expr(Place::Result),
        "The result of the run.",
    ),
    field(
        "on_failure",
        FieldType::Word(&["stop", "undo"]),
        "What happens to completed steps when a run fails: they stay, or are compensated in reverse.",
    )
    .default("stop"),
    field(
        "examples",
        FieldType::Maps(&EXAMPLE),
        "Deliveries to check and to rehearse with.",
    ),
    field(
        "allow",
        FieldType::Maps(&ALLOW),
        "Rules to suppress, each with a reason.",
    ),
];

/// The longest time that runs are kept.
const TEN_YEARS: u64 = 10 * YEAR;

static KEEP_FORMS: &[FieldType] = &[FieldType::Span(MINUTE, YEAR), FieldType::Map(&KEEP)];

static KEEP: MapSchema = MapSchema::new(
    ("`keep`", "keep"),
    "How long a key is remembered, and what it means when it comes back after that.",
    &[
        field(
            "for",
            FieldType::Span(MINUTE, YEAR),
            "How long a key is remembered after its run has ended.",
        )
        .needed("30d"),
        field(
            "then",
            FieldType::Word(&["same", "new"]),
            "What the key means after that: the same intent, whose done effects are not repeated, or a new one.",
        )
        .default("same"),
    ],
);

static OVERLAP: MapSchema = MapSchema::new(
    ("`overlap`", "overlap"),
    "Runs of one object, one at a time.",
    &[
        field(
            "key",
            FieldType::Expr(Place::Start),
            "The object. Absent: the flow as a whole.",
        ),
        field(
            "policy",
            FieldType::Word(&["queue", "skip", "join", "replace"]),
            "What happens to the later run.",
        )
        .needed("queue"),
    ],
);

static LIMIT: MapSchema = MapSchema::new(
    ("`limit`", "limit"),
    "How many runs, and how fast.",
    &[
        field(
            "concurrency",
            FieldType::Whole(1, 100_000),
            "The maximum number of runs at once.",
        ),
        field(
            "rate",
            FieldType::Whole(1, 1_000_000),
            "The maximum number of runs that start within `per`.",
        ),
        field("per", FieldType::Span(1_000, DAY), "The period of `rate`.").default("1m"),
        field(
            "key",
            FieldType::Expr(Place::Start),
            "What the limit applies to. Absent: the flow as a whole.",
        ),
        field(
            "debounce",
            FieldType::Span(1, DAY),
            "A run starts once its object has been quiet for this long.",
        ),
        field(
            "priority",
            FieldType::Whole(-10, 10),
            "Which flow goes first if several are due; higher is sooner.",
        )
        .default("0"),
    ],
)
.renamed(&[("at_once", "concurrency")]);

static EXAMPLE: MapSchema = MapSchema::new(
    ("an example", "example"),
    "One delivery, and what the destinations return.",
    &[
        field("name", FieldType::Label, "The name of the example.").needed("paid"),
        field("about", FieldType::Text, "What it shows."),
        field("input", FieldType::Constant, "The payload.").needed("{ id: a1 }"),
        field(
            "item",
            FieldType::Constant,
            "The same thing as `reconcile` lists it. Absent: as the payload, if `reconcile.input` is `item`.",
        ),
        field(
            "headers",
            FieldType::Named(&FieldType::Constant),
            "The headers of the delivery.",
        ),
        field(
            "query",
            FieldType::Named(&FieldType::Constant),
            "The query parameters of the delivery.",
        ),
        field(
            "answers",
            FieldType::Named(&FieldType::Constant),
            "By step: what the destination or the person answers. `STEP.undo` answers for its compensation, `STEP.probe: { absent, found }` for its probe.",
        ),
        field(
            "result",
            FieldType::Constant,
            "The expected result of the run, for a rehearsal to compare.",
        ),
        field(
            "fails",
            FieldType::Text,
            "The code of the fault that the run is expected to fail with. Absent: a rehearsal expects it to succeed.",
        ),
    ],
);
