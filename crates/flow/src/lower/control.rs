//! The row of steps: where each leads, and the steps that hold others.

use semel_model::RetryPolicy;
use serde_json::Value as Json;

use super::step;
use crate::release::{Action, Case, Follow, Foreach, Join, OnError, Parallel, Step, Switch};
use crate::tree::{Outline, Record, StepIndex};

/// The list of a switch that holds where no case is true.
const OTHERWISE: usize = usize::MAX;

/// Every step of a flow in reading order, and behind them those that take others back.
pub(super) fn steps(outline: &Outline<'_>, retry: RetryPolicy, env: &Json) -> Option<Vec<Step>> {
    let places = 0..outline.steps.len();
    let steps = places.map(|place| step::step(outline, place, retry, env));
    let mut steps = steps.collect::<Option<Vec<Step>>>()?;
    for (place, info) in outline.steps.iter().enumerate() {
        if info.record.has("undo") {
            let undo = step::undo(info.record, &steps[place], env)?;
            steps[place].undo = Some(steps.len());
            steps.push(undo);
        }
    }
    end_the_row(&mut steps, outline.steps.len());
    Some(steps)
}

/// The last step of the row leads to what stands behind the row, which must not be an undo.
fn end_the_row(steps: &mut [Step], count: usize) {
    let has_undos = steps.len() > count;
    if let Some(last) = count.checked_sub(1).and_then(|last| steps.get_mut(last))
        && has_undos
        && last.follow == Follow::Next
    {
        last.follow = Follow::End;
    }
}

/// What comes after a step.
pub(super) fn follow(outline: &Outline<'_>, place: StepIndex) -> Follow {
    match after(outline, place) {
        Some(next) if next == place + 1 => Follow::Next,
        Some(next) => Follow::At(next),
        None if place + 1 == outline.steps.len() => Follow::Next,
        None => Follow::End,
    }
}

fn after(outline: &Outline<'_>, place: StepIndex) -> Option<StepIndex> {
    let step = &outline.steps[place];
    if step.next.is_some() {
        return step.next;
    }
    let (holder, _) = step.holder?;
    match outline.steps[holder].action {
        Some("switch") => after(outline, holder),
        // The steps of an item and of a branch are a run of their own.
        _ => None,
    }
}

/// The step whose parts come to a step, and which list of it that step is in.
pub(super) fn inside(outline: &Outline<'_>, place: StepIndex) -> Option<(usize, u32)> {
    let mut around = outline.around(place);
    let (holder, list) = around.find(|(holder, _)| {
        matches!(outline.steps[*holder].action, Some("foreach" | "parallel"))
    })?;
    Some((holder, u32::try_from(list).ok()?))
}

/// What a step that holds others does; nothing for one that holds none.
pub(super) fn action(
    outline: &Outline<'_>,
    place: StepIndex,
    name: &str,
    body: Option<&Record>,
) -> Option<Option<Action>> {
    let first = |list| first(outline, place, list);
    Some(match (name, body) {
        ("switch", Some(body)) => {
            let way = |list| first(list).or_else(|| after(outline, place));
            let cases = body.maps("cases").enumerate().map(|(case, record)| {
                let when = record.expr("when")?.expr.clone();
                Some(Case {
                    when,
                    to: way(case),
                })
            });
            Some(Action::Switch(Switch {
                cases: cases.collect::<Option<_>>()?,
                otherwise: way(OTHERWISE),
            }))
        }
        ("foreach", Some(body)) => Some(Action::Foreach(Box::new(Foreach {
            items: body.expr("in")?.expr.clone(),
            name: body.word("as").unwrap_or("item").to_owned(),
            key: body.expr("key").map(|placed| placed.expr.clone()),
            parallel: u32::try_from(body.whole("parallel").unwrap_or(1)).ok()?,
            on_error: match body.word("on_error") {
                Some("continue") => OnError::Continue,
                Some("collect") => OnError::Collect,
                Some(_) | None => OnError::Stop,
            },
            first: first(0),
        }))),
        ("parallel", Some(body)) => Some(Action::Parallel(Parallel {
            branches: (0..body.maps("branches").count()).map(first).collect(),
            join: match body.word("join") {
                Some("first") => Join::First,
                Some(_) | None => Join::All,
            },
        })),
        _ => None,
    })
}

/// The first step of a list that a step holds.
fn first(outline: &Outline<'_>, holder: StepIndex, list: usize) -> Option<StepIndex> {
    let inside = holder + 1..outline.steps[holder].behind;
    inside
        .into_iter()
        .find(|place| outline.steps[*place].holder == Some((holder, list)))
}
