//! Fingerprints: spelling does not matter, content does.

use proptest::prelude::*;
use semel_model::Fingerprint;
use semel_model::json::parse_strict;
use serde_json::{Value, json};

fn payload() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1i64 << 53)..=(1i64 << 53)).prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,5}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn spelling_does_not_matter(value in payload()) {
        let dense = parse_strict(value.to_string().as_bytes()).unwrap();
        let airy = parse_strict(serde_json::to_string_pretty(&value).unwrap().as_bytes()).unwrap();

        prop_assert_eq!(Fingerprint::of(&dense), Fingerprint::of(&airy));
    }

    #[test]
    fn content_does(one in payload(), other in payload()) {
        let same = Fingerprint::of(&one) == Fingerprint::of(&other);

        prop_assert_eq!(same, one == other);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_strict(&bytes);
    }
}

#[test]
fn member_order_and_number_format_do_not_matter() {
    let one = parse_strict(br#"{"b":1.0,"a":[1e2]}"#).unwrap();
    let other = parse_strict(br#"{ "a": [100], "b": 1 }"#).unwrap();

    assert_eq!(Fingerprint::of(&one), Fingerprint::of(&other));
}

#[test]
fn what_canonical_form_would_fold_together_is_refused() {
    for text in [
        r#"{"a":1,"a":2}"#,
        "9007199254740993",
        "-9007199254740993",
        "123456789012345678901234567890",
        "{} {}",
    ] {
        assert!(parse_strict(text.as_bytes()).is_err(), "{text}");
    }
    let deep = format!("{}{}", "[".repeat(70), "]".repeat(70));
    assert!(parse_strict(deep.as_bytes()).is_err());
    assert_eq!(
        parse_strict(b"9007199254740992").unwrap(),
        json!(9007199254740992i64)
    );
}
