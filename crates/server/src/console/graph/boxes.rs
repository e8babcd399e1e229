//! How much room each step takes with everything that it holds.

use semel_flow::{ChartForm, ChartStep};

use super::{GAP, LABEL, NODE, PAD, UNDO};

/// The half of a lane without a step.
const EMPTY: i32 = 40;

/// How far something reaches to both sides of its middle, and down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) left: i32,
    pub(super) right: i32,
    pub(super) height: i32,
}

impl Size {
    /// The same, but reaching so far to both sides.
    pub(super) fn at_least(self, half: i32) -> Self {
        Self {
            left: self.left.max(half),
            right: self.right.max(half),
            height: self.height,
        }
    }
}

/// A step, and the room that it takes.
pub(super) struct Placed<'a> {
    pub(super) step: &'a ChartStep,
    pub(super) size: Size,
    pub(super) lanes: Vec<Lane<'a>>,
    /// How many steps inside of it are not shown.
    pub(super) folded: usize,
}

/// A list of steps inside of another step.
pub(super) struct Lane<'a> {
    pub(super) label: &'a str,
    pub(super) size: Size,
    pub(super) steps: Vec<Placed<'a>>,
}

/// Measures steps that stand one below the other.
pub(super) fn measure(steps: &[ChartStep], folds: bool) -> Vec<Placed<'_>> {
    steps.iter().map(|step| place(step, folds)).collect()
}

/// The room of steps that stand one below the other.
pub(super) fn size_of(list: &[Placed<'_>]) -> Size {
    let mut size = Size::default();
    for placed in list {
        size.left = size.left.max(placed.size.left);
        size.right = size.right.max(placed.size.right);
        size.height += placed.size.height + GAP;
    }
    size.height = (size.height - GAP).max(0);
    size
}

/// How wide lanes are that stand side by side.
pub(super) fn width(lanes: &[Lane<'_>]) -> i32 {
    let lanes = lanes.iter();
    let widths: i32 = lanes
        .map(|lane| lane.size.left + lane.size.right + GAP)
        .sum();
    widths - GAP
}

fn place(step: &ChartStep, folds: bool) -> Placed<'_> {
    let undo = if step.undo.is_some() { UNDO.0 + GAP } else { 0 };
    let mut size = Size {
        left: NODE.0 / 2 + undo,
        right: NODE.0 / 2,
        height: NODE.1,
    };
    if folds || step.lists.is_empty() {
        let folded = step.count() - 1;
        let lanes = Vec::new();
        return Placed {
            step,
            size,
            lanes,
            folded,
        };
    }
    let lanes = lanes(step);
    let tallest = lanes.iter().map(|lane| lane.size.height).max();
    let framed = if step.form == ChartForm::Each { PAD } else { 0 };
    let width = width(&lanes) + 2 * framed;
    size = size.at_least((width + 1) / 2);
    size.height += GAP / 2 + framed + LABEL + 8 + tallest.unwrap_or_default();
    size.height += framed + GAP;
    Placed {
        step,
        size,
        lanes,
        folded: 0,
    }
}

fn lanes(step: &ChartStep) -> Vec<Lane<'_>> {
    let lists = step.lists.iter();
    let mut lanes: Vec<Lane<'_>> = lists
        .map(|list| {
            let steps = measure(&list.steps, false);
            Lane {
                label: &list.label,
                size: size_of(&steps),
                steps,
            }
        })
        .collect();
    let last = step.lists.last().map(|list| list.label.as_str());
    // Where no case is true and none is left over, the run goes past them.
    if step.form == ChartForm::OneOf && last != Some("otherwise") {
        lanes.push(Lane {
            label: "otherwise",
            size: Size::default().at_least(EMPTY),
            steps: Vec::new(),
        });
    }
    lanes
}
