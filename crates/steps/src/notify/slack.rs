//! Slack: `chat.postMessage`, whose answer says `ok` or names an error.

use semel_model::connection::SlackTarget;
use semel_model::request::{HttpRequest, Message};
use semel_model::{Doubt, EffectId, Fault, FaultKind, Looked, Outcome, SecretText};
use serde_json::json;

use super::{Signed, unfit};
use crate::destination::Destination;

/// Errors that may pass, before which nothing was posted.
const PASSING: [&str; 2] = ["ratelimited", "rate_limited"];

/// Errors behind which, by Slack's own words, something may have happened.
const UNCLEAR: [&str; 3] = ["fatal_error", "internal_error", "service_unavailable"];

/// The request that posts the message, and the header that authenticates it.
pub(super) fn request(
    message: &Message,
    to: &Destination,
    target: &SlackTarget,
    key: EffectId,
) -> Result<Signed, Fault> {
    let [channel] = message.to.as_slice() else {
        return Err(unfit(
            "a message to Slack goes to one channel: one step for each",
        ));
    };
    let text = match &message.subject {
        Some(subject) => format!("*{subject}*\n{}", message.text),
        None => message.text.clone(),
    };
    let body =
        json!({ "channel": channel, "text": text, "client_msg_id": key.as_uuid().to_string() });
    let token = to.secret(&target.secret)?.reveal();
    let request = HttpRequest {
        connection: Some(message.connection.clone()),
        method: "POST".to_owned(),
        url: format!("{}/chat.postMessage", target.base_url.trim_end_matches('/')),
        headers: vec![(
            "content-type".to_owned(),
            "application/json; charset=utf-8".to_owned(),
        )],
        key_header: None,
        body: Some(body.to_string()),
        parts: Vec::new(),
        file: None,
        pages: None,
        timeout: message.timeout,
    };
    Ok((
        request,
        [("authorization", SecretText::new(format!("Bearer {token}")))],
    ))
}

/// Reads Slack's own word out of an answer that HTTP takes for a success.
pub(super) fn read(outcome: Outcome) -> Outcome {
    let receipt = match outcome {
        Outcome::Done(receipt) => receipt,
        Outcome::Failed(_) | Outcome::InDoubt(_) => return outcome,
    };
    let answer = &receipt.response["json"];
    match (answer["ok"].as_bool(), answer["error"].as_str()) {
        (Some(true), _) => Outcome::Done(receipt),
        (Some(false), Some(error)) if UNCLEAR.contains(&error) => Outcome::InDoubt(Doubt::new(
            format!("slack-{error}"),
            "Slack cannot say whether it posted",
        )),
        (Some(false), Some(error)) => Outcome::Failed(Fault {
            code: format!("slack-{error}"),
            kind: FaultKind::Other,
            message: format!("Slack refuses the message: {error}"),
            retryable: PASSING.contains(&error),
            retry_after: None,
            looked: Looked::AtNothing,
        }),
        (Some(false) | None, _) => {
            let message = "the answer does not say whether the message was posted";
            Outcome::InDoubt(Doubt::new("slack-unclear", message))
        }
    }
}
