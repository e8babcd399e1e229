//! The steps of a flow in a row, each with where it stands among the others.

use std::collections::HashMap;

use crate::grammar::FieldType;
use crate::steps::{self, Holds, StepKind};
use crate::tree::{Placed, Record};

/// A step's number, in reading order.
pub(crate) type StepIndex = usize;

/// All steps of a flow, those inside of others included, in reading order.
pub(crate) struct Outline<'t> {
    pub(crate) flow: &'t Record,
    pub(crate) steps: Vec<StepInfo<'t>>,
    by_id: HashMap<&'t str, StepIndex>,
}

/// One step and where it stands.
pub(crate) struct StepInfo<'t> {
    /// Empty where it could not be read.
    pub(crate) id: &'t str,
    pub(crate) record: &'t Record,
    /// What it does; absent where it does nothing that could be read.
    pub(crate) kind: Option<&'static StepKind>,
    /// The step that holds it, and which of that step's lists it is in.
    pub(crate) holder: Option<(StepIndex, usize)>,
    /// The first step behind it and behind all that it holds.
    pub(crate) behind: StepIndex,
    /// Whether another step of the same list comes after it.
    pub(crate) next: Option<StepIndex>,
}

impl StepInfo<'_> {
    /// The word for what it does; nothing if that could not be read.
    pub(crate) fn name(&self) -> &'static str {
        self.kind.map_or("", StepKind::name)
    }

    /// How it does the steps that it holds.
    pub(crate) fn holds(&self) -> Option<Holds> {
        self.kind.and_then(|kind| kind.holds)
    }
}

impl<'t> Outline<'t> {
    pub(crate) fn new(flow: &'t Record) -> Self {
        let mut outline = Self {
            flow,
            steps: vec![],
            by_id: HashMap::new(),
        };
        outline.list(flow, "steps", None);
        outline
    }

    fn list(&mut self, of: &'t Record, field: &str, holder: Option<(StepIndex, usize)>) {
        let mut last: Option<StepIndex> = None;
        for record in of.maps(field) {
            let index = self.step(record, holder);
            if let Some(last) = last {
                self.steps[last].next = Some(index);
            }
            last = Some(index);
        }
    }

    fn step(&mut self, record: &'t Record, holder: Option<(StepIndex, usize)>) -> StepIndex {
        let index = self.steps.len();
        let id = record.text("id").unwrap_or_default();
        let kind = steps::kind_in(record);
        self.steps.push(StepInfo {
            id,
            record,
            kind,
            holder,
            behind: index + 1,
            next: None,
        });
        if !id.is_empty() {
            self.by_id.entry(id).or_insert(index);
        }
        if let Some(body) = self.body(index) {
            self.held(body, index);
        }
        self.steps[index].behind = self.steps.len();
        index
    }

    /// The lists of steps that a step holds, numbered as they stand in the table of its fields.
    fn held(&mut self, body: &'t Record, index: StepIndex) {
        let mut list = 0;
        for field in body.schema.fields {
            if field.takes.is_steps() {
                self.list(body, field.name, Some((index, list)));
                list += 1;
            }
            let FieldType::Maps(map) = field.takes else {
                continue;
            };
            let Some(steps) = map.list_of_steps() else {
                continue;
            };
            for record in body.maps(field.name) {
                self.list(record, steps.name, Some((index, list)));
                list += 1;
            }
        }
    }

    pub(crate) fn find(&self, id: &str) -> Option<StepIndex> {
        self.by_id.get(id).copied()
    }

    /// What a step's action says, where it is a map.
    pub(crate) fn body(&self, index: StepIndex) -> Option<&'t Record> {
        let step = &self.steps[index];
        step.kind.and_then(|kind| step.record.map(kind.name()))
    }

    /// The cases of a step with several branches.
    pub(crate) fn cases(&self, index: StepIndex) -> impl Iterator<Item = &'t Placed> {
        let one = self.steps[index].holds() == Some(Holds::OneList);
        let body = self.body(index).filter(|_| one);
        let cases = body.into_iter().flat_map(|body| body.maps("cases"));
        cases.filter_map(|case| case.expr("when"))
    }

    /// The loop whose item has that name where a step stands: the innermost.
    pub(crate) fn loop_of(&self, item: &str, at: StepIndex) -> Option<StepIndex> {
        let around = self.around(at).map(|(holder, _)| holder);
        std::iter::once(at).chain(around).find(|index| {
            self.steps[*index].holds() == Some(Holds::Items)
                && self.body(*index).and_then(|body| body.word("as")) == Some(item)
        })
    }

    /// The steps around a step, from the inside out, with the list that it is in.
    pub(crate) fn around(&self, index: StepIndex) -> impl Iterator<Item = (StepIndex, usize)> + '_ {
        std::iter::successors(
            self.steps.get(index).and_then(|step| step.holder),
            |holder| self.steps[holder.0].holder,
        )
    }

    /// The list of `holder` that a step is in, at whatever depth.
    fn list_in(&self, index: Option<StepIndex>, holder: StepIndex) -> Option<usize> {
        let mut around = self.around(index?);
        around
            .find(|(around, _)| *around == holder)
            .map(|(_, list)| list)
    }

    /// Whether the outcome of a step is known at another one; at the flow's end where that is absent.
    pub(crate) fn is_known(&self, step: StepIndex, at: Option<StepIndex>) -> bool {
        let before = at.is_none_or(|at| self.steps[step].behind <= at);
        before
            && self.around(step).all(|(holder, list)| {
                match self.list_in(at, holder) {
                    Some(other) => other == list,
                    // What a `foreach` did is only known item by item.
                    None => self.steps[holder].holds() != Some(Holds::Items),
                }
            })
    }

    /// The conditions under which a step is done and the other one need not be: what may make its
    /// outcome absent there. A switch counts as a condition without a text.
    pub(crate) fn may_be_skipped(&self, step: StepIndex, at: Option<StepIndex>) -> bool {
        let mut holders = vec![step];
        for (holder, _) in self.around(step) {
            if at.is_some() && self.list_in(at, holder).is_some() {
                break;
            }
            holders.push(holder);
        }
        let assured: Vec<&str> = at.map(|at| self.conditions(at)).unwrap_or_default();
        let skippable = |index: &StepIndex| {
            let step = &self.steps[*index];
            let own = step.record.expr("if").is_some_and(|placed| {
                !assured.contains(&placed.expr.as_str()) && placed.expr.as_str() != "true"
            });
            let chooses = step.holds() == Some(Holds::OneList);
            own || (chooses && holders.len() > 1 && holders[0] != *index)
        };
        holders.iter().any(skippable)
    }

    /// What is known to be true where a step is done.
    fn conditions(&self, at: StepIndex) -> Vec<&'t str> {
        let around = self.around(at).map(|(holder, _)| holder);
        std::iter::once(at)
            .chain(around)
            .filter_map(|index| self.steps[index].record.expr("if"))
            .flat_map(|placed| placed.expr.terms())
            .collect()
    }

    /// Whether of two steps at most one is ever done in a run.
    pub(crate) fn exclude_each_other(&self, one: StepIndex, other: StepIndex) -> bool {
        self.around(one).any(|(holder, list)| {
            self.steps[holder].holds() == Some(Holds::OneList)
                && self
                    .list_in(Some(other), holder)
                    .is_some_and(|other| other != list)
        })
    }

    /// Every expression of the file, with the step that it belongs to and the step's field.
    pub(crate) fn each_expr(
        &self,
        mut see: impl FnMut(Option<StepIndex>, &'static str, &'t Placed),
    ) {
        self.flow
            .each_expr(&mut |field, placed| see(None, field, placed));
        for (index, step) in self.steps.iter().enumerate() {
            step.record
                .each_expr(&mut |field, placed| see(Some(index), field, placed));
        }
    }
}
