//! Who reads what a step gave: the later steps, and the flow's own result.

use std::collections::BTreeSet;

use super::{Flow, Step, StepGuard};
use crate::expr::{Expr, Path};

/// What of a step is read later, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// The steps that read its result; `result` stands for the flow's own.
    pub result: BTreeSet<String>,
    /// The steps that read the destination's identity for what was made.
    pub external_id: BTreeSet<String>,
}

impl Reads {
    /// Everybody who reads something of it.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.result.union(&self.external_id).map(String::as_str)
    }
}

/// What stands for the flow's own result among the names of steps.
const RESULT: &str = "result";

impl Flow {
    /// Who reads what a step gave.
    #[must_use]
    pub fn reads_of(&self, step: &str) -> Reads {
        let mut reads = Reads::default();
        for reader in self
            .steps
            .iter()
            .filter(|reader| reader.id.as_str() != step)
        {
            for expr in all_exprs(reader) {
                reads.add(step, expr, reader.id.as_str());
            }
        }
        if let Some(expr) = &self.result {
            reads.add(step, expr, RESULT);
        }
        reads
    }
}

/// Every expression of a step that can see other steps.
fn all_exprs(step: &Step) -> Vec<&Expr> {
    let mut exprs = step.exprs();
    exprs.extend(&step.condition);
    if let StepGuard::Probe(probe) = &step.guard {
        exprs.extend(probe.exprs());
    }
    exprs
}

impl Reads {
    fn add(&mut self, step: &str, expr: &Expr, reader: &str) {
        for path in expr.references() {
            let Path { root, fields, .. } = path;
            let mut fields = fields.iter().map(String::as_str);
            if root != "steps" || fields.next().is_some_and(|named| named != step) {
                continue;
            }
            match fields.next() {
                Some("external_id") => drop(self.external_id.insert(reader.to_owned())),
                // Who answered with what status is not for a person to say.
                Some("status") => {}
                Some(_) | None => drop(self.result.insert(reader.to_owned())),
            }
        }
    }
}
