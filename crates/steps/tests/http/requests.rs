//! What leaves, and what does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use semel_model::connection::HttpAuth;
use semel_model::request::{MultipartField, NextPage, Pagination};
use semel_model::{Outcome, Span};
use semel_steps::{HttpExecutor, Pooling, Reach, SendGate};
use serde_json::{Value, json};

use super::papers::Papers;
use super::stage::{
    Stage, caller, destination, done, failed, get, key, request, route, target, trusting,
};
use crate::enough_time::{is_in_doubt, with_enough_time};

async fn echo(request: &semel_model::request::HttpRequest) -> Value {
    let caller = caller(&Reach::open());
    let outcome = caller.send_request(request, route(None), Some(key()), Pooling::Fresh);
    done(outcome.await).response["json"].clone()
}

#[tokio::test]
async fn the_key_goes_out_in_the_header_that_the_destination_reads() {
    let stage = Stage::start().await.unwrap();
    let mut post = request("POST", &stage.url("/echo"));
    post.body = Some("exactly these bytes\r\n\t ".to_owned());

    let usual = echo(&post).await;
    post.key_header = Some("X-Request-Id".to_owned());
    let own = echo(&post).await;

    assert_eq!(usual["headers"]["idempotency-key"], key().to_string());
    assert_eq!(own["headers"]["x-request-id"], key().to_string());
    assert_eq!(own["headers"]["idempotency-key"], Value::Null);
    assert_eq!(own["body"], STANDARD.encode("exactly these bytes\r\n\t "));
}

#[tokio::test]
async fn headers_that_could_smuggle_a_request_are_not_sent() {
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());
    let headers = [
        ("Host", "other.example"),
        ("content-length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("connection", "upgrade"),
        ("x-a", "1\r\nx-b: 2"),
        ("x-a", "1\nx-b: 2"),
        ("x a", "1"),
        ("x-a\r\nx-b", "1"),
        ("x-a:", "1"),
    ];

    for (name, value) in headers {
        let mut post = request("POST", &stage.url("/echo"));
        post.headers = vec![(name.to_owned(), value.to_owned())];
        let outcome = caller.send_request(&post, route(None), Some(key()), Pooling::Fresh);
        let fault = failed(outcome.await);
        assert_eq!(
            (fault.code.as_str(), fault.retryable),
            ("bad-request", false),
            "{name}"
        );
    }
    for url in ["/a\r\nX: 1", "/a b", "/\ta", "/a\0"] {
        let read = get(&stage.url(url));
        let outcome = caller.send_request(&read, route(None), None, Pooling::Fresh);
        assert_eq!(failed(outcome.await).code, "bad-request", "{url:?}");
    }
    for method in ["CONNECT", "GET /x", "", "G\r\nT"] {
        let request = request(method, &stage.url("/"));
        let outcome = caller.send_request(&request, route(None), None, Pooling::Fresh);
        assert_eq!(failed(outcome.await).code, "bad-request", "{method:?}");
    }

    assert_eq!(stage.counts().await["connections"], 0);
}

#[tokio::test]
async fn parts_are_the_same_bytes_on_every_try() {
    let stage = Stage::start().await.unwrap();
    let part = |name: &str, text: &str| MultipartField {
        name: name.to_owned(),
        text: Some(text.to_owned()),
        file: None,
        file_name: None,
    };
    let mut post = request("POST", &stage.url("/echo"));
    post.parts = vec![part("a\"\r\nx: y", "one"), part("b", "two\r\n--semel-")];

    let first = echo(&post).await;
    let again = echo(&post).await;
    post.parts[0].text = Some("another".to_owned());
    let other = echo(&post).await;

    assert_eq!(first["sha256"], again["sha256"]);
    assert_eq!(first["headers"], again["headers"]);
    assert_ne!(
        first["headers"]["content-type"],
        other["headers"]["content-type"]
    );
    let body = STANDARD.decode(first["body"].as_str().unwrap()).unwrap();
    let body = String::from_utf8(body).unwrap();
    let kind = first["headers"]["content-type"].as_str().unwrap();
    let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
    assert_eq!(
        body,
        format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"a%22%0D%0Ax: y\"\r\n\r\none\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"b\"\r\n\r\ntwo\r\n--semel-\r\n\
             --{boundary}--\r\n"
        )
    );
}

#[tokio::test]
async fn a_shared_connection_is_used_again_and_a_fresh_one_is_not() {
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());
    let ask = async |pooling| {
        let read = get(&stage.url("/echo"));
        done(caller.send_request(&read, route(None), None, pooling).await);
    };

    for _ in 0..3 {
        ask(Pooling::Shared).await;
    }
    assert_eq!(stage.counts().await["connections"], 1);
    for _ in 0..3 {
        ask(Pooling::Fresh).await;
    }
    assert_eq!(stage.counts().await["connections"], 4);
}

#[tokio::test]
async fn a_read_follows_redirects_as_its_connection_says_and_an_effect_never() {
    let stage = Stage::start().await.unwrap();
    let other = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());
    let bearer = HttpAuth::Bearer {
        secret: "token".to_owned(),
    };
    let mut goal = target(&stage.url("/"), bearer);
    goal.headers = vec![("x-tenant".to_owned(), "blue".to_owned())];
    goal.redirects = 2;
    let to = destination(goal, &[("token", "s3cret-text")]);
    let with_headers = |path: &str| {
        let mut read = get(&stage.url(path));
        let header = |name: &str| (name.to_owned(), "mine".to_owned());
        read.headers = vec![header("accept"), header("x-mine"), header("cookie")];
        read
    };

    let here = with_headers("/redirect?to=/redirect%3Fto=/echo");
    let here = done(
        caller
            .send_request(&here, route(Some(&to)), None, Pooling::Shared)
            .await,
    );
    let away = with_headers(&format!("/redirect?to={}", other.url("/echo")));
    let away = done(
        caller
            .send_request(&away, route(Some(&to)), None, Pooling::Shared)
            .await,
    );
    let thrice = with_headers("/redirect?to=/redirect%3Fto=/redirect%253Fto=/echo");
    let thrice = caller
        .send_request(&thrice, route(Some(&to)), None, Pooling::Shared)
        .await;
    let effect = request("GET", &stage.url("/redirect?code=307&to=/echo"));
    let effect = caller
        .send_request(&effect, route(Some(&to)), Some(key()), Pooling::Shared)
        .await;

    let here = &here.response["json"]["headers"];
    assert_eq!(here["authorization"], "Bearer s3cret-text");
    assert_eq!(
        (&here["x-tenant"], &here["x-mine"]),
        (&json!("blue"), &json!("mine"))
    );
    let away = &away.response["json"]["headers"];
    assert_eq!(away["accept"], "mine");
    for name in ["authorization", "x-tenant", "x-mine", "cookie"] {
        assert_eq!(away[name], Value::Null, "{name} stays at its origin");
    }
    assert!(
        matches!(thrice, Outcome::InDoubt(_)),
        "two are followed, not three"
    );
    assert_eq!(failed(effect).code, "http-307");
}

#[tokio::test]
async fn a_redirect_from_an_encrypted_place_to_an_open_one_is_not_followed() {
    let papers = Papers::issue().await;
    let stage = Stage::encrypted(&papers).await;
    let open = Stage::start().await.unwrap();
    let base = stage.https_url("");
    let mut goal = trusting(&papers, &base);
    goal.redirects = 3;
    let to = destination(goal, &[]);
    let caller = caller(&Reach::open());
    let read = async |path: &str| {
        let read = get(&format!("{base}/redirect?to={path}"));
        caller
            .send_request(&read, route(Some(&to)), None, Pooling::Shared)
            .await
    };

    let within = read("/echo").await;
    let out = read(&open.url("/echo")).await;

    assert_eq!(done(within).response["json"]["path"], "/echo");
    assert_eq!(failed(out).code, "redirect-refused");
    assert_eq!(open.counts().await["connections"], 0);
}

#[tokio::test]
async fn pages_are_put_together_by_link_and_by_cursor() {
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());
    let paged = |path: &str, items: &str, next: NextPage, most: u32| {
        let mut read = get(&stage.url(path));
        let items = items.to_owned();
        read.pages = Some(Pagination { items, next, most });
        read
    };
    let cursor = || NextPage::Cursor {
        path: "page.next".to_owned(),
        query: "after".to_owned(),
    };
    let ask = async |read| {
        caller
            .send_request(&read, route(None), None, Pooling::Shared)
            .await
    };

    let linked = done(ask(paged("/link", "data.items", NextPage::Link, 9)).await).response;
    assert_eq!(linked["pages"], 4);
    assert_eq!(linked["json"].as_array().unwrap().len(), 12);
    assert_eq!(linked["json"][11], json!({"n": 42}));
    assert_eq!(linked["truncated"], Value::Null);

    let walked = done(ask(paged("/cursor?filter=a%26b", "rows", cursor(), 9)).await).response;
    assert_eq!(walked["json"], json!([1, 2, 3, 4, 5, 6, 7, 8]));

    let some = done(ask(paged("/cursor", "rows", cursor(), 2)).await).response;
    assert_eq!(
        (&some["json"], &some["truncated"]),
        (&json!([1, 2, 3, 4]), &json!(true))
    );

    let none = failed(ask(paged("/cursor", "nothing.here", cursor(), 2)).await);
    assert_eq!(none.code, "page-unreadable");
    let away = paged(
        "/link?there=http://127.0.0.3/link",
        "data.items",
        NextPage::Link,
        9,
    );
    assert_eq!(failed(ask(away).await).code, "page-refused");
    let long = paged("/cursor?pad=4000000", "rows", cursor(), 9);
    assert_eq!(failed(ask(long).await).code, "answer-too-large");
}

/// A gate that closes after so many looks.
struct Closing(AtomicUsize);

impl SendGate for Closing {
    fn is_open(&self) -> bool {
        let left = self.0.load(Ordering::SeqCst);
        self.0.store(left.saturating_sub(1), Ordering::SeqCst);
        left > 0
    }
}

#[tokio::test]
async fn a_closed_gate_lets_no_whole_request_out() {
    let stage = Stage::start().await.unwrap();
    let mut post = request("POST", &stage.url("/echo"));
    post.body = Some("x".repeat(200_000));

    let mut outcomes = Vec::new();
    for looks in 0..8 {
        let gate = Arc::new(Closing(AtomicUsize::new(looks)));
        let caller = HttpExecutor::new(gate, &Reach::open()).unwrap();
        let outcome = caller.send_request(&post, route(None), Some(key()), Pooling::Fresh);
        outcomes.push(match outcome.await {
            Outcome::Done(_) => "done",
            Outcome::Failed(_) => "failed",
            Outcome::InDoubt(_) => "in doubt",
        });
    }

    // Before the call, before sending, at the connection, and before each of four pieces. The look
    // that tells a closed gate from a broken wire comes on top.
    let failed = outcomes
        .iter()
        .filter(|outcome| **outcome == "failed")
        .count();
    assert_eq!(failed, 4, "{outcomes:?}");
    assert_eq!(outcomes[7], "done", "{outcomes:?}");
    assert_eq!(stage.counts().await["requests"], 1, "{outcomes:?}");
}

#[tokio::test]
async fn running_out_of_time_before_the_first_byte_is_a_failure_and_after_it_a_doubt() {
    // A listener whose queue is full accepts no connection: it never stands.
    let full = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = full.local_addr().unwrap();
    let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(50));
    let queued: Vec<_> = (0..5000).map_while(|_| connect().ok()).collect();
    assert!(queued.len() < 5000, "the queue is full");
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());
    let send = async |url: &str, body: Option<&str>, pooling, timeout: Span| {
        let mut post = request("POST", url);
        post.body = body.map(str::to_owned);
        post.timeout = timeout;
        caller
            .send_request(&post, route(None), Some(key()), pooling)
            .await
    };

    let (unreachable, hang) = (format!("http://{address}/"), stage.url("/hang"));
    let short = Span::from_millis(300);
    let with_body = send(&unreachable, Some("pay"), Pooling::Shared, short).await;
    let without = send(&unreachable, None, Pooling::Fresh, short).await;
    let hanging = async |body: Option<&str>| {
        let attempt = async |timeout: Span| -> anyhow::Result<Outcome> {
            Ok(send(&hang, body, Pooling::Fresh, timeout).await)
        };
        with_enough_time(attempt, is_in_doubt).await.unwrap()
    };
    let unanswered = hanging(Some("pay")).await;
    let bare = hanging(None).await;

    for outcome in [with_body, without] {
        let fault = failed(outcome);
        assert_eq!(
            (fault.code.as_str(), fault.retryable),
            ("no-connection", true)
        );
    }
    for outcome in [unanswered, bare] {
        assert!(matches!(&outcome, Outcome::InDoubt(doubt) if doubt.code == "no-answer"));
    }
}
