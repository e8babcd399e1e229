//! Texts and bytes are cut where copies differ.

use super::*;

fn original() -> Original {
    Original {
        at: 1_000_000,
        day: "1970-01-01".to_owned(),
        ids: vec![Uuid::from_u128(7)],
        identities: vec![Identity::Subject],
        marks: vec![Mark {
            text: "the-key".to_owned(),
            pieces: vec![Piece::Key],
        }],
    }
}

#[test]
fn a_text_is_cut_at_keys_identities_and_times() {
    let text = r#"{"id":"the-key","run":"run_00000000000000000000000000000007","at":"1970-01-01T00:00:03Z","day":"1970-01-01","\n":1}"#;
    let pieces = original().cut(text);
    let same = |text: &str| Piece::Same(text.to_owned());
    assert_eq!(
        pieces,
        [
            same(r#"{"id":""#),
            Piece::Key,
            same(r#"","run":"run_"#),
            Piece::ShortId(0),
            same(r#"","at":""#),
            Piece::Time(2_000_000),
            same(r#"","day":""#),
            Piece::Day,
            same(r#"","\\n":1}"#),
        ]
    );
}

#[test]
fn the_key_of_a_child_run_keeps_what_follows_the_key() -> Result<()> {
    let pieces = joined(original().cut_bytes(r"\x7468652d6b65792f61")?);
    let same = |text: &str| Piece::Same(text.to_owned());
    assert_eq!(pieces, [same(r"\\x"), Piece::KeyBytes, same("2f61")]);
    Ok(())
}

#[test]
fn what_only_looks_like_a_time_stays_as_it_is() {
    for text in [
        "2026-13-40T00:00:00Z",
        "2026-11-17",
        "2026-11-17T10:00:00",
        "é",
    ] {
        assert_eq!(original().cut(text), [Piece::Same(text.to_owned())]);
    }
}
