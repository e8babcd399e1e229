//! Held deliveries, challenges and responses with a result, through the real binary, with curl.

use anyhow::{Context, Result, ensure};
use hmac::{Hmac, KeyInit as _, Mac as _};
use semel_testkit::peer::Behaviour;
use semel_testkit::semel::{self, Api, migrate};
use semel_testkit::{Client, Cluster, Options, Peer, Program, patience};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::asked::object;
use crate::desk::Desk;
use crate::steps::page::Page;

const SECRET: &str = "a-signing-secret-of-some-length";

/// The hex digits of an HMAC.
fn sign(text: &str) -> Result<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes())?;
    mac.update(text.as_bytes());
    Ok(hex::encode(mac.finalize().into_bytes()))
}

#[tokio::test]
async fn the_page_of_held_deliveries_works_as_printed() -> Result<()> {
    let page = Page::read("held")?;
    let flows = page.flows()?;
    let flows: Vec<(&str, &str)> = flows
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let desk = Desk::open(&flows).await?;

    let mut said = Vec::new();
    for block in page.all("sh") {
        said.push(desk.say(&format!("set -e\n{block}")).await?);
    }

    let [held, decided, refused] = &said[..] else {
        anyhow::bail!("{} blocks: {said:?}", said.len());
    };
    ensure!(held.contains("\"held\":true"), "{held}");
    ensure!(held.contains("same key, another payload"), "{held}");
    ensure!(
        decided.contains("has a run of its own under o-1-b"),
        "{decided}"
    );
    ensure!(decided.contains("is dismissed"), "{decided}");
    ensure!(refused.contains("key-failed"), "{refused}");
    let listed = desk.data("semel duplicate list --held").await?;
    assert_eq!(listed["items"], json!([]), "all is decided");
    let runs = desk.data("semel run list").await?;
    assert_eq!(runs["items"].as_array().map(Vec::len), Some(2), "{runs}");
    Ok(())
}

const ISSUES: &str = "flow: issues
trigger: { webhook: { provider: github, secret: hook_key } }
steps:
  - { id: note, kv: { add: issues } }
result: steps.note.result
";

#[tokio::test]
async fn a_held_replay_is_let_in_and_another_dismissed_by_command() -> Result<()> {
    let desk = Desk::open(&[("issues", ISSUES)]).await?;
    let set = format!("semel secret set hook_key <<'END'\n{SECRET}\nEND\n");
    desk.say(&set).await?;
    let deliver = async |issue: u32, delivery: &str| {
        let body = format!(r#"{{"action":"opened","issue":{issue}}}"#);
        let proof = sign(&body)?;
        let line = format!(
            "curl -sS $SEMEL_URL/hooks/default/issues -H 'x-github-delivery: {delivery}' \
             -H 'x-hub-signature-256: sha256={proof}' -H 'content-type: application/json' -d '{body}'"
        );
        let said = desk.say(&line).await?;
        serde_json::from_str::<Value>(&said).context(said)
    };
    let held = async || {
        let (_, listed) = object(&desk, "semel duplicate list --held").await?;
        let next = listed["next"].to_string();
        ensure!(
            !next.contains("accept") && !next.contains("dismiss"),
            "{next}"
        );
        let id = listed["data"]["items"][0]["duplicate"].as_str();
        Ok(id.context(listed.to_string())?.to_owned())
    };

    let first = deliver(1, "one").await?;
    let replayed = deliver(1, "two").await?;
    let id = held().await?;
    let accept =
        format!("semel duplicate accept {id} --as-new-key two --reason 'sent twice on purpose'");
    let (code, accepted) = object(&desk, &accept).await?;
    let (again_code, again) = object(&desk, &accept).await?;
    let late = format!("semel duplicate dismiss {id} --reason 'a replay'");
    let (late_code, late) = object(&desk, &late).await?;
    deliver(2, "three").await?;
    deliver(2, "four").await?;
    let other = held().await?;
    let dismiss = format!("semel duplicate dismiss {other} --reason 'a replay'");
    let (dismiss_code, dismissed) = object(&desk, &dismiss).await?;

    assert_eq!(replayed["held"], true);
    assert_eq!(replayed["run"], first["run"]);
    assert_eq!((code, again_code), (0, 0), "{accepted} {again}");
    assert_eq!(accepted["data"]["run"], again["data"]["run"]);
    assert_ne!(accepted["data"]["run"], first["run"]);
    assert_eq!(
        (late_code, &late["error"]["code"]),
        (6, &json!("held-decided")),
        "{late}"
    );
    assert_eq!(dismiss_code, 0);
    assert_eq!(dismissed["data"]["decision"], "dismissed");
    let run = accepted["data"]["run"].as_str().context("a run")?;
    let (_, end) = object(&desk, &format!("semel run watch {run}")).await?;
    assert_eq!(end["data"]["state"], "succeeded", "{end}");
    let runs = desk.data("semel run list").await?;
    assert_eq!(runs["items"].as_array().map(Vec::len), Some(3), "{runs}");
    Ok(())
}

const MENTIONS: &str = "flow: mentions
trigger: { webhook: { provider: slack, secret: hook_key } }
steps:
  - { id: note, kv: { add: mentions } }
";

const SUM: &str = "flow: sum
trigger: { webhook: { auth: none, key: input.id, respond: result, within: 30s } }
steps:
  - { id: count, kv: { add: sums } }
result: '{\"sum\": input.a + input.b, \"count\": steps.count.result}'
";

#[tokio::test]
async fn slacks_challenge_and_a_result_are_answered_to_curl() -> Result<()> {
    let desk = Desk::open(&[("mentions", MENTIONS), ("sum", SUM)]).await?;
    let set = format!("semel secret set hook_key <<'END'\n{SECRET}\nEND\n");
    desk.say(&set).await?;
    let now = desk.say("date +%s").await?.trim().to_owned();
    let body =
        r#"{"token":"t","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3","type":"url_verification"}"#;
    let proof = sign(&format!("v0:{now}:{body}"))?;
    let ask = format!(
        "curl -sS -i $SEMEL_URL/hooks/default/mentions -H 'x-slack-request-timestamp: {now}' \
         -H 'x-slack-signature: v0={proof}' -H 'content-type: application/json' -d '{body}'"
    );
    let add = "curl -sS $SEMEL_URL/hooks/default/sum -d '{\"id\":\"1\",\"a\":2,\"b\":3}'";

    let answered = desk.say(&ask).await?.to_lowercase();
    let forged = desk.say(&ask.replace("3eZ", "4eZ")).await?;
    let sum = desk.say(add).await?;
    let again = desk.say(add).await?;

    ensure!(answered.starts_with("http/1.1 200"), "{answered}");
    ensure!(answered.contains("content-type: text/plain"), "{answered}");
    ensure!(
        answered.contains("x-content-type-options: nosniff"),
        "{answered}"
    );
    ensure!(
        answered
            .trim_end()
            .ends_with("3ezbrw1abm2rzgrnfdxv2595e9cy3"),
        "{answered}"
    );
    ensure!(forged.starts_with("HTTP/1.1 401"), "{forged}");
    let expected = json!({ "sum": 5, "count": 1 });
    assert_eq!(serde_json::from_str::<Value>(&sum)?, expected);
    assert_eq!(
        serde_json::from_str::<Value>(&again)?,
        expected,
        "the first answer"
    );
    let runs = desk.data("semel run list").await?;
    assert_eq!(runs["items"].as_array().map(Vec::len), Some(1), "{runs}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_while_it_holds_a_response_loses_only_the_socket() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let admin = cluster.server().connect("postgres").await?;
    admin.batch_execute("CREATE DATABASE held").await?;
    let database = cluster.server().url("held");
    let token = migrate(Program::semel()?, &database).await?;
    let serve = || async {
        semel::serve(
            Program::semel()?,
            &database,
            "127.0.0.1:0",
            &["--lease", "2s"],
        )
        .await
    };
    let (mut first, address) = serve().await?;
    let peer = Peer::start().await?;
    let flow = format!(
        "flow: ask\ntrigger:\n  webhook: {{ auth: none, key: input.id, respond: result, within: 50s }}\n\
         steps:\n  - {{ id: count, kv: {{ add: asked }} }}\n  - id: put\n    guard: natural\n    \
         http: {{ put: '{}', json: {{ n: 1 }}, timeout: 50s }}\n\
         result: '{{\"count\": steps.count.result, \"status\": steps.put.status}}'\n",
        peer.url("/plain/ask")
    );
    let client = Client::new(address, 4).with_patience(patience());
    Api::new(&client, &token).publish("ask", &flow).await?;
    peer.next("/plain/", Behaviour::HoldBeforeAnswer).await?;

    let (path, body) = ("/hooks/default/ask", r#"{"id":"1"}"#);
    let killing = async {
        peer.until_held(1, patience()).await?;
        first.sigkill()?;
        peer.let_go().await
    };
    let (lost, killed) = tokio::join!(client.post(path, body), killing);
    killed?;
    let (_second, address) = serve().await?;
    let client = Client::new(address, 4).with_patience(patience());
    let repeat = client.post(path, body).await?;
    let again = client.post(path, body).await?;

    ensure!(lost.is_err(), "the socket is gone: {lost:?}");
    for answer in [&repeat, &again] {
        ensure!(answer.status == 200, "{}", answer.text());
        assert_eq!(
            answer.json::<Value>()?,
            json!({ "count": 1, "status": 201 }),
            "of the first run"
        );
        assert_eq!(answer.header("idempotency-replayed"), Some("true"));
    }
    Ok(())
}
