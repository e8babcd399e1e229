//! The fields of a request.

use super::super::body::CONNECTION;
use crate::grammar::{FieldType, MapSchema, OneOf, SECOND, field};

const METHODS: &[&str] = &["get", "head", "post", "put", "patch", "delete"];

pub(crate) static SCHEMA: MapSchema = MapSchema::new(
    ("`http`", "http"),
    "One HTTP request.",
    &[
        CONNECTION,
        field("get", FieldType::Holes, "Reads."),
        field("head", FieldType::Holes, "Reads the headers."),
        field("post", FieldType::Holes, "Creates something."),
        field("put", FieldType::Holes, "Replaces what is at the address."),
        field("patch", FieldType::Holes, "Changes what is at the address."),
        field(
            "delete",
            FieldType::Holes,
            "Removes what is at the address.",
        ),
        field("headers", FieldType::Named(&FieldType::Holes), "Headers."),
        field(
            "query",
            FieldType::Named(&FieldType::Holes),
            "Query parameters, appended to the address.",
        ),
        field("json", FieldType::Value, "The body, sent as JSON."),
        field("text", FieldType::Holes, "The body, sent as text."),
        field(
            "form",
            FieldType::Named(&FieldType::Holes),
            "The body, sent as the fields of a form.",
        ),
        field(
            "multipart",
            FieldType::Named(&FieldType::Either(&[
                FieldType::Holes,
                FieldType::Map(&FILE),
            ])),
            "The body, sent in parts: texts, and files from resources.",
        ),
        field(
            "file",
            FieldType::Holes,
            "The body: the bytes of a resource, as `res://…`.",
        ),
        field(
            "pages",
            FieldType::Map(&PAGES),
            "With `get`: reads a paginated response page by page and joins the items.",
        ),
        field(
            "key_as",
            FieldType::Map(&KEY_AS),
            "Where to send the effect's key. Absent: the header `Idempotency-Key`.",
        ),
        field(
            "if_match",
            FieldType::Holes,
            "Sends `If-Match`: the request changes only this version, and may be repeated.",
        ),
        field(
            "timeout",
            FieldType::Span(1, 600 * SECOND),
            "The maximum time of the whole exchange.",
        )
        .default("30s"),
    ],
)
.one_of(&OneOf {
    fields: METHODS,
    none: (
        "`http` does not say what to call",
        "add `post: \"https://…\"`, or get, head, put, patch, delete",
    ),
    many: ("an `http` step makes one call", "split it into two steps"),
});

static FILE: MapSchema = MapSchema::new(
    ("a file", "file"),
    "A part of a body that is a file.",
    &[
        field("file", FieldType::Holes, "The resource, as `res://…`.")
            .needed("\"${{ steps.a.result.resource }}\""),
        field("name", FieldType::Holes, "The name of the file."),
    ],
);

static PAGES: MapSchema = MapSchema::new(
    ("`pages`", "pages"),
    "How to join the pages of a response.",
    &[
        field(
            "items",
            FieldType::Text,
            "The path to the items of a page, such as `data.items`. Absent: the page is the list.",
        ),
        field(
            "cursor",
            FieldType::Text,
            "The path to the next page's cursor, such as `meta.next`. Absent: the `Link` header has it.",
        ),
        field(
            "query",
            FieldType::Text,
            "The query parameter for the cursor.",
        )
        .default("cursor"),
        field(
            "most",
            FieldType::Whole(1, 1_000),
            "The maximum number of pages.",
        )
        .default("100"),
    ],
);

static KEY_AS: MapSchema = MapSchema::new(
    ("`key_as`", "key_as"),
    "Where the destination looks for the key.",
    &[
        field("header", FieldType::Text, "The header."),
        field("field", FieldType::Text, "The field of the JSON body."),
        field("query", FieldType::Text, "The query parameter."),
    ],
)
.one_of(&OneOf {
    fields: &["header", "field", "query"],
    none: (
        "`key_as` does not say where",
        "write `header: x-request-key`, `field:` or `query:`",
    ),
    many: (
        "a key goes to one place",
        "keep one of `header`, `field` and `query`",
    ),
});
