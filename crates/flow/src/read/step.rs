//! One step.

use semel_model::{RetryPolicy, Span, StepId};

use super::control::year;
use super::fields::Fields;
use super::names::Names;
use super::{Reader, optional};
use crate::diagnostic::Code;
use crate::release::{Action, Step, Wait};
use crate::yaml::Node;

const KINDS: [&str; 4] = ["http", "function", "kv", "wait"];

impl Reader<'_> {
    pub(super) fn step(
        &mut self,
        node: &Node,
        retry: RetryPolicy,
        names: Names<'_>,
    ) -> Option<Step> {
        let mut fields = self.fields(node, "a step")?;
        let id = self.step_id(&mut fields, names);
        let condition = fields
            .find("if")
            .map(|node| self.condition(node, "if", names));
        let retry = fields
            .find("retry")
            .map_or(Some(retry), |node| self.retry(node, retry));
        let action = self.action(&mut fields, names);
        self.finish(&fields);
        Some(Step {
            id: id?,
            condition: optional(condition)?,
            action: action?,
            retry: retry?,
        })
    }

    fn step_id(&mut self, fields: &mut Fields<'_>, names: Names<'_>) -> Option<StepId> {
        let node = self.need(fields, "id", "name")?;
        let id: StepId = self.parsed(node, "id", "write a name such as `charge_card`")?;
        if names.visible().iter().any(|known| known == id.as_str()) {
            let message = format!("there is already a step `{id}`");
            let help = "give every step a name of its own: its result is read by it";
            self.report(Code::StepDuplicate, node.span.clone(), &message, help);
            return None;
        }
        Some(id)
    }

    fn action(&mut self, fields: &mut Fields<'_>, names: Names<'_>) -> Option<Action> {
        let found: Vec<(&'static str, &Node)> = KINDS
            .into_iter()
            .filter_map(|kind| Some((kind, fields.find(kind)?)))
            .collect();
        let (kind, node) = match found.as_slice() {
            [one] => *one,
            [] => {
                let message = "this step does nothing";
                let help = format!("add one of: {}", KINDS.join(", "));
                self.report(Code::MissingField, fields.span.clone(), message, &help);
                self.effect_fields(fields);
                return None;
            }
            [_, (second, _), ..] => {
                let message = "a step does one thing";
                let help = "make two steps of it";
                self.report(Code::FieldConflict, fields.name_span(second), message, help);
                self.effect_fields(fields);
                return None;
            }
        };
        if kind == "http" {
            return self
                .http(node, fields, names)
                .map(Box::new)
                .map(Action::Http);
        }
        self.refuse_effect_fields(fields, kind);
        match kind {
            "function" => self.expr(node, "function", names).map(Action::Function),
            "kv" => self.kv(node, fields, names).map(Action::Kv),
            _ => self.wait(node).map(Action::Wait),
        }
    }

    fn wait(&mut self, node: &Node) -> Option<Wait> {
        let mut fields = self.fields(node, "`wait`")?;
        let timer = fields.find("for");
        let callback = fields.find("callback");
        let within = fields.find("within");
        self.finish(&fields);
        let moment = Span::from_millis(1);
        match (timer, callback) {
            (Some(node), None) => {
                if within.is_some() {
                    let message = "`within` is for a callback";
                    let help = "leave it out: `for` says how long";
                    self.report(
                        Code::FieldConflict,
                        fields.name_span("within"),
                        message,
                        help,
                    );
                }
                self.span(node, "for", moment..=year()).map(Wait::Timer)
            }
            (None, Some(callback)) => {
                let asked = self.truth(callback, "callback")?;
                if !asked {
                    let help = "write `callback: true`, or `for: 1h`";
                    let span = callback.span.clone();
                    self.report(Code::WrongValue, span, "`callback` can only be true", help);
                    return None;
                }
                let within = self.need(&mut fields, "within", "7d")?;
                let within = self.span(within, "within", moment..=year())?;
                Some(Wait::Callback { within })
            }
            (Some(_), Some(_)) => {
                let message = "a wait is for time or for a callback";
                let help = "make two steps of it";
                self.report(
                    Code::FieldConflict,
                    fields.name_span("callback"),
                    message,
                    help,
                );
                None
            }
            (None, None) => {
                let message = "`wait` does not say what for";
                let help = "write `for: 1h`, or `callback: true` and `within: 7d`";
                self.report(Code::MissingField, fields.span.clone(), message, help);
                None
            }
        }
    }
}
