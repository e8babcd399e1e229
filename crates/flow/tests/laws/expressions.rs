//! Whatever compiles ends within its limits, and its canonical text means the same.

use proptest::prelude::*;
use semel_flow::{Expr, Scope};
use serde_json::{Value, json};

/// Expressions of every form, mostly well typed nowhere: most of them fail, none may panic.
fn source() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("input".to_owned()),
        Just("input.a".to_owned()),
        Just("input.list".to_owned()),
        Just("input[\"x-y\"].b".to_owned()),
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i32>().prop_map(|number| number.to_string()),
        (-1.0e6..1.0e6_f64).prop_map(|number| format!("{number:?}")),
        "[a-z\\\\\"'äß€ ]{0,6}".prop_map(|text| Value::from(text).to_string()),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            (pair.clone(), prop::sample::select(OPERATORS))
                .prop_map(|((left, right), operator)| format!("{left} {operator} {right}")),
            pair.clone()
                .prop_map(|(left, right)| format!("({left} - {right})")),
            inner.clone().prop_map(|of| format!("!({of})")),
            inner.clone().prop_map(|of| format!("-({of})")),
            (inner.clone(), pair.clone()).prop_map(|(a, (b, c))| format!("({a} ? {b} : {c})")),
            pair.clone()
                .prop_map(|(left, right)| format!("[{left}, {right}]")),
            pair.clone()
                .prop_map(|(key, value)| format!("{{{key}: {value}}}")),
            pair.clone()
                .prop_map(|(of, index)| format!("({of})[{index}]")),
            (inner.clone(), prop::sample::select(FUNCTIONS))
                .prop_map(|(of, function)| format!("{function}({of})")),
            (inner.clone(), prop::sample::select(COMPREHENSIONS))
                .prop_map(|(of, name)| format!("input.list.{name}(x, x == ({of}))")),
            pair.prop_map(|(of, other)| format!("default({of}, {other})")),
        ]
    })
}

const OPERATORS: &[&str] = &[
    "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||",
];
const FUNCTIONS: &[&str] = &[
    "size",
    "string",
    "int",
    "json",
    "fingerprint",
    "lower",
    "type",
    "sha256",
    "double",
];
const COMPREHENSIONS: &[&str] = &["map", "filter", "all", "exists", "exists_one"];

fn input() -> Value {
    json!({"a": 3, "list": [1, "two", null, {"b": 2.5}], "x-y": {"b": "text"}})
}

proptest! {
    #[test]
    fn evaluating_never_panics_and_the_canonical_text_means_the_same(source in source()) {
        let Ok(expr) = Expr::compile(&source, &["input"]) else { return Ok(()) };
        let input = input();
        let scope = Scope::new().with("input", &input);
        let again = Expr::compile(expr.as_str(), &["input"]);
        let again = again.map_err(|error| TestCaseError::fail(format!("{expr}: {error}")))?;
        prop_assert_eq!(expr.as_str(), again.as_str());
        let first = expr.eval(&scope).map_err(|error| error.kind);
        prop_assert_eq!(first, again.eval(&scope).map_err(|error| error.kind));
    }

    #[test]
    fn any_text_is_compiled_or_refused(source in "\\PC{0,80}") {
        let _ = Expr::compile(&source, &["input"]);
    }

    #[test]
    fn any_sequence_of_tokens_is_compiled_or_refused(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..40),
    ) {
        let source = tokens.concat();
        if let Err(error) = Expr::compile(&source, &["input"]) {
            prop_assert!(source.is_char_boundary(error.offset), "{source}: {error:?}");
            prop_assert!(error.offset + error.len <= source.len(), "{source}: {error:?}");
        }
    }
}

const TOKENS: &[&str] = &[
    "(", ")", "[", "]", "{", "}", ",", ".", ":", "?", "+", "-", "!", "==", "&&", "||", " in ",
    "\"", "'", "\"\"\"", "r'", "\\", "input", "x", "map", "1", "2.5", "//", "\n", "ä", "€", "=",
    " ", "has", "b'", "1u", "matches", "\"a\"", "all",
];
