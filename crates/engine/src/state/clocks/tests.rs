//! The clocks of a run, and what a pause does to them.

use jiff::Timestamp;
use semel_flow::Flow;
use semel_model::event::{Deferral, Event, NameEvent, NameHolder};
use semel_model::{EffectScope, Fingerprint, NamedEffectId, RunId, Span, TriggerKind, WaitId};
use serde_json::Value;
use uuid::Uuid;

use super::RunClock;
use crate::event::apply;
use crate::state::FoldedRun;

fn start() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn flow_of(step: &str) -> Flow {
    let source = format!("flow: a\ntrigger: {{ api: {{}} }}\nsteps:\n  - id: s0\n    {step}\n");
    semel_flow::load(&source).unwrap_or_else(|| panic!("no flow:\n{source}"))
}

/// A run of the flow after these events, all written at once.
fn fold(flow: &Flow, events: &[Event]) -> FoldedRun {
    let accepted = Event::Accepted {
        trigger: TriggerKind::Api,
        input: Value::Null,
        headers: Value::Null,
        query: Value::Null,
        caller: None,
        by: None,
        nominal: None,
    };
    let mut state = FoldedRun::new(RunId::from_uuid(Uuid::nil()));
    for event in std::iter::once(&accepted).chain(events) {
        apply(&mut state, event, flow, start()).unwrap();
    }
    state
}

fn running(state: &FoldedRun, flow: &Flow) -> Vec<RunClock> {
    state.clocks(flow).collect()
}

fn named(named: NameEvent) -> Event {
    let step = "s0".to_owned();
    Event::Named { step, named }
}

/// The run asked for a key and waits behind another.
fn waits_for_name() -> [Event; 2] {
    let asked = NameEvent::Asked {
        name: NamedEffectId::from_uuid(Uuid::from_u128(1)),
        scope: EffectScope::Shared,
        key: "k".to_owned(),
        fingerprint: Fingerprint::of(&Value::Null),
        generation: 0,
    };
    let behind = NameHolder::Run(RunId::from_uuid(Uuid::from_u128(8)));
    let in_doubt = false;
    let waiting = NameEvent::Waiting { behind, in_doubt };
    [named(asked), named(waiting)]
}

#[test]
fn the_wait_for_a_business_key_stands_still_with_a_pause() {
    let flow =
        flow_of("key: string(input.id)\n    http: { post: 'https://a.example/' }\n    guard: key");
    let mut state = fold(&flow, &waits_for_name());
    let hour = Span::from_secs(3_600).to_duration();

    let (from, until) = (start(), start() + hour);
    let deferred = Event::Deferred(Deferral { from, until });
    apply(&mut state, &deferred, &flow, until).unwrap();

    assert_eq!(running(&state, &flow), [RunClock::Name]);
    assert_eq!(state.names["s0"].since, until);
}

#[test]
fn a_run_that_only_begins_a_step_counts_no_time() {
    let flow = flow_of("http: { post: 'https://a.example/' }\n    guard: key");

    let state = fold(&flow, &[]);

    assert!(!state.counts_time(&flow));
}

#[test]
fn an_instant_that_the_flow_names_is_no_clock() {
    let opened = Event::WaitOpened {
        step: "s0".to_owned(),
        wait: WaitId::from_uuid(Uuid::from_u128(1)),
        until: Some(start()),
        about: None,
    };
    let instant = flow_of("wait: { until: input.due_at }");
    let timer = flow_of("wait: { for: 1h }");

    let waits = fold(&instant, std::slice::from_ref(&opened));
    let sleeps = fold(&timer, &[opened]);

    assert!(!waits.counts_time(&instant));
    assert_eq!(running(&sleeps, &timer), [RunClock::Wait]);
}
