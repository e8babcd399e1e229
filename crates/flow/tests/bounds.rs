//! No expression that compiles takes long, whatever it is given; what would is refused.
//!
//! Every step of an evaluation is paid for, and what may be paid is counted: an evaluation that pays all of it for
//! plain steps is what the others are judged by.

use std::sync::OnceLock;
use std::time::Duration;

use semel_flow::{EvalErrorKind, Expr, Scope};
use serde_json::{Value, json};

use crate::effort::{assert_grows_evenly, least, within};

/// The processor time of an evaluation that pays all that it may for plain steps.
fn usual() -> Duration {
    static USUAL: OnceLock<Duration> = OnceLock::new();
    *USUAL.get_or_init(|| {
        let list: Vec<u32> = (0..1_000).collect();
        let input = json!({ "list": list });
        let source = "input.list.all(a, input.list.all(b, a + b >= 0))";
        let expr = compiled(source);
        let scope = Scope::new().with("input", &input);
        least(|| assert!(expr.eval(&scope).is_err(), "it is stopped"))
    })
}

fn large() -> Value {
    let list: Vec<u32> = (0..10_000).collect();
    let text = "ab".repeat(400_000);
    let fields: serde_json::Map<String, Value> = (0..5_000)
        .map(|index| (format!("field{index}"), json!(index)))
        .collect();
    json!({"list": list, "text": text, "map": fields, "near": "a".repeat(60_000)})
}

fn compiled(source: &str) -> Expr {
    Expr::compile(source, &["input"]).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn eval(source: &str, input: &Value) -> Result<Value, EvalErrorKind> {
    let expr = compiled(source);
    let scope = Scope::new().with("input", input);
    let most = usual() * 10;
    let result = within(most, || expr.eval(&scope).map_err(|error| error.kind));
    let shown = &source[..source.len().min(80)];
    result.unwrap_or_else(|taken| panic!("{shown} took {taken:?} and not {most:?}"))
}

#[track_caller]
fn is_stopped(source: &str, input: &Value) {
    let result = eval(source, input);
    assert!(
        matches!(result, Err(EvalErrorKind::Limit(_))),
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

/// Text that no two patterns below can decide early.
fn noise(len: usize) -> String {
    let mut state = 42_u32;
    let letters = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if state >> 31 == 0 { 'a' } else { 'b' }
    });
    letters.take(len).collect()
}

#[test]
fn patterns_cannot_be_made_to_crawl() {
    let patterns = [
        "(a|a?)+$",
        "(a*)*c",
        ".*.*.*=.*",
        "[ab]{0,60}c",
        "(?:a?){100}[^ab]",
        "a[ab]{18}$",
        "(?:[ab]*a[ab]{30}[ab]*)*[^ab]$",
        "(\\\\w+\\\\s?)*[^ab]$",
        ".*a.{50}b.*[^ab]",
        "\\\\w{20,40}!",
        "(?:a|b|ab|ba|aab|abb|bab){1,40}[^a-z]",
    ];
    for len in [500, 2_000, 8_000, 30_000, 120_000, 800_000] {
        let input = json!({"text": noise(len), "list": (0..100).collect::<Vec<u32>>()});
        for pattern in patterns {
            let source = format!("input.text.matches('{pattern}')");
            if Expr::compile(&source, &["input"]).is_err() {
                println!("too large: {pattern}");
                continue;
            }
            let _ = eval(&source, &input);
            let _ = eval(&format!("input.list.all(i, !{source})"), &input);
        }
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

    let plain = least(|| drop(compiled(&sum)));
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
        let shown = &source[..20];
        let refused = within(plain * 1_000, || Expr::compile(&source, &["input"]));
        let refused = refused.unwrap_or_else(|taken| panic!("{shown} took {taken:?}"));
        assert!(
            refused.is_err() || source.starts_with("--") || source.starts_with("!!"),
            "{shown}"
        );
    }
}

#[test]
fn a_path_is_read_in_no_time() {
    let small = json!({"a": {"b": 1}});
    let mut large = large();
    large["a"] = small["a"].clone();
    let expr = Expr::compile("input.a.b", &["input"]).expect("it compiles");
    let read = |input: &Value, times: usize| {
        let scope = Scope::new().with("input", input);
        for _ in 0..times {
            assert!(expr.eval(&scope).is_ok());
        }
    };

    // What lies beside the path is not looked at.
    let few = || read(&small, 20_000);
    assert_grows_evenly("20,000 times input.a.b", few, || read(&large, 40_000));
}

#[test]
fn the_deepest_evaluation_fits_a_small_stack() {
    let mut deep = json!("x");
    for _ in 0..90 {
        deep = json!({ "a": [deep] });
    }
    let chain = format!("input.text{}", ".trim()".repeat(95));
    let choices = format!("{}1", "input.no?1:".repeat(90));
    let sources = [
        chain.as_str(),
        choices.as_str(),
        "input.deep == input.deep",
        "json(input.deep)",
    ];
    let exprs = sources.map(|source| Expr::compile(source, &["input"]).expect("it compiles"));

    let small = std::thread::Builder::new().stack_size(256 * 1024);
    let results = small.spawn(move || {
        let input = json!({"deep": deep, "text": "x", "no": false});
        let scope = Scope::new().with("input", &input);
        exprs.map(|expr| expr.eval(&scope).is_ok())
    });

    let results = results.map(std::thread::JoinHandle::join);
    assert!(
        matches!(results, Ok(Ok([true, true, true, true]))),
        "{results:?}"
    );
}
