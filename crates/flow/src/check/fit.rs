//! Whether expressions, schema and examples fit together.

use super::Check;
use super::outcomes::Outcomes;
use crate::diagnostic::Code;
use crate::input_schema::InputSchema;
use crate::steps::Holds;
use crate::tree::Value;
use crate::types::{Type, infer, input_schema};

impl<'t> Check<'_, 't, '_> {
    pub(super) fn fit(&mut self) {
        if let Some(schema) = self.schema() {
            self.examples(&schema);
            self.scheduled(&schema);
        }
        self.types();
    }

    fn schema(&mut self) -> Option<InputSchema> {
        let flow = self.outline.flow;
        let Some(Value::Json(schema)) = flow.value("input_schema") else {
            return None;
        };
        let span = flow.value_span("input_schema");
        if let Some(name) = schema.get("from_example") {
            let known: Vec<&str> = flow
                .maps("examples")
                .filter_map(|example| example.text("name"))
                .collect();
            if !name.as_str().is_some_and(|name| known.contains(&name)) {
                let message = format!("there is no example {name}");
                let help = format!("examples of this flow: {}", known.join(", "));
                self.add(Code::SchemaInvalid, span, &message, &help);
                return None;
            }
        }
        match input_schema(flow)? {
            Ok(schema) => Some(schema),
            Err(problem) => {
                let help = "flows use: type, properties, required, items, enum, const, anyOf, oneOf, nullable, additionalProperties, pattern, and the bounds of numbers, texts, lists and maps";
                self.add(Code::SchemaInvalid, span, &problem, help);
                None
            }
        }
    }

    fn examples(&mut self, schema: &InputSchema) {
        for example in self.outline.flow.maps("examples") {
            let Some(Value::Json(value)) = example.value("input") else {
                continue;
            };
            if let Some(problem) = schema.misfit(value) {
                let help = "fix the example or the schema: one of them is wrong";
                let span = example.value_span("input");
                self.add(Code::ExampleUnfit, span, &problem, help);
            }
        }
    }

    /// A schedule's input is the same every time: one that does not fit would never start a run.
    fn scheduled(&mut self, schema: &InputSchema) {
        let trigger = self.outline.flow.map("trigger");
        let Some(schedule) = trigger.and_then(|trigger| trigger.map("schedule")) else {
            return;
        };
        let nothing = serde_json::Value::Null;
        let input = match schedule.value("input") {
            Some(Value::Json(input)) => input,
            Some(_) | None => &nothing,
        };
        if let Some(problem) = schema.misfit(input) {
            let help =
                "give the schedule an `input` that matches, or fix the schema: no run would start";
            let span = schedule.value_span("input");
            self.add(Code::ExampleUnfit, span, &problem, help);
        }
    }

    /// Types of all expressions, as far as they are known.
    fn types(&mut self) {
        let outline = self.outline;
        let outcomes = Outcomes::new(outline);
        let mut found = vec![];
        outline.each_expr(|at, field, placed| {
            let mut problems = vec![];
            let known = |name: &str, fields: &[Box<str>]| outcomes.find(name, fields, at);
            let yields = infer(placed.expr.node(), &known, &mut problems);
            for problem in problems {
                let mut paths = placed.expr.references().iter();
                let path = paths.find(|path| path.covers(problem.at));
                let span = match path {
                    Some(path) => placed.path_span(self.report.source, path),
                    None => placed.part_span(self.report.source, problem.at, 1),
                };
                found.push((span, problem.message, problem.fix));
            }
            let is_list = at.is_some_and(|at| {
                let loops = outline.steps[at].holds() == Some(Holds::Items);
                let body = outline.body(at).filter(|_| loops);
                let list = body.and_then(|body| body.expr("in"));
                list.is_some_and(|list| list.span() == placed.span())
            });
            let holds_items = |one: &Type| matches!(one, Type::List(_) | Type::Map(_) | Type::Text);
            if is_list && !yields.may_be(holds_items) {
                let message = format!(
                    "`in` is a list, or a resource that holds one, not a {}",
                    yields.name()
                );
                let fix = "name the list: `semel explain shapes` shows the fields of results";
                found.push((placed.span(), message, fix.to_owned()));
            }
            // Only steps have an `if`.
            if field == "if" && !yields.may_be(|one| *one == Type::Bool) {
                let message = format!("`{field}` is true or false, not a {}", yields.name());
                let fix = "compare it with something: `… == true`, `… != null`, `… > 0`";
                found.push((placed.span(), message, fix.to_owned()));
            }
        });
        for (span, message, help) in found {
            self.add(Code::ExpressionType, span, &message, &help);
        }
    }
}
