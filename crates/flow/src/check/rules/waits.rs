//! Waits that end, loops whose lists are there and whose items have names, steps that are reached.

use super::super::Check;
use crate::diagnostic::Code;
use crate::effect::Effect;
use crate::expr::Scope;
use crate::outline::{StepIndex, StepInfo};
use crate::steps::{Holds, ResultOrigin};

impl<'t> Check<'_, 't, '_> {
    pub(super) fn wait_rules(&mut self) {
        let outline = self.outline;
        self.held_response();
        for (index, step) in outline.steps.iter().enumerate() {
            self.endless(index, step);
            self.nameless_items(index, step);
            self.part_of_a_result(index, step);
            self.unreachable(index, step);
        }
    }

    /// A sender that waits for a result which a person, an event or time delays.
    fn held_response(&mut self) {
        let trigger = self.outline.flow.map("trigger");
        let Some(webhook) = trigger.and_then(|trigger| trigger.map("webhook")) else {
            return;
        };
        let pauses = |step: &&StepInfo<'t>| step.kind.is_some_and(|kind| kind.pauses);
        let Some(step) = self.outline.steps.iter().find(pauses) else {
            return;
        };
        if !webhook.has("respond") {
            return;
        }
        let message = format!(
            "the response is held for a run that stops at `{}`: most senders get 202 after `within`",
            step.id
        );
        let help = "leave `respond` out, or do what needs time in another flow that this one calls or emits an event to";
        let span = webhook.name_span("respond");
        self.add(Code::RespondLate, span, &message, help);
    }

    /// A wait for an answer that may never come.
    fn endless(&mut self, index: StepIndex, step: &StepInfo<'t>) {
        let Some((kind, body)) = step.kind.zip(self.outline.body(index)) else {
            return;
        };
        let Some((whom, example)) = (kind.waits_for)(body) else {
            return;
        };
        if self.broken.contains(&index) || body.has("within") {
            return;
        }
        let message = format!("nothing ends this wait if {whom} never comes");
        let help = format!("add `within: {example}`");
        let span = step.record.name_span(kind.name());
        self.add(Code::WaitEndless, span, &message, &help);
    }

    /// A loop over effects whose items are known by their place only.
    fn nameless_items(&mut self, index: StepIndex, step: &StepInfo<'t>) {
        if step.holds() != Some(Holds::Items) {
            return;
        }
        let Some(body) = self.outline.body(index) else {
            return;
        };
        let inside = index + 1..step.behind;
        let effects = inside
            .into_iter()
            .any(|inside| Effect::of(&self.outline.steps[inside], self.context).is_some());
        if !effects || body.has("key") {
            return;
        }
        let item = body.word("as").unwrap_or("item");
        let message = "items without a key are identified by position: with one more at the front, every effect is taken for another item's";
        let help = format!("add `key: {item}.id`, or another value that identifies each item");
        self.add(
            Code::ForeachKeyMissing,
            step.record.name_span(step.name()),
            message,
            &help,
        );
    }

    /// A loop over a part of what a destination returned. A large result is stored by reference, and
    /// a reference has no parts.
    fn part_of_a_result(&mut self, index: StepIndex, step: &StepInfo<'t>) {
        if step.holds() != Some(Holds::Items) {
            return;
        }
        let Some(items) = self.outline.body(index).and_then(|body| body.expr("in")) else {
            return;
        };
        let outline = self.outline;
        let part = items.expr.references().iter().find_map(|path| {
            let [id, result, part, ..] = &path.fields[..] else {
                return None;
            };
            let from = outline.steps[outline.find(id)?].kind?;
            let stored = from.takes_result && from.origin == ResultOrigin::World;
            let read = path.root == "steps" && result == "result";
            (read && stored).then_some((id, part))
        });
        if let Some((id, part)) = part {
            let message = format!(
                "a result over 64 KiB is stored by reference: then `steps.{id}.result` has no `{part}`, and the run fails"
            );
            let help = format!(
                "let `{id}` give the list itself, with `result`, and write `in: steps.{id}.result`"
            );
            self.add(Code::ForeachPart, items.span(), &message, &help);
        }
    }

    /// A step that no run reaches.
    fn unreachable(&mut self, index: StepIndex, step: &StepInfo<'t>) {
        let ends = step.kind.is_some_and(|kind| kind.ends_run) && !step.record.has("if");
        if let (true, Some(next)) = (ends, step.next) {
            let next = self.outline.steps[next].record;
            let action = step.name();
            let message = format!(
                "no run reaches this step: `{}` always ends it with `{action}`",
                step.id
            );
            let help = format!("leave it out, or give `{}` an `if`", step.id);
            self.add(Code::StepUnreachable, next.span.clone(), &message, &help);
        }
        let conditions = step.record.expr("if").into_iter();
        for placed in conditions {
            if placed.expr.is_constant() && placed.expr.eval_bool(&Scope::new()) == Ok(false) {
                let message = "no run reaches this step: its condition is never true";
                let help = "leave the step out, or correct the condition";
                self.add(Code::StepUnreachable, placed.span(), message, help);
            }
        }
        self.covered_case(index);
    }

    /// A case of a switch behind one that is always true, or the same as an earlier one.
    fn covered_case(&mut self, index: StepIndex) {
        let cases: Vec<_> = self.outline.cases(index).collect();
        for (later, placed) in cases.iter().enumerate() {
            let covered = cases[..later]
                .iter()
                .any(|earlier| earlier.expr == placed.expr || earlier.expr.as_str() == "true");
            if covered || placed.expr.as_str() == "false" {
                let message =
                    "no run reaches this case: an earlier case is true whenever this one is";
                let help = "leave the case out, or put it first";
                self.add(Code::StepUnreachable, placed.span(), message, help);
            }
        }
    }
}
