//! Laws of events: whatever a run decides and meets, its journal folds to the state that its turn
//! had, and its ledger has one row per effect, in the state that the run has for it.

mod journals;
mod sentences;
mod simulation;

use std::collections::BTreeSet;

use jiff::Timestamp;
use proptest::prelude::*;
use semel_flow::Flow;

use simulation::{Simulation, Written};

/// What a step may be; `N` is its number.
const STEPS: &[&str] = &[
    "http: { post: 'https://a.example/' }\n    guard: key",
    "http: { put: 'https://a.example/x' }\n    guard: natural",
    "http: { post: 'https://a.example/' }\n    guard: repeat\n    because: the test counts",
    "http: { post: 'https://a.example/' }\n    guard: review\n    undo: { kv: { delete: 'a' } }",
    "http: { post: 'https://a.example/' }\n    guard: probe\n    probe: { http: { get: 'https://a.example/x' }, found: probe.status == 200 }",
    "http: { get: 'https://a.example/' }",
    "kv: { add: a }\n    undo: { kv: { delete: 'a' } }",
    "kv: { set: a, value: 1 }",
    "kv: { get: a }",
    "emit: { event: went }",
    "call: { flow: other, input: 1 }",
    "call: { flow: other, input: 1, wait: false }",
    "function: input.id",
    "function: input.missing.field",
    "if: input.id == 7\n    function: input.id",
    "wait: { for: 5s }",
    "wait: { callback: true, within: 1h }",
    "wait: { callback: true, within: 1h, on_timeout: continue }",
    "approval: { from: [ops], show: 'it', within: 2h, remind: 10m }",
    "approval: { from: [ops], show: 'it', within: 2h, on_reject: continue, on_timeout: continue }",
    "task: { queue: q, within: 1h, lease: 30s }\n    guard: key",
    "task: { queue: q, within: 1h, lease: 30s }\n    guard: review",
    "switch:\n      cases:\n        - when: input.id == 1\n          steps: [{ id: aN, kv: { add: a } }]\n      default: [{ id: bN, function: '1' }]",
    "foreach:\n      in: input.items\n      key: item\n      steps:\n        - { id: iN, kv: { add: a }, undo: { kv: { delete: 'a' } } }\n        - { id: jN, http: { post: 'https://a.example/' }, guard: key }",
    "parallel:\n      branches:\n        - steps: [{ id: pN, kv: { add: a } }]\n        - steps: [{ id: qN, wait: { for: 5s } }]\n      join: all",
    "fail: { code: enough, message: 'no' }",
    "http: { post: 'https://a.example/' }\n    guard: probe\n    probe: { before: true, http: { get: 'https://a.example/x' }, found: probe.status == 200 }\n    undo: { kv: { delete: 'a' } }",
    "key: string(input.id)\n    http: { post: 'https://a.example/' }\n    guard: key",
    "key: string(input.id)\n    scope: flow\n    http: { post: 'https://a.example/${{ effect.key }}' }\n    guard: review\n    undo: { kv: { delete: 'a' } }",
    "key: string(input.id)\n    scope: namespace\n    emit: { event: went }",
];

/// Every event.
const NAMES: [&str; 33] = [
    "accepted",
    "switched",
    "fan_opened",
    "fan_loaded",
    "fan_stopped",
    "fan_ended",
    "started",
    "undoing",
    "computed",
    "read_failed",
    "skipped",
    "broken",
    "intended",
    "done",
    "failed",
    "doubted",
    "probed",
    "licensed",
    "wait_opened",
    "wait_ended",
    "approval_opened",
    "approval_told",
    "approval_decided",
    "approval_elapsed",
    "stopped",
    "resumed",
    "ended",
    "named",
    "gate_waiting",
    "admitted",
    "joined",
    "begun",
    "amended",
];

/// A flow of these steps.
pub(super) fn flow_of(steps: &[usize], undoes: bool) -> Flow {
    let mut source = "flow: a\ntrigger: { api: {} }\n".to_owned();
    if undoes {
        source += "on_failure: undo\n";
    }
    source += "steps:\n";
    for (number, step) in steps.iter().enumerate() {
        let step = STEPS[step % STEPS.len()].replace('N', &number.to_string());
        source += &format!("  - id: s{number}\n    {step}\n");
    }
    semel_flow::load(&source).unwrap_or_else(|| panic!("no flow:\n{source}"))
}

pub(super) fn start() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

#[test]
fn every_kind_of_step_is_a_flow() {
    for step in 0..STEPS.len() {
        assert!(!flow_of(&[step], true).steps.is_empty());
    }
}

#[test]
fn a_call_that_failed_is_made_again_by_an_effect_of_its_own() {
    let flow = flow_of(&[10], false);
    // The called run fails, an operator resumes the caller, and then it succeeds.
    let mut simulation = Simulation::start(&flow, vec![1, 1, 0, 0]);

    simulation.go();

    let Written { journal, ledger } = simulation.written();
    let count = |name: &str| journal.iter().filter(|it| it.1.name() == name).count();
    assert_eq!((count("started"), count("resumed")), (2, 1));
    assert_eq!(count("wait_ended"), 1);
    assert_eq!(ledger.len(), 2);
}

/// What runs write that pass no gate, are no children, and that no operator corrects.
#[test]
fn simulated_runs_write_every_other_event() {
    let unwritten = ["gate_waiting", "admitted", "joined", "begun", "amended"];
    let mut written = BTreeSet::new();
    let mut random = 1_u64;
    for _ in 0..600 {
        let mut byte = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 56) as u8
        };
        let steps: Vec<usize> = (0..3).map(|_| usize::from(byte())).collect();
        let flow = flow_of(&steps, byte() % 2 == 0);
        let script = (0..120).map(|_| byte()).collect();
        let mut simulation = Simulation::start(&flow, script);
        simulation.go();
        let journal = simulation.written().journal;
        written.extend(journal.iter().map(|(_, event)| event.name()));
    }

    let missing: Vec<&str> = NAMES
        .into_iter()
        .filter(|name| !written.contains(name))
        .collect();

    assert_eq!(missing, unwritten);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_journal_folds_to_the_state_that_its_turn_had(
        steps in proptest::collection::vec(0..STEPS.len(), 1..5),
        undoes in any::<bool>(),
        script in proptest::collection::vec(any::<u8>(), 0..160),
    ) {
        let flow = flow_of(&steps, undoes);
        let mut simulation = Simulation::start(&flow, script);

        simulation.go();

        let Written { journal, .. } = simulation.written();
        prop_assert!(!journal.is_empty());
    }
}
