//! Which instants start runs, by policy.

use semel_flow::Recurrence;
use serde_json::Value;

use super::*;

fn at(text: &str) -> Timestamp {
    format!("2026-11-15T{text}Z").parse().unwrap()
}

fn hourly(missed: Missed, most: u32) -> ScheduleTrigger {
    ScheduleTrigger {
        recurrence: Recurrence::Every("1h".parse().unwrap()),
        missed,
        most,
        input: Value::Null,
    }
}

fn skip(first: &str, last: &str, instants: i64, reason: &'static str) -> TickAction {
    TickAction::Skip(Stretch {
        first: at(first),
        last: at(last),
        instants,
        reason,
    })
}

fn up_to(now: &str) -> Span {
    Span {
        after: at("00:30:00"),
        until: at(now),
        paused_at: None,
        now: at(now),
    }
}

fn decided(missed: Missed, most: u32, now: &str) -> Vec<TickAction> {
    let (calls, whole) = decide(&hourly(missed, most), up_to(now), 100);
    assert!(whole);
    calls
}

/// Decides a time in goes that skip at most so many instants each.
fn in_goes(schedule: &ScheduleTrigger, mut span: Span, skips: usize) -> Vec<TickAction> {
    let mut all = vec![];
    loop {
        let (calls, whole) = decide(schedule, span, skips);
        all.extend(calls);
        if whole {
            return all;
        }
        span.after = all.last().unwrap().last();
    }
}

#[test]
fn an_instant_that_is_decided_in_time_is_fired_under_every_policy() {
    for missed in [Missed::Skip, Missed::Once, Missed::All] {
        assert_eq!(
            decided(missed, 9, "01:00:00"),
            [TickAction::Fire(at("01:00:00"))]
        );
        assert_eq!(
            decided(missed, 9, "01:04:59"),
            [TickAction::Fire(at("01:00:00"))]
        );
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
            TickAction::Fire(at("04:00:00"))
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
            TickAction::Fire(at("04:00:00"))
        ]
    );
}

#[test]
fn all_fires_the_latest_up_to_its_number() {
    let fires = ["03:00:00", "04:00:00"].map(|text| TickAction::Fire(at(text)));

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

    let paused = Span {
        paused_at: Some(at("02:00:00")),
        ..up_to("04:30:00")
    };
    let (calls, _) = decide(&schedule, paused, 100);

    assert_eq!(
        calls,
        [
            TickAction::Fire(at("01:00:00")),
            TickAction::Fire(at("02:00:00")),
            skip("03:00:00", "04:00:00", 2, "paused")
        ]
    );
}

#[test]
fn a_long_time_is_decided_in_goes_with_the_same_fires() {
    for missed in [Missed::Skip, Missed::Once, Missed::All] {
        for paused_at in [None, Some(at("09:00:00"))] {
            let span = Span {
                paused_at,
                ..up_to("20:04:00")
            };
            let schedule = hourly(missed, 3);
            let (in_one_go, whole) = decide(&schedule, span, 100);
            let in_goes = in_goes(&schedule, span, 2);

            let fires = |calls: &[TickAction]| -> Vec<TickAction> {
                let fires = calls
                    .iter()
                    .filter(|call| matches!(call, TickAction::Fire(_)));
                fires.cloned().collect()
            };
            let instants = |calls: &[TickAction]| -> i64 {
                let count = |call: &TickAction| match call {
                    TickAction::Fire(_) => 1,
                    TickAction::Skip(stretch) => stretch.instants,
                };
                calls.iter().map(count).sum()
            };
            assert!(whole);
            assert_eq!(
                fires(&in_goes),
                fires(&in_one_go),
                "{missed:?} {paused_at:?}"
            );
            assert_eq!(instants(&in_goes), 20, "{in_goes:?}");
            assert!(in_goes.len() > in_one_go.len());
        }
    }
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
        TickAction::Skip(Stretch {
            first: instants[first],
            last: instants[last],
            instants: i64::try_from(last - first + 1).unwrap(),
            reason: "missed",
        })
    };
    assert_eq!(
        calls,
        [skip(0, 0), TickAction::Fire(instants[1]), skip(2, 3)]
    );
}
