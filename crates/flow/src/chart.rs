//! The chart of a flow: its steps as the tree that an author wrote, for a picture or a table.

use semel_model::Guard;
use serde::Serialize;

use crate::context::CheckContext;
use crate::effect::Effect;
use crate::outline::{Outline, StepIndex};
use crate::steps::{ActionKind, Holds, kind_in};

/// How a step does the steps that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChartForm {
    /// It holds none.
    Single,
    /// One of its lists.
    OneOf,
    /// All of its lists at the same time.
    AllOf,
    /// Its list once for each item.
    Each,
}

/// One step of a chart, with what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChartStep {
    /// What its author calls it.
    pub id: String,
    /// The kind of step.
    pub kind: ActionKind,
    /// How its effect is made safe, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guard>,
    /// Its business key, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The step is skipped where this is false.
    #[serde(rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The kind of step that takes it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<ActionKind>,
    /// Whether nothing follows it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
    /// How it does the steps that it holds.
    pub form: ChartForm,
    /// The lists of steps that it holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<ChartList>,
}

/// A list of steps that a step holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChartList {
    /// When it is done, or for what.
    pub label: String,
    /// Its steps.
    pub steps: Vec<ChartStep>,
}

impl ChartStep {
    /// How many steps it is, with all that it holds.
    #[must_use]
    pub fn count(&self) -> usize {
        let held = self.lists.iter().flat_map(|list| &list.steps);
        1 + held.map(Self::count).sum::<usize>()
    }
}

pub(crate) fn of(outline: &Outline<'_>, context: &CheckContext) -> Vec<ChartStep> {
    list(outline, context, (0..outline.steps.len(), None))
}

/// The steps of a range that one list holds.
fn list(
    outline: &Outline<'_>,
    context: &CheckContext,
    (range, holder): (std::ops::Range<StepIndex>, Option<(StepIndex, usize)>),
) -> Vec<ChartStep> {
    let held = range.filter(|index| outline.steps[*index].holder == holder);
    held.filter_map(|index| step(outline, context, index))
        .collect()
}

fn step(outline: &Outline<'_>, context: &CheckContext, index: StepIndex) -> Option<ChartStep> {
    let info = &outline.steps[index];
    let kind = info.kind?;
    let effect = Effect::of(info, context);
    let text = |field| info.record.expr(field).map(|it| it.expr.to_string());
    let undo = info.record.map("undo").and_then(kind_in);
    Some(ChartStep {
        id: info.id.to_owned(),
        kind: kind.kind,
        guard: effect.map(|effect| effect.guard),
        key: text("key"),
        condition: text("if"),
        undo: undo.map(|undo| undo.kind),
        ends: kind.ends_run,
        form: match kind.holds {
            None => ChartForm::Single,
            Some(Holds::OneList) => ChartForm::OneOf,
            Some(Holds::Items) => ChartForm::Each,
            Some(Holds::Branches) => ChartForm::AllOf,
        },
        lists: lists(outline, context, index),
    })
}

fn lists(outline: &Outline<'_>, context: &CheckContext, index: StepIndex) -> Vec<ChartList> {
    let inside = index + 1..outline.steps[index].behind;
    let held = inside.clone().filter_map(|at| outline.steps[at].holder);
    let numbers = held.filter(|(holder, _)| *holder == index);
    let Some(last) = numbers.map(|(_, number)| number).max() else {
        return vec![];
    };
    (0..=last)
        .map(|number| ChartList {
            label: label(outline, index, number),
            steps: list(outline, context, (inside.clone(), Some((index, number)))),
        })
        .filter(|list| !list.steps.is_empty())
        .collect()
}

/// When a list is done, or for what.
fn label(outline: &Outline<'_>, index: StepIndex, number: usize) -> String {
    let body = outline.body(index);
    match outline.steps[index].holds() {
        Some(Holds::OneList) => match outline.cases(index).nth(number) {
            Some(case) => case.expr.to_string(),
            None => "otherwise".to_owned(),
        },
        Some(Holds::Items) => {
            let items = body.and_then(|body| body.expr("in"));
            let items = items.map_or_else(String::new, |items| items.expr.to_string());
            format!("each of {items}")
        }
        Some(Holds::Branches) | None => format!("branch {}", number + 1),
    }
}
