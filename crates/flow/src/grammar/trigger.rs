//! What starts runs.

use super::{DAY, Field, MINUTE, OneOf, Shape, Takes, YEAR, field};
use crate::provider;
use crate::read::names::Place;

pub(super) static TRIGGER: Shape = Shape::new(
    ("`trigger`", "trigger"),
    "The ways in which runs start; at least one.",
    &[
        field("webhook", Takes::Map(&WEBHOOK), "A request to a hook."),
        field("schedule", Takes::Map(&SCHEDULE), "The time."),
        field("event", Takes::Map(&EVENT), "An event that a flow emitted."),
        field("api", Takes::Map(&START), "A program, through the API."),
        field("manual", Takes::Map(&START), "A person."),
    ],
)
.any_of(&[
    &["webhook"],
    &["schedule"],
    &["event"],
    &["api"],
    &["manual"],
]);

/// The words that `provider` takes.
fn providers() -> Vec<&'static str> {
    provider::all().iter().map(|known| known.name).collect()
}

const MISMATCH: Field = field(
    "mismatch",
    Takes::Word(&["reject", "accept", "quarantine"]),
    "A known key with another payload: refused, taken as a repeat, or kept for a person.",
)
.default("reject");

const REPLAY: Field = field(
    "replay",
    Takes::Word(&["hold", "accept"]),
    "The same signed body under another key, where the signature does not cover the key: held for a person, or a run of its own.",
)
.default("hold");

const ON_REPEAT: Field = field(
    "on_repeat",
    Takes::Word(&["answer", "resume"]),
    "A repeat of a failed run: gets the stored failure, or resumes the run behind its ledger.",
)
.default("answer");

const ORDER: Field = field(
    "order",
    Takes::Map(&ORDER_SHAPE),
    "Which delivery about one object is newer; an older one that comes later is recorded only.",
);

static ORDER_SHAPE: Shape = Shape::new(
    ("`order`", "order"),
    "Deliveries about one object, in order.",
    &[
        field("object", Takes::Expr(Place::Start), "The object.").needed("input.id"),
        field(
            "version",
            Takes::Expr(Place::Start),
            "Its version: a number or a time that grows.",
        )
        .needed("input.version"),
    ],
);

static WEBHOOK: Shape = Shape::new(
    ("`webhook`", "webhook"),
    "A hook at /hooks/NAMESPACE/PATH.",
    &[
        field(
            "path",
            Takes::FlowName,
            "The last part of the address. Absent: the flow's name.",
        ),
        field(
            "provider",
            Takes::Words(providers),
            "Who sends. Brings the key, the signature and the redelivery window with it.",
        ),
        field(
            "secret",
            Takes::Label,
            "The secret that the signature is made with.",
        ),
        field(
            "auth",
            Takes::Either(&[Takes::Word(&["none"]), Takes::Map(&AUTH)]),
            "How a delivery proves where it comes from. `none`: not at all.",
        ),
        field(
            "key",
            Takes::Expr(Place::Key),
            "What two deliveries of one intent have in common. Needed without a provider.",
        ),
        field(
            "when",
            Takes::Condition(Place::Trigger),
            "Deliveries for which this is false start nothing.",
        ),
        ORDER,
        MISMATCH,
        REPLAY,
        ON_REPEAT,
    ],
)
.any_of(&[&["provider"], &["key", "auth"]]);

static AUTH: Shape = Shape::new(
    ("`auth`", "auth"),
    "How a delivery proves where it comes from.",
    &[
        field("hmac", Takes::Map(&HMAC), "A signature over the body."),
        field("token", Takes::Map(&TOKEN), "A shared secret in a header."),
    ],
)
.one_of(&OneOf {
    fields: &["hmac", "token"],
    none: (
        "`auth` does not say how",
        "write `auth: none`, `hmac: {…}` or `token: {…}`",
    ),
    many: (
        "a delivery proves itself in one way",
        "keep `hmac` or `token`",
    ),
});

static HMAC: Shape = Shape::new(
    ("`hmac`", "hmac"),
    "HMAC over the raw body; over `COVERED.TIME.BODY` where headers or a time are signed as well.",
    &[
        field("header", Takes::Text, "The header that carries it.").needed("x-signature"),
        field("algorithm", Takes::Word(&["sha256", "sha512"]), "The hash.").default("sha256"),
        field(
            "encoding",
            Takes::Word(&["hex", "base64"]),
            "How it is written.",
        )
        .default("hex"),
        field(
            "prefix",
            Takes::Text,
            "What stands before it, such as `sha256=`.",
        ),
        field(
            "timestamp",
            Takes::Text,
            "The header with the time of sending in seconds since 1970, where it is signed as well.",
        ),
        field(
            "tolerance",
            Takes::Span(1_000, DAY),
            "How far that time may be off.",
        )
        .default("5m"),
        field(
            "covers",
            Takes::List(&Takes::Text),
            "Headers whose values are signed as well, in this order. A value with a dot is refused.",
        ),
    ],
);

static TOKEN: Shape = Shape::new(
    ("`token`", "token"),
    "A shared secret in a header.",
    &[field(
        "header",
        Takes::Text,
        "The header that carries it; in `authorization` after `Bearer`.",
    )
    .default("authorization")],
);

static SCHEDULE: Shape = Shape::new(
    ("`schedule`", "schedule"),
    "Runs by the clock. The nominal time of a tick is its key, so it fires once.",
    &[
        field(
            "cron",
            Takes::Text,
            "Five fields: minute, hour, day, month, weekday.",
        ),
        field(
            "every",
            Takes::Span(MINUTE, YEAR),
            "A run each so often, counted from 1970-01-01T00:00:00Z.",
        ),
        field("zone", Takes::Text, "The time zone that `cron` is read in.").default("UTC"),
        field(
            "missed",
            Takes::Word(&["skip", "once", "all"]),
            "Ticks that passed while nothing ran: none, the last, or each of them starts a run.",
        )
        .default("once"),
        field(
            "most",
            Takes::Whole(1, 1_000),
            "With `missed: all`: the most runs that are caught up on; the latest ticks have them.",
        )
        .default("100"),
        field("input", Takes::Constant, "The input of each run."),
    ],
)
.one_of(&OneOf {
    fields: &["cron", "every"],
    none: (
        "`schedule` does not say when",
        "write `cron: \"0 3 * * *\"` or `every: 1h`",
    ),
    many: ("a schedule has one rhythm", "keep `cron` or `every`"),
});

static EVENT: Shape = Shape::new(
    ("`event`", "event"),
    "Runs by an event that a flow of the namespace emitted. Its delivery key is the key.",
    &[
        field("name", Takes::Text, "The event.").needed("order.paid"),
        field(
            "key",
            Takes::Expr(Place::Key),
            "Another key than the one that the event carries.",
        ),
        field(
            "when",
            Takes::Condition(Place::Trigger),
            "Events for which this is false start nothing.",
        ),
        ORDER,
        MISMATCH,
        ON_REPEAT,
    ],
);

static START: Shape = Shape::new(
    ("a start", "start"),
    "A start by a program or a person.",
    &[
        field(
            "key",
            Takes::Expr(Place::Key),
            "What two starts of one intent have in common. Absent: the caller names it.",
        ),
        MISMATCH,
        ON_REPEAT,
    ],
);
