//! Generations that the next run of a key must know of, also when the history is gone: of effects that were
//! undone, and of those that were performed again under another key.
//!
//! Other steps keep the generation that the intent of their key gives, so that nothing else of them is kept.

use semel_flow::{ActionKind, Flow, Step};
use semel_model::effect::ConfirmedBy;
use semel_model::event::Event;
use semel_store::kept_generations::{GenerationChange, KeyMemory};

use crate::key_memory::key_memory;
use crate::state::{FoldedRun, UNDO};

/// What an event sets apart, where `after` is what is true by it. An effect is set apart once it is done: the
/// intent alone would have the next run perform it again, where it was refused and the one before it stands.
pub(super) fn changes(event: &Event, after: &FoldedRun, flow: &Flow) -> Vec<GenerationChange> {
    if let Event::Done { step, by, .. } = event {
        let is_met = *by == ConfirmedBy::FoundBefore && !step.ends_with(UNDO);
        match is_met {
            true => Vec::new(),
            false => done(after, flow, step),
        }
    } else if let Event::Intended {
        step,
        generation,
        request: Some(_),
        ..
    } = event
    {
        // The end of a call is another flow's: its next intent has another generation by then.
        let calls = |step: &Step| matches!(step.kind(), ActionKind::Call);
        match flow.find_step(step).is_some_and(calls) {
            true => performed(after, flow, (step, *generation)),
            false => Vec::new(),
        }
    } else {
        Vec::new()
    }
}

/// What sets a step apart that is done, or expected to be.
pub(super) fn done(state: &FoldedRun, flow: &Flow, step: &str) -> Vec<GenerationChange> {
    match step.ends_with(UNDO) {
        true => undone(state, flow, step),
        false => performed(state, flow, (step, state.generation(step))),
    }
}

/// Nothing where the intent of the key gives that generation.
fn performed(
    state: &FoldedRun,
    flow: &Flow,
    (step, generation): (&str, u32),
) -> Vec<GenerationChange> {
    let is_other = generation != intent_of(state) && !step.ends_with(UNDO);
    let memory = memory_of(flow, step).filter(|_| is_other);
    let change = memory.map(|memory| change(state, (step, generation), false, memory));
    change.into_iter().collect()
}

/// What the end of a step sets apart, where it undoes another one's effect: that effect for as long as
/// the key of either is remembered, and the undo itself where it left keys behind that its destination had
/// refused.
fn undone(state: &FoldedRun, flow: &Flow, step: &str) -> Vec<GenerationChange> {
    let Some(of) = step.strip_suffix(UNDO) else {
        return Vec::new();
    };
    let (effect, undo) = (state.generation(of), state.generation(step));
    let memory = memory_of(flow, step);
    let longest = memory.max(memory_of(flow, of));
    let of_effect = longest.map(|memory| change(state, (of, effect), true, memory));
    let of_undo = memory.filter(|_| undo > effect);
    let of_undo = of_undo.map(|memory| change(state, (step, undo), true, memory));
    of_effect.into_iter().chain(of_undo).collect()
}

/// The turn knows the connections.
fn memory_of(flow: &Flow, step: &str) -> Option<KeyMemory> {
    key_memory(flow.find_step(step)?, None)
}

fn change(
    state: &FoldedRun,
    (step, generation): (&str, u32),
    undone: bool,
    memory: KeyMemory,
) -> GenerationChange {
    GenerationChange {
        first: state.first(),
        step: step.to_owned(),
        generation,
        intent: intent_of(state),
        undone,
        memory,
    }
}

fn intent_of(state: &FoldedRun) -> u32 {
    state.earlier.as_ref().map_or(0, |earlier| earlier.intent)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use semel_model::{EffectId, Fingerprint, PastEffect, PastOutcome, RunId};
    use serde_json::Value;
    use uuid::Uuid;

    use super::*;
    use crate::state::{EarlierRuns, KEPT};

    const BOOK: &str = "flow: a\ntrigger: { api: {} }\nsteps:\n  - id: book\n    guard: key\n    \
        http: { post: 'https://a.example/bookings' }\n    \
        undo: { http: { put: 'https://a.example/free' } }\n";

    fn book() -> Flow {
        semel_flow::load(BOOK).unwrap_or_else(|| panic!("no flow:\n{BOOK}"))
    }

    fn run() -> RunId {
        RunId::from_uuid(Uuid::nil())
    }

    fn is_done(step: &str) -> Event {
        Event::Done {
            step: step.to_owned(),
            by: ConfirmedBy::Answer,
            external_id: None,
            status: Some(200),
            result: Value::Null,
        }
    }

    fn seen(changes: &[GenerationChange]) -> Vec<(&str, u32, bool)> {
        let seen = changes.iter();
        seen.map(|it| (it.step.as_str(), it.generation, it.undone))
            .collect()
    }

    #[test]
    fn an_undo_that_left_a_key_behind_is_kept_beside_what_it_undid() {
        let mut state = FoldedRun::new(run());
        let plain = changes(&is_done("book.undo"), &state, &book());
        state.renewed.insert("book.undo".to_owned(), 1);
        let renewed = changes(&is_done("book.undo"), &state, &book());

        assert_eq!(seen(&plain), [("book", 0, true)]);
        assert_eq!(seen(&renewed), [("book", 0, true), ("book.undo", 1, true)]);
    }

    #[test]
    fn what_is_performed_again_is_set_apart_once_it_is_done() {
        let mut state = FoldedRun::new(run());
        let first = changes(&is_done("book"), &state, &book());
        state.redone.insert("book".to_owned(), 1);
        let again = changes(&is_done("book"), &state, &book());

        assert_eq!(seen(&first), []);
        assert_eq!(seen(&again), [("book", 1, false)]);
    }

    #[test]
    fn an_undo_without_its_history_has_a_key_that_none_before_it_had() {
        let past = |step: &str, generation| PastEffect {
            step: step.to_owned(),
            effect: EffectId::derive(run(), step, "", generation),
            sent_as: None,
            generation,
            run: run(),
            kind: KEPT.to_owned(),
            connection: None,
            fingerprint: Fingerprint::of(&Value::Null),
            outcome: PastOutcome::Undone,
        };
        let effects = [past("book", 0), past("book.undo", 1)];
        let effects = effects.into_iter().map(|it| (it.step.clone(), it));
        let mut state = FoldedRun::new(run());
        state.earlier = Some(Box::new(EarlierRuns {
            first: run(),
            last: Some(run()),
            intent: 0,
            accepts: Vec::new(),
            kept: Vec::new(),
            results: BTreeMap::new(),
            effects: Some(effects.collect()),
            runs: Vec::new(),
        }));

        assert_eq!(state.generation("book"), 1);
        assert_eq!(state.generation("book.undo"), 2);
    }
}
