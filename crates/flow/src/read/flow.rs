//! The file as a whole.

use semel_model::{FlowName, RetryPolicy, Span};

use super::control::year;
use super::fields::Fields;
use super::names::{Names, Place, StepNames};
use super::{Reader, optional};
use crate::diagnostic::Code;
use crate::expr::is_name;
use crate::release::{Flow, Step};
use crate::yaml::{Kind, Node};

/// The most steps of a flow.
const STEP_COUNT_MAX: usize = 1_000;

impl Reader<'_> {
    pub(super) fn flow(&mut self, tree: &Node) -> Option<Flow> {
        let mut fields = self.fields(tree, "a flow")?;
        let name = self.flow_name(&mut fields);
        let about = fields
            .find("about")
            .map(|node| self.text(node, "about").map(str::to_owned));
        let trigger = self.need(&mut fields, "trigger", "{ api: {} }");
        let trigger = trigger.and_then(|node| self.triggers(node, name.as_ref()));
        let keep = fields
            .find("keep")
            .map_or(Some(Span::from_secs(30 * 86_400)), |node| {
                self.span(node, "keep", Span::from_secs(60)..=year())
            });
        let retry = fields
            .find("retry")
            .map_or(Some(RetryPolicy::default()), |node| {
                self.retry(node, RetryPolicy::default())
            });
        let env = fields.find("env").map_or(Some(()), |node| self.env(node));
        let steps = self.need(&mut fields, "steps", "[…]");
        let known = steps.map(step_names).unwrap_or_default();
        let steps = steps.and_then(|node| self.steps(node, retry.unwrap_or_default(), &known));
        let names = Names {
            place: Place::Step,
            steps: &known,
            behind: known.ids.len(),
        };
        let result = fields
            .find("result")
            .map(|node| self.expr(node, "result", names));
        self.finish(&fields);
        env?;
        Some(Flow {
            name: name?,
            about: optional(about)?,
            trigger: trigger?,
            keep: keep?,
            retry: retry?,
            env: self.env.clone(),
            steps: steps?,
            result: optional(result)?,
        })
    }

    fn flow_name(&mut self, fields: &mut Fields<'_>) -> Option<FlowName> {
        let node = self.need(fields, "flow", "name")?;
        self.parsed(node, "flow", "write a name such as `order-paid`")
    }

    fn env(&mut self, node: &Node) -> Option<()> {
        let Kind::Map(entries) = &node.kind else {
            self.wrong_type(node, "env", "a map");
            return None;
        };
        for entry in entries {
            if !is_name(&entry.key) {
                let message = format!("`{}` cannot be read as `env.NAME`", entry.key);
                let help = "use letters, digits and `_`, a letter first";
                self.report(Code::WrongValue, entry.key_span.clone(), &message, help);
            }
        }
        let value = self.value(node)?;
        let holes = value.to_string().contains("${{");
        if holes {
            let message = "`env` holds constants, without `${{ }}`";
            let help = "work values out in a `function` step";
            self.report(Code::WrongValue, node.span.clone(), message, help);
        }
        self.env = value;
        (!holes).then_some(())
    }

    fn steps(&mut self, node: &Node, retry: RetryPolicy, known: &StepNames) -> Option<Vec<Step>> {
        let Kind::List(items) = &node.kind else {
            self.wrong_type(node, "steps", "a list");
            return None;
        };
        if items.len() > STEP_COUNT_MAX {
            let message = format!("a flow has at most {STEP_COUNT_MAX} steps");
            self.report(
                Code::TooLarge,
                node.span.clone(),
                &message,
                "cut the flow into several",
            );
            return None;
        }
        let mut steps: Option<Vec<Step>> = Some(Vec::with_capacity(items.len()));
        for (behind, item) in items.iter().enumerate() {
            let names = Names {
                place: Place::Step,
                steps: known,
                behind,
            };
            let step = self.step(item, retry, names);
            match (&mut steps, step) {
                (Some(steps), Some(step)) => steps.push(step),
                _ => steps = None,
            }
        }
        steps
    }
}

/// The names of all steps, before any is read: a mistake in one step must not make the others
/// report that it does not exist.
fn step_names(node: &Node) -> StepNames {
    let mut names = StepNames::default();
    let Kind::List(items) = &node.kind else {
        return names;
    };
    for item in items {
        let id = field(item, "id").and_then(Node::as_scalar);
        let id = id.map(|scalar| scalar.text.clone()).unwrap_or_default();
        if field(item, "wait")
            .and_then(|wait| field(wait, "callback"))
            .is_some()
        {
            names.callbacks.push(id.clone());
        }
        names.ids.push(id);
    }
    names
}

fn field<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    match &node.kind {
        Kind::Map(entries) => entries
            .iter()
            .find(|entry| entry.key == name)
            .map(|entry| &entry.value),
        Kind::List(_) | Kind::Scalar(_) => None,
    }
}
