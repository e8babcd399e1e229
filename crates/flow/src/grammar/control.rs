//! What holds for flows and steps alike, and the steps that hold other steps.

use super::{Field, OneOf, Shape, Takes, YEAR, field};
use crate::diagnostic::Code;
use crate::read::names::Place;

pub(super) static RETRY: Shape = Shape::new(
    ("`retry`", "retry"),
    "Exponential backoff with full jitter.",
    &[
        field(
            "attempts",
            Takes::Whole(1, 100),
            "The most attempts in all, the first included.",
        ),
        field(
            "first",
            Takes::Span(1, YEAR),
            "The ceiling of the first delay; it doubles with every attempt.",
        ),
        field(
            "most",
            Takes::Span(1, YEAR),
            "The ceiling that no delay exceeds.",
        ),
        field(
            "within",
            Takes::Span(1, YEAR),
            "The most time from the first attempt to the last.",
        ),
    ],
);

pub(super) static ALLOW: Shape = Shape::new(
    ("`allow`", "allow"),
    "A rule that does not hold here, and why.",
    &[
        field(
            "code",
            Takes::Words(Code::rule_names),
            "The code of the rule.",
        )
        .needed("key-party"),
        field(
            "because",
            Takes::Text,
            "Why it does not hold here. The inventory shows it.",
        )
        .needed("why it does not hold here"),
    ],
);

pub(super) static SWITCH: Shape = Shape::new(
    ("`switch`", "switch"),
    "The steps of the first case that is true.",
    &[
        field(
            "cases",
            Takes::Maps(&CASE),
            "The cases, from the first to the last.",
        )
        .needed("[{ when: …, steps: […] }]"),
        field("default", Takes::Steps, "The steps where no case is true."),
    ],
);

static CASE: Shape = Shape::new(
    ("a case", "case"),
    "One way of a switch.",
    &[
        field(
            "when",
            Takes::Condition(Place::Step),
            "Whether this is the way.",
        )
        .needed("input.kind == \"a\""),
        field("steps", Takes::Steps, "What is done then.").needed("[…]"),
    ],
);

pub(super) static FOREACH: Shape = Shape::new(
    ("`foreach`", "foreach"),
    "The same steps for each item of a list.",
    &[
        field("in", Takes::Expr(Place::Step), "The list.").needed("input.items"),
        field("as", Takes::StepName, "What expressions call the item.").default("item"),
        field(
            "key",
            Takes::Expr(Place::ItemKey),
            "What tells one item from another, whatever its place in the list.",
        ),
        field(
            "parallel",
            Takes::Whole(1, 1_000),
            "How many items are under way together.",
        )
        .default("1"),
        field(
            "on_error",
            Takes::Word(&["stop", "continue", "collect"]),
            "Where an item fails: begin no more and fail; do the others and succeed; or do the others, then fail.",
        )
        .default("stop"),
        field("steps", Takes::Steps, "What is done with each item.").needed("[…]"),
    ],
);

pub(super) static PARALLEL: Shape = Shape::new(
    ("`parallel`", "parallel"),
    "Branches that go their ways together.",
    &[
        field("branches", Takes::Maps(&BRANCH), "The branches.").needed("[{ steps: […] }]"),
        field(
            "join",
            Takes::Word(&["all", "first"]),
            "Which must end: all, or the first that succeeds, and the others are cancelled.",
        )
        .default("all"),
    ],
);

static BRANCH: Shape = Shape::new(
    ("a branch", "branch"),
    "One branch.",
    &[field("steps", Takes::Steps, "What is done in it.").needed("[…]")],
);

pub(super) static FAIL: Shape = Shape::new(
    ("`fail`", "fail"),
    "Ends the run as failed.",
    &[
        field("code", Takes::Label, "A stable word for programs.").default("failed"),
        field("message", Takes::Holes, "What people read.").needed("what went wrong"),
    ],
);

pub(super) static WAIT: Shape = Shape::new(("`wait`", "wait"), "A durable pause.", WAIT_FIELDS)
    .one_of(&OneOf {
        fields: &["for", "until", "callback", "event"],
        none: (
            "`wait` does not say what for",
            "write `for: 1h`, or `callback: true` and `within: 7d`",
        ),
        many: (
            "a wait is for time, for a callback or for an event",
            "make two steps of it",
        ),
    });

const WAIT_FIELDS: &[Field] = &[
    field("for", Takes::Span(1, YEAR), "So much time."),
    field(
        "until",
        Takes::Expr(Place::Step),
        "A point in time, as RFC 3339 text.",
    ),
    field(
        "callback",
        Takes::Truth,
        "A call to `waits.ID.url`; its payload is the step's result.",
    ),
    field(
        "event",
        Takes::Text,
        "An event of that name; its data is the step's result.",
    ),
    field(
        "match",
        Takes::Condition(Place::Event),
        "Which event is meant, over `event`.",
    ),
    field(
        "within",
        Takes::Span(1, YEAR),
        "How long at the most, for a callback or an event.",
    ),
    field(
        "on_timeout",
        Takes::Word(&["fail", "continue"]),
        "What happens where nothing came in time; going on, the result is null.",
    )
    .default("fail"),
];

pub(super) static APPROVAL: Shape = Shape::new(
    ("`approval`", "approval"),
    "A person says yes or no, to exactly what is shown.",
    &[
        field(
            "from",
            Takes::List(&Takes::Text),
            "Who may answer: people or groups.",
        )
        .needed("[finance]"),
        field(
            "show",
            Takes::Value,
            "What is approved; the answer is bound to its digest.",
        ),
        field("within", Takes::Span(1_000, YEAR), "How long at the most."),
        field(
            "escalate",
            Takes::List(&Takes::Text),
            "Who else may answer once half of the time is over.",
        ),
        field(
            "on_timeout",
            Takes::Word(&["reject", "fail", "continue"]),
            "What holds where nobody answered.",
        )
        .default("reject"),
        field(
            "remind",
            Takes::Span(60_000, YEAR),
            "How often people are told again while nobody answered.",
        ),
        field(
            "on_reject",
            Takes::Word(&["fail", "continue"]),
            "What a rejection means for the run; going on, `steps.ID.result.approved` is false.",
        )
        .default("fail"),
        field(
            "login",
            Takes::Truth,
            "Whether a link alone is not enough: deciding then takes a token.",
        )
        .default("true"),
        field(
            "not_starter",
            Takes::Truth,
            "Whether whoever started the run may not answer; a link alone is then not enough.",
        )
        .default("false"),
    ],
);

pub(super) static TASK: Shape = Shape::new(
    ("`task`", "task"),
    "Work for a program of your own, in any language, that takes it from a queue.",
    &[
        field("queue", Takes::Label, "The queue.").needed("resize"),
        field("input", Takes::Value, "What the worker gets."),
        field(
            "within",
            Takes::Span(1_000, YEAR),
            "How long at the most, in all.",
        ),
        field(
            "lease",
            Takes::Span(1_000, YEAR),
            "How long a worker may be silent before another one takes it.",
        )
        .default("1m"),
    ],
);

pub(super) static CALL: Shape = Shape::new(
    ("`call`", "call"),
    "A run of another flow, under a key derived from this one.",
    &[
        field("flow", Takes::FlowName, "The flow.").needed("other-flow"),
        field("input", Takes::Value, "Its input."),
        field(
            "wait",
            Takes::Truth,
            "Whether to wait for its end; its result is then this step's.",
        )
        .default("true"),
    ],
);
