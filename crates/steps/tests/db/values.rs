//! Values keep what they are on the way there and back.

use anyhow::Result;
use serde_json::{Value, json};

use crate::db::world::{World, done, failed, key, request};

/// Sends a value as a parameter of a type and reads it back.
async fn echo(world: &World, of: &str, value: Value) -> Value {
    let statement = format!("SELECT $1::{of} AS value");
    let read = request(&statement, &[value]);
    let response = done(world.caller.query(&read, &world.destination()).await);
    response["records"][0]["value"].clone()
}

#[tokio::test]
async fn values_of_every_common_type_come_back_as_they_went() -> Result<()> {
    let world = World::new().await?;
    let same = [
        ("int", json!(-7)),
        ("smallint", json!(7)),
        ("bigint", json!(9_223_372_036_854_775_807_i64)),
        ("float8", json!(0.1)),
        ("numeric", json!(12.5)),
        ("numeric", json!("12345678901234567890.000001")),
        ("numeric", json!(-3)),
        ("bool", json!(true)),
        ("text", json!("a 'b' \\ \"c\" \u{1F600}\n")),
        ("varchar(3)", json!("abc")),
        ("uuid", json!("6f2c5a3e-0b1d-4c8f-9a77-2f8f5d1e6b10")),
        ("json", json!({"a": [1, null, "x"]})),
        ("jsonb", json!("a text")),
        ("timestamptz", json!("2024-02-29T12:30:00.123456Z")),
        ("timestamp", json!("2024-02-29T12:30:00")),
        ("timestamptz", json!("infinity")),
        ("date", json!("1999-12-31")),
        ("time", json!("23:59:59")),
        ("bytea", json!("\\x00ff")),
        ("int[]", json!([1, null, 3])),
        ("text[]", json!(["a,b", "\"", "\\", null, "NULL", ""])),
        ("jsonb[]", json!([{"a": 1}, [1, 2]])),
        ("numeric", Value::Null),
    ];

    for (of, value) in same {
        assert_eq!(echo(&world, of, value.clone()).await, value, "as {of}");
    }
    Ok(())
}

#[tokio::test]
async fn decimals_keep_their_digits() -> Result<()> {
    let world = World::new().await?;
    let texts = [
        ("0", json!(0)),
        ("-0.00012", json!(-0.00012)),
        ("10000", json!(10_000)),
        ("100000000", json!(100_000_000)),
        ("0.00001234", json!(0.00001234)),
        ("1234567890123456.7", json!("1234567890123456.7")),
        ("99999999999999999999", json!("99999999999999999999")),
        ("NaN", json!("NaN")),
    ];

    for (text, expected) in texts {
        assert_eq!(
            echo(&world, "numeric", json!(text)).await,
            expected,
            "{text}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_value_of_the_wrong_kind_is_refused_by_its_place() -> Result<()> {
    let world = World::new().await?;
    let object = request("SELECT $1::int", &[json!({"a": 1})]);
    let missing = request("SELECT $1::int", &[]);
    let unreadable = request("SELECT '(1,2)'::point AS place", &[]);

    let object = failed(world.perform(&object, key("a")).await);
    let missing = failed(world.perform(&missing, key("b")).await);
    let unreadable = failed(world.perform(&unreadable, key("c")).await);

    assert!(object.message.contains("$1 is an object"), "{object:?}");
    assert_eq!(missing.code, "values-unfit");
    assert!(
        unreadable.message.contains("place is of type point"),
        "{unreadable:?}"
    );
    Ok(())
}
