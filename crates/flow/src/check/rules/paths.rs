//! Paths through a flow: what is read has been made on every one of them.

use super::super::Check;
use crate::diagnostic::Code;
use crate::expr::Path;
use crate::outline::StepIndex;
use crate::steps::ActionKind;
use crate::tree::Placed;

impl<'t> Check<'_, 't, '_> {
    pub(super) fn path_rules(&mut self) {
        let outline = self.outline;
        let mut uses: Vec<(Option<StepIndex>, &'static str, &'t Placed)> = vec![];
        outline.each_expr(|at, field, placed| uses.push((at, field, placed)));
        for (at, field, placed) in uses {
            for path in placed.expr.references() {
                if path.root == "steps" {
                    self.absent_id(at, field, placed, path);
                }
            }
            for path in placed.expr.bare_paths() {
                if path.root == "steps" {
                    self.skipped(at, field, placed, path);
                }
            }
        }
    }

    /// A step of which no external id is kept.
    fn absent_id(&mut self, at: Option<StepIndex>, field: &str, placed: &Placed, path: &Path) {
        let [id, part, ..] = path.fields.as_slice() else {
            return;
        };
        let Some(index) = self.outline.find(id).filter(|_| part == "external_id") else {
            return;
        };
        let step = &self.outline.steps[index];
        if step.record.has("external_id") {
            return;
        }
        let code = match field {
            "undo" => Code::UndoUnknown,
            _ if at.is_none() => Code::ResultPartial,
            _ => Code::StepSkipped,
        };
        let span = placed.path_span(self.report.source, path);
        let message = format!("step `{id}` keeps no external id, so this is null");
        let help = format!("add `external_id: result.id` to step `{id}`");
        self.add(code, span, &message, &help);
    }

    /// A part of an outcome that is not there where its step was skipped.
    fn skipped(&mut self, at: Option<StepIndex>, field: &str, placed: &Placed, path: &Path) {
        // The outcome as a whole is null then, which is a value; `status` is always there.
        let deep = match path.fields.as_slice() {
            [_, part, _, ..] => part == "result",
            [_, part] => part == "external_id" && field == "undo",
            _ => false,
        };
        let Some(index) = path.fields.first().and_then(|id| self.outline.find(id)) else {
            return;
        };
        // A step is undone only where it was done.
        let own = at == Some(index);
        let known = self.outline.is_known(index, at) || (own && field == "undo");
        if !deep || own || !known || !self.outline.may_be_skipped(index, at) {
            return;
        }
        let id = self.outline.steps[index].id;
        let (code, what) = match field {
            "undo" => (Code::UndoUnknown, "the undo"),
            "result" if at.is_none() => (Code::ResultPartial, "the result"),
            field if field == ActionKind::Return.as_str() => (Code::ResultPartial, "the result"),
            _ => (Code::StepSkipped, "this"),
        };
        let span = placed.path_span(self.report.source, path);
        let message = format!("step `{id}` may be skipped, and then {what} cannot be computed");
        let help = format!("write `default({path}, …)`, or give both the same `if`");
        self.add(code, span, &message, &help);
    }
}
