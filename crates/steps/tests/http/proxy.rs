//! Requests through a proxy: it reads those to http, and carries those to https in a tunnel.

use semel_model::Outcome;
use semel_steps::{Destination, Egress, HttpExecutor, Pooling, Reach};
use serde_json::{Value, json};

use super::papers::Papers;
use super::stage::{Stage, caller, destination, done, failed, get, key, request, route, trusting};

/// `me:p@ss`, which the proxy of these tests may ask for.
const AUTHORIZATION: &str = "Basic bWU6cEBzcw==";

/// A caller whose requests go through a proxy.
fn caller_through(proxy: &str) -> HttpExecutor {
    caller(&Reach::new(
        Egress::default().through(proxy.parse().unwrap()),
    ))
}

async fn read(caller: &HttpExecutor, url: &str) -> Outcome {
    let read = get(url);
    caller
        .send_request(&read, route(None), None, Pooling::Shared)
        .await
}

async fn post(caller: &HttpExecutor, to: &Destination, url: &str) -> Outcome {
    let mut post = request("POST", url);
    post.body = Some("{}".to_owned());
    caller
        .send_request(&post, route(Some(to)), Some(key()), Pooling::Shared)
        .await
}

#[tokio::test]
async fn a_proxy_carries_every_request_and_names_are_its_own_to_resolve() {
    let proxy = Stage::start().await.unwrap();
    let caller = caller_through(&proxy.url(""));

    let by_name = read(&caller, "http://nobody-knows-this.example/echo").await;
    let literal = read(&caller, "http://10.0.0.1/echo").await;

    let seen = &done(by_name).response["json"];
    assert_eq!(seen["path"], "http://nobody-knows-this.example/echo");
    assert_eq!(seen["headers"]["host"], "nobody-knows-this.example");
    assert_eq!(failed(literal).code, "address-refused");
}

#[tokio::test]
async fn a_password_of_the_proxy_goes_to_the_proxy_alone() {
    let papers = Papers::issue().await;
    let proxy = Stage::with(&["--proxy-password", "me:p@ss"]).await.unwrap();
    let stage = Stage::encrypted(&papers).await;
    let to = destination(trusting(&papers, &stage.https_url("/")), &[]);
    let caller = caller_through(&format!("http://me:p%40ss@localhost:{}", proxy.port));

    let open = read(&caller, "http://nobody-knows-this.example/echo").await;
    let tunnelled = post(&caller, &to, &stage.https_url("/echo")).await;

    let open = &done(open).response["json"];
    assert_eq!(open["headers"]["proxy-authorization"], AUTHORIZATION);
    let tunnelled = &done(tunnelled).response["json"];
    assert_eq!(tunnelled["path"], "/echo");
    assert_eq!(tunnelled["headers"]["proxy-authorization"], Value::Null);
    let tunnel = json!({
        "to": format!("localhost:{}", stage.port),
        "authorization": AUTHORIZATION,
        "client": format!("semel/{}", env!("CARGO_PKG_VERSION")),
    });
    assert_eq!(proxy.counts().await["tunnels"], json!([tunnel]));
}

#[tokio::test]
async fn a_tunnel_that_the_proxy_refuses_is_no_connection() {
    let papers = Papers::issue().await;
    let proxy = Stage::with(&["--proxy-password", "me:p@ss"]).await.unwrap();
    let stage = Stage::encrypted(&papers).await;
    let to = destination(trusting(&papers, &stage.https_url("/")), &[]);

    let refused = post(
        &caller_through(&proxy.url("")),
        &to,
        &stage.https_url("/echo"),
    )
    .await;

    let fault = failed(refused);
    assert_eq!(fault.code, "no-connection");
    assert!(fault.message.contains("proxy"), "{}", fault.message);
}

/// What a connection trusts is for its destination: the proxy is the operator's.
#[tokio::test]
async fn a_proxy_is_trusted_by_this_machine_or_not_at_all() {
    let papers = Papers::issue().await;
    let proxy = Stage::encrypted(&papers).await;
    let url = "http://nobody-knows-this.example/echo";
    let to = destination(trusting(&papers, url), &[]);

    let refused = post(&caller_through(&proxy.https_url("")), &to, url).await;

    let fault = failed(refused);
    assert_eq!(fault.code, "no-connection");
    assert!(fault.message.contains("certificate"), "{}", fault.message);
}
