//! Recurrences: the instants that they name, above all where the clocks change.

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn cron(pattern: &str, zone: &str) -> Recurrence {
    Recurrence::Cron(Box::new(Cron::parse(pattern, zone).unwrap()))
}

fn first(recurrence: &Recurrence, after: &str, count: usize) -> Vec<String> {
    let instants = recurrence.after(at(after)).take(count);
    instants.map(|instant| instant.to_string()).collect()
}

#[test]
fn a_time_in_the_skipped_hour_is_due_once_when_the_gap_ends() {
    let recurrence = cron("30 2 * * *", "Europe/Berlin");

    let instants = first(&recurrence, "2026-03-28T12:00:00Z", 2);

    // At 02:00 the clocks show 03:00, which is 01:00 in UTC.
    assert_eq!(instants, ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
}

#[test]
fn a_time_in_the_repeated_hour_is_due_in_the_first_pass() {
    let recurrence = cron("30 2 * * *", "Europe/Berlin");

    let instants = first(&recurrence, "2026-10-24T12:00:00Z", 2);

    assert_eq!(instants, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
}

#[test]
fn times_outside_of_a_change_are_due_as_ever() {
    let recurrence = cron("30 1 * * *", "Europe/Berlin");

    let instants = first(&recurrence, "2026-03-28T12:00:00Z", 2);

    assert_eq!(instants, ["2026-03-29T00:30:00Z", "2026-03-29T23:30:00Z"]);
}

#[test]
fn every_quarter_of_an_hour_continues_through_both_clock_changes() {
    let recurrence = cron("*/15 * * * *", "Europe/Berlin");

    for start in ["2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z"] {
        let instants: Vec<Timestamp> = recurrence.after(at(start)).take(16).collect();

        for pair in instants.windows(2) {
            assert_eq!(pair[1].as_second() - pair[0].as_second(), 900, "{start}");
        }
    }
}

#[test]
fn several_times_in_one_gap_are_one_instant() {
    let recurrence = cron("0,15,30 2,3 * * *", "Europe/Berlin");

    let instants = first(&recurrence, "2026-03-29T00:30:00Z", 3);

    // 02:00, 02:15, 02:30 and 03:00 are all 01:00 in UTC on that day.
    assert_eq!(
        instants,
        [
            "2026-03-29T01:00:00Z",
            "2026-03-29T01:15:00Z",
            "2026-03-29T01:30:00Z"
        ]
    );
}

#[test]
fn a_span_counts_from_1970_whatever_the_start() {
    let recurrence = Recurrence::Every("90m".parse().unwrap());

    assert_eq!(
        first(&recurrence, "1970-01-01T00:00:00Z", 1),
        ["1970-01-01T01:30:00Z"]
    );
    assert_eq!(
        first(&recurrence, "2026-11-15T00:10:00Z", 1),
        ["2026-11-15T01:30:00Z"]
    );
    assert!(recurrence.names(at("2026-11-15T01:30:00Z")));
    assert!(!recurrence.names(at("2026-11-15T01:31:00Z")));
}

#[test]
fn words_for_days_and_months_and_the_last_day_are_understood() {
    let fridays = cron("0 9 * * FRI", "UTC");
    let last = cron("0 9 L * *", "UTC");
    let second_tuesday = cron("0 9 * * 2#2", "UTC");

    assert_eq!(
        first(&fridays, "2026-11-15T00:00:00Z", 1),
        ["2026-11-20T09:00:00Z"]
    );
    assert_eq!(
        first(&last, "2026-02-01T00:00:00Z", 1),
        ["2026-02-28T09:00:00Z"]
    );
    assert_eq!(
        first(&second_tuesday, "2026-11-01T00:00:00Z", 1),
        ["2026-11-10T09:00:00Z"]
    );
}

#[test]
fn a_wrong_pattern_is_reported_at_its_place() {
    let flaw = |pattern: &str, zone: &str| Cron::parse(pattern, zone).unwrap_err();

    assert_eq!(flaw("0 3 * *", "UTC").place, CronErrorPlace::Pattern);
    assert_eq!(flaw("0 25 * * *", "UTC").place, CronErrorPlace::Field(2..4));
    assert_eq!(
        flaw("*/0 * * * *", "UTC").place,
        CronErrorPlace::Field(0..3)
    );
    assert_eq!(
        flaw("0 3 * * 1,,2", "UTC").place,
        CronErrorPlace::Field(8..12)
    );
    assert_eq!(flaw("0 3 30 2 *", "UTC").place, CronErrorPlace::Pattern);
    let zone = flaw("0 3 * * *", "Europe/Berln");
    assert_eq!(zone.place, CronErrorPlace::Zone);
    assert_eq!(zone.help, "did you mean `Europe/Berlin`?");
}

#[test]
fn a_leap_day_on_a_monday_is_found_however_far_it_is() {
    let recurrence = cron("0 0 29 2 +MON", "UTC");

    assert_eq!(
        first(&recurrence, "2024-03-01T00:00:00Z", 1),
        ["2044-02-29T00:00:00Z"]
    );
}

#[test]
fn spelling_does_not_change_a_recurrence() {
    let one = cron("0  9 * * fri", "europe/berlin");

    assert_eq!(one, cron("0 9 * * FRI", "Europe/Berlin"));
    assert_eq!(one.to_string(), "0 9 * * FRI");
    assert_eq!(one.zone(), "Europe/Berlin");
}
