//! Which faults there are for an example: from what its run did when nothing went wrong.

use std::collections::BTreeSet;
use std::sync::Arc;

use semel_flow::release::WaitStep;
use semel_flow::{Action, Example, Flow};

use crate::fault::{FaultClass, RehearsedFault, Spot};
use crate::play::Played;
use crate::vary;

/// How many times at the same commit point or step are tried: items of a list come to it again.
const TIMES_MAX: u32 = 2;

/// How many items of a list are refused, one by one.
const ITEMS_MAX: u32 = 5;

/// What the name of a step ends with that undoes another.
const UNDO: &str = ".undo";

/// The faults of deliveries, which every example has.
const DELIVERIES: [FaultClass; 4] = [
    FaultClass::DeliveryAtOnce,
    FaultClass::DeliveryInARow,
    FaultClass::DeliveryAfterEnd,
    FaultClass::DeliveryOtherPayload,
];

/// The faults of one answer.
const ANSWERS: [FaultClass; 4] = [
    FaultClass::AnswerLostBefore,
    FaultClass::AnswerLostAfter,
    FaultClass::AnswerLate,
    FaultClass::AnswerVeryLate,
];

/// The faults of a callback.
const CALLBACKS: [FaultClass; 4] = [
    FaultClass::CallbackEarly,
    FaultClass::CallbackTwice,
    FaultClass::CallbackContradicted,
    FaultClass::CallbackLate,
];

/// The faults of an approval.
const APPROVALS: [FaultClass; 2] = [FaultClass::ApprovalTwice, FaultClass::ApprovalContradicted];

/// The cases of an example.
pub(crate) fn cases(flow: &Flow, plain: &Played) -> Vec<(Arc<Example>, RehearsedFault)> {
    let example = &plain.case.example;
    let mut faults: Vec<RehearsedFault> = DELIVERIES.map(RehearsedFault::of).into();
    faults.extend(crashes(plain));
    faults.extend(answers(plain));
    faults.extend(outside(flow, plain));
    let mut cases: Vec<_> = faults
        .into_iter()
        .map(|fault| (example.clone(), fault))
        .collect();
    cases.extend(items_twice(flow, example));
    let second = Arc::new(vary::second_intent(flow, example));
    let probed = flow
        .steps
        .iter()
        .filter(|step| step.guard.probe().is_some());
    let probed = probed.filter(|step| has_come_to(plain, step.id.as_str()));
    cases.extend(probed.map(|step| {
        let spot = Spot::at(step.id.as_str(), 1);
        (
            second.clone(),
            RehearsedFault::at(FaultClass::SecondIntent, spot),
        )
    }));
    cases
}

/// The cases in which something goes wrong while a run undoes what it did: at every undo step, in the
/// first of the cases with a refused effect in which a run came to it.
pub(crate) fn undo_cases(played: &[Played]) -> Vec<(Arc<Example>, RehearsedFault)> {
    let mut cases = Vec::new();
    let mut tried: BTreeSet<(String, String)> = BTreeSet::new();
    let mut refused: Vec<(&Played, &Spot, BTreeSet<String>)> = Vec::new();
    for one in played {
        if let (FaultClass::EffectRefused, Some(spot)) = (one.case.fault.class, &one.case.fault.at)
        {
            refused.push((one, spot, undone_in(one)));
        }
    }
    // Most first: one case then shows all undo steps of an example, in most flows.
    refused.sort_by_key(|(_, _, undone)| std::cmp::Reverse(undone.len()));
    for (one, spot, undone) in refused {
        let example = &one.case.example;
        let is_new = |step: &&String| tried.insert((example.name.clone(), (*step).clone()));
        let new: BTreeSet<&String> = undone.iter().filter(is_new).collect();
        let faults = crashes(one).into_iter().chain(answers(one));
        let inside = faults.filter(|fault| {
            let at = fault.at.as_ref();
            let undo = at.is_some_and(|at| new.contains(&at.step));
            undo && fault.class != FaultClass::EffectRefused
        });
        let inside = inside.map(|fault| (example.clone(), fault.while_undoing(spot.clone())));
        cases.extend(inside);
    }
    cases
}

/// The undo steps that runs of a case came to.
fn undone_in(played: &Played) -> BTreeSet<String> {
    let log = played.case.stage.log();
    let steps = log.points.keys().map(|(_, step)| step);
    steps.filter(|step| step.ends_with(UNDO)).cloned().collect()
}

fn crashes(plain: &Played) -> Vec<RehearsedFault> {
    let log = plain.case.stage.log();
    let mut crashes = Vec::new();
    for ((name, step), times) in &log.points {
        for nth in 1..=(*times).min(TIMES_MAX) {
            let spot = Spot {
                step: step.clone(),
                point: Some((*name).to_owned()),
                nth,
            };
            crashes.push(RehearsedFault::at(FaultClass::Crash, spot));
        }
    }
    crashes
}

fn answers(plain: &Played) -> Vec<RehearsedFault> {
    let log = plain.case.stage.log();
    let mut faults = Vec::new();
    for (step, comers) in &log.comers {
        let times = u32::try_from(comers.len()).unwrap_or(u32::MAX);
        for nth in 1..=times.min(TIMES_MAX) {
            let spot = || Spot::at(step, nth);
            faults.extend(ANSWERS.map(|class| RehearsedFault::at(class, spot())));
        }
        for nth in 1..=times.min(ITEMS_MAX) {
            let spot = Spot::at(step, nth);
            faults.push(RehearsedFault::at(FaultClass::EffectRefused, spot));
        }
    }
    faults
}

/// The cases in which an item comes twice in its list. Where a list has no key, its places tell items
/// apart, and such a list may be the same one: then there are none.
fn items_twice(flow: &Flow, example: &Arc<Example>) -> Vec<(Arc<Example>, RehearsedFault)> {
    let lists = flow.steps.iter().filter_map(|step| {
        let Action::Foreach(each) = &step.action else {
            return None;
        };
        Some((step, each))
    });
    let lists: Vec<_> = lists.collect();
    if lists.iter().any(|(_, each)| each.key.is_none()) {
        return Vec::new();
    }
    let twice = lists.into_iter().filter_map(|(step, each)| {
        let varied = vary::item_twice(flow, example, &each.items)?;
        let spot = Spot::at(step.id.as_str(), 1);
        let fault = RehearsedFault::at(FaultClass::ItemTwice, spot);
        Some((Arc::new(varied), fault))
    });
    twice.collect()
}

/// The faults of callbacks and approvals that the run came to: those that the example answers.
fn outside(flow: &Flow, plain: &Played) -> Vec<RehearsedFault> {
    let answered = |step: &str| plain.case.example.answers.contains_key(step);
    let mut faults = Vec::new();
    for step in flow.steps.iter().filter(|step| answered(step.id.as_str())) {
        let spot = || Spot::at(step.id.as_str(), 1);
        let calls = matches!(step.action, Action::Wait(WaitStep::Callback { .. }));
        if calls && step.inside.is_none() {
            faults.extend(CALLBACKS.map(|class| RehearsedFault::at(class, spot())));
        }
        if matches!(step.action, Action::Approval(_)) {
            faults.extend(APPROVALS.map(|class| RehearsedFault::at(class, spot())));
        }
    }
    faults
}

fn has_come_to(plain: &Played, step: &str) -> bool {
    plain.case.stage.log().comers.contains_key(step)
}
