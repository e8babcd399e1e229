//! What comes back, however long or hostile it is.

use std::sync::Arc;
use std::time::Duration;

use semel_model::{Outcome, Span};
use semel_steps::{Pooling, Reach};
use semel_testkit::patience;
use serde_json::{Value, json};

use super::bodies::{Folder, peak_kib};
use super::stage::{Stage, caller, done, failed, get, key, request, route};
use crate::enough_time::with_enough_time;

#[tokio::test]
async fn a_packed_answer_is_unpacked() {
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());

    let read = get(&stage.url("/gzip"));
    let response = done(
        caller
            .send_request(&read, route(None), None, Pooling::Shared)
            .await,
    )
    .response;

    assert_eq!(response["json"]["packed"], true);
    assert_eq!(response["json"]["pad"].as_str().map(str::len), Some(8000));
    assert_eq!(response["headers"]["content-encoding"], Value::Null);
}

#[tokio::test]
async fn an_answer_that_unpacks_to_far_too_much_is_cut_and_the_effect_is_done() {
    let stage = Stage::start().await.unwrap();
    let folder = Arc::new(Folder::new());
    let mut reach = Reach::open();
    reach.resources = folder.clone();
    let caller = caller(&reach);
    let before = peak_kib();

    let post = request("POST", &stage.url("/bomb?mib=300"));
    let bomb = caller
        .send_request(&post, route(None), Some(key()), Pooling::Shared)
        .await;
    let post = request("POST", &stage.url("/not-gzip"));
    let garbage = caller
        .send_request(&post, route(None), Some(key()), Pooling::Shared)
        .await;

    for outcome in [bomb, garbage] {
        let receipt = done(outcome);
        assert_eq!(receipt.response["truncated"], true);
        assert!(receipt.kept.is_empty());
    }
    assert!(folder.is_empty(), "nothing of it was kept");
    let grown = peak_kib() - before;
    assert!(grown < 32 * 1024, "{grown} KiB for 300 MiB of nothing");
}

#[tokio::test]
async fn a_long_answer_is_kept_by_reference_and_never_held() {
    let stage = Stage::start().await.unwrap();
    let folder = Arc::new(Folder::new());
    let mut reach = Reach::open();
    reach.resources = folder.clone();
    let caller = caller(&reach);
    let before = peak_kib();

    let read = get(&stage.url("/big?mib=100"));
    let receipt = done(
        caller
            .send_request(&read, route(None), None, Pooling::Shared)
            .await,
    );

    let grown = peak_kib() - before;
    println!("100 MiB streamed to a store: {grown} KiB at the peak");
    assert!(grown < 64 * 1024, "{grown} KiB");
    let [resource] = receipt.kept.as_slice() else {
        panic!("{:?}", receipt.kept);
    };
    assert_eq!(
        (resource.bytes, resource.media_type.as_str()),
        (100 << 20, "application/x-big")
    );
    let described = &receipt.response["resource"];
    assert_eq!(described, &serde_json::to_value(resource).unwrap());
    assert_eq!(folder.bytes_of(resource.resource), 100 << 20);
    assert_eq!(receipt.response["json"], Value::Null);
}

#[tokio::test]
async fn a_long_answer_without_a_store_is_cut_and_the_effect_is_done() {
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());

    let post = request("POST", &stage.url("/big?mib=3"));
    let receipt = done(
        caller
            .send_request(&post, route(None), Some(key()), Pooling::Shared)
            .await,
    );

    assert_eq!(receipt.response["truncated"], true);
    assert!(receipt.response["text"].as_str().unwrap().len() >= 512 * 1024);
}

#[tokio::test]
async fn a_store_that_fails_costs_an_effect_its_answer_and_a_read_a_try() {
    let stage = Stage::start().await.unwrap();
    let mut reach = Reach::open();
    reach.resources = Arc::new(Folder::broken());
    let caller = caller(&reach);

    let post = request("POST", &stage.url("/big?mib=3"));
    let effect = caller
        .send_request(&post, route(None), Some(key()), Pooling::Shared)
        .await;
    let read = get(&stage.url("/big?mib=3"));
    let read = caller
        .send_request(&read, route(None), None, Pooling::Shared)
        .await;

    assert_eq!(done(effect).response["truncated"], true);
    let fault = failed(read);
    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("resources-unreachable", true)
    );
}

#[tokio::test]
async fn an_answer_that_breaks_off_leaves_a_doubt() {
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());

    let post = request("POST", &stage.url("/break"));
    let outcome = caller
        .send_request(&post, route(None), Some(key()), Pooling::Fresh)
        .await;

    assert!(matches!(&outcome, Outcome::InDoubt(doubt) if doubt.code == "answer-broken"));
}

#[tokio::test]
async fn a_status_says_what_is_known() {
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());
    let ask = async |status: u16| {
        let post = request("POST", &stage.url(&format!("/status/{status}?text=why")));
        match caller
            .send_request(&post, route(None), Some(key()), Pooling::Shared)
            .await
        {
            Outcome::Done(receipt) => json!(["done", receipt.status]),
            Outcome::Failed(fault) => json!(["failed", fault.code, fault.retryable]),
            Outcome::InDoubt(doubt) => json!(["in doubt", doubt.code]),
        }
    };

    assert_eq!(ask(201).await, json!(["done", 201]));
    assert_eq!(ask(303).await, json!(["done", 303]));
    assert_eq!(ask(308).await, json!(["failed", "http-308", false]));
    assert_eq!(ask(404).await, json!(["failed", "http-404", false]));
    assert_eq!(ask(429).await, json!(["failed", "http-429", true]));
    assert_eq!(ask(500).await, json!(["in doubt", "http-500"]));
    assert_eq!(ask(503).await, json!(["in doubt", "http-503"]));
}

#[tokio::test]
async fn a_store_that_takes_its_time_does_not_lengthen_the_requests() {
    let stage = Stage::start().await.unwrap();
    let mut reach = Reach::open();
    reach.resources = Arc::new(Folder::slow(Duration::from_millis(500)));
    let caller = caller(&reach);

    let mut read = get(&stage.url("/big?mib=100"));
    let attempt = async |timeout: Span| -> anyhow::Result<Outcome> {
        read.timeout = timeout;
        let sent = caller.send_request(&read, route(None), None, Pooling::Shared);
        Ok(sent.await)
    };
    let outcome = with_enough_time(attempt, is_broken_off).await;

    assert!(outcome.is_ok(), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_unpacks_to_nothing_for_ever_ends_in_time() {
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());

    let mut post = request("POST", &stage.url("/empty-members"));
    let attempt = async |timeout: Span| -> anyhow::Result<Outcome> {
        post.timeout = timeout;
        let sent = caller.send_request(&post, route(None), Some(key()), Pooling::Shared);
        Ok(tokio::time::timeout(patience(), sent).await?)
    };
    let outcome = with_enough_time(attempt, is_broken_off).await;

    assert!(outcome.is_ok(), "{outcome:?}");
}

/// Whether an answer came and did not end.
fn is_broken_off(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::InDoubt(doubt) if doubt.code == "answer-broken")
}
