//! Language models: both languages, structured answers, and answers that are none.

pub(crate) mod world;

use anyhow::{Context as _, Result};
use semel_model::connection::{LlmShape, Target};
use semel_model::request::CacheScope;
use semel_model::{Connection, Outcome, RunId};
use semel_steps::llm::digest;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::llm::world::{World, asking};

const BOTH: [LlmShape; 2] = [LlmShape::Openai, LlmShape::Anthropic];

#[tokio::test]
async fn an_answer_comes_with_its_tokens_and_its_cost() -> Result<()> {
    let world = World::start().await?;
    for shape in BOTH {
        let answer = world
            .answer(shape, &asking(json!({"text": "four"})))
            .await?;

        let expected = json!({
            "text": "four", "json": null, "model": "small-2026",
            "tokens": {"input": 1000, "output": 200}, "cost": 0.006,
        });
        assert_eq!(answer, expected, "{shape:?}");
    }
    Ok(())
}

#[tokio::test]
async fn each_language_is_spoken_as_its_provider_wants_it() -> Result<()> {
    let world = World::start().await?;
    let mut request = asking(json!({"json": {"ok": true}}));
    request.system = Some("be brief".to_owned());
    request.schema = Some(json!({"type": "object", "required": ["ok"]}));
    request.max_tokens = Some(77);

    for shape in BOTH {
        world.answer(shape, &request).await?;
    }
    let asked = world.model.asked().await?;

    let (openai, anthropic) = (&asked[0], &asked[1]);
    assert_eq!(openai.path, "/v1/chat/completions");
    assert_eq!(openai.headers["authorization"], "Bearer sk-hush-hush");
    assert_eq!(
        openai.body["messages"][0],
        json!({"role": "system", "content": "be brief"})
    );
    assert_eq!(openai.body["max_tokens"], 77);
    assert_eq!(openai.body["response_format"]["type"], "json_schema");
    assert_eq!(anthropic.path, "/v1/messages");
    assert_eq!(anthropic.headers["x-api-key"], "sk-hush-hush");
    assert_eq!(anthropic.headers["anthropic-version"], "2023-06-01");
    assert_eq!(anthropic.headers["authorization"], Value::Null);
    assert_eq!(anthropic.body["system"], "be brief");
    assert_eq!(anthropic.body["max_tokens"], 77);
    assert_eq!(
        anthropic.body["tools"][0]["input_schema"]["required"],
        json!(["ok"])
    );
    assert_eq!(
        anthropic.body["tool_choice"],
        json!({"type": "tool", "name": "answer"})
    );
    Ok(())
}

#[tokio::test]
async fn a_structured_answer_fits_its_schema_or_is_asked_for_again() -> Result<()> {
    let world = World::start().await?;
    let schema = json!({
        "type": "object",
        "properties": {"total": {"type": "integer", "minimum": 0}},
        "required": ["total"],
    });
    let ask = |json: Value| {
        let mut request = asking(json!({ "json": json }));
        request.schema = Some(schema.clone());
        request
    };
    for shape in BOTH {
        let fit = world.answer(shape, &ask(json!({"total": 3}))).await?;
        let unfit = world.fault(shape, &ask(json!({"total": -3}))).await?;

        assert_eq!(fit["json"], json!({"total": 3}), "{shape:?}");
        assert_eq!(
            (unfit.code.as_str(), unfit.retryable),
            ("answer-unfit", true)
        );
        assert!(unfit.message.contains("/total"), "{}", unfit.message);
    }
    let mut prose = asking(json!({"text": "I think it is three."}));
    prose.schema = Some(schema);
    let fault = world.fault(LlmShape::Openai, &prose).await?;
    assert_eq!(fault.code, "answer-unfit");
    Ok(())
}

#[tokio::test]
async fn half_an_answer_and_a_refusal_are_no_answers() -> Result<()> {
    let world = World::start().await?;
    for shape in BOTH {
        let faults = [
            ("cut", "answer-cut"),
            ("declined", "model-declined"),
            ("filtered", "model-declined"),
        ];
        for (stop, code) in faults {
            let fault = world.fault(shape, &asking(json!({ "stop": stop }))).await?;

            assert_eq!(
                (fault.code.as_str(), fault.retryable),
                (code, false),
                "{shape:?}"
            );
        }
        let odd = world
            .fault(shape, &asking(json!({"raw": {"hello": 1}})))
            .await?;
        assert_eq!(
            (odd.code.as_str(), odd.retryable),
            ("answer-unreadable", true)
        );
    }
    Ok(())
}

#[tokio::test]
async fn what_the_provider_says_keeps_its_meaning() -> Result<()> {
    let world = World::start().await?;
    for shape in BOTH {
        let busy = world.fault(shape, &asking(json!({"status": 429}))).await?;
        let wrong = world.fault(shape, &asking(json!({"status": 401}))).await?;
        let unclear = world.ask(shape, &asking(json!({"status": 503}))).await;

        assert_eq!((busy.code.as_str(), busy.retryable), ("http-429", true));
        assert_eq!((wrong.code.as_str(), wrong.retryable), ("http-401", false));
        assert!(matches!(unclear, Outcome::InDoubt(_)), "{unclear:?}");
    }
    Ok(())
}

#[tokio::test]
async fn nothing_is_sent_where_something_is_missing() -> Result<()> {
    let world = World::start().await?;
    let mut bad_schema = asking(json!({"text": "x"}));
    bad_schema.schema = Some(json!({"type": "objekt"}));
    let mut to = world.destination(LlmShape::Openai);
    let Target::Llm(llm) = &mut to.connection.to else {
        anyhow::bail!("a model");
    };
    llm.model = None;

    let unusable = world.fault(LlmShape::Openai, &bad_schema).await?;
    let no_model = world.caller.ask(&asking(json!({"text": "x"})), &to).await;
    let mut secretless = world.destination(LlmShape::Anthropic);
    let Target::Llm(llm) = &mut secretless.connection.to else {
        anyhow::bail!("a model");
    };
    llm.secret = "other".to_owned();
    let no_secret = world
        .caller
        .ask(&asking(json!({"text": "x"})), &secretless)
        .await;

    assert_eq!(
        (unusable.code.as_str(), unusable.retryable),
        ("schema-unusable", false)
    );
    assert_eq!(world::code(&no_model).context("a fault")?, "model-missing");
    assert_eq!(
        world::code(&no_secret).context("a fault")?,
        "secret-missing"
    );
    assert!(world.model.asked().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_question_is_named_by_all_that_goes_out_and_where_it_holds() -> Result<()> {
    let world = World::start().await?;
    let to = world.destination(LlmShape::Openai);
    let (one, two) = (run(1), run(2));
    let (flow, other_flow) = ("orders".parse()?, "refunds".parse()?);
    let base = asking(json!({"text": "x"}));
    let of = |request: &_, run, flow: &_| digest(request, &to, run, flow).unwrap();
    let first = of(&base, one, &flow);

    assert_eq!(first, of(&base, one, &flow));
    assert_ne!(first, of(&base, two, &flow), "another run asks again");
    let mut wide = base.clone();
    wide.cache = CacheScope::Flow;
    assert_eq!(of(&wide, one, &flow), of(&wide, two, &flow));
    assert_ne!(of(&wide, one, &flow), of(&wide, one, &other_flow));
    wide.cache = CacheScope::Namespace;
    assert_eq!(of(&wide, one, &flow), of(&wide, two, &other_flow));
    let changes: [fn(&mut semel_model::request::LlmRequest); 5] = [
        |request| request.prompt.push('!'),
        |request| request.system = Some("be brief".to_owned()),
        |request| request.model = Some("large".to_owned()),
        |request| request.max_tokens = Some(9),
        |request| request.schema = Some(json!({"type": "object"})),
    ];
    for change in changes {
        let mut changed = base.clone();
        change(&mut changed);
        assert_ne!(first, of(&changed, one, &flow), "{changed:?}");
    }
    let mut patient = base.clone();
    patient.timeout = semel_model::Span::from_secs(99);
    assert_eq!(first, of(&patient, one, &flow), "patience is not sent");
    let Connection { to: target, .. } = &to.connection;
    let mut moved = Connection::to(target.clone());
    if let Target::Llm(llm) = &mut moved.to {
        llm.base_url = "https://elsewhere.example/v1".to_owned();
    }
    let moved = world::destination_of(moved);
    assert_ne!(Ok(first), digest(&base, &moved, one, &flow));
    Ok(())
}

fn run(number: u128) -> RunId {
    RunId::from_uuid(Uuid::from_u128(number))
}
