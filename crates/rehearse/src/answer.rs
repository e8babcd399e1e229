//! What a destination answers, from the lines of an example.

use semel_model::request::ExternalRequest;
use semel_model::{Doubt, Fault, FaultKind, Outcome, Receipt};
use serde_json::{Map, Value, json};

/// The fields that an HTTP answer is written with.
const HTTP_FIELDS: [&str; 4] = ["status", "json", "text", "headers"];

/// What an answer of an example is for a request; 200 and `{}` where there is none.
pub(crate) fn outcome(request: &ExternalRequest, answer: Option<&Value>) -> Outcome {
    match request {
        ExternalRequest::Http(_) => http(answer),
        ExternalRequest::Db(request) => {
            let rows = request.rows.unwrap_or(1);
            done(
                answer,
                &json!({ "rows": rows, "records": [], "repeated": false }),
            )
        }
        ExternalRequest::Ssh(_) => ssh(answer),
        ExternalRequest::Notify(_) => done(answer, &json!({ "message_id": "staged" })),
        ExternalRequest::Llm(_) => done(answer, &json!({ "json": {}, "text": "" })),
    }
}

fn http(answer: Option<&Value>) -> Outcome {
    let is_whole =
        |given: &Map<String, Value>| given.keys().all(|key| HTTP_FIELDS.contains(&key.as_str()));
    let mut response = json!({ "status": 200, "headers": {}, "json": {}, "text": "" });
    match answer {
        Some(Value::Object(given)) if is_whole(given) => overlay(&mut response, given),
        Some(body) => response["json"] = body.clone(),
        None => {}
    }
    let status = response["status"]
        .as_u64()
        .and_then(|status| u16::try_from(status).ok());
    let status = status.unwrap_or(200);
    let code = format!("http-{status}");
    let message = format!("{status}, as the example says");
    match status {
        200..=299 | 303 | 304 => Outcome::Done(Receipt::new(response, Some(status))),
        408 | 425 | 429 => {
            Outcome::Failed(Fault::passing(code, message).of(FaultKind::Http(status)))
        }
        300..=499 => Outcome::Failed(Fault::permanent(code, message).of(FaultKind::Http(status))),
        _ => Outcome::InDoubt(Doubt::new(code, message).of(FaultKind::Http(status))),
    }
}

fn ssh(answer: Option<&Value>) -> Outcome {
    let mut response = json!({ "exit": 0, "stdout": "", "stderr": "" });
    if let Some(Value::Object(given)) = answer {
        overlay(&mut response, given);
    }
    match response["exit"].as_i64() {
        Some(0) | None => Outcome::Done(Receipt::new(response, None)),
        Some(code) => {
            let message = format!("the command ended with {code}, as the example says");
            Outcome::Failed(Fault::permanent("exit-code", message))
        }
    }
}

fn done(answer: Option<&Value>, usual: &Value) -> Outcome {
    let mut response = usual.clone();
    match answer {
        Some(Value::Object(given)) => overlay(&mut response, given),
        Some(Value::Null) | None => {}
        Some(other) => response = other.clone(),
    }
    Outcome::Done(Receipt::new(response, None))
}

fn overlay(response: &mut Value, given: &Map<String, Value>) {
    for (name, value) in given {
        response[name.as_str()] = value.clone();
    }
}

/// The refusal that a case brings about.
pub(crate) fn refusal() -> Outcome {
    let fault = Fault::permanent("http-422", "422, as the rehearsal wants it");
    Outcome::Failed(fault.of(FaultKind::Http(422)))
}

/// No answer came.
pub(crate) fn lost() -> Outcome {
    Outcome::InDoubt(Doubt::new("no-answer", "the rehearsal lost the answer"))
}

/// What a person or a program answers with: the `json` of an answer, or the whole of it.
pub(crate) fn payload(answer: &Value) -> Value {
    answer.get("json").unwrap_or(answer).clone()
}
