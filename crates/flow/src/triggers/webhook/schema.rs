//! The fields of a webhook.

use super::super::fields::{MISMATCH, ON_REPEAT, ORDER};
use crate::grammar::{DAY, Field, FieldType, MINUTE, MapSchema, OneOf, Place, SECOND, field};
use crate::provider;

pub(super) static SCHEMA: MapSchema = MapSchema::new(
    ("`webhook`", "webhook"),
    "A webhook at /hooks/NAMESPACE/PATH.",
    &[
        field(
            "path",
            FieldType::FlowName,
            "The last part of the address. Absent: the flow's name.",
        ),
        field(
            "provider",
            FieldType::Words(providers),
            "The preset of the sender. It sets the key, the signature and the redelivery window.",
        ),
        field(
            "secret",
            FieldType::Label,
            "The secret for the signature or the token.",
        ),
        field(
            "auth",
            FieldType::Either(&[FieldType::Word(&["none"]), FieldType::Map(&AUTH)]),
            "How Semel authenticates a delivery. `none`: not at all.",
        ),
        field(
            "key",
            FieldType::Expr(Place::Key),
            "The key: what two deliveries of one intent have in common. Required without a provider.",
        ),
        field(
            "when",
            FieldType::Condition(Place::Trigger),
            "Deliveries for which this is false start no run.",
        ),
        ORDER,
        MISMATCH,
        REPLAY,
        ON_REPEAT,
        RESPOND,
        WITHIN,
    ],
)
.any_of(&[&["provider"], &["key", "auth"]]);

/// The words that `provider` takes.
fn providers() -> Vec<&'static str> {
    provider::all().iter().map(|known| known.name).collect()
}

const REPLAY: Field = field(
    "replay",
    FieldType::Word(&["hold", "accept"]),
    "The same signed body under another key, if the signature does not cover the key: held for an operator, or a run of its own.",
)
.default("hold");

const RESPOND: Field = field(
    "respond",
    FieldType::Word(&["result"]),
    "Hold the response until the run ends, and respond with its result. Absent: 202 as soon as the delivery is committed.",
);

const WITHIN: Field = field(
    "within",
    FieldType::Span(SECOND, MINUTE),
    "How long the response is held for `respond`; then it is 202 with the run.",
)
.default("10s");

static AUTH: MapSchema = MapSchema::new(
    ("`auth`", "auth"),
    "How Semel authenticates a delivery.",
    &[
        field("hmac", FieldType::Map(&HMAC), "A signature over the body."),
        field(
            "token",
            FieldType::Map(&TOKEN),
            "A shared secret in a header.",
        ),
    ],
)
.one_of(&OneOf {
    fields: &["hmac", "token"],
    none: (
        "`auth` does not say how",
        "write `auth: none`, `hmac: {…}` or `token: {…}`",
    ),
    many: (
        "a webhook authenticates deliveries in one way",
        "keep `hmac` or `token`",
    ),
});

static HMAC: MapSchema = MapSchema::new(
    ("`hmac`", "hmac"),
    "HMAC over the raw body; over `COVERED.TIME.BODY` if headers or a time are signed as well.",
    &[
        field("header", FieldType::Text, "The header with the signature.").needed("x-signature"),
        field(
            "algorithm",
            FieldType::Word(&["sha256", "sha512"]),
            "The hash.",
        )
        .default("sha256"),
        field(
            "encoding",
            FieldType::Word(&["hex", "base64"]),
            "The encoding of the signature.",
        )
        .default("hex"),
        field(
            "prefix",
            FieldType::Text,
            "The prefix of the signature, such as `sha256=`.",
        ),
        field(
            "timestamp",
            FieldType::Text,
            "The header with the time of sending in seconds since 1970, if it is signed as well.",
        ),
        field(
            "tolerance",
            FieldType::Span(1_000, DAY),
            "How far that time may be off.",
        )
        .default("5m"),
        field(
            "covers",
            FieldType::List(&FieldType::Text),
            "Headers whose values are signed as well, in this order. A value with a dot is refused.",
        ),
    ],
);

static TOKEN: MapSchema = MapSchema::new(
    ("`token`", "token"),
    "A shared secret in a header.",
    &[field(
        "header",
        FieldType::Text,
        "The header with the secret; in `authorization` after `Bearer`.",
    )
    .default("authorization")],
);
