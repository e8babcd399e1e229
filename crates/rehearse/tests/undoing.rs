//! Faults while a run undoes what it did: crashes and lost answers inside of compensations.

use std::collections::BTreeSet;

use anyhow::Result;
use semel_rehearse::{CaseVerdict, Selection};
use serde_json::json;

use crate::stage::World;

const FLOW: &str = "
flow: trip
trigger:
  webhook: { auth: none, key: input.id }
keep: 30d
retry: { attempts: 4, delay: 1s, max_delay: 10s, within: 1h }
steps:
  - id: seat
    http: { connection: hall, put: '/seats/${{ input.id }}', json: {} }
    undo: { http: { connection: hall, delete: '/seats/${{ input.id }}' } }
  - id: room
    http: { connection: inn, put: '/rooms/${{ input.id }}', json: {} }
    undo: { http: { connection: inn, post: '/rooms/${{ input.id }}/free', json: {} } }
  - id: told
    http: { connection: hall, put: '/told/${{ input.id }}', json: {} }
on_failure: undo
examples:
  - name: one
    input: { id: a1 }
";

#[tokio::test]
async fn crashes_and_lost_answers_are_tried_inside_of_every_undo() -> Result<()> {
    let world = World::start().await?;

    let report = world.rehearse("trip.flow.yaml", FLOW, json!({})).await?;

    let faults: BTreeSet<&str> = report.cases.iter().map(|one| one.fault.as_str()).collect();
    for undo in ["seat.undo", "room.undo"] {
        for fault in [
            "crash@STEP/outcome.before (told refused)",
            "crash@STEP/outcome.after (told refused)",
            "answer-lost-before@STEP (told refused)",
            "answer-lost-after@STEP (told refused)",
            "answer-late@STEP (told refused)",
        ] {
            let fault = fault.replace("STEP", undo);
            assert!(faults.contains(fault.as_str()), "{fault} of {faults:#?}");
        }
    }
    assert!(report.passed, "{}", report.to_text());
    // Nobody can tell whether a room was freed whose answer is lost; a seat is freed again.
    let lost = report
        .cases
        .iter()
        .filter(|one| one.fault.starts_with("answer-lost-after@"));
    let doubts: Vec<&str> = lost
        .filter(|one| one.verdict == CaseVerdict::InDoubt)
        .map(|one| one.fault.as_str())
        .collect();
    assert_eq!(doubts, ["answer-lost-after@room.undo (told refused)"]);
    Ok(())
}

#[tokio::test]
async fn a_case_inside_of_an_undo_is_repeated_by_its_name() -> Result<()> {
    let world = World::start().await?;
    let fault = "answer-lost-after@seat.undo (told refused)";
    let selection = Selection {
        example: Some("one".to_owned()),
        fault: Some(fault.to_owned()),
        seed: 0,
    };

    let report = world
        .rehearse_some("trip.flow.yaml", FLOW, json!({}), &selection)
        .await?;

    let case = report.cases.iter().find(|one| one.fault == fault);
    assert_eq!(case.map(|one| one.verdict), Some(CaseVerdict::Passed));
    assert!(report.cases.len() < 10, "{}", report.to_text());
    Ok(())
}
