//! What is known about the outcomes of steps and the items of loops.

use std::collections::HashMap;

use super::infer::infer;
use super::kinds;
use super::schema::of_schema;
use super::{Type, input_type};
use crate::tree::{Outline, StepIndex, Value};

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
    /// Works out what is known, step by step: each can rest on those before it.
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
            if let Some(action) = step.action {
                let response = kinds::response(action, outline.body(index));
                outcomes.responses.insert(index, response);
            }
            if let Some(probe) = step.record.map("probe") {
                outcomes.probes.insert(index, kinds::probe(probe));
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
        if let Some(function) = step.record.expr("function") {
            return self.of(function.expr.node(), Some(index));
        }
        let body = self.outline.body(index);
        if let Some(result) = step.record.expr("result") {
            // Where a probe finds the effect done, its own `result` is the step's.
            return match step.record.has("probe") {
                true => Type::Any,
                false => self.of(result.expr.node(), Some(index)),
            };
        }
        let schema = body.filter(|body| body.shape.name == "llm");
        if let Some(Value::Json(schema)) = schema.and_then(|body| body.value("schema")) {
            return of_schema(schema, 0).unwrap_or(Type::Any);
        }
        match step.action {
            Some(action) if !step.record.has("probe") => kinds::result(action, body),
            Some(_) | None => Type::Any,
        }
    }

    fn item(&self, index: StepIndex) -> Option<Type> {
        let body = self.outline.body(index)?;
        let list = body.expr("in").filter(|_| body.shape.name == "foreach")?;
        if let Type::List(item) = self.of(list.expr.node(), Some(index)) {
            Some(*item)
        } else {
            None
        }
    }

    fn of(&self, node: &crate::expr::Node, at: Option<StepIndex>) -> Type {
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
                let at = at?;
                let around = self.outline.around(at).map(|(holder, _)| holder);
                let mut holders = std::iter::once(at).chain(around);
                let holder = holders.find(|index| {
                    self.outline.steps[*index].action == Some("foreach")
                        && self.outline.body(*index).and_then(|body| body.word("as")) == Some(name)
                })?;
                self.items.get(&holder).map(|item| (item, 0))
            }
        }
    }
}
