//! States: final ones stay final, and nothing repeats a doubt without a licence.
//!
//! That illegal moves do not compile is shown by the `compile_fail` examples in the modules.

use proptest::prelude::*;
use semel_model::effect::{ConfirmedBy, Effect, Entry, Licence, Pending, State};
use semel_model::{ClaimId, Doubt, EffectId, Fault, Guard, Key, RunId};

#[derive(Clone, Copy, Debug)]
enum Move {
    Done,
    Fail,
    Retry,
    Doubt,
    Again,
    Repeat(Licence),
    Confirm,
    Refute,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let licence = prop_oneof![
        Just(Licence::Key),
        Just(Licence::Natural),
        Just(Licence::Absent),
        Just(Licence::Person)
    ];
    let one = prop_oneof![
        Just(Move::Done),
        Just(Move::Fail),
        Just(Move::Retry),
        Just(Move::Doubt),
        Just(Move::Again),
        licence.prop_map(Move::Repeat),
        Just(Move::Confirm),
        Just(Move::Refute),
    ];
    prop::collection::vec(one, 0..20)
}

/// Makes a move where the types allow one, and stays where they do not.
fn step(entry: Entry, by: Move) -> Entry {
    let fault = || Fault::passing("x", "x");
    match (entry, by) {
        (Entry::Pending(it), Move::Done) => Entry::Done(it.done(ConfirmedBy::Answer)),
        (Entry::Pending(it), Move::Fail) => Entry::Failed(it.failed(fault())),
        (Entry::Pending(it), Move::Retry) => Entry::Retrying(it.retrying(fault())),
        (Entry::Pending(it), Move::Doubt) => Entry::InDoubt(it.in_doubt(Doubt::new("x", "x"))),
        (Entry::Retrying(it), Move::Again) => Entry::Pending(it.again()),
        (Entry::Retrying(it), Move::Fail) => Entry::Failed(it.given_up()),
        (Entry::InDoubt(it), Move::Repeat(licence)) => Entry::Pending(it.repeated(licence)),
        (Entry::InDoubt(it), Move::Confirm) => Entry::Done(it.confirmed(ConfirmedBy::Probe)),
        (Entry::InDoubt(it), Move::Refute) => Entry::Failed(it.refuted(fault())),
        (entry, _) => entry,
    }
}

fn intent() -> Entry {
    let key = Key::new(*b"k").unwrap();
    let claim = ClaimId::derive(&"n".parse().unwrap(), &"f".parse().unwrap(), &key);
    let effect = EffectId::derive(RunId::derive(claim, 0), "s", "", 0);
    Entry::Pending(Effect::<Pending>::intend(effect, Guard::Key))
}

proptest! {
    #[test]
    fn whatever_happens_the_key_stays_and_attempts_only_grow(moves in moves()) {
        let first = intent();
        let key = first.id();
        let mut entry = first;
        let mut attempt = entry.attempt();
        for by in moves {
            entry = step(entry, by);
            prop_assert_eq!(entry.id(), key);
            prop_assert!(entry.attempt() >= attempt);
            attempt = entry.attempt();
        }
    }

    #[test]
    fn a_settled_effect_stays_settled(moves in moves()) {
        let mut entry = intent();
        let mut settled = None;
        for by in moves {
            entry = step(entry, by);
            if let Some(state) = settled {
                prop_assert_eq!(entry.state(), state);
            }
            if matches!(entry.state(), State::Done | State::Failed) {
                settled = Some(entry.state());
            }
        }
    }

    #[test]
    fn every_attempt_after_a_doubt_had_a_licence(moves in moves()) {
        let mut entry = intent();
        for by in moves {
            let before = entry.state();
            let licensed = matches!(by, Move::Repeat(_));
            entry = step(entry, by);
            if before == State::InDoubt && entry.state() == State::Pending {
                prop_assert!(licensed);
            }
        }
    }
}
