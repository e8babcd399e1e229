//! What a step can do to the outside world.

use super::http::HTTP;
use super::{DAY, Field, MINUTE, OneOf, SECOND, Shape, Takes, YEAR, field};
use crate::read::names::Place;

pub(super) const CONNECTION: Field = field(
    "connection",
    Takes::Label,
    "The connection: address, sign-in and limits are kept with it.",
);

pub(super) static PROBE: Shape = Shape::new(
    ("`probe`", "probe"),
    "The read that tells whether an effect happened.",
    &[
        field(
            "http",
            Takes::Map(&HTTP),
            "What is asked: a `get` or a `head`.",
        ),
        field("db", Takes::Map(&DB), "What is asked: a `query`."),
        field(
            "found",
            Takes::Condition(Place::Probe),
            "Whether it happened, over `probe`: `status`, `headers`, `json`, `text`; by `db`: `rows`, `records`.",
        )
        .needed("probe.json.size() > 0"),
        field(
            "result",
            Takes::Expr(Place::Probe),
            "The step's result where it happened, over `probe`: `status`, `headers`, `json`, `text`; by `db`: `rows`, `records`.",
        ),
        field(
            "after",
            Takes::Span(0, DAY),
            "Quiet time before the first question.",
        )
        .default("5s"),
        field(
            "because",
            Takes::Text,
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

pub(super) static UNDO: Shape = Shape::new(
    ("`undo`", "undo"),
    "What takes an effect back: an effect of its own, with its own key.",
    &[
        field("http", Takes::Map(&HTTP), "Sends one HTTP request."),
        field("db", Takes::Map(&DB), "Runs one SQL statement."),
        field("kv", Takes::Map(&KV), "Changes an entry that flows share."),
        field("notify", Takes::Map(&NOTIFY), "Sends a message to people."),
        field(
            "ssh",
            Takes::Map(&SSH),
            "Runs a command on another machine.",
        ),
        field("emit", Takes::Map(&EMIT), "Tells other flows."),
    ],
)
.one_of(&OneOf {
    fields: &["http", "db", "kv", "notify", "ssh", "emit"],
    none: (
        "`undo` does nothing",
        "add `http: { delete: … }`, or db, kv, notify, ssh, emit",
    ),
    many: ("`undo` does one thing", "keep one of them"),
});

pub(super) static DB: Shape = Shape::new(
    ("`db`", "db"),
    "One SQL statement; a change commits together with its marker.",
    &[
        Field {
            needed: true,
            example: "warehouse",
            ..CONNECTION
        },
        field(
            "query",
            Takes::Text,
            "A statement that reads. Values are $1, $2, …",
        ),
        field(
            "execute",
            Takes::Text,
            "A statement that changes. Values are $1, $2, …",
        ),
        field(
            "values",
            Takes::List(&Takes::Value),
            "The values, in order.",
        ),
        field(
            "rows",
            Takes::Whole(0, 10_000),
            "How many rows a change must meet; otherwise it is rolled back and fails.",
        ),
        field(
            "timeout",
            Takes::Span(1, 600 * SECOND),
            "How long it may take.",
        )
        .default("30s"),
    ],
)
.one_of(&OneOf {
    fields: &["query", "execute"],
    none: (
        "`db` does not say what to run",
        "add `query: SELECT …` or `execute: INSERT …`",
    ),
    many: ("a `db` step runs one statement", "make two steps of it"),
});

pub(super) static KV: Shape = Shape::new(
    ("`kv`", "kv"),
    "One operation on an entry that the flows of a namespace share.",
    &[
        field("get", Takes::Holes, "Reads the entry."),
        field("set", Takes::Holes, "Writes the entry."),
        field(
            "add",
            Takes::Holes,
            "Adds to the entry, which is a whole number.",
        ),
        field("delete", Takes::Holes, "Removes the entry."),
        field(
            "lock",
            Takes::Holes,
            "Takes the lock of that name, or keeps it; the step is retried while another run has it.",
        ),
        field("unlock", Takes::Holes, "Releases the lock of that name."),
        field("value", Takes::Value, "With `set`: what is written."),
        field(
            "if_absent",
            Takes::Truth,
            "With `set`: only where nothing is there.",
        ),
        field(
            "expect",
            Takes::Value,
            "With `set`: only where this is there.",
        ),
        field(
            "by",
            Takes::Whole(-9_007_199_254_740_991, 9_007_199_254_740_991),
            "With `add`: how much. Absent: 1.",
        ),
        field(
            "ttl",
            Takes::Span(SECOND, YEAR),
            "After how long the entry vanishes.",
        ),
        field(
            "lease",
            Takes::Span(SECOND, DAY),
            "With `lock`: after how long it is free again, unless it is taken again or released.",
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

pub(super) static LLM: Shape = Shape::new(
    ("`llm`", "llm"),
    "One question to a language model. The answer is kept: the same question is asked once.",
    &[
        Field {
            needed: true,
            example: "model",
            ..CONNECTION
        },
        field(
            "model",
            Takes::Text,
            "The model; otherwise the connection's.",
        ),
        field("system", Takes::Holes, "What the model is told first."),
        field("prompt", Takes::Holes, "The question.").needed("\"Classify: ${{ input.text }}\""),
        field("schema", Takes::Constant, "JSON Schema of the answer."),
        field(
            "max_tokens",
            Takes::Whole(1, 1_000_000),
            "The longest answer.",
        ),
        field(
            "cache",
            Takes::Word(&["run", "flow", "namespace"]),
            "Where the same question gets the same answer.",
        )
        .default("run"),
        field(
            "timeout",
            Takes::Span(1, 600 * SECOND),
            "How long it may take.",
        )
        .default("2m"),
    ],
);

pub(super) static NOTIFY: Shape = Shape::new(
    ("`notify`", "notify"),
    "One message to people, with a stable message id.",
    &[
        Field {
            needed: true,
            example: "mail",
            ..CONNECTION
        },
        field(
            "to",
            Takes::Either(&[Takes::Holes, Takes::List(&Takes::Holes)]),
            "Whom it goes to.",
        )
        .needed("\"${{ input.email }}\""),
        field("subject", Takes::Holes, "The subject."),
        field("text", Takes::Holes, "The message.").needed("…"),
        field("html", Takes::Holes, "The message as HTML."),
    ],
);

pub(super) static SSH: Shape = Shape::new(
    ("`ssh`", "ssh"),
    "One command on another machine. Each argument is quoted; there is no shell text.",
    &[
        Field {
            needed: true,
            example: "builder",
            ..CONNECTION
        },
        field(
            "command",
            Takes::List(&Takes::Holes),
            "The program and its arguments.",
        )
        .needed("[make, release]"),
        field("stdin", Takes::Holes, "What it reads."),
        field(
            "env",
            Takes::Named(&Takes::Holes),
            "Variables that it sees.",
        ),
        field(
            "marker",
            Takes::Truth,
            "A marker on the other machine tells what became of it: the command runs once.",
        ),
        field(
            "detach",
            Takes::Truth,
            "The command goes on by itself once it was started; no connection is held.",
        ),
        field(
            "callback",
            Takes::Holes,
            "With `detach`: the address that is called when the command ends.",
        ),
        field(
            "timeout",
            Takes::Span(1, 60 * MINUTE),
            "How long it may take.",
        )
        .default("5m"),
    ],
);

pub(super) static PERSIST: Shape = Shape::new(
    ("`persist`", "persist"),
    "A value that is kept by reference, as `res://…`.",
    &[
        field("value", Takes::Value, "The value.").needed("\"${{ steps.a.result }}\""),
        field("name", Takes::Holes, "What people call it."),
        field("type", Takes::Text, "Its media type.").default("application/json"),
        field("keep", Takes::Span(MINUTE, YEAR), "How long it is kept.").default("30d"),
    ],
);

pub(super) static EMIT: Shape = Shape::new(
    ("`emit`", "emit"),
    "An event that commits with the run and is delivered with a delivery key.",
    &[
        field("event", Takes::Text, "The event.").needed("order.paid"),
        field("data", Takes::Value, "What it carries."),
    ],
);
