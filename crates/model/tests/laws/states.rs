//! States: final ones stay final, and nothing repeats a doubt without a licence.
//!
//! That illegal moves do not compile is shown by the `compile_fail` examples in the modules.

use proptest::prelude::*;
use semel_model::effect::{ConfirmedBy, Effect, EffectState, LedgerEntry, Licence, Pending};
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
        Just(Licence::Operator)
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
fn step(entry: LedgerEntry, by: Move) -> LedgerEntry {
    let fault = || Fault::passing("x", "x");
    match (entry, by) {
        (LedgerEntry::Pending(it), Move::Done) => LedgerEntry::Done(it.done(ConfirmedBy::Answer)),
        (LedgerEntry::Pending(it), Move::Fail) => LedgerEntry::Failed(it.failed(fault())),
        (LedgerEntry::Pending(it), Move::Retry) => LedgerEntry::Retrying(it.retrying(fault())),
        (LedgerEntry::Pending(it), Move::Doubt) => {
            LedgerEntry::InDoubt(it.in_doubt(Doubt::new("x", "x")))
        }
        (LedgerEntry::Retrying(it), Move::Again) => LedgerEntry::Pending(it.again()),
        (LedgerEntry::Retrying(it), Move::Fail) => LedgerEntry::Failed(it.given_up()),
        (LedgerEntry::InDoubt(it), Move::Repeat(licence)) => {
            LedgerEntry::Pending(it.repeated(licence))
        }
        (LedgerEntry::InDoubt(it), Move::Confirm) => {
            LedgerEntry::Done(it.confirmed(ConfirmedBy::Probe))
        }
        (LedgerEntry::InDoubt(it), Move::Refute) => LedgerEntry::Failed(it.refuted(fault())),
        (entry, _) => entry,
    }
}

fn intent() -> LedgerEntry {
    let key = Key::new(*b"k").unwrap();
    let claim = ClaimId::derive(&"n".parse().unwrap(), &"f".parse().unwrap(), &key);
    let effect = EffectId::derive(RunId::derive(claim, 0), "s", "", 0);
    LedgerEntry::Pending(Effect::<Pending>::intend(effect, Guard::Key))
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
            if matches!(entry.state(), EffectState::Done | EffectState::Failed) {
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
            if before == EffectState::InDoubt && entry.state() == EffectState::Pending {
                prop_assert!(licensed);
            }
        }
    }
}
