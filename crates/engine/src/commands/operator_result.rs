//! The result that an operator gives an effect: everything that a later step reads.

use semel_flow::Flow;
use semel_flow::release::Reads;
use semel_model::effect::ConfirmedBy;
use semel_model::event::Event;
use serde_json::Value;

use crate::decide::external_id;

/// Something later reads what the operator did not give.
#[derive(Debug)]
pub(super) struct ResultNeeded(pub(super) String);

/// The event of an operator's answer. Where the step says how to find its external id in its
/// result, a result is enough.
pub(super) fn done_by_operator(
    flow: &Flow,
    step: &str,
    external_id: Option<&str>,
    result: Option<&Value>,
) -> Result<Event, ResultNeeded> {
    let reads = flow.reads_of(step);
    done(flow, step, (external_id, result), &reads)
}

/// The same, where nothing but what undoes the step comes after it.
pub(super) fn done_to_be_undone(
    flow: &Flow,
    step: &str,
    external_id: Option<&str>,
    result: Option<&Value>,
) -> Result<Event, ResultNeeded> {
    let undo = flow.find_step(step).and_then(|step| step.undo);
    let undo = undo.map(|place| flow.steps[place].id.as_str());
    let mut reads = flow.reads_of(step);
    reads.result.retain(|reader| Some(reader.as_str()) == undo);
    reads
        .external_id
        .retain(|reader| Some(reader.as_str()) == undo);
    done(flow, step, (external_id, result), &reads)
}

fn done(
    flow: &Flow,
    step: &str,
    (external_id, result): (Option<&str>, Option<&Value>),
    reads: &Reads,
) -> Result<Event, ResultNeeded> {
    let external_id = match (external_id, result) {
        (Some(id), _) => Some(id.to_owned()),
        (None, Some(result)) => derive_id(flow, step, result),
        (None, None) => None,
    };
    let mut missing = Vec::new();
    if result.is_none() && !reads.result.is_empty() {
        missing.push(("--result '{…}'", "its result", &reads.result));
    }
    if external_id.is_none() && !reads.external_id.is_empty() {
        missing.push(("--external-id ID", "its external id", &reads.external_id));
    }
    if !missing.is_empty() {
        let parts = missing.iter().map(|(option, what, readers)| {
            let readers: Vec<String> = readers.iter().map(|name| format!("`{name}`")).collect();
            format!("{} read {what} (add {option})", readers.join(", "))
        });
        let parts: Vec<String> = parts.collect();
        return Err(ResultNeeded(format!(
            "later steps need what `{step}` gave: {}",
            parts.join("; ")
        )));
    }
    Ok(Event::Done {
        step: step.to_owned(),
        by: ConfirmedBy::Operator,
        external_id,
        status: None,
        result: result.cloned().unwrap_or_default(),
    })
}

/// The destination's identity for what was made, as the step finds it in its result.
pub(super) fn derive_id(flow: &Flow, step: &str, result: &Value) -> Option<String> {
    external_id(flow.find_step(step)?, result)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flow() -> Flow {
        let source = "flow: pay\ntrigger: { api: { key: input.id } }\nsteps:\n\
            \x20 - id: charge\n    http: { post: 'https://bank.example/c' }\n    guard: review\n\
            \x20   external_id: result.id\n\
            \x20 - id: book\n    function: steps.charge.result.id\n\
            \x20 - id: link\n    function: steps.charge.external_id\n\
            \x20 - id: alone\n    function: input.id\n\
            result: steps.book.result\n";
        let flow = semel_flow::load(source);
        flow.unwrap_or_else(|| panic!("a flow"))
    }

    #[test]
    fn a_settlement_gives_what_later_steps_read() {
        let refused = done_by_operator(&flow(), "charge", None, None);

        let Err(ResultNeeded(detail)) = refused else {
            panic!("taken: {refused:?}");
        };
        assert!(detail.contains("`book` read its result"), "{detail}");
        assert!(detail.contains("`link` read its external id"), "{detail}");
        assert!(!detail.contains("alone"), "{detail}");
    }

    #[test]
    fn the_external_id_is_found_in_the_result_and_null_is_a_result() {
        let told = done_by_operator(&flow(), "charge", None, Some(&json!({ "id": 7 })));
        let null = done_by_operator(&flow(), "charge", Some("c_1"), Some(&Value::Null));
        let unread = done_by_operator(&flow(), "alone", None, None);

        match told {
            Ok(Event::Done { external_id, .. }) => assert_eq!(external_id.as_deref(), Some("7")),
            other => panic!("{other:?}"),
        }
        assert!(null.is_ok() && unread.is_ok());
    }
}
