//! Where each step leads, and the steps that hold others.

use crate::outline::{Outline, StepIndex};
use crate::release::Follow;
use crate::steps::Holds;

/// What comes after a step.
pub(super) fn follow(outline: &Outline<'_>, place: StepIndex) -> Follow {
    match after(outline, place) {
        Some(next) if next == place + 1 => Follow::Next,
        Some(next) => Follow::At(next),
        None if place + 1 == outline.steps.len() => Follow::Next,
        None => Follow::End,
    }
}

/// The step that comes after one, in its list or behind the step that holds the list.
pub(super) fn after(outline: &Outline<'_>, place: StepIndex) -> Option<StepIndex> {
    let step = &outline.steps[place];
    if step.next.is_some() {
        return step.next;
    }
    let (holder, _) = step.holder?;
    match outline.steps[holder].holds() {
        Some(Holds::OneList) => after(outline, holder),
        // The steps of an item and of a branch are a run of their own.
        Some(Holds::Items | Holds::Branches) | None => None,
    }
}

/// The step whose parts come to a step, and which list of it that step is in.
pub(super) fn inside(outline: &Outline<'_>, place: StepIndex) -> Option<(usize, u32)> {
    let mut around = outline.around(place);
    let (holder, list) = around.find(|(holder, _)| {
        let holds = outline.steps[*holder].holds();
        holds.is_some_and(Holds::makes_runs)
    })?;
    Some((holder, u32::try_from(list).ok()?))
}

/// The first step of a list that a step holds.
pub(super) fn first(outline: &Outline<'_>, holder: StepIndex, list: usize) -> Option<StepIndex> {
    let inside = holder + 1..outline.steps[holder].behind;
    inside
        .into_iter()
        .find(|place| outline.steps[*place].holder == Some((holder, list)))
}
