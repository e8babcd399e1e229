//! What expressions yield, refuse and point at.

use serde_json::{Value, json};

use super::{EvalErrorKind, Expr, Scope};

fn eval(source: &str, input: &Value) -> Result<Value, EvalErrorKind> {
    let expr =
        Expr::compile(source, &["input"]).unwrap_or_else(|error| panic!("{source}: {error}"));
    expr.eval(&Scope::new().with("input", input))
        .map_err(|error| error.kind)
}

#[track_caller]
fn yields(source: &str, expected: Value) {
    let input = json!({
        "a": {"b": 3}, "n": null, "list": [1, 2, 3], "name": "Ann", "x-y": 1, "half": 0.5,
    });
    assert_eq!(eval(source, &input), Ok(expected), "{source}");
}

#[test]
fn the_language_works_out_what_cel_works_out() {
    yields("input.a.b", json!(3));
    yields("input.a.b + 1 - 2 * 2", json!(0));
    yields("10 - 3 - 2", json!(5));
    yields("input['x-y']", json!(1));
    yields("input.list[1] == 2.0", json!(true));
    yields("1 + 0.5", json!(1.5));
    yields("'a' + \"b\"", json!("ab"));
    yields("[1] + [2]", json!([1, 2]));
    yields("{'k': input.a}.k.b", json!(3));
    yields("input.a.b > 2 ? 'big' : 'small'", json!("big"));
    yields("!(1 == 1) || 2 in input.list && 'a' in input", json!(true));
    yields("has(input.a.b) && !has(input.q.r.s)", json!(true));
    yields(
        "default(input.q.r, 'none') + default(input.n, 'x')",
        json!("nonex"),
    );
    yields("input.list.map(x, x * 2)", json!([2, 4, 6]));
    yields("input.list.map(x, x > 1, x * 2)", json!([4, 6]));
    yields("input.list.filter(x, x > 1)", json!([2, 3]));
    yields(
        "input.list.all(x, x > 0) && input.list.exists(x, x == 3)",
        json!(true),
    );
    yields("input.list.exists_one(x, x == 3)", json!(true));
    yields("input.a.map(k, k)", json!(["b"]));
    yields("-input.a.b", json!(-3));
    yields("-5 % 3", json!(-2));
}

#[test]
fn the_functions_do_what_their_names_say() {
    yields("size('äöü') + input.list.size() + size(input.a)", json!(7));
    yields(
        "string(1) + string(true) + string(1.5) + string('x')",
        json!("1true1.5x"),
    );
    yields("int('42') + int(1.9)", json!(43));
    yields("double('1.5')", json!(1.5));
    yields("bool('true')", json!(true));
    yields("type(1) + type(null)", json!("intnull"));
    yields(
        "'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.contains('b')",
        json!(true),
    );
    yields("'a-1'.matches('^[a-z]-[0-9]$')", json!(true));
    yields("lower('A') + upper('b') + trim(' c ')", json!("aBc"));
    yields("'a,b'.split(',').join('-')", json!("a-b"));
    yields("'aXa'.replace('a', 'bb')", json!("bbXbb"));
    yields(
        "sha256('abc')",
        json!("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    );
    yields(
        "json({'b': 1, 'a': [1.0, null, 'é\\n']})",
        json!(r#"{"a":[1,null,"é\n"],"b":1}"#),
    );
    yields(
        "parse_json('{\"a\": [1, {\"b\": null}]}').a[1]",
        json!({"b": null}),
    );
    yields("fingerprint({'a': 1}) == sha256('{\"a\":1}')", json!(true));
    yields(
        "fingerprint({'a': 1, 'b': {'c': 2}}, ['b.c']) == fingerprint({'b': {}, 'a': 1})",
        json!(true),
    );
}

#[test]
fn kinds_of_errors_are_distinguished() {
    let input = json!({"a": 1, "big": 9_223_372_036_854_775_807_i64, "huge": u64::MAX});
    assert!(matches!(
        eval("input.b", &input),
        Err(EvalErrorKind::Missing { .. })
    ));
    assert!(matches!(
        eval("input.a.c", &input),
        Err(EvalErrorKind::Missing { .. })
    ));
    assert!(matches!(
        eval("input.a + 'x'", &input),
        Err(EvalErrorKind::Type { .. })
    ));
    assert!(matches!(
        eval("input.big + 1", &input),
        Err(EvalErrorKind::Overflow(_))
    ));
    assert!(matches!(
        eval("input.huge", &input),
        Err(EvalErrorKind::Overflow(_))
    ));
    assert!(matches!(
        eval("1 / 0", &input),
        Err(EvalErrorKind::DivisionByZero)
    ));
    assert!(matches!(
        eval("[1][1]", &input),
        Err(EvalErrorKind::Index { .. })
    ));
    assert!(matches!(
        eval("1 && true", &input),
        Err(EvalErrorKind::Type { .. })
    ));
    assert!(matches!(
        eval("json(input.big)", &input),
        Err(EvalErrorKind::Invalid(_))
    ));
}

#[test]
fn numbers_of_both_kinds_compare_without_rounding() {
    yields(
        "1 == 1.0 && 2 > 1.5 && 1.5 < 2 && -1 > -1.5 && -2 < -1.5",
        json!(true),
    );
    yields("9007199254740993 == 9007199254740992.0", json!(false));
    yields(
        "9223372036854775807 < 1e19 && -9223372036854775807 > -1e19",
        json!(true),
    );
    yields("1 == '1' || null == false || [1] == [1, 2]", json!(false));
    yields("[1, {'a': 2.0}] == [1.0, {'a': 2}]", json!(true));
}

#[track_caller]
fn points_at(source: &str, part: &str) {
    let error = Expr::compile(source, &["input"]).expect_err("it is refused");
    let pointed = &source[error.offset..error.offset + error.len];
    assert_eq!(pointed, part, "{source}: {error}");
}

#[test]
fn mistakes_are_pointed_at_in_any_script() {
    points_at("'äöü€' + inptu.id", "inptu");
    points_at("'äöü€' + lowr(input.id)", "lowr");
    points_at("'äöü€' = 1", "=");
    points_at("input.a +\n  'ä' = 2", "=");
    points_at("  input.b.c.d + x", "x");
}

#[test]
fn what_an_expression_reads_is_known() {
    let source = "input.a['b'].c + input.list.map(x, x.y + input.z)[0] + input[input.k].q";
    let expr = Expr::compile(source, &["input"]).expect("it compiles");

    let paths: Vec<String> = expr.references().iter().map(ToString::to_string).collect();

    assert_eq!(
        paths,
        ["input.a.b.c", "input.list", "input.z", "input", "input.k"]
    );
    let first = &expr.references()[0];
    let read = &source[first.offset..first.offset + first.len];
    assert_eq!(read, "input.a['b'].c");
}

#[test]
fn a_path_finds_a_value_in_place_and_nothing_else_does() {
    let input = json!({ "rows": [1, 2], "a": { "b": null } });
    let scope = Scope::new().with("input", &input);
    let found = |source: &str| {
        let expr = Expr::compile(source, &["input"]).expect("it compiles");
        expr.find(&scope)
    };

    assert_eq!(found("input.rows"), Some(&input["rows"]));
    assert_eq!(found("input['a'].b"), Some(&json!(null)));
    for source in [
        "input.c",
        "input.rows.c",
        "input.rows[0]",
        "[input.rows]",
        "1",
    ] {
        assert_eq!(found(source), None, "{source}");
    }
}

#[test]
fn digests_and_times_are_those_of_the_standards() {
    let input = json!({});
    for (source, expected) in [
        (
            "hmac_sha256('what do ya want for nothing?', 'Jefe')",
            json!("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        ),
        ("date('2026-03-01T23:30:00-02:00')", json!("2026-03-02")),
        ("epoch('1970-01-02T00:00:00Z')", json!(86_400)),
        ("rfc3339(86400)", json!("1970-01-02T00:00:00Z")),
        (
            "rfc3339(epoch('2026-03-01T10:00:00+01:00'))",
            json!("2026-03-01T09:00:00Z"),
        ),
    ] {
        let expr = Expr::compile(source, &["input"]).expect("it compiles");
        let scope = Scope::new().with("input", &input);
        assert_eq!(expr.eval(&scope).ok(), Some(expected), "{source}");
    }
    let odd = Expr::compile("date('yesterday')", &["input"]).expect("it compiles");
    assert!(odd.eval(&Scope::new()).is_err());
}
