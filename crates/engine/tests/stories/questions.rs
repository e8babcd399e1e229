//! Questions to a language model: the same one is asked once, within its scope.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use futures_util::future::try_join_all;
use semel_engine::llm::{Asking, Question, ask};
use semel_model::connection::{LlmPrice, LlmShape, LlmTarget, Target};
use semel_model::request::{CacheScope, LlmRequest};
use semel_model::{Connection, Outcome, RunId, SecretText, Span};
use semel_steps::{AnswerRoom, Destination, HttpExecutor, LlmExecutor, Reach, SendGate};
use semel_testkit::Model;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::World;

struct Open;

impl SendGate for Open {
    fn is_open(&self) -> bool {
        true
    }
}

struct Ground {
    model: Model,
    caller: LlmExecutor,
    to: Destination,
    asking: Asking,
    answers: Arc<AnswerRoom>,
    world: World,
}

impl Ground {
    async fn start() -> Result<Self> {
        let (world, model) = (World::start().await?, Model::start().await?);
        let connection = Connection::to(Target::Llm(LlmTarget {
            shape: LlmShape::Openai,
            base_url: model.url(),
            secret: "key".to_owned(),
            model: Some("small".to_owned()),
            price: Some(LlmPrice {
                input: 3.0,
                output: 15.0,
            }),
        }));
        let secret = SecretText::new("hush-hush".to_owned());
        let secrets = BTreeMap::from([("key".to_owned(), secret)]);
        Ok(Self {
            caller: LlmExecutor::new(HttpExecutor::new(Arc::new(Open), &Reach::open())?),
            to: Destination::new(
                "model".to_owned(),
                world.namespace_id,
                1,
                connection,
                secrets,
            ),
            model,
            asking: Asking::default(),
            answers: Arc::default(),
            world,
        })
    }

    async fn outcome(&self, run: u128, flow: &str, request: &LlmRequest) -> Result<Outcome> {
        let run = RunId::from_uuid(Uuid::from_u128(run));
        self.outcome_in(run, flow, request).await
    }

    async fn outcome_in(&self, run: RunId, flow: &str, request: &LlmRequest) -> Result<Outcome> {
        let question = Question {
            request,
            to: &self.to,
            run,
            flow: &flow.parse()?,
        };
        let asking = self.caller.ask(request, &self.to);
        let shared = (&self.asking, &self.answers);
        Ok(ask(self.world.engine.cell(), shared, &question, asking).await)
    }

    async fn answer(&self, run: u128, flow: &str, request: &LlmRequest) -> Result<Value> {
        match self.outcome(run, flow, request).await? {
            Outcome::Done(receipt) => Ok(receipt.response),
            other @ (Outcome::Failed(_) | Outcome::InDoubt(_)) => bail!("{other:?}"),
        }
    }

    async fn count(&self) -> Result<usize> {
        Ok(self.model.asked().await?.len())
    }
}

/// The model answers with the number of questions that it was asked by then.
fn counting(cache: CacheScope) -> LlmRequest {
    LlmRequest {
        connection: "model".to_owned(),
        model: None,
        system: None,
        prompt: json!({"text": "count"}).to_string(),
        schema: None,
        max_tokens: None,
        cache,
        timeout: Span::from_secs(20),
    }
}

#[tokio::test]
async fn a_run_asks_the_same_question_once_and_another_run_asks_again() -> Result<()> {
    let ground = Ground::start().await?;
    let request = counting(CacheScope::Run);

    let first = ground.answer(1, "orders", &request).await?;
    let again = ground.answer(1, "orders", &request).await?;
    let other = ground.answer(2, "orders", &request).await?;

    assert_eq!(
        (&first["text"], &other["text"]),
        (&json!("answer 1"), &json!("answer 2"))
    );
    assert_eq!(first, again);
    assert_eq!(first["tokens"], json!({"input": 1000, "output": 200}));
    assert_eq!(first["cost"], 0.006);
    assert_eq!(ground.count().await?, 2);
    Ok(())
}

#[tokio::test]
async fn a_wider_scope_asks_once_in_every_run_of_the_flow_or_namespace() -> Result<()> {
    let ground = Ground::start().await?;
    let (flow, namespace) = (counting(CacheScope::Flow), counting(CacheScope::Namespace));

    for run in 1..4 {
        ground.answer(run, "orders", &flow).await?;
    }
    assert_eq!(ground.count().await?, 1);
    ground.answer(4, "refunds", &flow).await?;
    assert_eq!(ground.count().await?, 2, "another flow asks for itself");
    ground.answer(5, "orders", &namespace).await?;
    ground.answer(6, "refunds", &namespace).await?;
    assert_eq!(ground.count().await?, 3);
    Ok(())
}

#[tokio::test]
async fn concurrent_questions_all_get_the_first_answer() -> Result<()> {
    let ground = Ground::start().await?;
    let request = counting(CacheScope::Flow);

    let answers = (0..8).map(|run| ground.answer(run, "orders", &request));
    let answers = try_join_all(answers).await?;

    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    assert_eq!(ground.count().await?, 1, "one question is paid for");
    assert_eq!(ground.answer(9, "orders", &request).await?, answers[0]);
    assert_eq!(ground.count().await?, 1);
    Ok(())
}

#[tokio::test]
async fn an_answer_that_does_not_fit_its_schema_is_not_remembered() -> Result<()> {
    let ground = Ground::start().await?;
    let mut request = counting(CacheScope::Flow);
    request.prompt = json!({"json": {"total": "three"}}).to_string();
    request.schema = Some(json!({"type": "object", "properties": {"total": {"type": "integer"}}}));

    for _ in 0..2 {
        let outcome = ground.outcome(1, "orders", &request).await?;
        let Outcome::Failed(fault) = outcome else {
            bail!("{outcome:?}");
        };
        assert_eq!(
            (fault.code.as_str(), fault.retryable),
            ("answer-unfit", true)
        );
    }

    assert_eq!(ground.count().await?, 2);
    Ok(())
}

#[tokio::test]
async fn an_answer_expires() -> Result<()> {
    let ground = Ground::start().await?;
    let flow = counting(CacheScope::Flow);
    let (world, cell) = (&ground.world, ground.world.engine.cell());
    ground.answer(1, "orders", &flow).await?;

    world.move_clock(Duration::from_secs(8 * 86_400)).await?;
    ground.answer(1, "orders", &flow).await?;
    assert_eq!(ground.count().await?, 1);
    world.move_clock(Duration::from_secs(31 * 86_400)).await?;
    semel_store::llm_answers::forget(cell.every()).await?;
    ground.answer(1, "orders", &flow).await?;

    assert_eq!(ground.count().await?, 2, "within a flow for a month");
    Ok(())
}

#[tokio::test]
async fn an_answer_within_a_run_holds_for_as_long_as_the_run() -> Result<()> {
    let ground = Ground::start().await?;
    let request = counting(CacheScope::Run);
    let cell = ground.world.engine.cell();
    let wait = "steps:\n  - { id: rest, wait: { callback: true, within: 90d } }\n";
    ground.world.publish(wait).await?;
    let alive = ground.world.deliver(r#"{"id":"1"}"#).await?.run;
    ground.outcome_in(alive, "story", &request).await?;
    ground.answer(7, "story", &request).await?;

    for _ in 0..3 {
        let later = Duration::from_secs(8 * 86_400);
        ground.world.move_clock(later).await?;
        semel_store::llm_answers::forget(cell.every()).await?;
    }
    ground.outcome_in(alive, "story", &request).await?;
    assert_eq!(
        ground.count().await?,
        2,
        "the run continues, and does not ask again"
    );
    ground.answer(7, "story", &request).await?;

    assert_eq!(
        ground.count().await?,
        3,
        "what belongs to no run is forgotten"
    );
    Ok(())
}
