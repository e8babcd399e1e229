//! Identities are derived: the same names give the same, others give others.

use proptest::prelude::*;
use semel_model::{ClaimId, EffectId, FlowName, InSlot, Key, NamespaceName, RunId, WaitId};

fn claim(namespace: &str, flow: &str, key: &[u8]) -> ClaimId {
    let namespace: NamespaceName = namespace.parse().unwrap();
    let flow: FlowName = flow.parse().unwrap();
    ClaimId::derive(&namespace, &flow, &Key::new(key).unwrap())
}

proptest! {
    #[test]
    fn any_bytes_are_a_key_and_two_keys_never_merge(
        one in prop::collection::vec(any::<u8>(), 1..64),
        other in prop::collection::vec(any::<u8>(), 1..64),
    ) {
        let same = claim("a", "f", &one) == claim("a", "f", &other);

        prop_assert_eq!(same, one == other);
    }

    #[test]
    fn names_do_not_run_into_each_other(
        namespace in "[a-z][a-z0-9-]{0,8}",
        flow in "[a-z][a-z0-9-]{0,8}",
        key in "[a-z0-9-]{1,8}",
    ) {
        // Moving a letter from one name to the next is another claim.
        let moved = format!("{}{flow}", &namespace[namespace.len() - 1..]);
        if namespace.len() > 1 && moved.starts_with(|c: char| c.is_ascii_lowercase()) {
            let shorter = &namespace[..namespace.len() - 1];
            prop_assert_ne!(
                claim(&namespace, &flow, key.as_bytes()),
                claim(shorter, &moved, key.as_bytes()),
            );
        }
    }

    #[test]
    fn every_run_of_a_key_and_everything_of_it_stays_in_the_slot(
        key in prop::collection::vec(any::<u8>(), 1..32),
        number in 0u32..5000,
        step in "[a-z][a-z_]{0,12}",
    ) {
        let claim = claim("default", "flow", &key);
        let run = RunId::derive(claim, number);
        let first = RunId::derive(claim, 0);
        let child = run.child(&step, "0");
        let in_key = |id: &uuid::Uuid| {
            let (low, high) = first.key_range();
            low <= *id && *id <= high
        };

        let effect = EffectId::derive(run, &step, "", 0);
        let wait = WaitId::derive(run, &step);

        prop_assert_eq!(run.slot(), claim.slot());
        prop_assert_eq!(child.slot(), claim.slot());
        prop_assert_eq!(effect.slot(), claim.slot());
        prop_assert_eq!(wait.slot(), claim.slot());
        prop_assert!(run.slot().number() < semel_model::slot::SLOT_COUNT);
        // A key that a destination shows leads to the runs of its intent.
        prop_assert!(in_key(run.as_uuid()) && in_key(child.as_uuid()) && in_key(effect.as_uuid()));
        let (low, high) = run.wait_range();
        prop_assert!(low <= *wait.as_uuid() && *wait.as_uuid() <= high);
        let other = child.wait_range();
        prop_assert!(high < other.0 || other.1 < low, "child runs have waits of their own");
    }

    #[test]
    fn every_step_item_and_run_has_an_effect_key_of_its_own(
        one in (0u32..3, "[ab]{1,2}", "[ab]{0,2}", 0u32..3),
        other in (0u32..3, "[ab]{1,2}", "[ab]{0,2}", 0u32..3),
    ) {
        let claim = claim("default", "flow", b"k");
        let key = |(incarnation, step, item, generation): &(u32, String, String, u32)| {
            EffectId::derive(RunId::derive(claim, *incarnation), step, item, *generation)
        };

        prop_assert_eq!(key(&one) == key(&other), one == other);
    }

    #[test]
    fn an_identity_reads_back(key in prop::collection::vec(any::<u8>(), 1..32)) {
        let run = RunId::derive(claim("default", "flow", &key), 0);

        prop_assert_eq!(run.to_string().parse::<RunId>(), Ok(run));
        prop_assert!(run.to_string().parse::<EffectId>().is_err());
    }
}

#[test]
fn a_run_is_what_it_was_yesterday() {
    // Derived identities are on disk and at destinations: they may never change.
    let claim = claim("default", "order-paid", b"evt_1");
    let run = RunId::derive(claim, 0);

    assert_eq!(run.to_string(), "run_d518923525739ba726dcce7666730e92");
    assert_eq!(
        RunId::derive(claim, 1).to_string(),
        "run_d518923525739ba712b7ee23f2e532c0"
    );
    assert_eq!(
        EffectId::derive(run, "charge", "", 0).to_string(),
        "eff_d518923525739ba7560aafa00bc3ea08"
    );
    assert_eq!(
        WaitId::derive(run, "answer").to_string(),
        "wait_d51826dcce766673408f48f0db1f4093"
    );
}
