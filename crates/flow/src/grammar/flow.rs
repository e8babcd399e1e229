//! The file as a whole.

use super::control::{ALLOW, RETRY};
use super::trigger::TRIGGER;
use super::{DAY, Field, MINUTE, Shape, Takes, YEAR, field};
use crate::read::names::Place;

pub(crate) static FLOW: Shape = Shape::new(
    ("a flow", "flow"),
    "One automation: what starts it, what it does, and what a repeat means.",
    FIELDS,
);

const FIELDS: &[Field] = &[
    field(
        "flow",
        Takes::FlowName,
        "The name: a letter, then up to 62 of a-z, 0-9 and '-'.",
    )
    .needed("name"),
    field("about", Takes::Text, "What the flow is for, in a sentence."),
    field("trigger", Takes::Map(&TRIGGER), "What starts runs.").needed("{ api: {} }"),
    field(
        "keep",
        Takes::Span(MINUTE, YEAR),
        "How long a key is remembered after its run has ended. A repeat after that is a new run.",
    )
    .default("30d"),
    field(
        "overlap",
        Takes::Map(&OVERLAP),
        "What happens to a run while another one of the same object is under way.",
    ),
    field("limit", Takes::Map(&LIMIT), "How many runs, and how fast."),
    field(
        "retry",
        Takes::Map(&RETRY),
        "How often a failed attempt is made again, for steps that do not say otherwise.",
    ),
    field(
        "env",
        Takes::Named(&Takes::Constant),
        "Constants, read as `env.NAME`.",
    ),
    field(
        "input_schema",
        Takes::Constant,
        "What the input looks like: JSON Schema, or `{ from_example: NAME }`.",
    ),
    field(
        "steps",
        Takes::Steps,
        "What a run does, from the first to the last.",
    )
    .needed("[…]"),
    field("result", Takes::Expr(Place::Result), "What the run yields."),
    field(
        "on_failure",
        Takes::Word(&["stop", "undo"]),
        "What becomes of done steps where a run fails: they stand, or are undone in reverse.",
    )
    .default("stop"),
    field(
        "examples",
        Takes::Maps(&EXAMPLE),
        "Deliveries to check and to rehearse with.",
    ),
    field(
        "allow",
        Takes::Maps(&ALLOW),
        "Rules that the author disagrees with, each with a reason.",
    ),
];

static OVERLAP: Shape = Shape::new(
    ("`overlap`", "overlap"),
    "Runs of one object, one at a time.",
    &[
        field(
            "key",
            Takes::Expr(Place::Start),
            "The object. Absent: the flow as a whole.",
        ),
        field(
            "policy",
            Takes::Word(&["queue", "skip", "join", "replace"]),
            "What becomes of the later run.",
        )
        .needed("queue"),
    ],
);

static LIMIT: Shape = Shape::new(
    ("`limit`", "limit"),
    "How many runs, and how fast.",
    &[
        field(
            "at_once",
            Takes::Whole(1, 100_000),
            "The most runs under way together.",
        ),
        field(
            "rate",
            Takes::Whole(1, 1_000_000),
            "The most runs that start within `per`.",
        ),
        field(
            "per",
            Takes::Span(1_000, DAY),
            "The time that `rate` counts in.",
        )
        .default("1m"),
        field(
            "key",
            Takes::Expr(Place::Start),
            "What the limit is counted by. Absent: the flow as a whole.",
        ),
        field(
            "debounce",
            Takes::Span(1, DAY),
            "A run starts once its object has been quiet for this long.",
        ),
        field(
            "priority",
            Takes::Whole(-10, 10),
            "Which flow goes first where several are due; higher is sooner.",
        )
        .default("0"),
    ],
);

static EXAMPLE: Shape = Shape::new(
    ("an example", "example"),
    "One delivery, and what the world answers to it.",
    &[
        field("name", Takes::Label, "What the example is called.").needed("paid"),
        field("about", Takes::Text, "What it shows."),
        field("input", Takes::Constant, "The payload.").needed("{ id: a1 }"),
        field(
            "headers",
            Takes::Named(&Takes::Constant),
            "The headers of the delivery.",
        ),
        field(
            "query",
            Takes::Named(&Takes::Constant),
            "The query parameters of the delivery.",
        ),
        field(
            "answers",
            Takes::Named(&Takes::Constant),
            "By step: what the destination answers.",
        ),
        field(
            "result",
            Takes::Constant,
            "What the run yields, for a rehearsal to compare.",
        ),
    ],
);
