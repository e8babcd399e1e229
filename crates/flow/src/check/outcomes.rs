//! What is known about the outcomes of steps and the items of loops.

use std::collections::HashMap;

use crate::expr::Node;
use crate::outline::{Outline, StepIndex};
use crate::steps::{Holds, ResultOrigin, StepKind, db, http};
use crate::tree::Record;
use crate::types::{Type, infer, input_type, of_shape};

/// The types of everything that an expression of a flow can name.
pub(crate) struct Outcomes<'c, 't> {
    outline: &'c Outline<'t>,
    input: Type,
    results: HashMap<&'t str, Type>,
    responses: HashMap<StepIndex, Type>,
    probes: HashMap<StepIndex, Type>,
    items: HashMap<StepIndex, Type>,
}

impl<'c, 't> Outcomes<'c, 't> {
    /// Computes what is known, step by step: each can rest on those before it.
    pub(crate) fn new(outline: &'c Outline<'t>) -> Self {
        let mut outcomes = Self {
            outline,
            input: input_type(outline.flow).unwrap_or(Type::Any),
            results: HashMap::new(),
            responses: HashMap::new(),
            probes: HashMap::new(),
            items: HashMap::new(),
        };
        for (index, step) in outline.steps.iter().enumerate() {
            if let Some(kind) = step.kind {
                let response = (kind.response)(outline.body(index));
                outcomes.responses.insert(index, response);
            }
            if let Some(probe) = step.record.map("probe") {
                outcomes.probes.insert(index, answer_of(probe));
            }
            let result = outcomes.result(index);
            outcomes.results.insert(step.id, result);
            if let Some(item) = outcomes.item(index) {
                outcomes.items.insert(index, item);
            }
        }
        outcomes
    }

    fn result(&self, index: StepIndex) -> Type {
        let step = &self.outline.steps[index];
        let Some(kind) = step.kind else {
            return Type::Any;
        };
        if let Some(worked_out) = expression(kind, step.record) {
            return self.of(worked_out, Some(index));
        }
        // Where a probe finds the effect done, its own `result` is the step's.
        if step.record.has("probe") {
            return Type::Any;
        }
        match step.record.expr("result") {
            Some(result) => self.of(result.expr.node(), Some(index)),
            None => (kind.result)(self.outline.body(index)),
        }
    }

    fn item(&self, index: StepIndex) -> Option<Type> {
        let body = self.outline.body(index)?;
        let holds = self.outline.steps[index].holds();
        let list = body.expr("in").filter(|_| holds == Some(Holds::Items))?;
        if let Type::List(item) = self.of(list.expr.node(), Some(index)) {
            Some(*item)
        } else {
            None
        }
    }

    fn of(&self, node: &Node, at: Option<StepIndex>) -> Type {
        infer(
            node,
            &|name, fields| self.find(name, fields, at),
            &mut vec![],
        )
    }

    /// What is known behind the beginning of a path.
    pub(crate) fn find(
        &self,
        name: &str,
        fields: &[Box<str>],
        at: Option<StepIndex>,
    ) -> Option<(&Type, usize)> {
        match (name, fields) {
            ("input", _) => Some((&self.input, 0)),
            ("steps", [id, part, ..]) if &**part == "result" => {
                self.results.get(&**id).map(|result| (result, 2))
            }
            ("response", _) => self.responses.get(&at?).map(|response| (response, 0)),
            ("probe", _) => self.probes.get(&at?).map(|probe| (probe, 0)),
            ("result", _) => {
                let own = self.outline.steps.get(at?)?.id;
                self.results.get(own).map(|result| (result, 0))
            }
            _ => {
                let holder = self.outline.loop_of(name, at?)?;
                self.items.get(&holder).map(|item| (item, 0))
            }
        }
    }
}

/// The expression that a step's result is the value of.
fn expression<'t>(kind: &StepKind, step: &'t Record) -> Option<&'t Node> {
    let placed = step.expr(kind.name());
    let placed = placed.filter(|_| kind.origin == ResultOrigin::Expression)?;
    Some(placed.expr.node())
}

/// What a probe reads as `probe`.
fn answer_of(probe: &Record) -> Type {
    match probe.has(db::KIND.name()) {
        true => of_shape(&db::ANSWER),
        false => of_shape(&http::ANSWER),
    }
}
