//! The fields of a webhook.

use super::super::fields::{MISMATCH, ON_REPEAT, ORDER};
use crate::grammar::{DAY, Field, FieldType, MapSchema, OneOf, Place, field};
use crate::provider;

pub(super) static SCHEMA: MapSchema = MapSchema::new(
    ("`webhook`", "webhook"),
    "A hook at /hooks/NAMESPACE/PATH.",
    &[
        field(
            "path",
            FieldType::FlowName,
            "The last part of the address. Absent: the flow's name.",
        ),
        field(
            "provider",
            FieldType::Words(providers),
            "Who sends. Brings the key, the signature and the redelivery window with it.",
        ),
        field(
            "secret",
            FieldType::Label,
            "The secret that the signature is made with.",
        ),
        field(
            "auth",
            FieldType::Either(&[FieldType::Word(&["none"]), FieldType::Map(&AUTH)]),
            "How a delivery proves where it comes from. `none`: not at all.",
        ),
        field(
            "key",
            FieldType::Expr(Place::Key),
            "What two deliveries of one intent have in common. Needed without a provider.",
        ),
        field(
            "when",
            FieldType::Condition(Place::Trigger),
            "Deliveries for which this is false start nothing.",
        ),
        ORDER,
        MISMATCH,
        REPLAY,
        ON_REPEAT,
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
    "The same signed body under another key, where the signature does not cover the key: held for a person, or a run of its own.",
)
.default("hold");

static AUTH: MapSchema = MapSchema::new(
    ("`auth`", "auth"),
    "How a delivery proves where it comes from.",
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
        "a delivery proves itself in one way",
        "keep `hmac` or `token`",
    ),
});

static HMAC: MapSchema = MapSchema::new(
    ("`hmac`", "hmac"),
    "HMAC over the raw body; over `COVERED.TIME.BODY` where headers or a time are signed as well.",
    &[
        field("header", FieldType::Text, "The header that carries it.").needed("x-signature"),
        field(
            "algorithm",
            FieldType::Word(&["sha256", "sha512"]),
            "The hash.",
        )
        .default("sha256"),
        field(
            "encoding",
            FieldType::Word(&["hex", "base64"]),
            "How it is written.",
        )
        .default("hex"),
        field(
            "prefix",
            FieldType::Text,
            "What stands before it, such as `sha256=`.",
        ),
        field(
            "timestamp",
            FieldType::Text,
            "The header with the time of sending in seconds since 1970, where it is signed as well.",
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
        "The header that carries it; in `authorization` after `Bearer`.",
    )
    .default("authorization")],
);
