//! Journals that Semel does not write: each is refused, and says where.

use semel_model::event::{Event, WaitEnd};
use semel_model::request::{LocalChange, StepRequest};
use semel_model::run::EndState;
use semel_model::{Fault, RunId};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{flow_of, start};
use crate::event::apply;
use crate::state::{FoldError, FoldedRun};

/// `s0` adds to an entry, `s1` waits.
fn fold(events: &[Value]) -> Result<FoldedRun, FoldError> {
    let flow = flow_of(&[6, 15], false);
    let mut state = FoldedRun::new(RunId::from_uuid(Uuid::nil()));
    for (seq, event) in (1..).zip(events) {
        let event: Event = serde_json::from_value(event.clone()).unwrap();
        apply(&mut state, &event, &flow, start()).map_err(|misfit| misfit.at(seq))?;
    }
    Ok(state)
}

fn accepted() -> Value {
    json!({ "event": "accepted", "trigger": "api", "input": {} })
}

fn intended(attempt: u32) -> Value {
    let mut intended = json!({ "event": "intended", "step": "s0", "attempt": attempt,
        "effect": "eff_00000000000000000000000000000001" });
    if attempt == 1 {
        intended["request"] = request();
    }
    intended
}

/// The request that `s0` makes, as the journal holds it.
fn request() -> Value {
    let operation = semel_model::kv::Operation {
        entry: "a".to_owned(),
        verb: semel_model::kv::Verb::Delete,
    };
    let change = LocalChange::Kv(operation);
    serde_json::to_value(StepRequest::Local(change)).unwrap()
}

fn done(step: &str) -> Value {
    json!({ "event": "done", "step": step, "by": "commit", "result": null })
}

fn ended() -> Value {
    let end = Event::Ended {
        state: EndState::Failed,
        result: Value::Null,
        fault: Some(Fault::permanent("a", "b")),
    };
    serde_json::to_value(end).unwrap()
}

fn skipped() -> Value {
    json!({ "event": "skipped", "step": "s0" })
}

#[test]
fn events_that_do_not_fit_are_refused_by_row_name_and_state() {
    let wait_ended = serde_json::to_value(Event::WaitEnded {
        step: "s1".to_owned(),
        how: WaitEnd::Elapsed,
    })
    .unwrap();
    let loaded = json!({ "event": "fan_loaded", "step": "s0", "count": 1 });
    let resumed = json!({ "event": "resumed", "reason": "again" });
    let cases = [
        (vec![skipped()], 1, "skipped", "has not begun"),
        (
            vec![accepted(), accepted()],
            2,
            "accepted",
            "is about to begin a step at `s0`",
        ),
        (
            vec![accepted(), loaded],
            2,
            "fan_loaded",
            "is about to begin a step at `s0`",
        ),
        (
            vec![accepted(), done("s0")],
            2,
            "done",
            "is about to begin a step at `s0`",
        ),
        (
            vec![accepted(), intended(1), done("s1")],
            3,
            "done",
            "has a pending effect at `s0`",
        ),
        (
            vec![accepted(), intended(1), intended(2)],
            3,
            "intended",
            "has a pending effect at `s0`",
        ),
        (
            vec![accepted(), intended(2)],
            2,
            "intended",
            "is about to begin a step at `s0`",
        ),
        (
            vec![accepted(), intended(1), ended()],
            3,
            "ended",
            "has a pending effect at `s0`",
        ),
        (
            vec![accepted(), intended(1), done("s0"), done("s0")],
            4,
            "done",
            "is about to begin a step at `s1`",
        ),
        (
            vec![accepted(), skipped(), wait_ended],
            3,
            "wait_ended",
            "is about to begin a step at `s1`",
        ),
        (
            vec![accepted(), ended(), skipped()],
            3,
            "skipped",
            "has ended",
        ),
        (vec![accepted(), ended(), ended()], 3, "ended", "has ended"),
        (vec![resumed], 1, "resumed", "has not begun"),
    ];

    for (events, seq, event, state) in cases {
        let state = state.to_owned();
        let error = fold(&events).map(|_| ()).unwrap_err();
        assert_eq!(error, FoldError { seq, event, state }, "{events:?}");
    }
}

#[test]
fn what_a_resume_and_a_correction_add_to_an_ended_run_fits() {
    let amended = json!({ "event": "amended", "step": "s0", "result": 2 });
    let resumed = json!({ "event": "resumed", "reason": "again", "by": "ada" });

    let folded = fold(&[
        accepted(),
        intended(1),
        done("s0"),
        ended(),
        amended,
        resumed,
    ])
    .unwrap();

    assert!(!folded.ended && folded.reopened);
    assert_eq!(folded.steps["s0"]["result"], json!(2));
}
