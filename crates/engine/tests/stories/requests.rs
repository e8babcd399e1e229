//! What a destination is sent: the key where it looks for it, the version that it must have, and
//! nothing before the time that it asked for.

use anyhow::{Context, Result};
use semel_model::Event;
use semel_model::run::RunState;
use semel_store::audit::AuditEntry;
use semel_store::{connections, journal, runs};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::world::World;

/// A destination that keeps every request as it came, and answers with the given statuses.
struct Recorder {
    url: String,
    requests: mpsc::UnboundedReceiver<String>,
}

impl Recorder {
    /// Answers requests one after the other with these statuses; 0 closes without an answer.
    async fn start(statuses: &'static [u16]) -> Result<Self> {
        Self::start_with(statuses, "{}").await
    }

    /// The same, with this body in every answer.
    async fn start_with(statuses: &'static [u16], body: &'static str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (sender, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for status in statuses {
                let (mut wire, _) = listener.accept().await?;
                sender.send(read_request(&mut wire).await?)?;
                if *status > 0 {
                    let answer = format!(
                        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{body}",
                        body.len()
                    );
                    wire.write_all(answer.as_bytes()).await?;
                    wire.shutdown().await?;
                }
            }
            anyhow::Ok(())
        });
        Ok(Self { url, requests })
    }

    /// All requests that came, once no more can come.
    fn list(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.requests.try_recv().ok()).collect()
    }
}

/// A head, and the body that it announces.
async fn read_request(wire: &mut tokio::net::TcpStream) -> Result<String> {
    let mut text = String::new();
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").and_then(|it| it.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Ok(text);
            }
        }
        let mut bytes = [0; 4096];
        let read = wire.read(&mut bytes).await?;
        anyhow::ensure!(read > 0, "cut off: {text}");
        text.push_str(std::str::from_utf8(&bytes[..read])?);
    }
}

fn header(request: &str, name: &str) -> Option<String> {
    let head = request.split("\r\n\r\n").next()?;
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim().to_owned())
}

fn body(request: &str) -> Result<serde_json::Value> {
    let (_, body) = request.split_once("\r\n\r\n").context("a body")?;
    Ok(serde_json::from_str(body)?)
}

async fn publish(world: &World, http: &str, guard: &str) -> Result<()> {
    let steps = format!("steps:\n  - id: call\n    http: {{ {http}, timeout: 20s }}\n{guard}");
    world.publish(&steps).await
}

/// Stores the connection `bank`, with a token server at the same address as its destination.
async fn connect_with_oauth(world: &World, to: &Recorder) -> Result<()> {
    let oauth = json!({"token_url": format!("{}/token", to.url), "client_id": "semel", "secret": "bank_client"});
    let to = json!({"http": {"base_url": to.url, "auth": {"oauth2": oauth}}});
    world.connect("bank", json!({"to": to})).await
}

#[tokio::test]
async fn a_connection_created_again_elsewhere_never_sends_the_token_of_the_deleted_one()
-> Result<()> {
    let world = World::start().await?;
    let granted = r#"{"access_token":"first-token","token_type":"bearer"}"#;
    let mut first = Recorder::start_with(&[200, 201], granted).await?;
    let granted = r#"{"access_token":"second-token","token_type":"bearer"}"#;
    let mut second = Recorder::start_with(&[200, 201], granted).await?;
    world.set_secret("bank_client", "s3cret-1234").await?;
    connect_with_oauth(&world, &first).await?;
    let pay = "steps:\n  - id: call\n    http: { connection: bank, post: /pay, json: { a: 1 } }\n";
    world.publish(pay).await?;

    let (_, before) = world.play(r#"{"id":"1"}"#).await?;
    // Directly in the database: the engine removes no connection that a live flow uses.
    let act = AuditEntry::new(world.namespace_id, "test", "connection.delete", "bank");
    connections::delete(world.engine.cell().home(), world.namespace_id, "bank", &act).await?;
    connect_with_oauth(&world, &second).await?;
    let (_, after) = world.play(r#"{"id":"2"}"#).await?;

    assert_eq!(before.state, RunState::Succeeded, "{before:?}");
    assert_eq!(after.state, RunState::Succeeded, "{after:?}");
    for (to, token) in [(&mut first, "first-token"), (&mut second, "second-token")] {
        let requests = to.list();
        assert_eq!(requests.len(), 2, "{requests:?}");
        assert!(requests[0].starts_with("POST /token "), "{}", requests[0]);
        let sent = header(&requests[1], "authorization").context("a token")?;
        assert_eq!(sent, format!("Bearer {token}"));
    }
    Ok(())
}

#[tokio::test]
async fn the_key_stands_in_the_field_that_the_destination_reads_on_every_try() -> Result<()> {
    let (world, mut to) = (World::start().await?, Recorder::start(&[0, 201]).await?);
    let http = format!(
        "post: '{}/tickets', json: {{ title: New }}, key_as: {{ field: request_id }}",
        to.url
    );
    publish(&world, &http, "    guard: key\n").await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let requests = to.list();
    assert_eq!(requests.len(), 2, "{requests:?}");
    let (first, again) = (body(&requests[0])?, body(&requests[1])?);
    let key = first["request_id"].as_str().context("a key")?;
    assert!(key.starts_with("eff_"), "{key}");
    assert_eq!(first, again, "the same bytes under the same key");
    assert_eq!(first["title"], "New");
    Ok(())
}

#[tokio::test]
async fn the_key_stands_in_the_query_that_the_destination_reads_on_every_try() -> Result<()> {
    let (world, mut to) = (World::start().await?, Recorder::start(&[0, 201]).await?);
    let http = format!(
        "post: '{}/marks?a=1', text: hi, key_as: {{ query: request }}",
        to.url
    );
    publish(&world, &http, "    guard: key\n").await?;

    let (_, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let requests = to.list();
    let lines: Vec<&str> = requests.iter().filter_map(|it| it.lines().next()).collect();
    assert_eq!(lines.len(), 2, "{requests:?}");
    assert!(
        lines[0].starts_with("POST /marks?a=1&request=eff_"),
        "{lines:?}"
    );
    assert_eq!(lines[0], lines[1], "the same key on every try");
    Ok(())
}

#[tokio::test]
async fn a_failed_precondition_is_a_failure_and_not_retried() -> Result<()> {
    let (world, mut to) = (World::start().await?, Recorder::start(&[412, 200]).await?);
    let http = format!(
        "patch: '{}/orders/1', json: {{ paid: true }}, if_match: '${{{{ input.etag }}}}'",
        to.url
    );
    publish(&world, &http, "").await?;

    let (_, end) = world.play(r#"{"id":"1","etag":"\"v7\""}"#).await?;

    let requests = to.list();
    assert_eq!(end.state, RunState::Failed, "{end:?}");
    assert!(end.fault.unwrap_or_default().contains("http-412"));
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert_eq!(header(&requests[0], "if-match").as_deref(), Some("\"v7\""));
    Ok(())
}

#[tokio::test]
async fn a_failed_precondition_after_a_lost_response_is_a_doubt() -> Result<()> {
    let (world, mut to) = (World::start().await?, Recorder::start(&[0, 412]).await?);
    let http = format!(
        "patch: '{}/orders/1', json: {{ paid: true }}, if_match: '${{{{ input.etag }}}}'",
        to.url
    );
    publish(&world, &http, "").await?;

    let (_, end) = world.play(r#"{"id":"1","etag":"\"v7\""}"#).await?;

    let requests = to.list();
    assert_eq!(end.state, RunState::InDoubt, "{end:?}");
    assert_eq!(requests.len(), 2, "it is safe to repeat: {requests:?}");
    Ok(())
}

#[tokio::test]
async fn a_destination_s_retry_after_is_honoured() -> Result<()> {
    let world = World::start().await?;
    let http = "post: 'PEER/fail-first/1/plain/x?after=2', text: hi";
    publish(&world, http, "").await?;

    let (accepted, end) = world.play(r#"{"id":"1"}"#).await?;

    assert_eq!(end.state, RunState::Succeeded, "{end:?}");
    let cell = world.engine.cell();
    let run = runs::find(cell.of(accepted.run), world.namespace_id, accepted.run).await?;
    let run = run.context("a run")?;
    let mut intents = vec![];
    let mut rests = vec![];
    for line in journal::read(cell.of(run.id), run.partition_date, run.id).await? {
        for event in line.read()? {
            if let Event::Intended { .. } = event {
                intents.push(line.at);
            } else if let Event::Failed { retry_at, .. } = event {
                rests.push(retry_at.context("a retry")?);
            }
        }
    }
    assert_eq!((intents.len(), rests.len()), (2, 1));
    let waited = intents[1].duration_since(intents[0]);
    assert!(waited.as_secs() >= 2, "{waited:?}");
    assert!(intents[1] >= rests[0], "not before it said");
    Ok(())
}
