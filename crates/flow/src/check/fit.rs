//! Whether expressions, schema and examples fit together.

use super::Check;
use crate::diagnostic::Code;
use crate::tree::Value;
use crate::types::{Outcomes, Type, infer, input_type, misfit, of_schema};

impl<'t> Check<'_, 't, '_> {
    pub(super) fn fit(&mut self) {
        self.schema();
        let input = input_type(self.outline.flow);
        if let Some(input) = &input {
            self.examples(input);
        }
        self.types();
    }

    fn schema(&mut self) {
        let flow = self.outline.flow;
        let Some(Value::Json(schema)) = flow.value("input_schema") else {
            return;
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
            }
            return;
        }
        if let Err(problem) = of_schema(schema, 0) {
            let help = "flows use: type, properties, required, items, enum, const, anyOf, oneOf, nullable, additionalProperties";
            self.add(Code::SchemaInvalid, span, &problem, help);
        }
    }

    fn examples(&mut self, input: &Type) {
        for example in self.outline.flow.maps("examples") {
            let Some(Value::Json(value)) = example.value("input") else {
                continue;
            };
            if let Some(problem) = misfit(value, input, "input") {
                let help = "mend the example or the schema: deliveries look like one of them";
                let span = example.value_span("input");
                self.add(Code::ExampleUnfit, span, &problem, help);
            }
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
                found.push((span, problem.message, problem.mend));
            }
            // Only steps have an `if`.
            if field == "if" && !yields.may_be(|one| *one == Type::Bool) {
                let message = format!("`{field}` is true or false, not a {}", yields.name());
                let mend = "compare it with something: `… == true`, `… != null`, `… > 0`";
                found.push((placed.span(), message, mend.to_owned()));
            }
        });
        for (span, message, help) in found {
            self.add(Code::ExpressionType, span, &message, &help);
        }
    }
}
