//! Slack and webhooks: what is sent, and what the answers mean.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::notify::world::{
    SECRET, done, failed, in_doubt, key, message, notifier, slack, webhook,
};

/// Answers each request with one body, and hands back what it was sent.
async fn answering(
    body: &'static str,
) -> Result<(SocketAddr, tokio::task::JoinHandle<Result<String>>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move {
        let (mut wire, _) = listener.accept().await?;
        let mut heard = Vec::new();
        let mut chunk = [0; 4096];
        while !is_whole(&heard) {
            let read = wire.read(&mut chunk).await?;
            anyhow::ensure!(read > 0, "the request broke off");
            heard.extend_from_slice(&chunk[..read]);
        }
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        wire.write_all(answer.as_bytes()).await?;
        Ok(String::from_utf8(heard)?)
    });
    Ok((address, serving))
}

fn is_whole(heard: &[u8]) -> bool {
    let text = String::from_utf8_lossy(heard);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.to_lowercase();
    let length = length
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0_usize)
}

fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request.lines().find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

fn body(request: &str) -> Result<Value> {
    let (_, body) = request.split_once("\r\n\r\n").context("a body")?;
    Ok(serde_json::from_str(body)?)
}

#[tokio::test]
async fn a_message_to_slack_carries_token_channel_and_key() -> Result<()> {
    let (address, serving) = answering(r#"{"ok": true, "ts": "1.2"}"#).await?;
    let (notifier, _gate) = notifier()?;
    let to = slack(format!("http://{address}/api"));

    let response = done(notifier.send(&message(&["#orders"]), &to, key("a")).await);
    let request = serving.await??;

    assert_eq!(response["json"]["ts"], json!("1.2"));
    assert!(
        request.starts_with("POST /api/chat.postMessage "),
        "{request}"
    );
    assert_eq!(
        header(&request, "authorization"),
        Some(format!("Bearer {SECRET}").as_str())
    );
    let expected = json!({
        "channel": "#orders",
        "text": "*Invoice 7*\nThank you.",
        "client_msg_id": key("a").as_uuid().to_string(),
    });
    assert_eq!(body(&request)?, expected);
    Ok(())
}

#[tokio::test]
async fn what_slack_says_is_read_and_not_its_status() -> Result<()> {
    let (notifier, _gate) = notifier()?;
    let cases = [
        (
            r#"{"ok": false, "error": "channel_not_found"}"#,
            Some(("slack-channel_not_found", false)),
        ),
        (
            r#"{"ok": false, "error": "ratelimited"}"#,
            Some(("slack-ratelimited", true)),
        ),
        (r#"{"ok": false, "error": "fatal_error"}"#, None),
        ("<html>hello</html>", None),
    ];

    for (answer, expected) in cases {
        let (address, _serving) = answering(answer).await?;
        let to = slack(format!("http://{address}"));
        let outcome = notifier.send(&message(&["#orders"]), &to, key("a")).await;
        match expected {
            Some((code, retryable)) => {
                let fault = failed(outcome);
                assert_eq!((fault.code.as_str(), fault.retryable), (code, retryable));
            }
            None => drop(in_doubt(outcome)),
        }
    }
    let to = slack("http://127.0.0.1:9".to_owned());
    let two = failed(notifier.send(&message(&["#a", "#b"]), &to, key("a")).await);
    assert_eq!(two.code, "message-unfit");
    Ok(())
}

#[tokio::test]
async fn a_webhook_is_signed_over_id_moment_and_body() -> Result<()> {
    let (address, serving) = answering("{}").await?;
    let (notifier, _gate) = notifier()?;
    let to = webhook(format!("http://{address}/in"));

    done(notifier.send(&message(&["ops"]), &to, key("a")).await);
    let request = serving.await??;

    let id = header(&request, "webhook-id").context("an id")?;
    assert_eq!(id, key("a").to_string());
    let at = header(&request, "webhook-timestamp").context("a moment")?;
    let (_, sent) = request.split_once("\r\n\r\n").context("a body")?;
    let signature = header(&request, "webhook-signature").context("a signature")?;
    assert_eq!(
        signature,
        format!("v1,{}", code_by_openssl(&format!("{id}.{at}.{sent}"))?)
    );
    let expected =
        json!({"to": ["ops"], "subject": "Invoice 7", "text": "Thank you.", "html": null});
    assert_eq!(body(&request)?, expected);
    Ok(())
}

/// The code by another's hand.
fn code_by_openssl(text: &str) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("text");
    std::fs::write(&path, text)?;
    let script = r#"
        key=$(printf %s "$1" | base64 -d | od -An -tx1 | tr -d ' \n')
        openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary "$2" | base64"#;
    let output = std::process::Command::new("sh")
        .args(["-c", script, "sign", SECRET.trim_start_matches("whsec_")])
        .arg(&path)
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[tokio::test]
async fn a_webhook_that_is_not_answered_is_a_doubt() -> Result<()> {
    let peer = Peer::start().await?;
    let (notifier, _gate) = notifier()?;
    let to = webhook(peer.url("/keyed/in"));
    peer.next("/keyed/in", Behaviour::RefuseWith(410)).await?;
    let gone = failed(notifier.send(&message(&["ops"]), &to, key("a")).await);
    peer.next("/keyed/in", Behaviour::CloseWithoutAnswer)
        .await?;

    let lost = in_doubt(notifier.send(&message(&["ops"]), &to, key("a")).await);
    done(notifier.send(&message(&["ops"]), &to, key("a")).await);

    assert_eq!((gone.code.as_str(), gone.retryable), ("http-410", false));
    assert_eq!(lost.code, "no-answer");
    assert_eq!(
        peer.count("/keyed/in").await?.effects,
        1,
        "a receiver that honours keys acts once"
    );
    Ok(())
}
