//! The timeline: what is cut, what is bounded, and that nothing is left out.

use semel_api::types::JournalEvent;
use serde_json::json;

use super::*;

fn line(seq: i32, millis: i64, event: &str, step: &str) -> JournalLine {
    JournalLine {
        seq,
        at: Timestamp::from_millisecond(millis).unwrap(),
        events: vec![JournalEvent {
            summary: format!("<{event}>"),
            event: json!({"event": event, "step": step}),
        }],
    }
}

#[test]
fn a_long_rest_is_cut_and_an_attempt_is_not() {
    let journal = [
        line(1, 0, "computed", "read"),
        line(2, 10, "intended", "charge"),
        line(3, 5_010, "done", "charge"),
        line(4, 5_020, "wait_opened", "bank"),
        line(5, 7_205_020, "wait_ended", "bank"),
    ];

    let picture = draw(&journal, 0).to_string();

    assert_eq!(picture.matches("class=\"gap\"").count(), 1, "{picture}");
    assert!(
        picture.contains(">1 h<") || picture.contains(">2 h<"),
        "{picture}"
    );
    assert!(picture.contains("&lt;done&gt;") && !picture.contains("<done>"));
    assert!(picture.contains("href=\"#seq-3\""));
}

#[test]
fn a_picture_is_bounded_and_the_same_each_time() {
    let journal: Vec<JournalLine> = (0..1_000)
        .map(|n| line(n, i64::from(n), "doubted", &format!("s{n}")))
        .collect();

    let picture = draw(&journal, 0).to_string();

    assert_eq!(picture, draw(&journal, 0).to_string());
    assert!(picture.len() < 120_000, "{}", picture.len());
    assert!(picture.contains("Rows 1-200 of 1000"), "{picture}");
    assert!(draw(&[], 0).is_empty());
}

/// The marks of all pictures, each picture asked for by the link of the one before.
fn marks_of_all(journal: &[JournalLine]) -> Vec<String> {
    let (mut seen, mut from) = (Vec::new(), 0);
    loop {
        let picture = draw(journal, from).to_string();
        let marks = picture.split("href=\"#seq-").skip(1);
        let marks: Vec<&str> = marks.filter_map(|rest| rest.split('"').next()).collect();
        assert!(
            marks.len() <= MARKS_MAX && picture.len() < 120_000,
            "{}",
            picture.len()
        );
        seen.extend(marks.into_iter().map(str::to_owned));
        let next = picture.split("Further rows: ").nth(1);
        match next.and_then(|rest| rest.split('<').next()) {
            Some(rows) => from = first_row(rows),
            None => return seen,
        }
    }
}

#[test]
fn every_mark_is_in_one_of_the_pictures() {
    let many_steps: Vec<JournalLine> = (0..700)
        .map(|n| {
            line(
                n,
                i64::from(n),
                if n == 650 { "failed" } else { "done" },
                &format!("s{n}"),
            )
        })
        .collect();
    let one_step: Vec<JournalLine> = (0..1_001)
        .map(|n| line(n, i64::from(n), "intended", "again"))
        .collect();

    for journal in [many_steps, one_step] {
        let mut seen = marks_of_all(&journal);
        seen.sort_by_key(|seq| seq.parse::<i32>().unwrap());
        let all: Vec<String> = journal.iter().map(|line| line.seq.to_string()).collect();

        assert_eq!(seen, all);
    }
}

#[test]
fn rows_with_trouble_are_in_the_first_picture() {
    let journal: Vec<JournalLine> = (0..700)
        .map(|n| {
            line(
                n,
                i64::from(n),
                if n == 650 { "failed" } else { "done" },
                &format!("s{n}"),
            )
        })
        .collect();

    assert!(draw(&journal, 0).to_string().contains("#seq-650"));
    assert_eq!(
        (first_row("201-400"), first_row(""), first_row("x")),
        (200, 0, 0)
    );
}
