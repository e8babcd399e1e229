//! Responses of hooks that say more than 202: a run's result, and what a source asks first.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hyper::Method;
use semel_api::types::{RunStatus, Started};
use semel_server::ServerOptions;
use semel_testkit::client::Answer;
use semel_testkit::peer::Behaviour;
use semel_testkit::{Peer, patience, until};
use serde_json::{Value, json};

use crate::authentic::{SECRETS, STEPS};
use crate::signing::sign_as_slack;
use crate::world::{World, patience_span};

const HOOK: &str = "/hooks/main/ask";

/// Asks a peer, and answers with what it says.
fn asking(peer: &Peer, within: &str) -> String {
    format!(
        "trigger:\n  webhook: {{ auth: none, key: input.id, respond: result, within: {within} }}\n\
         steps:\n  - id: ask\n    guard: natural\n    http: {{ put: '{}', json: {{ n: 1 }}, timeout: 50s }}\n\
         result: '{{\"id\": input.id, \"status\": steps.ask.status}}'\n",
        peer.url("/plain/ask")
    )
}

#[tokio::test]
async fn the_response_is_held_until_the_run_ends_and_is_its_result() -> Result<()> {
    let (world, peer) = (World::start().await?, Peer::start().await?);
    world.publish("ask", &asking(&peer, "30s")).await?;
    peer.next("/plain/", Behaviour::HoldBeforeAnswer).await?;

    let body = r#"{"id":"<b>1</b>"}"#;
    let ask = || world.bare.post(HOOK, body);
    let letting_go = async {
        peer.until_held(1, patience()).await?;
        // The repeat waits with the first, and a third comes when all is over.
        let repeats = async || Ok(world.engine.metrics().duplicates.get());
        until("the repeat to come", repeats, |count| *count == 1).await?;
        peer.let_go().await
    };
    let (first, repeat, let_go) = tokio::join!(ask(), ask(), letting_go);
    let (first, repeat, later) = (first?, repeat?, ask().await?);

    ensure!(let_go? == 1);
    let expected = json!({ "id": "<b>1</b>", "status": 201 });
    for answer in [&first, &repeat, &later] {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json::<Value>()?, expected);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("semel-run"), first.header("semel-run"));
    }
    assert_eq!(later.header("idempotency-replayed"), Some("true"));
    assert_eq!(peer.count("/plain/").await?.effects, 1);
    Ok(())
}

#[tokio::test]
async fn a_failure_is_the_answer_too_and_after_within_the_run_is_named() -> Result<()> {
    let (world, peer) = (World::start().await?, Peer::start().await?);
    world.publish("ask", &asking(&peer, "1s")).await?;

    peer.next("/plain/", Behaviour::RefuseWith(400)).await?;
    let failed = world.bare.post(HOOK, r#"{"id":"bad"}"#).await?;
    let again = world.bare.post(HOOK, r#"{"id":"bad"}"#).await?;
    peer.next("/plain/", Behaviour::HoldBeforeAnswer).await?;
    let began = Instant::now();
    let slow = world.bare.post(HOOK, r#"{"id":"slow"}"#).await?;
    let took = began.elapsed();
    peer.let_go().await?;
    let started: Started = slow.json()?;
    let end = world.client.await_run(started.run, patience_span()).await?;
    let later = world.bare.post(HOOK, r#"{"id":"slow"}"#).await?;

    for answer in [&failed, &again] {
        assert_eq!(answer.status, 422, "{}", answer.text());
        let told: Value = answer.json()?;
        assert_eq!(
            (&told["state"], &told["fault"]["code"]),
            (&json!("failed"), &json!("http-400"))
        );
    }
    assert_eq!(slow.status, 202, "{}", slow.text());
    ensure!(took >= Duration::from_secs(1), "{took:?}");
    assert_eq!(
        end.state,
        RunStatus::Succeeded,
        "nothing depends on the wait"
    );
    assert_eq!(later.status, 200);
    Ok(())
}

#[tokio::test]
async fn a_run_that_stops_for_an_operator_is_not_waited_for() -> Result<()> {
    let (world, peer) = (World::start().await?, Peer::start().await?);
    let flow = asking(&peer, "50s").replace("guard: natural", "guard: review");
    world.publish("ask", &flow).await?;

    peer.next("/plain/", Behaviour::CloseWithoutAnswer).await?;
    let doubt = world.bare.post(HOOK, r#"{"id":"1"}"#).await?;

    assert_eq!(doubt.status, 202, "{}", doubt.text());
    assert_eq!(doubt.json::<Started>()?.state, RunStatus::InDoubt);
    Ok(())
}

/// A server whose hooks take everything, and a client with as many connections.
async fn crowded() -> Result<(World, semel_testkit::Client)> {
    let options = ServerOptions {
        hook_rate: NonZeroU32::new(10_000),
        ..ServerOptions::default()
    };
    let world = World::start_with(options).await?;
    let many = semel_testkit::Client::new(world.address, 400).with_patience(patience());
    Ok((world, many))
}

/// A run that ends when an event comes.
const WAITING: &str = "trigger:\n  webhook: { auth: none, key: input.id, respond: result, within: 1m }\n\
    steps:\n  - { id: sign, wait: { event: go, match: 'event.n == 1', within: 1h } }\nresult: input.id\n";

const EMITTING: &str = "trigger: { webhook: { auth: none, key: input.id } }\n\
    steps:\n  - { id: say, emit: { event: go, data: { n: 1 } } }\n";

const PLAIN: &str = "trigger: { webhook: { auth: none, key: input.id } }\n\
    steps:\n  - { id: note, kv: { add: plain } }\n";

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_held_responses_delay_no_other_delivery() -> Result<()> {
    let (world, many) = crowded().await?;
    world.publish("ask", WAITING).await?;
    world.publish("say", EMITTING).await?;
    world.publish("plain", PLAIN).await?;

    let held = (0..200).map(|n| many.post(HOOK, format!(r#"{{"id":"h-{n}"}}"#)));
    let beside = async {
        until_waiting(&world, 200).await?;
        for n in 0..50 {
            let body = format!(r#"{{"id":"beside-{n}"}}"#);
            let answer = world.bare.post("/hooks/main/plain", body).await?;
            ensure!(answer.status == 202, "{}", answer.text());
        }
        let still = count_waiting(&world).await?;
        world.bare.post("/hooks/main/say", r#"{"id":"go"}"#).await?;
        anyhow::Ok(still)
    };
    let (answers, still) = tokio::join!(futures_util::future::try_join_all(held), beside);
    let (answers, still): (Vec<Answer>, i64) = (answers?, still?);

    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json::<Value>()?, json!(format!("h-{n}")));
    }
    // A delivery that waits for a held response is answered after it.
    assert_eq!(still, 200, "others were answered while all of them waited");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_places_of_a_namespace_a_response_is_not_held() -> Result<()> {
    let (world, many) = crowded().await?;
    world.publish("ask", WAITING).await?;
    world.publish("say", EMITTING).await?;

    let asked = (0..300).map(|n| many.post(HOOK, format!(r#"{{"id":"h-{n}"}}"#)));
    let let_go = async {
        until_waiting(&world, 300).await?;
        world.bare.post("/hooks/main/say", r#"{"id":"go"}"#).await?;
        anyhow::Ok(())
    };
    let (answers, let_go) = tokio::join!(futures_util::future::try_join_all(asked), let_go);
    let_go?;

    let statuses: Vec<u16> = answers?.iter().map(|it| it.status.as_u16()).collect();
    let count = |status| statuses.iter().filter(|it| **it == status).count();
    assert_eq!((count(200), count(202)), (256, 44), "{statuses:?}");
    Ok(())
}

/// How many runs wait for an event.
async fn count_waiting(world: &World) -> Result<i64> {
    let client = world.database.connect().await?;
    let count = "SELECT count(*) FROM event_waits";
    Ok(client.query_one(count, &[]).await?.get(0))
}

async fn until_waiting(world: &World, wanted: i64) -> Result<()> {
    let client = world.database.connect().await?;
    let count = "SELECT count(*) FROM event_waits";
    let look = async || Ok(client.query_one(count, &[]).await?.get::<_, i64>(0));
    until("every run to wait", look, |waiting| *waiting >= wanted).await?;
    Ok(())
}

#[tokio::test]
async fn slacks_challenge_is_answered_and_starts_nothing() -> Result<()> {
    let world = World::start().await?;
    world.publish_signed("slack", "slack", SECRETS[0]).await?;
    let at = world.now().await?;
    let target = "/hooks/main/slack";
    let ask = |challenge: &str| {
        let body = json!({ "token": "t", "challenge": challenge, "type": "url_verification" });
        sign_as_slack(SECRETS[0], target, &body.to_string(), at)
    };

    let answer = world.send(&ask("3eZbrw1aBm2rZgRNFdxV2595E9CY3")).await?;
    let odd = world.send(&ask("<script>alert(1)</script>")).await?;
    let long = world.send(&ask(&"a".repeat(2_000))).await?;
    let mut forged = ask("3eZbrw1aBm2rZgRNFdxV2595E9CY3");
    forged.body = forged.body.replace("3eZ", "4eZ");
    let forged = world.send(&forged).await?;

    assert_eq!(
        (answer.status.as_u16(), answer.text().as_str()),
        (200, "3eZbrw1aBm2rZgRNFdxV2595E9CY3")
    );
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(forged.status, 401, "only Slack is answered");
    for refused in [&odd, &long] {
        assert_eq!(refused.status, 400, "{}", refused.text());
        ensure!(!refused.text().contains("script"), "{}", refused.text());
    }
    let client = world.database.connect().await?;
    let claims = client.query_one("SELECT count(*) FROM claims", &[]).await?;
    assert_eq!(claims.get::<_, i64>(0), 0, "no run, and no key");
    Ok(())
}

#[tokio::test]
async fn a_source_of_cloudevents_may_ask_first() -> Result<()> {
    let world = World::start().await?;
    let flow = format!("trigger:\n  webhook: {{ provider: cloudevents, auth: none }}\n{STEPS}");
    world.publish("events", &flow).await?;
    world.publish("plain", PLAIN).await?;
    let asked = [("webhook-request-origin", "<b>emitter.example</b>")];
    let ask = async |path: &str, headers: &[(&str, &str)]| {
        let sent = world.bare.send(Method::OPTIONS, path, headers, "".into());
        sent.await
    };

    let allowed = ask("/hooks/main/events", &asked).await?;
    let unasked = ask("/hooks/main/events", &[]).await?;
    let other = ask("/hooks/main/plain", &asked).await?;
    let nowhere = ask("/hooks/main/nowhere", &asked).await?;

    assert_eq!(allowed.status, 200);
    assert_eq!(allowed.header("webhook-allowed-origin"), Some("*"));
    assert_eq!(allowed.header("webhook-allowed-rate"), Some("3000"));
    assert_eq!(allowed.header("allow"), Some("POST"));
    assert_eq!(allowed.text(), "", "nothing that came is sent back");
    assert_eq!((unasked.status.as_u16(), other.status.as_u16()), (405, 405));
    assert_eq!(nowhere.status, 404);
    Ok(())
}
