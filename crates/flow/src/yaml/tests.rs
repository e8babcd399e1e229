//! What the tree keeps of a file, and what it refuses.

use serde_json::json;

use super::{Kind, Plain, parse, plain};

#[test]
fn plain_scalars_have_core_types_only() {
    for (text, value) in [
        ("no", json!("no")),
        ("on", json!("on")),
        ("1.2.3", json!("1.2.3")),
        ("12", json!(12)),
        ("-1.5", json!(-1.5)),
        ("true", json!(true)),
        ("", json!(null)),
        ("-", json!("-")),
        (".", json!(".")),
        ("e5", json!("e5")),
    ] {
        assert_eq!(plain(text), Plain::Value(value), "{text}");
    }
}

#[test]
fn numbers_that_would_change_are_not_taken() {
    for text in [
        "007",
        "1.10",
        "0x1F",
        "+1",
        "9007199254740993",
        ".nan",
        "1e400",
    ] {
        assert!(matches!(plain(text), Plain::Inexact(_)), "{text}");
    }
}

#[test]
fn a_place_in_a_text_is_found_in_the_file() {
    let source = "a: plain.x\nb: 'it''s x'\nc: \"\\\"q\\\" x\"\nd: |\n  one\n  two x\ne: >-\n  one\n  two x\n";
    let (tree, mistakes) = parse(source);
    assert!(mistakes.is_empty(), "{mistakes:?}");
    let Some(Kind::Map(entries)) = tree.map(|tree| tree.kind) else {
        panic!("a map")
    };
    for entry in entries {
        let text = &entry.value.as_scalar().expect("a scalar").text;
        let offset = text.rfind('x').expect("an x");
        let place = entry.value.place(source, offset, 1);
        assert_eq!(&source[place], "x", "{}", entry.key);
    }
}

#[test]
fn bombs_are_refused() {
    let deep = "[".repeat(100);
    assert!(parse(&deep).0.is_none());
    let wide = "- a\n".repeat(30_000);
    assert!(parse(&wide).0.is_none());
    let laughs = "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n";
    assert_eq!(parse(laughs).1.len(), 6);
}
