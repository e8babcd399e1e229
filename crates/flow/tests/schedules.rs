//! Recurrences against an oracle that shares nothing with them but the offsets of the zones: it has its
//! own reading of patterns and its own calendar, and walks minute by minute.
//!
//! What it says of changes of the clocks is one idea: the clock on the wall has a highest time that
//! it has shown. A pattern with a fixed hour is due in the minute in which that mark reaches or
//! passes one of its times; a pattern of every hour is due whenever the wall shows one.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests: an instant that cannot be read is a failure"
)]

mod oracle;
mod patterns;

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use oracle::{Offsets, Pattern};
use semel_flow::Recurrence;
use semel_flow::schedule::Cron;

const ZONES: [&str; 6] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Cairo",
    "Asia/Kolkata",
];
const PATTERNS: usize = 200;
const FROM: &str = "2026-01-01T00:00:00Z";
const TO: &str = "2036-01-01T00:00:00Z";

fn minute(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_second() / 60
}

fn zone(name: &str) -> Offsets {
    let zone = TimeZoneDatabase::bundled().get(name).unwrap();
    Offsets::read(minute(FROM), minute(TO), |minute| {
        let at = Timestamp::from_second(minute * 60).unwrap();
        i64::from(zone.to_offset(at).seconds()) / 60
    })
}

/// Compares a recurrence with the oracle over ten years; says how many instants there were.
fn compare(text: &str, zone: &str, offsets: &Offsets) -> usize {
    let expected = Pattern::read(text).instants(offsets);
    let recurrence = Recurrence::Cron(Box::new(Cron::parse(text, zone).unwrap()));
    let before = Timestamp::from_second(minute(FROM) * 60 - 1).unwrap();
    let end = minute(TO);
    let mut told = recurrence.after(before);
    for expected in &expected {
        let instant = told.next().map(|at| at.as_second());
        assert_eq!(
            instant,
            Some(expected * 60),
            "`{text}` in {zone}: {:?} came where {:?} is due",
            instant.map(Timestamp::from_second),
            Timestamp::from_second(expected * 60)
        );
    }
    let next = told.next();
    assert!(
        next.is_none_or(|at| at.as_second() >= end * 60),
        "`{text}` in {zone}: {next:?} came, and nothing more is due"
    );
    expected.len()
}

#[test]
fn ten_years_of_patterns_are_as_a_minute_by_minute_oracle_has_them() {
    let patterns = patterns::draw(PATTERNS);
    let told: usize = std::thread::scope(|scope| {
        let patterns = &patterns;
        let threads = ZONES.map(|name| {
            scope.spawn(move || {
                let offsets = zone(name);
                let changes = offsets.changes();
                assert!(name == "Asia/Kolkata" || changes >= 18, "{name}: {changes}");
                let told = patterns.iter().map(|text| compare(text, name, &offsets));
                told.sum::<usize>()
            })
        });
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.sum()
    });

    println!("{told} instants in {} zones", ZONES.len());
    assert!(told > 1_000_000, "{told}");
}

#[test]
fn patterns_that_others_get_wrong_are_as_the_oracle_has_them() {
    let known = [
        "30 2 * * *",
        "30 1 * * *",
        "0 0 * * *",
        "59 23 * * *",
        "0 */6 * * *",
        "*/15 * * * *",
        "0 2,3 * * 0",
        "*/20 1-3 * * *",
        "45 1 1-7 4,10 *",
        "0 3 L * *",
        "5 0 13 * 5",
    ];
    for name in ZONES {
        let offsets = zone(name);
        for text in known {
            compare(text, name, &offsets);
        }
    }
}
