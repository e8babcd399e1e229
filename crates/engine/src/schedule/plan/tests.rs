//! Which instants start runs, by policy.

use semel_flow::Rhythm;
use serde_json::Value;

use super::*;

fn at(text: &str) -> Timestamp {
    format!("2026-11-15T{text}Z").parse().unwrap()
}

fn hourly(missed: Missed, most: u32) -> Schedule {
    Schedule {
        rhythm: Rhythm::Every("1h".parse().unwrap()),
        missed,
        most,
        input: Value::Null,
    }
}

fn skip(first: &str, last: &str, instants: i64, reason: &'static str) -> Call {
    Call::Skip(Stretch {
        first: at(first),
        last: at(last),
        instants,
        reason,
    })
}

fn decided(missed: Missed, most: u32, now: &str) -> Vec<Call> {
    let schedule = hourly(missed, most);
    decide(&schedule, at("00:30:00"), at(now), None, at(now))
}

#[test]
fn an_instant_that_is_decided_in_time_is_fired_under_every_policy() {
    for missed in [Missed::Skip, Missed::Once, Missed::All] {
        assert_eq!(decided(missed, 9, "01:00:00"), [Call::Fire(at("01:00:00"))]);
        assert_eq!(decided(missed, 9, "01:04:59"), [Call::Fire(at("01:00:00"))]);
        assert_eq!(decided(missed, 9, "00:59:59"), []);
    }
}

#[test]
fn skip_fires_nothing_that_is_too_late() {
    let missed = decided(Missed::Skip, 9, "04:30:00");

    assert_eq!(missed, [skip("01:00:00", "04:00:00", 4, "missed")]);
}

#[test]
fn skip_fires_the_current_instant_beside_those_that_were_overtaken() {
    let missed = decided(Missed::Skip, 9, "04:00:10");

    assert_eq!(
        missed,
        [
            skip("01:00:00", "03:00:00", 3, "missed"),
            Call::Fire(at("04:00:00"))
        ]
    );
}

#[test]
fn once_fires_the_last_however_late_it_is() {
    let missed = decided(Missed::Once, 9, "04:30:00");

    assert_eq!(
        missed,
        [
            skip("01:00:00", "03:00:00", 3, "missed"),
            Call::Fire(at("04:00:00"))
        ]
    );
}

#[test]
fn all_fires_the_latest_up_to_its_number() {
    let fires = ["03:00:00", "04:00:00"].map(|text| Call::Fire(at(text)));

    let capped = decided(Missed::All, 2, "04:30:00");
    let whole = decided(Missed::All, 4, "04:30:00");

    assert_eq!(capped[0], skip("01:00:00", "02:00:00", 2, "capped"));
    assert_eq!(capped[1..], fires);
    assert_eq!(whole.len(), 4);
    assert_eq!(whole[2..], fires);
}

#[test]
fn instants_of_a_pause_are_skipped_and_those_before_it_are_not() {
    let schedule = hourly(Missed::All, 9);

    let calls = decide(
        &schedule,
        at("00:30:00"),
        at("04:30:00"),
        Some(at("02:00:00")),
        at("04:30:00"),
    );

    assert_eq!(
        calls,
        [
            Call::Fire(at("01:00:00")),
            Call::Fire(at("02:00:00")),
            skip("03:00:00", "04:00:00", 2, "paused")
        ]
    );
}

#[test]
fn an_instant_that_has_its_run_is_not_skipped_with_the_others() {
    let instants: Vec<Timestamp> = (1..=4)
        .map(|hour| Timestamp::from_second(hour * 3_600).unwrap())
        .collect();
    let stretch = Stretch {
        first: instants[0],
        last: instants[3],
        instants: 4,
        reason: "missed",
    };

    let calls = stretch.split(&instants, &HashSet::from([instants[1]]));

    let skip = |first: usize, last: usize| {
        Call::Skip(Stretch {
            first: instants[first],
            last: instants[last],
            instants: i64::try_from(last - first + 1).unwrap(),
            reason: "missed",
        })
    };
    assert_eq!(calls, [skip(0, 0), Call::Fire(instants[1]), skip(2, 3)]);
}
