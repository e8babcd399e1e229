//! `POST /messages`, as Anthropic speaks it.

use semel_model::Fault;
use semel_model::connection::LlmTarget;
use semel_model::request::LlmRequest;
use serde_json::{Value, json};

use super::{LlmHttpRequest, Said, cut, declined, schema, unreadable, url};

/// The version of the API that is spoken here.
pub(super) const VERSION: &str = "2023-06-01";

/// The longest answer where the step says nothing: this API wants a limit.
const TOKENS_USUAL: u32 = 4096;

/// The question as it goes over the wire. A structured answer is asked for as the input of a tool
/// that the model must use.
pub(super) fn wire(request: &LlmRequest, target: &LlmTarget, model: &str) -> LlmHttpRequest {
    let mut body = json!({
        "model": model,
        "max_tokens": request.max_tokens.unwrap_or(TOKENS_USUAL),
        "messages": [{"role": "user", "content": request.prompt}],
    });
    if let Some(system) = &request.system {
        body["system"] = json!(system);
    }
    if let Some(asked) = &request.schema {
        body["tools"] = json!([{
            "name": schema::NAME,
            "description": "Gives the answer.",
            "input_schema": schema::as_object(asked),
        }]);
        body["tool_choice"] = json!({"type": "tool", "name": schema::NAME});
    }
    LlmHttpRequest {
        url: url(target, "/messages"),
        body,
    }
}

/// What the model said.
pub(super) fn read(answer: &Value) -> Result<Said, Fault> {
    let Some(blocks) = answer["content"].as_array() else {
        return Err(unreadable("anthropic"));
    };
    match answer["stop_reason"].as_str() {
        Some("max_tokens" | "model_context_window_exceeded") => return Err(cut()),
        Some("refusal") => return Err(declined("")),
        Some(_) | None => {}
    }
    let texts = blocks.iter().filter_map(|block| block["text"].as_str());
    let mut inputs = blocks
        .iter()
        .filter(|block| block["type"] == "tool_use" && block["name"] == schema::NAME);
    let json = inputs.next().map(|block| block["input"].clone());
    let text: String = texts.collect();
    let text = match &json {
        Some(json) if text.is_empty() => json.to_string(),
        Some(_) | None => text,
    };
    Ok(Said {
        text,
        json,
        model: answer["model"].as_str().map(str::to_owned),
        input_tokens: answer["usage"]["input_tokens"].as_u64(),
        output_tokens: answer["usage"]["output_tokens"].as_u64(),
    })
}
