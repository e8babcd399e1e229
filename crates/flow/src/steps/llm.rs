//! `llm`: one question to a language model.

use semel_model::request::{CacheScope, ExternalRequest, LlmRequest};
use semel_model::{EffectId, Span};
use serde::Serialize;
use serde_json::Value;

use super::body::{CONNECTION, Lowering, text};
use super::descriptor::{Docs, ResultOrigin, StepKind, no_link, waits_for_nobody};
use super::released::body_of_answer;
use super::{Action, ActionKind, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::expr::{EvalError, Expr, Scope};
use crate::grammar::{FieldType, MapSchema, SECOND, field};
use crate::shapes::{ValueKind, ValueShape, value};
use crate::template::TextTemplate;
use crate::tree::{self, Record};
use crate::types::{Type, of_schema, of_shape};

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Llm,
    about: "Asks a language model.",
    summary: "one question to a model",
    docs: Docs::Page(include_str!("../../../../docs/steps/llm.md")),
    article: "an",
    takes: FieldType::Map(&SCHEMA),
    effect: None,
    undoable: false,
    connection: &["llm"],
    check: None,
    lower: |step| lower(step).map(Box::new).map(Action::Llm),
    response: |_| of_shape(&ANSWER),
    result,
    takes_result: true,
    takes_external_id: false,
    origin: ResultOrigin::Model,
    holds: None,
    pauses: false,
    shapes: &[&ANSWER, &TOKENS],
    ends_run: false,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

static SCHEMA: MapSchema = MapSchema::new(
    ("`llm`", "llm"),
    "One question to a language model. The answer is recorded: the same question is asked once.",
    &[
        CONNECTION.needed("model"),
        field(
            "model",
            FieldType::Text,
            "The model; otherwise the connection's.",
        ),
        field("system", FieldType::Holes, "The system prompt."),
        field("prompt", FieldType::Holes, "The question.")
            .needed("\"Classify: ${{ input.text }}\""),
        field("schema", FieldType::Constant, "JSON Schema of the answer."),
        field(
            "max_tokens",
            FieldType::Whole(1, 1_000_000),
            "The maximum length of the answer, in tokens.",
        ),
        field(
            "cache",
            FieldType::Word(&["run", "flow", "namespace"]),
            "The scope in which the same question gets the same answer.",
        )
        .default("run"),
        field(
            "timeout",
            FieldType::Span(1, 600 * SECOND),
            "The maximum time.",
        )
        .default("2m"),
    ],
);

/// What a model said.
static ANSWER: ValueShape = ValueShape {
    name: "llm answer",
    about: "`response` of an `llm` step",
    fields: &[
        value("text", ValueKind::Text, "The answer.").or_null(),
        value(
            "json",
            ValueKind::Any,
            "The answer as JSON, if there is a `schema`.",
        ),
        value("model", ValueKind::Text, "The model that answered.").or_null(),
        value("tokens", ValueKind::Of(&TOKENS), "The tokens used."),
        value(
            "cost",
            ValueKind::Number,
            "The cost, if the connection has a `price`.",
        )
        .or_null(),
    ],
};

static TOKENS: ValueShape = ValueShape {
    name: "tokens",
    about: "`response.tokens` of an `llm` step",
    fields: &[
        value("input", ValueKind::Int, "Tokens of the question.").or_null(),
        value("output", ValueKind::Int, "Tokens of the answer.").or_null(),
    ],
};

/// What the author's schema says of the answer.
fn result(body: Option<&Record>) -> Type {
    match body.and_then(|body| body.value("schema")) {
        Some(tree::Value::Json(schema)) => of_schema(schema, 0).unwrap_or(Type::Any),
        Some(_) | None => Type::Any,
    }
}

fn lower(step: &Lowering<'_>) -> Option<LlmStep> {
    let body = step.body?;
    let schema = match body.value("schema") {
        Some(tree::Value::Json(schema)) => Some(schema.clone()),
        Some(_) | None => None,
    };
    let max_tokens = body.whole("max_tokens");
    Some(LlmStep {
        connection: body.text("connection")?.to_owned(),
        model: body.text("model").map(str::to_owned),
        system: text(body, "system"),
        prompt: text(body, "prompt")?,
        schema,
        max_tokens: max_tokens.and_then(|most| u32::try_from(most).ok()),
        cache: match body.word("cache") {
            Some("flow") => CacheScope::Flow,
            Some("namespace") => CacheScope::Namespace,
            Some(_) | None => CacheScope::Run,
        },
        timeout: body.span_of("timeout")?,
    })
}

/// One question to a language model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LlmStep {
    /// The connection.
    pub connection: String,
    /// The model; otherwise the connection's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The system prompt of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<TextTemplate>,
    /// The question.
    pub prompt: TextTemplate,
    /// JSON Schema of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The longest answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Where the same question gets the same answer.
    pub cache: CacheScope,
    /// How long it may take.
    pub timeout: Span,
}

impl LlmStep {
    /// The question with every hole evaluated.
    ///
    /// # Errors
    ///
    /// If a hole cannot be evaluated.
    pub fn render(&self, scope: &Scope<'_>) -> Result<LlmRequest, EvalError> {
        let system = self.system.as_ref().map(|it| it.render(scope));
        Ok(LlmRequest {
            connection: self.connection.clone(),
            model: self.model.clone(),
            system: system.transpose()?,
            prompt: self.prompt.render(scope)?,
            schema: self.schema.clone(),
            max_tokens: self.max_tokens,
            cache: self.cache,
            timeout: self.timeout,
        })
    }
}

impl ReleasedStep for LlmStep {
    fn exprs(&self) -> Vec<&Expr> {
        let texts = self.system.iter().chain([&self.prompt]);
        texts.flat_map(TextTemplate::exprs).collect()
    }

    fn connection(&self) -> Option<&str> {
        Some(&self.connection)
    }

    fn work(
        &self,
        scope: &Scope<'_>,
        _: FindConnection<'_>,
        _: Option<EffectId>,
    ) -> Result<StepWork<'_>, RenderError> {
        Ok(StepWork::request(ExternalRequest::Llm(self.render(scope)?)))
    }

    fn result_of(&self, response: &Value) -> Value {
        body_of_answer(response)
    }
}
