//! What an effect that happened gives, as an event.

use semel_flow::release::{Ask, Probe};
use semel_flow::{EvalError, Scope, Step};
use semel_model::effect::ConfirmedBy;
use semel_model::event::Event;
use semel_model::{Fault, Receipt, json};
use serde_json::Value;

/// What an effect that happened gives, by the destination's answer.
pub fn confirmed(step: &Step, response: &Value, by: ConfirmedBy) -> Event {
    let status = response
        .get("status")
        .and_then(Value::as_u64)
        .and_then(|s| u16::try_from(s).ok());
    let result = step.result_of(&Scope::new().with("response", response));
    done(step, by, status, result, response)
}

/// What a read gives. Nothing happened, so an expression that fails on the answer is a fault.
pub fn read_result(step: &Step, receipt: &Receipt) -> Result<Value, Fault> {
    let too_deep = || {
        let message = "the answer nests deeper than 100 levels";
        Fault::permanent("answer-too-deep", message)
    };
    if receipt.response["too_deep"] == true {
        return Err(too_deep());
    }
    let result = step
        .result_of(&Scope::new().with("response", &receipt.response))
        .map_err(|error| Fault::permanent(error.code(), error.to_string()))?;
    match json::is_too_deep(&result) {
        true => Err(too_deep()),
        false => Ok(result),
    }
}

/// What an effect that a probe found gives.
pub fn found(step: &Step, probe: &Probe, response: &Value, by: ConfirmedBy) -> Event {
    let scope = Scope::new().with("probe", response);
    let result = match (&probe.result, &probe.ask) {
        (Some(expr), _) => expr.eval(&scope),
        (None, Ask::Http { .. }) => Ok(response.get("json").cloned().unwrap_or_default()),
        (None, Ask::Db { .. }) => Ok(response.clone()),
        // The marker holds the very answer.
        (None, Ask::Marker) => step.result_of(&Scope::new().with("response", response)),
    };
    done(step, by, None, result, response)
}

/// The effect happened whatever the author's expressions make of the answer: where they fail, the
/// raw answer is kept as the result; and what nests too deep is kept as text.
fn done(
    step: &Step,
    by: ConfirmedBy,
    status: Option<u16>,
    result: Result<Value, EvalError>,
    response: &Value,
) -> Event {
    let result = json::readable(result.unwrap_or_else(|_| response.clone()));
    Event::Done {
        step: step.id.to_string(),
        by,
        external_id: external_id(step, &result),
        status,
        result,
    }
}

/// The destination's identity for what was made, as the step finds it in its result.
pub(crate) fn external_id(step: &Step, result: &Value) -> Option<String> {
    let expr = step.external_id.as_ref()?;
    let found = expr.eval(&Scope::new().with("result", result)).ok()?;
    match found {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
