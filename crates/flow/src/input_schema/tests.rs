//! What schemas ask, and what they cost.

use serde_json::json;

use super::*;

fn problem(schema: Value, input: Value) -> Option<String> {
    InputSchema::compile(&schema).unwrap().misfit(&input)
}

#[test]
fn every_restriction_of_a_schema_is_checked() {
    let order = json!({
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": { "type": "string", "minLength": 1, "maxLength": 4, "pattern": "^o" },
            "sum": { "type": "integer", "minimum": 1, "exclusiveMaximum": 100 },
            "unit": { "type": "number", "multipleOf": 0.1 },
            "kind": { "type": "string", "enum": ["new", "old"] },
            "tags": { "type": "array", "items": { "type": "string" }, "maxItems": 2, "uniqueItems": true },
            "note": { "type": "string", "nullable": true },
            "either": { "oneOf": [{ "type": "integer" }, { "const": "none" }] },
        },
        "additionalProperties": false,
    });
    let fits = |input| problem(order.clone(), input);

    assert_eq!(
        fits(json!({ "id": "o1", "sum": 99, "unit": 0.3, "note": null })),
        None
    );
    assert_eq!(
        fits(json!({ "id": "o1", "kind": "old", "tags": ["a"], "either": "none" })),
        None
    );
    for (input, said) in [
        (json!([]), "`input` is an array, not object"),
        (json!({}), "`input` has no `id`"),
        (json!({ "id": 1 }), "`input.id` is an integer, not string"),
        (json!({ "id": "" }), "fewer than 1 characters"),
        (json!({ "id": "o2345" }), "more than 4 characters"),
        (json!({ "id": "x" }), "does not match `^o`"),
        (
            json!({ "id": "o", "sum": 1.5 }),
            "`input.sum` is a number with a fraction, not integer",
        ),
        (json!({ "id": "o", "sum": 0 }), "below 1"),
        (json!({ "id": "o", "sum": 100 }), "not below 100"),
        (json!({ "id": "o", "unit": 0.25 }), "not a multiple of 0.1"),
        (
            json!({ "id": "o", "kind": "odd" }),
            r#"not one of: "new", "old""#,
        ),
        (
            json!({ "id": "o", "tags": ["a", 2] }),
            "`input.tags[1]` is an integer",
        ),
        (
            json!({ "id": "o", "tags": ["a", "a"] }),
            "`input.tags[1]` appears twice",
        ),
        (
            json!({ "id": "o", "tags": ["a", "b", "c"] }),
            "more than 2 items",
        ),
        (json!({ "id": "o", "either": "some" }), "none of `oneOf`"),
        (json!({ "id": "o", "a\u{0}b": 1 }), "cannot have `a\\0b`"),
    ] {
        let found = fits(input.clone()).unwrap_or_default();
        assert!(found.contains(said), "{input}: {found}");
    }
}

#[test]
fn an_example_stands_for_what_looks_like_it() {
    let example =
        json!({ "id": "a", "n": 1, "price": 1.5, "lines": [{ "sku": "x" }], "note": null });
    let schema = InputSchema::from_example(&example).unwrap();

    assert_eq!(schema.misfit(&example), None);
    let other = json!({ "id": "b", "n": 2, "price": 3, "lines": [], "note": 7, "more": true });
    assert_eq!(schema.misfit(&other), None);
    let wrong = json!({ "id": "b", "n": 2, "price": 3, "lines": [{}], "note": 7 });
    assert_eq!(
        schema.misfit(&wrong).unwrap(),
        "`input.lines[0]` has no `sku`"
    );
}

#[test]
fn an_invalid_schema_is_refused() {
    for schema in [
        json!({ "type": "objekt" }),
        json!({ "patternProperties": {} }),
        json!({ "pattern": "(" }),
        json!({ "minimum": "1" }),
        json!({ "enum": "a" }),
        json!({ "anyOf": [] }),
    ] {
        assert!(InputSchema::compile(&schema).is_err(), "{schema}");
    }
    let mut deep = json!({});
    for _ in 0..40 {
        deep = json!({ "items": deep });
    }
    assert!(InputSchema::compile(&deep).is_err());
}

#[test]
fn asking_is_bounded_whatever_is_sent() {
    let mut choices = json!({ "type": "string" });
    for _ in 0..16 {
        choices = json!({ "anyOf": [{ "type": "null" }, choices] });
    }
    let schema = InputSchema::compile(&json!({ "items": choices })).unwrap();
    let input = Value::Array(vec![json!(1); 200_000]);

    let found = schema.misfit(&input).unwrap();

    assert!(found.contains("none of `anyOf`"), "{found}");
    let strings = Value::Array(vec![json!("x"); 200_000]);
    assert!(schema.misfit(&strings).unwrap().contains("too large"));
}
