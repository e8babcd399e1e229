//! The version of HTTP: the second where a destination speaks it. The others of these tests speak the first.

use futures_util::future::join_all;
use semel_model::{Outcome, Span};
use semel_steps::{Destination, HttpExecutor, Pooling, Reach, Route};
use semel_testkit::{Program, Proxy, patience};
use serde_json::Value;

use super::papers::Papers;
use super::stage::{Stage, caller, destination, done, key, request, route, script, trusting};
use crate::enough_time::{is_in_doubt, with_enough_time};

/// Where the server is, for a test in a process of its own.
const SERVER: &str = "SEMEL_TEST_SERVER";

/// A server of HTTP/2 that carries so many streams on a connection.
async fn serve(papers: &Papers, streams: &str) -> Stage {
    let paths = ["server.pem", "server.key"].map(|name| papers.path(name));
    let server = Program::at("node").arg(script("h2.js")).args(paths);
    Stage::run(server.arg(streams)).await.unwrap()
}

/// A server of HTTP/2, and the connection that trusts it.
async fn start(papers: &Papers) -> (Stage, Destination) {
    let server = serve(papers, "100").await;
    let to = destination(trusting(papers, &server.https_url("/")), &[]);
    (server, to)
}

async fn post(caller: &HttpExecutor, to: &Destination, url: &str, secs: u64) -> Outcome {
    post_by(caller, route(Some(to)), url, secs).await
}

async fn post_by(caller: &HttpExecutor, route: Route<'_>, url: &str, secs: u64) -> Outcome {
    let mut post = request("POST", url);
    post.body = Some("{\"amount\":12}".to_owned());
    post.timeout = Span::from_secs(secs);
    caller
        .send_request(&post, route, Some(key()), Pooling::Shared)
        .await
}

#[tokio::test]
async fn requests_share_a_connection_of_the_second_version() {
    let papers = Papers::issue().await;
    let (server, to) = start(&papers).await;
    let caller = caller(&Reach::open());
    let url = server.https_url("/charges");

    let first = done(post(&caller, &to, &url, 100).await).response["json"].clone();
    let rest = join_all((0..50).map(|_| post(&caller, &to, &url, 100))).await;

    assert_eq!(first["headers"][":path"], "/charges");
    assert_eq!(first["headers"]["idempotency-key"], key().to_string());
    assert_eq!(first["headers"]["host"], Value::Null);
    assert_eq!(first["body"], "{\"amount\":12}");
    for outcome in rest {
        assert_eq!(done(outcome).response["json"]["sessions"], 1);
    }
}

#[tokio::test]
async fn a_stream_without_an_answer_is_in_doubt_and_those_beside_it_are_done() {
    let papers = Papers::issue().await;
    let (server, to) = start(&papers).await;
    let caller = caller(&Reach::open());
    let (hang, charges) = (server.https_url("/hang"), server.https_url("/charges"));

    done(post(&caller, &to, &charges, 100).await);
    let beside = join_all((0..10).map(|_| post(&caller, &to, &charges, 100)));
    let attempt = async |limit: Span| -> anyhow::Result<Outcome> {
        Ok(post(&caller, &to, &hang, limit.as_millis() / 1_000).await)
    };
    let silent = with_enough_time(attempt, is_in_doubt);
    let (silent, beside) = tokio::join!(silent, beside);
    done(post(&caller, &to, &charges, 100).await);

    let Ok(Outcome::InDoubt(doubt)) = silent else {
        panic!("{silent:?}");
    };
    assert_eq!(doubt.code, "no-answer");
    for outcome in beside {
        assert_eq!(done(outcome).response["json"]["sessions"], 1);
    }
}

#[tokio::test]
async fn a_connection_that_went_silent_is_given_up_and_another_made() {
    let papers = Papers::issue().await;
    let (server, _) = start(&papers).await;
    let proxy = Proxy::start(([127, 0, 0, 1], server.port).into())
        .await
        .unwrap();
    let base = format!("https://localhost:{}/charges", proxy.address().port());
    let to = destination(trusting(&papers, &base), &[]);
    let caller = caller(&Reach::open());

    done(post(&caller, &to, &base, 60).await);
    proxy.hold_answers();
    let silent = post(&caller, &to, &base, 60).await;
    proxy.resume();
    let after = done(post(&caller, &to, &base, 60).await);

    assert!(matches!(silent, Outcome::InDoubt(_)), "{silent:?}");
    assert_eq!(after.response["json"]["sessions"], 2);
}

/// What a process trusts besides is read from its environment, so that the two namespaces are in another.
#[tokio::test]
async fn a_namespace_that_uses_up_the_streams_of_its_connection_holds_back_no_other() {
    let papers = Papers::issue().await;
    let server = serve(&papers, "1").await;

    let namespaces = Program::at(std::env::current_exe().unwrap())
        .args(["http::versions::two_namespaces", "--exact", "--ignored"])
        .env("SSL_CERT_FILE", papers.path("ca.pem"))
        .env(SERVER, server.https_url(""))
        .run(patience());
    let ended = namespaces.await.unwrap();

    assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("1 passed"), "{}", ended.stdout);
}

#[tokio::test]
#[ignore = "runs in a process of its own, which trusts the server"]
async fn two_namespaces() {
    let server = std::env::var(SERVER).unwrap();
    let (hang, charges) = (format!("{server}/hang"), format!("{server}/charges"));
    let caller = caller(&Reach::open());
    let [first, second] = [1, 2].map(|namespace_id| Route {
        namespace_id,
        ..route(None)
    });

    done(post_by(&caller, first, &charges, 100).await);
    let answered = tokio::select! {
        biased;
        silent = post_by(&caller, first, &hang, 100) => panic!("{silent:?}"),
        answered = post_by(&caller, second, &charges, 100) => done(answered),
    };

    assert_eq!(answered.response["json"]["sessions"], 2);
}
