//! A payload for a flow without examples: it has a value at every path of `input` that the flow reads, so
//! that the run it starts finds what it looks for.

use serde_json::{Map, Value, json};

use crate::expr::{Expr, Path};
use crate::release::{Flow, StepGuard};

/// What stands at the paths that the key reads.
const KEY_EXAMPLE: &str = "example-1";

/// What stands at the other paths.
const OTHER_EXAMPLE: &str = "example";

/// The version of the example.
const VERSION_EXAMPLE: i64 = 1;

/// A payload that the flow can make something of.
#[must_use]
pub fn sample_payload(flow: &Flow) -> Value {
    let mut payload = json!({});
    for expr in exprs(flow) {
        put_all(&mut payload, expr.references(), OTHER_EXAMPLE);
    }
    // Last, so that what the key reads differs from the rest.
    if let Some(webhook) = &flow.trigger.webhook {
        if let Some(order) = &webhook.order {
            put_all(&mut payload, order.version.references(), VERSION_EXAMPLE);
        }
        put_all(&mut payload, webhook.key.references(), KEY_EXAMPLE);
    }
    payload
}

fn put_all(payload: &mut Value, paths: &[Path], example: impl Into<Value>) {
    let example = example.into();
    for path in paths.iter().filter(|path| path.root == "input") {
        put(payload, &path.fields, &example);
    }
}

/// Puts an example at a path. A path that goes deeper than another one wins over it.
fn put(place: &mut Value, fields: &[String], example: &Value) {
    let Some((first, rest)) = fields.split_first() else {
        return;
    };
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    let next = &mut place[first.as_str()];
    if !rest.is_empty() {
        put(next, rest, example);
    } else if !next.is_object() {
        *next = example.clone();
    }
}

/// The expressions of a flow that a run comes by.
fn exprs(flow: &Flow) -> Vec<&Expr> {
    let mut exprs: Vec<&Expr> = Vec::new();
    if let Some(webhook) = &flow.trigger.webhook {
        exprs.extend(&webhook.when);
        exprs.extend(webhook.order.iter().map(|order| &order.object));
    }
    exprs.extend(
        flow.overlap
            .iter()
            .filter_map(|overlap| overlap.key.as_ref()),
    );
    exprs.extend(flow.limit.iter().filter_map(|limit| limit.key.as_ref()));
    for step in &flow.steps {
        exprs.extend(&step.condition);
        exprs.extend(step.exprs());
        if let StepGuard::Probe(probe) = &step.guard {
            exprs.extend(probe.exprs());
        }
    }
    exprs.extend(&flow.result);
    exprs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(key: &str, function: &str) -> Flow {
        let source = format!(
            "flow: orders\ntrigger:\n  webhook: {{ auth: none, key: {key} }}\nsteps:\n  - id: a\n    function: {function}\n"
        );
        crate::check("orders.flow.yaml", &source).flow.unwrap()
    }

    #[test]
    fn the_deeper_path_wins_whatever_the_order() {
        assert_eq!(
            sample_payload(&flow("input.id", "input.id.part")),
            json!({"id": {"part": "example"}})
        );
        assert_eq!(
            sample_payload(&flow("input.id.part", "input.id")),
            json!({"id": {"part": "example-1"}}),
        );
    }

    #[test]
    fn the_payload_has_the_fields_of_order_and_gates() {
        let source = "flow: a\ntrigger:\n  webhook: { auth: none, key: input.id, order: { object: input.order, version: input.version } }\n\
                      overlap: { key: input.customer, policy: queue }\nlimit: { key: input.shop, concurrency: 3 }\n\
                      steps:\n  - id: a\n    function: '1'\n";
        let flow = crate::check("a", source).flow.unwrap();

        assert_eq!(
            sample_payload(&flow),
            json!({
                "id": "example-1", "order": "example", "version": 1, "customer": "example",
                "shop": "example"
            })
        );
    }
}
