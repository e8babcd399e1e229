//! `POST /chat/completions`, as OpenAI and many others speak it.

use semel_model::Fault;
use semel_model::connection::LlmTarget;
use semel_model::request::LlmRequest;
use serde_json::{Value, json};

use super::{LlmHttpRequest, Said, cut, declined, schema, unreadable, url};

/// OpenAI itself calls the limit by a newer name, which others do not know yet.
const OWN_HOST: &str = "https://api.openai.com/";

/// The question as it goes over the wire.
pub(super) fn wire(request: &LlmRequest, target: &LlmTarget, model: &str) -> LlmHttpRequest {
    let mut messages = Vec::new();
    if let Some(system) = &request.system {
        messages.push(json!({"role": "system", "content": system}));
    }
    messages.push(json!({"role": "user", "content": request.prompt}));
    let mut body = json!({"model": model, "messages": messages});
    if let Some(most) = request.max_tokens {
        let name = match target.base_url.starts_with(OWN_HOST) {
            true => "max_completion_tokens",
            false => "max_tokens",
        };
        body[name] = most.into();
    }
    if let Some(asked) = &request.schema {
        body["response_format"] = json!({
            "type": "json_schema",
            "json_schema": {"name": schema::NAME, "schema": schema::as_object(asked)},
        });
    }
    LlmHttpRequest {
        url: url(target, "/chat/completions"),
        body,
    }
}

/// What the model said.
pub(super) fn read(answer: &Value) -> Result<Said, Fault> {
    let choice = &answer["choices"][0];
    let message = &choice["message"];
    if !message.is_object() {
        return Err(unreadable("openai"));
    }
    if let Some(why) = message["refusal"].as_str() {
        return Err(declined(why));
    }
    match choice["finish_reason"].as_str() {
        Some("length") => return Err(cut()),
        Some("content_filter") => return Err(declined("its provider's content filter blocked it")),
        Some(_) | None => {}
    }
    let Some(text) = message["content"].as_str() else {
        return Err(unreadable("openai"));
    };
    Ok(Said {
        text: text.to_owned(),
        json: None,
        model: answer["model"].as_str().map(str::to_owned),
        input_tokens: answer["usage"]["prompt_tokens"].as_u64(),
        output_tokens: answer["usage"]["completion_tokens"].as_u64(),
    })
}
