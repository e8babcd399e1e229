//! One HTTP request.

use super::action::CONNECTION;
use super::{OneOf, SECOND, Shape, Takes, field};

const METHODS: &[&str] = &["get", "head", "post", "put", "patch", "delete"];

pub(super) static HTTP: Shape = Shape::new(
    ("`http`", "http"),
    "One HTTP request.",
    &[
        CONNECTION,
        field("get", Takes::Holes, "Reads."),
        field("head", Takes::Holes, "Reads the headers."),
        field("post", Takes::Holes, "Asks for something new."),
        field("put", Takes::Holes, "Replaces what is at the address."),
        field("patch", Takes::Holes, "Changes what is at the address."),
        field("delete", Takes::Holes, "Removes what is at the address."),
        field("headers", Takes::Named(&Takes::Holes), "Headers."),
        field(
            "query",
            Takes::Named(&Takes::Holes),
            "Parameters that are appended to the address.",
        ),
        field("json", Takes::Value, "The body, sent as JSON."),
        field("text", Takes::Holes, "The body, sent as text."),
        field(
            "form",
            Takes::Named(&Takes::Holes),
            "The body, sent as the fields of a form.",
        ),
        field(
            "multipart",
            Takes::Named(&Takes::Either(&[Takes::Holes, Takes::Map(&FILE)])),
            "The body, sent in parts: texts, and files from resources.",
        ),
        field(
            "file",
            Takes::Holes,
            "The body: the bytes of a resource, as `res://…`.",
        ),
        field(
            "pages",
            Takes::Map(&PAGES),
            "With `get`: the pages of an answer are read one after another and put together.",
        ),
        field(
            "key_as",
            Takes::Map(&KEY_AS),
            "Where the effect's key goes. Absent: the header `Idempotency-Key`.",
        ),
        field(
            "if_match",
            Takes::Holes,
            "Sends `If-Match`: the call changes only what it knows, and may be repeated.",
        ),
        field(
            "timeout",
            Takes::Span(1, 600 * SECOND),
            "How long the whole exchange may take.",
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
    many: ("an `http` step makes one call", "make two steps of it"),
});

static FILE: Shape = Shape::new(
    ("a file", "file"),
    "A part of a body that is a file.",
    &[
        field("file", Takes::Holes, "The resource, as `res://…`.")
            .needed("\"${{ steps.a.result.resource }}\""),
        field("name", Takes::Holes, "What the file is called."),
    ],
);

static PAGES: Shape = Shape::new(
    ("`pages`", "pages"),
    "How the pages of an answer are put together.",
    &[
        field(
            "items",
            Takes::Text,
            "Where the items of a page stand, such as `data.items`. Absent: the page is the list.",
        ),
        field(
            "cursor",
            Takes::Text,
            "Where the next page's cursor stands, such as `meta.next`. Absent: the `Link` header tells.",
        ),
        field(
            "query",
            Takes::Text,
            "The query parameter that the cursor goes into.",
        )
        .default("cursor"),
        field("most", Takes::Whole(1, 1_000), "The most pages.").default("100"),
    ],
);

static KEY_AS: Shape = Shape::new(
    ("`key_as`", "key_as"),
    "Where the destination looks for the key.",
    &[
        field("header", Takes::Text, "The header."),
        field("field", Takes::Text, "The field of the JSON body."),
        field("query", Takes::Text, "The query parameter."),
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
