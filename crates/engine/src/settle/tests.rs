//! What outcomes mean under guards, case by case.

use jiff::Timestamp;
use semel_flow::Step;
use semel_model::effect::{Effect, Licence, Pending};
use semel_model::event::{Event, Plan};
use semel_model::{Doubt, EffectId, Fault, FaultKind, Guard, Outcome, RunId};
use uuid::Uuid;

use super::{Bench, settle};

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

fn bench(step: &Step, held_back: u32) -> Bench<'_> {
    Bench {
        step,
        window: None,
        held_back,
        since: Timestamp::UNIX_EPOCH,
        now: Timestamp::UNIX_EPOCH,
        chance: 0.5,
    }
}

fn first(guard: Guard) -> Effect<Pending> {
    let run = RunId::from_uuid(Uuid::nil());
    Effect::<Pending>::intend(EffectId::derive(run, "a", "", 0), guard)
}

/// The second attempt, after one that nobody can say anything about.
fn second(guard: Guard, licence: Licence) -> Effect<Pending> {
    let doubt = Doubt::new("no-answer", "nothing came back");
    first(guard).in_doubt(doubt).repeated(licence)
}

fn judged(step: &Step, effect: &Effect<Pending>, fault: Fault) -> Option<Event> {
    settle(bench(step, 0), effect, &Outcome::Failed(fault))
}

fn held_back() -> Fault {
    Fault::passing("destination-busy", "no room").of(FaultKind::HeldBack)
}

fn is_left_to_a_person(event: Option<&Event>) -> bool {
    matches!(
        event,
        Some(Event::Doubted {
            plan: Plan::Review,
            ..
        })
    )
}

#[test]
fn after_a_doubt_what_was_found_out_here_says_nothing_about_it() {
    let found_here = Fault::permanent("connection-changed", "the connection leads elsewhere");
    let keyed_again = second(Guard::Key, Licence::Key);
    let db_again = second(Guard::Transaction, Licence::Marker);

    let event = judged(&keyed(), &keyed_again, found_here.clone());
    assert!(is_left_to_a_person(event.as_ref()), "{event:?}");
    let event = judged(&db(), &db_again, found_here);
    assert!(is_left_to_a_person(event.as_ref()), "{event:?}");
}

#[test]
fn after_a_doubt_the_answer_of_a_destination_that_knows_is_final() {
    let refused = Fault::permanent("http-422", "no such customer").of(FaultKind::Http(422));
    let broken = Fault::permanent("sql-23505", "there is one already").of(FaultKind::Sql);

    let event = judged(&keyed(), &second(Guard::Key, Licence::Key), refused);
    assert!(matches!(event, Some(Event::Failed { .. })), "{event:?}");
    let again = second(Guard::Transaction, Licence::Marker);
    let event = judged(&db(), &again, broken);
    assert!(matches!(event, Some(Event::Failed { .. })), "{event:?}");
}

#[test]
fn a_commit_without_an_answer_is_made_again_and_meets_its_marker() {
    let lost = Outcome::InDoubt(Doubt::new("commit-unanswered", "nothing came back"));
    let step = db();

    let event = settle(bench(&step, 0), &first(Guard::Transaction), &lost);

    let Some(Event::Doubted { plan, .. }) = event else {
        unreachable!("a doubt stays one: {event:?}");
    };
    let marked = matches!(
        plan,
        Plan::Repeat {
            licence: Licence::Marker,
            ..
        }
    );
    assert!(marked, "{plan:?}");
}

#[test]
fn what_limits_hold_back_uses_up_no_attempt() {
    let step = keyed();
    let busy = Outcome::Failed(held_back());
    let failed = Outcome::Failed(Fault::passing("no-connection", "refused"));
    let mut effect = first(Guard::Key);
    for _ in 0..9 {
        effect = effect.retrying(held_back()).again();
    }

    for outcome in [busy, failed.clone()] {
        let event = settle(bench(&step, 9), &effect, &outcome);
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
    let event = settle(bench(&step, 0), &effect, &failed);
    assert!(
        matches!(event, Some(Event::Failed { retry_at: None, .. })),
        "{event:?}"
    );
}
