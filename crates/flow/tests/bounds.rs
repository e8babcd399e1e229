//! No expression that compiles takes long, whatever it is given; what would is refused.

use std::time::{Duration, Instant};

use semel_flow::{Expr, Fault, Scope};
use serde_json::{Value, json};

/// The bar is 50 ms; a debug build on a busy machine is given more.
const PATIENCE: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1_000 } else { 50 });

fn large() -> Value {
    let list: Vec<u32> = (0..10_000).collect();
    let text = "ab".repeat(400_000);
    let fields: serde_json::Map<String, Value> = (0..5_000)
        .map(|index| (format!("field{index}"), json!(index)))
        .collect();
    json!({"list": list, "text": text, "map": fields, "near": "a".repeat(60_000)})
}

fn eval(source: &str, input: &Value) -> Result<Value, Fault> {
    let expr =
        Expr::compile(source, &["input"]).unwrap_or_else(|error| panic!("{source}: {error}"));
    let scope = Scope::new().with("input", input);
    let start = Instant::now();
    let result = expr.eval(&scope).map_err(|error| error.fault);
    let taken = start.elapsed();
    println!("{taken:?} {}", &source[..source.len().min(80)]);
    assert!(
        taken < PATIENCE,
        "{} took {taken:?}: {result:?}",
        &source[..source.len().min(80)]
    );
    result
}

#[track_caller]
fn is_stopped(source: &str, input: &Value) {
    let result = eval(source, input);
    assert!(
        matches!(result, Err(Fault::Limit(_))),
        "{source}: {result:?}"
    );
}

#[test]
fn costly_evaluations_are_stopped() {
    let input = large();
    is_stopped("input.list.map(a, input.list.map(b, a * b)).size()", &input);
    is_stopped("input.list.all(a, input.list.all(b, a + b >= 0))", &input);
    is_stopped("input.list.map(a, input.text + 'x').size()", &input);
    is_stopped(
        "input.list.map(a, input.text.contains('zzz')).size()",
        &input,
    );
    is_stopped("input.list.map(a, json(input.map)).size()", &input);
    is_stopped("input.list.map(a, sha256(input.text)).size()", &input);
    is_stopped("input.list.map(a, input.list == input.list).size()", &input);
    is_stopped("input.list.map(a, input.map == input.map).size()", &input);
    is_stopped("input.list.map(a, input.map.map(k, k)).size()", &input);
    is_stopped("input.list.map(a, 20000 in input.list).size()", &input);
    is_stopped("input.list.map(a, input.text.split('b').size())", &input);
    is_stopped(
        "input.list.map(a, input.near.replace('a', 'bb').size()).size()",
        &input,
    );
    is_stopped("input.text.replace('a', input.near)", &input);
    is_stopped(
        "input.list.map(a, input.list).size() == 0 || json(input.list.map(a, input.list)) == ''",
        &input,
    );
    is_stopped("input.text", &input);
    is_stopped("(input.list + input.list).size()", &input);
    is_stopped(
        "input.list.map(a, parse_json('[' + input.near.replace('a', '1,') + '1]'))",
        &input,
    );
}

#[test]
fn patterns_cannot_be_made_to_crawl() {
    let input = large();
    for pattern in [
        "(a|a?)+$",
        "(a*)*c",
        ".*.*.*=.*",
        "[ab]{0,60}c",
        "(x+x+)+y",
        "(?:a?){100}c",
    ] {
        let _ = eval(&format!("input.near.matches('{pattern}')"), &input);
        let _ = eval(&format!("input.text.matches('{pattern}')"), &input);
        let _ = eval(
            &format!("input.list.map(i, input.near.matches('{pattern}')).size()"),
            &input,
        );
    }
}

#[test]
fn doubling_a_text_is_stopped() {
    let input = json!({"a": "x".repeat(1_000)});
    let mut source = "input.a".to_owned();
    for _ in 0..8 {
        source = format!("[{source}].map(s, s + s)[0]");
    }
    assert!(
        eval(&source, &input).is_ok(),
        "256 times a thousand is within the limits"
    );
    let source = format!(
        "{source}.replace('x', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx')"
    );
    is_stopped(&source, &input);
}

#[test]
fn long_and_deep_texts_are_refused_or_flat() {
    let input = json!({});
    let sum = vec!["1"; 240].join("+");
    assert_eq!(eval(&sum, &input), Ok(json!(240)));
    let both = vec!["true"; 200].join("&&");
    assert_eq!(eval(&both, &input), Ok(json!(true)));

    for source in [
        vec!["1"; 2_000].join("+"),
        format!("{}1{}", "(".repeat(25), ")".repeat(25)),
        format!("{}1", "-".repeat(3_000)),
        format!("{}true", "!".repeat(3_000)),
        format!("{}1", "true?1:".repeat(500)),
        format!("input{}", ".a".repeat(2_000)),
        format!("input{}", ".size()".repeat(500)),
        format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000)),
        format!("input.map(a,{})", "a.map(b,".repeat(20)),
        "x".repeat(5_000),
        "a.map(b,".repeat(400),
        "\"".repeat(4_000),
        "{".repeat(4_000),
        "a?".repeat(2_000),
        "a[".repeat(24),
    ] {
        let start = Instant::now();
        let refused = Expr::compile(&source, &["input"]);
        let shown = &source[..20];
        assert!(
            refused.is_err() || source.starts_with("--") || source.starts_with("!!"),
            "{shown}"
        );
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{shown} took {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn a_path_is_read_in_no_time() {
    let input = json!({"a": {"b": 1}});
    let expr = Expr::compile("input.a.b", &["input"]).expect("it compiles");
    let scope = Scope::new().with("input", &input);

    let start = Instant::now();
    for _ in 0..10_000 {
        assert!(expr.eval(&scope).is_ok());
    }
    let each = start.elapsed() / 10_000;

    println!("input.a.b: {each:?}");
    assert!(
        each < Duration::from_micros(if cfg!(debug_assertions) { 20 } else { 2 }),
        "{each:?}"
    );
}
