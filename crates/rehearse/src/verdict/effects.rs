//! Effects: each as often as when nothing goes wrong, and under one key.

use std::collections::{BTreeMap, BTreeSet};

use semel_flow::{Action, Flow, Step};
use semel_model::run::RunState;

use super::{Findings, leads_elsewhere};
use crate::play::Played;

/// How often the effect of each step happened.
fn counts(played: &Played) -> BTreeMap<String, usize> {
    let log = played.case.stage.log();
    let mut seen: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for arrival in log
        .arrivals
        .iter()
        .filter(|arrival| !arrival.repeats_allowed)
    {
        let step = seen.entry(arrival.step.clone()).or_default();
        step.insert(&arrival.counts_as);
    }
    seen.into_iter()
        .map(|(step, seen)| (step, seen.len()))
        .collect()
}

/// No effect happens more often than when nothing goes wrong, and none twice in one run.
pub(super) fn once(plain: &Played, played: &Played, found: &mut Findings) {
    let before = counts(plain);
    let mut told = BTreeSet::new();
    for (step, times) in twice_in_one_run(played) {
        found.add("effect-repeated", Some(&step), repeated(&step, times, 1));
        told.insert(step);
    }
    if leads_elsewhere(played.case.fault.class) {
        return;
    }
    for (step, times) in counts(played) {
        let expected = before.get(&step).copied().unwrap_or_default();
        if times > expected && !told.contains(&step) {
            let message = repeated(&step, times, expected);
            found.add("effect-repeated", Some(&step), message);
        }
    }
}

fn twice_in_one_run(played: &Played) -> BTreeMap<String, usize> {
    let log = played.case.stage.log();
    let mut seen: BTreeMap<(semel_model::RunId, &str), BTreeSet<&str>> = BTreeMap::new();
    for arrival in log
        .arrivals
        .iter()
        .filter(|arrival| !arrival.repeats_allowed)
    {
        let one = seen.entry((arrival.run, &arrival.step)).or_default();
        one.insert(&arrival.counts_as);
    }
    let twice = seen.into_iter().filter(|(_, seen)| seen.len() > 1);
    twice
        .map(|((_, step), seen)| (step.to_owned(), seen.len()))
        .collect()
}

fn repeated(step: &str, times: usize, expected: usize) -> String {
    format!(
        "the effect of `{step}` happened {times} times at its destination, and not {expected}: its \
         guard does not hold there"
    )
}

/// No effect is lost: what the run says is done has happened, and a run that ends as it does when
/// nothing goes wrong has done as much.
pub(super) fn all(flow: &Flow, plain: &Played, played: &Played, found: &mut Findings) {
    let mut lost = BTreeSet::new();
    let (now, before) = (counts(played), counts(plain));
    let ended = |played: &Played| {
        let top = super::started(flow, played).next();
        top.is_some_and(|run| run.state == RunState::Succeeded)
    };
    if !leads_elsewhere(played.case.fault.class) && ended(played) && ended(plain) {
        let less = before
            .iter()
            .filter(|(step, times)| now.get(*step).copied().unwrap_or_default() < **times);
        lost.extend(less.map(|(step, _)| step.clone()));
    }
    {
        let log = played.case.stage.log();
        for effect in played
            .effects
            .iter()
            .filter(|effect| effect.state == "done")
        {
            let sends = flow.find_step(&effect.step).is_some_and(sends);
            let arrived = |arrival: &&crate::stage::Arrival| {
                arrival.run == effect.run && arrival.step == effect.step
            };
            if sends && !log.arrivals.iter().any(|arrival| arrived(&arrival)) {
                lost.insert(effect.step.clone());
            }
        }
    }
    for step in lost {
        let message = format!(
            "the run counts the effect of `{step}` as done, and it never happened at its destination"
        );
        found.add("effect-lost", Some(&step), message);
    }
}

/// Whether an effect of the step must arrive at a destination. One with a business key may be
/// another run's.
fn sends(step: &Step) -> bool {
    let outside = matches!(
        step.action,
        Action::Http(_) | Action::Db(_) | Action::Ssh(_) | Action::Notify(_)
    );
    outside && step.guard().is_some() && step.named.is_none()
}

/// Every attempt at an effect carries the same key.
pub(super) fn one_key(played: &Played, found: &mut Findings) {
    let log = played.case.stage.log();
    let mut keys: BTreeMap<(semel_model::RunId, &str), BTreeSet<semel_model::EffectId>> =
        BTreeMap::new();
    for (run, step, key) in &log.attempts {
        keys.entry((*run, step)).or_default().insert(*key);
    }
    let changed = keys.into_iter().filter(|(_, keys)| keys.len() > 1);
    let steps: BTreeSet<String> = changed.map(|((_, step), _)| step.to_owned()).collect();
    for step in steps {
        let message = format!("two attempts at `{step}` carried different keys");
        found.add("key-changed", Some(&step), message);
    }
}

/// Where a run failed and takes back what it did, everything is taken back once.
pub(super) fn undone(flow: &Flow, played: &Played, found: &mut Findings) {
    let failed = super::started(flow, played).any(|run| run.state == RunState::Failed);
    if !flow.undoes || !failed {
        return;
    }
    let log = played.case.stage.log();
    let arrived = |step: &str| {
        let mut runs: Vec<semel_model::RunId> = log
            .arrivals
            .iter()
            .filter(|arrival| arrival.step == step)
            .map(|arrival| arrival.run)
            .collect();
        runs.sort_unstable();
        runs.dedup();
        runs.len()
    };
    let mut missing = Vec::new();
    for step in flow.steps.iter().filter(|step| step.undo.is_some()) {
        let id = step.id.as_str();
        if arrived(&format!("{id}.undo")) < arrived(id) {
            missing.push(id);
        }
    }
    for step in missing {
        let message = format!("the run failed, and `{step}` was not taken back");
        found.add("undo-lost", Some(step), message);
    }
}
