//! A model in its own process, and a caller.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, bail};
use semel_model::connection::{LlmPrice, LlmShape, LlmTarget, Target};
use semel_model::request::{CacheScope, LlmRequest};
use semel_model::{Connection, Fault, Outcome, SecretText, Span};
use semel_steps::{Destination, HttpExecutor, LlmExecutor, Reach, SendGate};
use semel_testkit::Model;
use serde_json::Value;

struct Open;

impl SendGate for Open {
    fn is_open(&self) -> bool {
        true
    }
}

pub(crate) struct World {
    pub(crate) model: Model,
    pub(crate) caller: LlmExecutor,
}

impl World {
    pub(crate) async fn start() -> Result<Self> {
        Ok(Self {
            model: Model::start().await?,
            caller: LlmExecutor::new(HttpExecutor::new(Arc::new(Open), &Reach::open())?),
        })
    }

    pub(crate) fn destination(&self, shape: LlmShape) -> Destination {
        destination_of(Connection::to(Target::Llm(LlmTarget {
            shape,
            base_url: self.model.url(),
            secret: "key".to_owned(),
            model: Some("small".to_owned()),
            price: Some(LlmPrice {
                input: 3.0,
                output: 15.0,
            }),
        })))
    }

    pub(crate) async fn ask(&self, shape: LlmShape, request: &LlmRequest) -> Outcome {
        self.caller.ask(request, &self.destination(shape)).await
    }

    pub(crate) async fn answer(&self, shape: LlmShape, request: &LlmRequest) -> Result<Value> {
        match self.ask(shape, request).await {
            Outcome::Done(receipt) => Ok(receipt.response),
            other @ (Outcome::Failed(_) | Outcome::InDoubt(_)) => bail!("no answer: {other:?}"),
        }
    }

    pub(crate) async fn fault(&self, shape: LlmShape, request: &LlmRequest) -> Result<Fault> {
        match self.ask(shape, request).await {
            Outcome::Failed(fault) => Ok(fault),
            other @ (Outcome::Done(_) | Outcome::InDoubt(_)) => bail!("no fault: {other:?}"),
        }
    }
}

pub(crate) fn destination_of(connection: Connection) -> Destination {
    let secret = SecretText::new("sk-hush-hush".to_owned());
    let secrets = BTreeMap::from([("key".to_owned(), secret)]);
    Destination::new("model".to_owned(), 1, 1, connection, secrets)
}

/// A question whose prompt tells the model what to answer.
pub(crate) fn asking(told: Value) -> LlmRequest {
    LlmRequest {
        connection: "model".to_owned(),
        model: None,
        system: None,
        prompt: told.to_string(),
        schema: None,
        max_tokens: None,
        cache: CacheScope::Run,
        timeout: Span::from_secs(100),
    }
}

/// The code of a fault.
pub(crate) fn code(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Failed(fault) => Some(&fault.code),
        Outcome::Done(_) | Outcome::InDoubt(_) => None,
    }
}
