//! What outcomes mean under guards, case by case.

use std::time::Duration;

use jiff::Timestamp;
use semel_flow::Step;
use semel_model::connection::KEY_REFUSALS;
use semel_model::effect::{Effect, Licence, Pending};
use semel_model::event::{DoubtPlan, Event};
use semel_model::{Doubt, EffectId, Fault, FaultKind, Guard, Outcome, RunId, SettledBy};
use uuid::Uuid;

use super::{SettleContext, doubted_again, found_pending, next_probe, settle};

fn step(action: &str) -> Step {
    let source = format!(
        "flow: a\ntrigger: {{ api: {{}} }}\nsteps:\n  - id: a\n    {action}\n    retry: {{ attempts: 3, within: 1h }}\n"
    );
    let flow = semel_flow::load(&source);
    let mut steps = flow.map(|flow| flow.steps).unwrap_or_default();
    assert_eq!(steps.len(), 1, "{source}");
    steps.remove(0)
}

fn keyed() -> Step {
    step("http: { post: \"https://a.example/\" }\n    guard: key")
}

fn db() -> Step {
    step("db: { connection: shop, execute: INSERT INTO a VALUES (1) }")
}

fn context(step: &Step, held_back: u32) -> SettleContext<'_> {
    SettleContext {
        step,
        window: None,
        held_back,
        since: Timestamp::UNIX_EPOCH,
        landed_by: Timestamp::UNIX_EPOCH + Duration::from_secs(120),
        repeat_from: Timestamp::UNIX_EPOCH,
        final_refusals: KEY_REFUSALS,
        now: Timestamp::UNIX_EPOCH,
        jitter: 0.5,
        deferred: semel_model::Span::from_millis(0),
    }
}

fn first(guard: Guard) -> Effect<Pending> {
    let run = RunId::from_uuid(Uuid::nil());
    Effect::<Pending>::intend(EffectId::derive(run, "a", "", 0), guard)
}

/// The second attempt, after one whose outcome is unknown.
fn second(guard: Guard, licence: Licence) -> Effect<Pending> {
    let doubt = Doubt::new("no-answer", "nothing came back");
    first(guard).in_doubt(doubt).repeated(licence)
}

fn judged(step: &Step, effect: &Effect<Pending>, fault: Fault) -> Option<Event> {
    settle(context(step, 0), effect, &Outcome::Failed(fault))
}

fn held_back() -> Fault {
    Fault::passing("destination-busy", "no room").of(FaultKind::HeldBack)
}

fn refused(status: u16) -> Fault {
    Fault::permanent(format!("http-{status}"), "refused").of(FaultKind::Http(status))
}

fn is_left_to_a_person(event: Option<&Event>) -> bool {
    matches!(
        event,
        Some(Event::Doubted {
            plan: DoubtPlan::Review,
            ..
        })
    )
}

#[test]
fn after_a_doubt_a_local_fault_leaves_the_doubt() {
    let found_here = Fault::permanent("connection-changed", "the connection leads elsewhere");
    let keyed_again = second(Guard::Key, Licence::Key);
    let db_again = second(Guard::Transaction, Licence::Marker);

    let event = judged(&keyed(), &keyed_again, found_here.clone());
    assert!(is_left_to_a_person(event.as_ref()), "{event:?}");
    let event = judged(&db(), &db_again, found_here);
    assert!(is_left_to_a_person(event.as_ref()), "{event:?}");
}

#[test]
fn after_a_doubt_a_refusal_after_looking_is_final() {
    for status in [402, 412, 422] {
        let event = judged(&keyed(), &second(Guard::Key, Licence::Key), refused(status));
        assert!(matches!(event, Some(Event::Failed { .. })), "{event:?}");
    }
    let broken = Fault::permanent("sql-23505", "there is one already").after_marker();
    let again = second(Guard::Transaction, Licence::Marker);
    let event = judged(&db(), &again, broken);
    assert!(matches!(event, Some(Event::Failed { .. })), "{event:?}");
}

#[test]
fn after_a_doubt_a_refusal_without_looking_leaves_the_doubt() {
    for status in [400, 401, 403, 404, 405, 407, 410, 413, 421, 431, 451] {
        let event = judged(&keyed(), &second(Guard::Key, Licence::Key), refused(status));
        assert!(is_left_to_a_person(event.as_ref()), "{status}: {event:?}");
    }
    for code in ["28P01", "28000", "3D000", "0A000", "25006", "23505"] {
        let fault = Fault::permanent(format!("sql-{code}"), "refused before the marker");
        let again = second(Guard::Transaction, Licence::Marker);
        let event = judged(&db(), &again, fault);
        assert!(is_left_to_a_person(event.as_ref()), "{code}: {event:?}");
    }
}

#[test]
fn after_a_doubt_passing_faults_are_retried_and_end_in_doubt() {
    let busy = || Fault::passing("http-429", "slow down").of(FaultKind::Http(429));
    let again = second(Guard::Key, Licence::Key);
    let third = again.clone().retrying(busy()).again();

    let event = judged(&keyed(), &again, busy());
    let retries =
        matches!(&event, Some(Event::Failed { retry_at: Some(_), fault, .. }) if fault.retryable);
    assert!(retries, "{event:?}");
    let event = judged(&keyed(), &third, busy());
    assert!(is_left_to_a_person(event.as_ref()), "{event:?}");
}

#[test]
fn a_connection_says_which_refusals_its_destination_stores_under_the_key() {
    let step = keyed();
    let own = SettleContext {
        final_refusals: &[402],
        ..context(&step, 0)
    };
    let judged = |status: u16| {
        let refused = Outcome::Failed(refused(status));
        settle(own, &second(Guard::Key, Licence::Key), &refused)
    };

    let stored = judged(402);
    assert!(matches!(stored, Some(Event::Failed { .. })), "{stored:?}");
    let unknown = judged(422);
    assert!(is_left_to_a_person(unknown.as_ref()), "{unknown:?}");
}

const PROBE: &str = "http: { post: \"https://a.example/\" }\n    guard: probe\n    probe: { http: { get: \"https://a.example/\" }, found: probe.json.size() > 0 MORE}";

#[test]
fn a_probe_asks_soon_and_is_believed_late_unless_the_author_says_why_not() {
    let usual = step(&PROBE.replace("MORE", ""));
    let signed = step(&PROBE.replace("MORE", ", after: 40s, because: it acts at once or never "));
    let lost = Outcome::InDoubt(Doubt::new("no-answer", "nothing came back"));
    let at = |secs| Timestamp::UNIX_EPOCH + Duration::from_secs(secs);
    let plan = |at, absent_from| DoubtPlan::Probe {
        at,
        absent_from: Some(absent_from),
    };

    for (step, expected) in [
        (&usual, plan(at(5), at(120))),
        (&signed, plan(at(40), at(40))),
    ] {
        let effect = first(Guard::Probe);
        let doubted = settle(context(step, 0), &effect, &lost);
        let found = Some(found_pending(context(step, 0), &effect));
        for event in [doubted, found] {
            let Some(Event::Doubted { plan, .. }) = event else {
                unreachable!("a doubt stays one: {event:?}");
            };
            assert_eq!(plan, expected);
        }
    }
}

#[test]
fn what_a_lost_worker_sent_is_repeated_no_earlier_than_a_lease_after_its_intent() {
    let at = |secs| Timestamp::UNIX_EPOCH + Duration::from_secs(secs);
    let repeat = |licence| DoubtPlan::Repeat {
        at: at(30),
        licence,
    };
    let probe = |at, absent_from| DoubtPlan::Probe {
        at,
        absent_from: Some(absent_from),
    };
    let usual = PROBE.replace("MORE", "");
    let signed = PROBE.replace("MORE", ", after: 20s, because: it acts at once or never ");
    let natural = "http: { put: \"https://a.example/\" }\n    guard: natural";

    for (step, guard, expected) in [
        (keyed(), Guard::Key, repeat(Licence::Key)),
        (step(natural), Guard::Natural, repeat(Licence::Natural)),
        (db(), Guard::Transaction, repeat(Licence::Marker)),
        (step(&usual), Guard::Probe, probe(at(5), at(120))),
        (step(&signed), Guard::Probe, probe(at(20), at(30))),
    ] {
        let soon = SettleContext {
            repeat_from: at(30),
            ..context(&step, 0)
        };
        let Event::Doubted { plan, .. } = found_pending(soon, &first(guard)) else {
            unreachable!("it is in doubt");
        };
        assert_eq!(plan, expected, "{guard:?}");
    }
}

#[test]
fn what_a_lost_worker_would_have_committed_here_is_made_again_at_once() {
    let step = step("kv: { add: seen }");
    let soon = SettleContext {
        repeat_from: Timestamp::UNIX_EPOCH + Duration::from_secs(30),
        ..context(&step, 0)
    };

    let event = found_pending(soon, &first(Guard::Transaction));

    let Event::Doubted { plan, .. } = event else {
        unreachable!("it is in doubt: {event:?}");
    };
    let expected = DoubtPlan::Repeat {
        at: Timestamp::UNIX_EPOCH,
        licence: Licence::Uncommitted,
    };
    assert_eq!(plan, expected);
}

#[test]
fn a_key_that_is_forgotten_before_a_repeat_may_leave_is_left_to_an_operator() {
    let step = keyed();
    let short = SettleContext {
        window: Some(semel_model::Span::from_secs(20)),
        repeat_from: Timestamp::UNIX_EPOCH + Duration::from_secs(30),
        ..context(&step, 0)
    };

    let event = found_pending(short, &first(Guard::Key));

    assert!(is_left_to_a_person(Some(&event)), "{event:?}");
}

#[test]
fn a_probe_that_found_nothing_too_early_asks_later_each_time_and_once_in_the_end() {
    let at = |secs| Timestamp::UNIX_EPOCH + Duration::from_secs(secs);

    assert_eq!(next_probe(at(5), 0, at(120)), at(10));
    assert_eq!(next_probe(at(10), 1, at(120)), at(20));
    assert_eq!(next_probe(at(40), 3, at(120)), at(80));
    assert_eq!(next_probe(at(80), 9, at(120)), at(120));
    assert_eq!(next_probe(at(10), 9, at(1_000)), at(90));
}

#[test]
fn what_only_an_operator_can_settle_is_not_repeated_whatever_the_guard() {
    let unstorable = Outcome::InDoubt(Doubt::for_operator("answer-refused", "no JSON"));
    let step = step("task: { queue: a, within: 1h }\n    guard: natural");

    let event = settle(context(&step, 0), &first(Guard::Natural), &unstorable);

    assert!(is_left_to_a_person(event.as_ref()), "{event:?}");
}

#[test]
fn a_commit_without_an_answer_is_made_again_and_meets_its_marker() {
    let lost = Outcome::InDoubt(Doubt::new("commit-unanswered", "nothing came back"));
    let step = db();

    let event = settle(context(&step, 0), &first(Guard::Transaction), &lost);

    let Some(Event::Doubted { plan, .. }) = event else {
        unreachable!("a doubt stays one: {event:?}");
    };
    let marked = matches!(
        plan,
        DoubtPlan::Repeat {
            licence: Licence::Marker,
            ..
        }
    );
    assert!(marked, "{plan:?}");
}

#[test]
fn an_attempt_held_back_by_a_limit_does_not_count() {
    let step = keyed();
    let busy = Outcome::Failed(held_back());
    let failed = Outcome::Failed(Fault::passing("no-connection", "refused"));
    let mut effect = first(Guard::Key);
    for _ in 0..9 {
        effect = effect.retrying(held_back()).again();
    }

    for outcome in [busy, failed.clone()] {
        let event = settle(context(&step, 9), &effect, &outcome);
        let again = matches!(
            &event,
            Some(Event::Failed {
                retry_at: Some(_),
                ..
            })
        );
        assert!(again, "{event:?}");
    }
    // Without them, the author's three attempts are long over.
    let event = settle(context(&step, 0), &effect, &failed);
    assert!(
        matches!(event, Some(Event::Failed { retry_at: None, .. })),
        "{event:?}"
    );
}

#[test]
fn a_repeat_that_would_leave_after_the_key_is_forgotten_is_left_to_an_operator() {
    let step = step("http: { post: \"https://a.example/\" }\n    guard: key\n    window: 20m");
    let far = Fault {
        retry_after: Some(semel_model::Span::from_secs(1_150)),
        ..Fault::passing("http-429", "slow down").of(FaultKind::Http(429))
    };

    let event = judged(&step, &second(Guard::Key, Licence::Key), far);

    assert!(is_left_to_a_person(event.as_ref()), "{event:?}");
}

#[test]
fn a_doubt_that_an_operator_failed_is_settled_by_its_guard_again() {
    let given_up = |guard| {
        let fault = Fault::permanent("failed-by-person", "x");
        let doubted = first(guard).in_doubt(Doubt::new("no-answer", "x"));
        doubted.refuted(fault).reopened()
    };
    let again = |context, guard, settled_by| doubted_again(context, &given_up(guard), settled_by);
    let keyed = keyed();
    let late = SettleContext {
        now: Timestamp::UNIX_EPOCH + Duration::from_secs(400 * 86_400),
        ..context(&keyed, 0)
    };

    let soon = again(context(&keyed, 0), Guard::Key, SettledBy::Guard);
    let left = [
        again(late, Guard::Key, SettledBy::Guard),
        again(context(&keyed, 0), Guard::Review, SettledBy::Guard),
        again(context(&keyed, 0), Guard::Key, SettledBy::Operator),
        again(context(&keyed, 0), Guard::Repeat, SettledBy::Operator),
    ];

    let repeats = DoubtPlan::Repeat {
        at: Timestamp::UNIX_EPOCH,
        licence: Licence::Key,
    };
    assert!(matches!(soon, Event::Doubted { plan, .. } if plan == repeats));
    for event in left {
        assert!(is_left_to_a_person(Some(&event)), "{event:?}");
    }
}
