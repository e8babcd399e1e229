//! `llm`, in both languages of models.

use std::net::SocketAddr;

use anyhow::Result;
use semel_model::connection::{LlmShape, LlmTarget, Target};
use semel_model::request::{ExternalRequest, LlmRequest};
use semel_model::{Connection, Span};
use semel_steps::Destination;
use semel_testkit::{Model, Proxy};
use serde_json::json;

use crate::conformance::subject::{AskedFor, At, Repeat, Subject, Wanted};
use crate::llm::world::{asking, destination_of};

/// A model that is spoken to as OpenAI's are.
pub(crate) struct Openai(Llm);

/// A model that is spoken to as Anthropic's are.
pub(crate) struct Anthropic(Llm);

const REPEAT: Repeat = Repeat::Again(
    "a question is a read and has no key; the engine reuses the answers that it recorded",
);

struct Llm {
    model: Model,
    address: SocketAddr,
}

impl Llm {
    async fn start() -> Result<Self> {
        let model = Model::start().await?;
        let url = model.url();
        let authority = url.trim_start_matches("http://").trim_end_matches("/v1");
        let address = authority.parse()?;
        Ok(Self { model, address })
    }

    fn destination(at: At, shape: LlmShape) -> Destination {
        destination_of(Connection::to(Target::Llm(LlmTarget {
            shape,
            base_url: at.url("/v1"),
            secret: "key".to_owned(),
            model: Some("small".to_owned()),
            price: None,
        })))
    }

    fn request(wanted: Wanted, timeout: Span) -> ExternalRequest {
        let told = match wanted {
            Wanted::Done | Wanted::Slow => json!({ "text": "four" }),
            Wanted::Refused => json!({ "status": 400 }),
        };
        ExternalRequest::Llm(LlmRequest {
            timeout,
            ..asking(told)
        })
    }

    /// How many questions it answered.
    async fn answers(&self) -> Result<usize> {
        let asked = self.model.asked().await?;
        let is_answered = |body: String| body.contains("four");
        Ok(asked
            .iter()
            .filter(|asked| is_answered(asked.body.to_string()))
            .count())
    }
}

impl Subject for Openai {
    const KIND: &'static str = "llm";
    const ASKED_FOR: AskedFor = AskedFor::Reads;
    const REPEAT: Repeat = REPEAT;

    async fn start() -> Result<Self> {
        Ok(Self(Llm::start().await?))
    }

    fn server(&self) -> SocketAddr {
        self.0.address
    }

    fn destination(&self, at: At, _: Wanted) -> Result<Destination> {
        Ok(Llm::destination(at, LlmShape::Openai))
    }

    fn request(&self, _: At, wanted: Wanted, timeout: Span) -> ExternalRequest {
        Llm::request(wanted, timeout)
    }

    fn hold_answer(&self, proxy: &Proxy) {
        proxy.hold_answers();
    }

    async fn effects(&self) -> Result<usize> {
        self.0.answers().await
    }
}

impl Subject for Anthropic {
    const KIND: &'static str = "llm";
    const ASKED_FOR: AskedFor = AskedFor::Reads;
    const REPEAT: Repeat = REPEAT;

    async fn start() -> Result<Self> {
        Ok(Self(Llm::start().await?))
    }

    fn server(&self) -> SocketAddr {
        self.0.address
    }

    fn destination(&self, at: At, _: Wanted) -> Result<Destination> {
        Ok(Llm::destination(at, LlmShape::Anthropic))
    }

    fn request(&self, _: At, wanted: Wanted, timeout: Span) -> ExternalRequest {
        Llm::request(wanted, timeout)
    }

    fn hold_answer(&self, proxy: &Proxy) {
        proxy.hold_answers();
    }

    async fn effects(&self) -> Result<usize> {
        self.0.answers().await
    }
}
