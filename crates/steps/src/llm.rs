//! Language models: one question, one outcome.
//!
//! A question changes nothing in the world but the bill. What comes back is checked here: an
//! answer that does not fit the schema, that was cut off or refused is no answer, and says so.

mod anthropic;
mod openai;
mod schema;

use hyper::header::{AUTHORIZATION, HeaderName};
use semel_model::connection::{LlmPrice, LlmShape, LlmTarget, Target};
use semel_model::request::{CacheScope, HttpRequest, LlmRequest};
use semel_model::{EffectId, Fault, FlowName, Outcome, Receipt, RunId, SecretText};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::destination::Destination;
use crate::executor::{Attempt, Executor, Route, Setup, not_offered};
use crate::http::{HttpExecutor, Pooling};

/// Asks language models.
#[derive(Clone)]
pub struct LlmExecutor {
    http: HttpExecutor,
}

/// A question as it goes over the wire, without what authenticates it.
struct LlmHttpRequest {
    url: String,
    body: Value,
}

/// What a model said, before it is held against the schema.
struct Said {
    text: String,
    /// The structured answer, where it came apart from the text.
    json: Option<Value>,
    model: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl Executor for LlmExecutor {
    const KIND: &'static str = "llm";
    type Request = LlmRequest;

    fn set_up(setup: &Setup) -> Self {
        Self::new(setup.http.clone())
    }

    /// A question is always a read.
    async fn perform(&self, _: Attempt<'_, LlmRequest>) -> Outcome {
        not_offered(Self::KIND)
    }

    async fn read(&self, route: Route<'_>, request: &LlmRequest) -> Outcome {
        match route.destination(&request.connection) {
            Ok(to) => self.ask(request, to).await,
            Err(fault) => Outcome::Failed(fault),
        }
    }

    async fn find_marker(&self, _: Route<'_>, _: &LlmRequest, _: EffectId) -> Outcome {
        not_offered(Self::KIND)
    }
}

impl LlmExecutor {
    /// A caller that goes through this HTTP caller, its gate and its limits.
    #[must_use]
    pub fn new(http: HttpExecutor) -> Self {
        Self { http }
    }

    /// Asks once. The answer is `{text, json, model, tokens: {input, output}, cost}`.
    pub async fn ask(&self, request: &LlmRequest, to: &Destination) -> Outcome {
        let (target, wire) = match prepare(request, to) {
            Ok(prepared) => prepared,
            Err(fault) => return Outcome::Failed(fault),
        };
        let signed = match key_header(to, target) {
            Ok(signed) => [signed],
            Err(fault) => return Outcome::Failed(fault),
        };
        let http = to_http(request, to, target, wire);
        let pooling = Pooling::Shared;
        let asked = self.http.send_signed(&http, to, &signed, None, pooling);
        let receipt = match asked.await {
            Outcome::Done(receipt) => receipt,
            other @ (Outcome::Failed(_) | Outcome::InDoubt(_)) => return other,
        };
        match read(request, target, &receipt) {
            Ok(answer) => {
                let read = Receipt::new(answer, receipt.status);
                Outcome::Done(read.with_memory(receipt.reserved))
            }
            Err(fault) => Outcome::Failed(fault),
        }
    }
}

/// What names a question: SHA-256 over the canonical form of all that goes out, where it goes, and
/// within what the answer holds.
///
/// # Errors
///
/// If the question cannot be asked at all.
pub fn digest(
    request: &LlmRequest,
    to: &Destination,
    run: RunId,
    flow: &FlowName,
) -> Result<[u8; 32], Fault> {
    let (target, wire) = prepare(request, to)?;
    let within = match request.cache {
        CacheScope::Run => json!({"run": run}),
        CacheScope::Flow => json!({"flow": flow.as_str()}),
        CacheScope::Namespace => json!({}),
    };
    let question = json!({
        "namespace": to.namespace_id,
        "within": within,
        "shape": target.shape,
        "url": wire.url,
        "body": wire.body,
        // The schema goes out in a form of the provider's; two of ours may look the same there.
        "schema": request.schema,
    });
    let canonical = serde_json_canonicalizer::to_vec(&question)
        .map_err(|error| Fault::permanent("bad-request", error.to_string()))?;
    Ok(Sha256::digest(canonical).into())
}

fn prepare<'a>(
    request: &LlmRequest,
    to: &'a Destination,
) -> Result<(&'a LlmTarget, LlmHttpRequest), Fault> {
    let Target::Llm(target) = &to.connection.to else {
        return Err(to.unfit("llm"));
    };
    let model = request.model.as_ref().or(target.model.as_ref());
    let Some(model) = model else {
        let message = format!(
            "neither the step nor the connection `{}` names a model: set `model` in one of them",
            to.name
        );
        return Err(Fault::permanent("model-missing", message));
    };
    if let Some(schema) = &request.schema {
        schema::compile(schema)?;
    }
    let wire = match target.shape {
        LlmShape::Openai => openai::wire(request, target, model),
        LlmShape::Anthropic => anthropic::wire(request, target, model),
    };
    Ok((target, wire))
}

/// The header that authenticates the question, and its secret, which lives as long as the exchange
/// and is kept nowhere.
fn key_header(to: &Destination, target: &LlmTarget) -> Result<(HeaderName, SecretText), Fault> {
    let secret = to.secret(&target.secret)?;
    Ok(match target.shape {
        LlmShape::Openai => {
            let bearer = SecretText::new(format!("Bearer {}", secret.reveal()));
            (AUTHORIZATION, bearer)
        }
        LlmShape::Anthropic => (HeaderName::from_static("x-api-key"), secret.clone()),
    })
}

fn to_http(
    request: &LlmRequest,
    to: &Destination,
    target: &LlmTarget,
    wire: LlmHttpRequest,
) -> HttpRequest {
    let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    if target.shape == LlmShape::Anthropic {
        let version = anthropic::VERSION.to_owned();
        headers.push(("anthropic-version".to_owned(), version));
    }
    let timeout = match to.connection.timeout {
        Some(longest) => request.timeout.min(longest),
        None => request.timeout,
    };
    HttpRequest {
        connection: Some(to.name.clone()),
        method: "POST".to_owned(),
        url: wire.url,
        headers,
        key_header: None,
        body: Some(wire.body.to_string()),
        parts: Vec::new(),
        file: None,
        pages: None,
        timeout,
    }
}

fn read(request: &LlmRequest, target: &LlmTarget, receipt: &Receipt) -> Result<Value, Fault> {
    let answer = &receipt.response["json"];
    let said = match target.shape {
        LlmShape::Openai => openai::read(answer)?,
        LlmShape::Anthropic => anthropic::read(answer)?,
    };
    let json = match &request.schema {
        Some(schema) => schema::fit(schema, &said)?,
        None => Value::Null,
    };
    Ok(json!({
        "text": said.text,
        "json": json,
        "model": said.model,
        "tokens": {"input": said.input_tokens, "output": said.output_tokens},
        "cost": cost(target.price, &said),
    }))
}

/// What the answer cost, where the price and the tokens are known.
fn cost(price: Option<LlmPrice>, said: &Said) -> Option<f64> {
    let price = price?;
    let of = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
    Some(of(said.input_tokens?, price.input) + of(said.output_tokens?, price.output))
}

/// The answer stopped before its end.
fn cut() -> Fault {
    Fault::permanent(
        "answer-cut",
        "the model stopped at its limit before the answer was complete: raise `max_tokens` or ask for less",
    )
}

/// The model, or a filter in front of it, declined to answer.
fn declined(why: &str) -> Fault {
    let why = match why {
        "" => "it did not say why",
        why => why,
    };
    let message = format!("the model declined to answer: {why}");
    Fault::permanent("model-declined", message)
}

/// What came back is no answer of this API.
fn unreadable(shape: &str) -> Fault {
    let message = format!(
        "the response is not in the form of {shape}: check `shape` and `base_url` of the connection"
    );
    Fault::passing("answer-unreadable", message)
}

fn url(target: &LlmTarget, path: &str) -> String {
    format!("{}{path}", target.base_url.trim_end_matches('/'))
}
