//! What the peer counts, replays, refuses and holds.

use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use semel_testkit::client::{Answer, SendError};
use semel_testkit::peer::{Behaviour, Count};
use semel_testkit::{Client, Peer, patience, until};
use serde_json::Value;

#[tokio::test]
async fn a_key_is_honoured_where_the_path_says_so() {
    let peer = Peer::start().await.unwrap();
    let client = Client::new(peer.address(), 4);

    let first = post_keyed(&client, "/keyed/pay", "k1", "a").await.unwrap();
    let again = post_keyed(&client, "/keyed/pay", "k1", "a").await.unwrap();
    let other = post_keyed(&client, "/keyed/pay", "k1", "b").await.unwrap();

    assert_eq!(first.body, again.body);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(other.status, 422);
    let counted = Count {
        calls: 3,
        effects: 1,
    };
    assert_eq!(peer.count("/keyed/pay").await.unwrap(), counted);
    assert_eq!(peer.count_of_key("k1").await.unwrap(), counted);
}

#[tokio::test]
async fn every_plain_post_is_an_effect_that_a_probe_finds() {
    let peer = Peer::start().await.unwrap();
    let client = Client::new(peer.address(), 4);

    post_keyed(&client, "/plain/mail", "k/1", r#"{"order":42}"#)
        .await
        .unwrap();
    post_keyed(&client, "/plain/mail", "k/1", r#"{"order":42}"#)
        .await
        .unwrap();

    assert_eq!(peer.totals().await.unwrap().keys_with_several_effects, 1);
    for query in ["/items?order=42", "/items?key=k%2F1"] {
        let found: Value = client.get(query).await.unwrap().json().unwrap();
        assert_eq!(found["count"], 2, "{query}");
    }
    let none: Value = client.get("/items?order=43").await.unwrap().json().unwrap();
    assert_eq!(none["count"], 0);
}

#[tokio::test]
async fn a_put_is_an_effect_only_when_it_changes_something() {
    let peer = Peer::start().await.unwrap();
    let client = Client::new(peer.address(), 4);
    let send = async |method, body| {
        client
            .send(method, "/put/customers/1", &[], Bytes::from_static(body))
            .await
            .unwrap()
    };

    send(Method::PUT, b"a").await;
    send(Method::PUT, b"a").await;
    assert_eq!(send(Method::GET, b"").await.body, "a");
    send(Method::DELETE, b"").await;
    assert_eq!(send(Method::DELETE, b"").await.status, 404);

    let counted = Count {
        calls: 5,
        effects: 2,
    };
    assert_eq!(peer.count("/put/").await.unwrap(), counted);
}

#[tokio::test]
async fn an_effect_happens_though_the_answer_is_held_or_never_comes() {
    let peer = Peer::start().await.unwrap();
    let client = Arc::new(Client::new(peer.address(), 4));
    peer.next("/plain/", Behaviour::HoldBeforeAnswer)
        .await
        .unwrap();
    let waiting = tokio::spawn({
        let client = Arc::clone(&client);
        async move { client.post("/plain/held", "x").await }
    });

    let held = peer.until_held(1, patience()).await.unwrap();
    assert_eq!(held[0].path, "/plain/held");
    assert_eq!(peer.count("/plain/held").await.unwrap().effects, 1);
    assert_eq!(peer.let_go().await.unwrap(), 1);
    assert_eq!(waiting.await.unwrap().unwrap().status, 201);

    peer.next("/plain/", Behaviour::CloseWithoutAnswer)
        .await
        .unwrap();
    let lost = client.post("/plain/lost", "x").await;
    assert!(matches!(lost, Err(SendError::Lost(_))), "{lost:?}");
    assert_eq!(peer.count("/plain/lost").await.unwrap().effects, 1);
}

#[tokio::test]
async fn a_held_request_acts_when_it_is_let_go_though_its_client_is_gone() {
    let peer = Peer::start().await.unwrap();
    let client = Client::new(peer.address(), 4);
    peer.next("/plain/", Behaviour::HoldBeforeEffect)
        .await
        .unwrap();

    let waiting = tokio::spawn(async move { client.post("/plain/late", "x").await });
    peer.until_held(1, patience()).await.unwrap();
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    let count = async || peer.count("/plain/late").await;
    assert_eq!(
        count().await.unwrap(),
        Count {
            calls: 1,
            effects: 0
        }
    );
    peer.let_go().await.unwrap();

    until("a held request to act", count, |count| count.effects == 1)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_path_may_ask_for_refusals_and_for_errors_after_the_effect() {
    let peer = Peer::start().await.unwrap();
    let client = Client::new(peer.address(), 4);
    let post = async |path| client.post(path, "x").await.unwrap();

    let first = post("/fail-first/1/plain/a").await;
    assert_eq!(
        (first.status.as_u16(), first.header("retry-after")),
        (429, Some("1"))
    );
    assert_eq!(post("/fail-first/1/plain/a").await.status, 201);
    assert_eq!(post("/status/503/plain/b").await.status, 503);
    assert_eq!(post("/status/503/plain/c?refuse").await.status, 503);
    peer.next("/plain/", Behaviour::RefuseWith(500))
        .await
        .unwrap();
    assert_eq!(post("/plain/d").await.status, 500);

    let paths: Vec<String> = peer
        .effects()
        .await
        .unwrap()
        .into_iter()
        .map(|effect| effect.path)
        .collect();
    assert_eq!(paths, ["/fail-first/1/plain/a", "/status/503/plain/b"]);
}

#[tokio::test]
async fn a_log_holds_each_effect_and_a_reset_forgets_them() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("effects");
    let peer = Peer::start_with_log(&log).await.unwrap();
    let client = Client::new(peer.address(), 4);

    client.post("/plain/a", "x").await.unwrap();
    peer.reset().await.unwrap();
    client.post("/plain/b", "x").await.unwrap();

    assert_eq!(std::fs::read_to_string(log).unwrap().lines().count(), 2);
    assert_eq!(peer.totals().await.unwrap().effects, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_keeps_up_with_many_connections() {
    const CLIENTS: usize = 64;
    const EACH: usize = 200;
    let peer = Peer::start().await.unwrap();
    let client = Arc::new(Client::new(peer.address(), CLIENTS));

    let clients = (0..CLIENTS).map(|number| {
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            for index in 0..EACH {
                let key = format!("{number}-{}", index / 2);
                post_keyed(&client, "/keyed/storm", &key, "{}")
                    .await
                    .unwrap();
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }

    let counted = Count {
        calls: (CLIENTS * EACH) as u64,
        effects: (CLIENTS * EACH / 2) as u64,
    };
    assert_eq!(peer.count("/keyed/storm").await.unwrap(), counted);
}

async fn post_keyed(
    client: &Client,
    path: &str,
    key: &str,
    body: &str,
) -> Result<Answer, SendError> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    client
        .send(Method::POST, path, &[("idempotency-key", key)], body)
        .await
}
