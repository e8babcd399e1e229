//! Who Semel shows itself to be, and to whom.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderName;
use semel_model::connection::{HttpAuth, LlmShape, LlmTarget, Target};
use semel_model::request::ExternalRequest;
use semel_model::{Connection, Guard, Outcome, SecretText};
use semel_steps::{Attempt, Destination, Egress, Executors, HttpExecutor, Pooling, Reach};
use semel_testkit::{Program, let_pass, patience, until};
use serde_json::Value;

use super::bodies::Folder;
use super::papers::Papers;
use super::stage::{
    Open, Stage, caller, destination, done, failed, get, key, request, route, target,
};

async fn ask(caller: &HttpExecutor, to: &Destination, url: &str) -> Outcome {
    let post = request("POST", url);
    caller
        .send_request(&post, route(Some(to)), Some(key()), Pooling::Shared)
        .await
}

#[tokio::test]
async fn each_way_of_signing_in_is_what_the_destination_sees() {
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());
    let secret = || "pass".to_owned();
    let ways = [
        (HttpAuth::None, Value::Null),
        (
            HttpAuth::Bearer { secret: secret() },
            "Bearer open sesame".into(),
        ),
        (
            HttpAuth::Basic {
                user: "ann".to_owned(),
                secret: secret(),
            },
            "Basic YW5uOm9wZW4gc2VzYW1l".into(),
        ),
        (
            HttpAuth::Header {
                name: "Authorization".to_owned(),
                prefix: "Key ".to_owned(),
                secret: secret(),
            },
            "Key open sesame".into(),
        ),
    ];

    for (auth, expected) in ways {
        let mut to = stage.destination(auth, &[("pass", "open sesame")]);
        if let Target::Http(goal) = &mut to.connection.to {
            goal.headers = vec![("x-tenant".to_owned(), "blue".to_owned())];
        }
        let mut post = request("POST", &stage.url("/echo"));
        // A step cannot take the place of its connection.
        post.headers = vec![("X-Tenant".to_owned(), "red".to_owned())];
        let sent = caller.send_request(&post, route(Some(&to)), Some(key()), Pooling::Shared);
        let seen = done(sent.await).response["json"]["headers"].clone();
        assert_eq!(seen["authorization"], expected);
        assert_eq!(seen["x-tenant"], "blue");
    }
}

#[tokio::test]
async fn credentials_go_to_the_connections_own_origin_and_nowhere_else() {
    let stage = Stage::start().await.unwrap();
    let other = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());
    let bearer = HttpAuth::Bearer {
        secret: "pass".to_owned(),
    };
    let to = stage.destination(bearer, &[("pass", "open sesame")]);
    let missing = stage.destination(
        HttpAuth::Bearer {
            secret: "gone".to_owned(),
        },
        &[],
    );
    let broken = HttpAuth::Bearer {
        secret: "pass".to_owned(),
    };
    let broken = stage.destination(broken, &[("pass", "two\nlines")]);

    let elsewhere = failed(ask(&caller, &to, &other.url("/echo")).await);
    let https = failed(ask(&caller, &to, &stage.url("/echo").replace("http:", "https:")).await);
    let unset = failed(ask(&caller, &missing, &stage.url("/echo")).await);
    let unfit = failed(ask(&caller, &broken, &stage.url("/echo")).await);

    assert_eq!(
        (elsewhere.code.as_str(), elsewhere.retryable),
        ("connection-changed", false)
    );
    assert_eq!(https.code, "connection-changed");
    assert_eq!(
        (unset.code.as_str(), unset.retryable),
        ("secret-missing", true)
    );
    assert_eq!(unfit.code, "secret-unfit");
    assert!(!unfit.message.contains("two"), "{}", unfit.message);
    assert_eq!(stage.counts().await["connections"], 0);
    assert_eq!(other.counts().await["connections"], 0);
}

#[tokio::test]
async fn headers_of_another_executor_go_to_its_destination_alone() {
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());
    let model = Target::Llm(LlmTarget {
        shape: LlmShape::Anthropic,
        base_url: stage.url("/v1"),
        secret: "key".to_owned(),
        model: None,
        price: None,
    });
    let to = Destination::new("model".to_owned(), 7, 1, Connection::to(model), [].into());
    let headers = [(
        HeaderName::from_static("x-api-key"),
        SecretText::new("open sesame".to_owned()),
    )];

    let here = request("POST", &stage.url("/v1/messages"));
    let here = caller
        .send_signed(&here, &to, &headers, None, Pooling::Shared)
        .await;
    let away = request("POST", "http://127.0.0.9/v1/messages");
    let away = caller
        .send_signed(&away, &to, &headers, None, Pooling::Shared)
        .await;

    assert_eq!(
        done(here).response["json"]["headers"]["x-api-key"],
        "open sesame"
    );
    assert_eq!(failed(away).code, "connection-changed");
}

fn oauth2(stage: &Stage, query: &str) -> HttpAuth {
    HttpAuth::Oauth2 {
        token_url: stage.url(&format!("/token{query}")),
        client_id: "semel:1".to_owned(),
        secret: "client".to_owned(),
        scope: Some("books".to_owned()),
    }
}

const CLIENT: (&str, &str) = ("client", "s3cret & more");

#[tokio::test]
async fn one_token_serves_many_requests_and_sessions() {
    let stage = Stage::start().await.unwrap();
    let reach = Reach::open();
    let (caller, other) = (caller(&reach), caller(&reach));
    let to = stage.destination(oauth2(&stage, ""), &[CLIENT]);
    let url = stage.url("/guarded");

    let asked = (0..20).map(|index| ask(if index % 2 == 0 { &caller } else { &other }, &to, &url));
    let asked = futures_util::future::join_all(asked).await;

    for outcome in asked {
        assert_eq!(done(outcome).response["json"]["number"], 1);
    }
    assert_eq!(stage.counts().await["tokens"], 1);
}

#[tokio::test]
async fn a_token_that_was_taken_back_is_fetched_anew_by_the_next_attempt() {
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());
    let to = stage.destination(oauth2(&stage, ""), &[CLIENT]);
    let url = stage.url("/guarded");
    done(ask(&caller, &to, &url).await);
    let take_back = get(&stage.url("/take-back?token=token-1-books"));
    done(
        caller
            .send_request(&take_back, route(None), None, Pooling::Shared)
            .await,
    );

    let refused = failed(ask(&caller, &to, &url).await);
    let next = done(ask(&caller, &to, &url).await);

    assert_eq!(
        (refused.code.as_str(), refused.retryable),
        ("http-401", true)
    );
    assert_eq!(next.response["json"]["number"], 2);
    assert_eq!(
        stage.counts().await["paths"]["/guarded"],
        3,
        "nothing is tried twice"
    );

    // A token fresh from its server that is refused will not get better.
    let mut always = stage.destination(oauth2(&stage, ""), &[CLIENT]);

    always.version = 2;
    let fault = failed(ask(&caller, &always, &stage.url("/status/401")).await);
    assert_eq!((fault.code.as_str(), fault.retryable), ("http-401", false));
}

#[tokio::test]
async fn a_token_goes_to_no_other_host_whatever_the_version_of_its_connection() {
    let (first, second) = (Stage::start().await.unwrap(), Stage::start().await.unwrap());
    let caller = caller(&Reach::open());
    let known = first.destination(oauth2(&first, ""), &[CLIENT]);
    // Deleted and created again: the same name and version.
    let again = second.destination(oauth2(&second, ""), &[CLIENT]);

    done(ask(&caller, &known, &first.url("/guarded")).await);
    done(ask(&caller, &again, &second.url("/guarded")).await);

    assert_eq!(first.counts().await["tokens"], 1);
    assert_eq!(second.counts().await["tokens"], 1, "a token of its own");
}

#[tokio::test]
async fn a_token_is_fetched_anew_before_it_expires() {
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());
    let to = stage.destination(oauth2(&stage, "?life=1"), &[CLIENT]);

    done(ask(&caller, &to, &stage.url("/guarded")).await);
    let because = "the life of a token passes on the clock of the process";
    let_pass(Duration::from_millis(550), because).await;
    let later = done(ask(&caller, &to, &stage.url("/guarded")).await);

    assert_eq!(later.response["json"]["number"], 2);
}

#[tokio::test]
async fn a_secret_that_comes_back_is_neither_in_a_kept_answer_nor_at_a_cut() {
    let stage = Stage::start().await.unwrap();
    let folder = Arc::new(Folder::new());
    let mut reach = Reach::open();
    reach.resources = folder.clone();
    let caller = caller(&reach);
    let secret = "sk_live_Zq7wE3rT9yUiOpAsDfGhJkLzXcVbNm";
    let bearer = HttpAuth::Bearer {
        secret: "pass".to_owned(),
    };
    let to = stage.destination(bearer, &[("pass", secret)]);

    let kept = done(ask(&caller, &to, &stage.url("/echo-big")).await);
    let mut refusals = Vec::new();
    for pad in (240..300).step_by(7) {
        let url = stage.url(&format!("/refuse?pad={pad}"));
        refusals.push(failed(ask(&caller, &to, &url).await).message);
    }
    let short = failed(ask(&caller, &to, &stage.url("/refuse?pad=3")).await).message;

    let [resource] = kept.kept.as_slice() else {
        panic!("{:?}", kept.kept);
    };
    let stored = String::from_utf8(folder.read(resource.resource)).unwrap();
    assert!(!stored.contains("sk_"));
    assert_eq!(stored.matches("[secret pass]").count(), 2);
    assert_eq!(resource.bytes, stored.len() as u64);
    for message in refusals {
        assert!(!message.contains("sk_"), "{message}");
        assert!(message.contains(&"y".repeat(240)), "{message}");
    }
    assert_eq!(short, "400 Bad Request: yyyBearer [secret pass]");
}

/// A token is good for a while after the next was fetched, and the destination may send it back as late.
#[tokio::test]
async fn the_token_that_an_attempt_sent_is_redacted_whatever_was_fetched_since() {
    let stage = Stage::start().await.unwrap();
    let (open, reach) = (caller(&Reach::open()), Reach::open());
    let executors = Executors::new(Arc::new(Open), &reach).unwrap();
    let to = stage.destination(oauth2(&stage, ""), &[CLIENT]);
    let perform = async |path: &str| {
        let attempt = Attempt {
            request: &ExternalRequest::Http(request("POST", &stage.url(path))),
            route: route(Some(&to)),
            key: key(),
            guard: Guard::Review,
        };
        executors.perform(attempt).await
    };
    let visit = async |path: &str| {
        let read = get(&stage.url(path));
        let visited = open.send_request(&read, route(None), None, Pooling::Shared);
        done(visited.await);
    };
    let meanwhile = async {
        let look = async || Ok(stage.counts().await["paths"]["/held"].clone());
        until("the first attempt to arrive", look, |seen| *seen == 1)
            .await
            .unwrap();
        visit("/take-back?token=token-1-books").await;
        failed(perform("/guarded").await);
        let next = done(perform("/guarded").await);
        // Let in again, so that the first attempt is answered with what it sent.
        visit("/give-back?token=token-1-books").await;
        visit("/let-go").await;
        next
    };

    let (first, next) = futures_util::future::join(perform("/held"), meanwhile).await;

    for (receipt, number) in [(done(first), 1), (next, 2)] {
        assert_eq!(receipt.response["json"]["number"], number);
        assert_eq!(receipt.response["json"]["token"], "Bearer [secret token]");
        let said = receipt.response.to_string();
        assert!(
            !said.contains("token-1") && !said.contains("token-2"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn without_a_token_nothing_is_sent() {
    let stage = Stage::start().await.unwrap();
    let caller = caller(&Reach::open());
    let wrong = stage.destination(oauth2(&stage, ""), &[("client", "wrong")]);
    let mut down = stage.destination(oauth2(&stage, "?down=1"), &[CLIENT]);
    down.version = 2;
    let private = stage.destination(oauth2(&stage, ""), &[CLIENT]);
    let closed = super::stage::caller(&Reach::default());

    let wrong = failed(ask(&caller, &wrong, &stage.url("/guarded")).await);
    let down = failed(ask(&caller, &down, &stage.url("/guarded")).await);
    let private = failed(ask(&closed, &private, &stage.url("/guarded")).await);

    assert_eq!(
        (wrong.code.as_str(), wrong.retryable),
        ("sign-in-refused", false)
    );
    assert_eq!(
        (down.code.as_str(), down.retryable),
        ("sign-in-unavailable", true)
    );
    assert_eq!(private.code, "address-refused");
    assert_eq!(stage.counts().await["paths"]["/guarded"], Value::Null);
}

#[tokio::test]
async fn a_client_certificate_authenticates_the_client() {
    let papers = Papers::issue().await;
    let [cert, key, ca] = ["server.pem", "server.key", "ca.pem"].map(|name| papers.path(name));
    let arguments = ["--cert", &cert, "--key", &key, "--client-ca", &ca];
    let stage = Stage::with(&arguments).await.unwrap();
    let caller = caller(&Reach::open());
    let url = format!("https://localhost:{}/echo", stage.port);
    let mtls = || HttpAuth::Mtls {
        certificate: papers.read("client.pem"),
        secret: "key".to_owned(),
    };
    let to = |version, auth, trust: Option<String>, secret: &str| {
        let mut goal = target(&url, auth);
        goal.trust = trust;
        let mut to = destination(goal, &[("key", secret)]);
        to.version = version;
        to
    };
    let (root, secret) = (papers.read("ca.pem"), papers.read("client.key"));

    let known = to(1, mtls(), Some(root.clone()), &secret);
    let seen = done(ask(&caller, &known, &url).await).response["json"].clone();
    assert!(seen["client"].as_str().unwrap().contains("semel"), "{seen}");

    let nobody = to(2, HttpAuth::None, Some(root.clone()), "");
    let nobody = ask(&caller, &nobody, &url).await;
    assert!(
        matches!(&nobody, Outcome::Failed(fault) if fault.code == "sign-in-refused"),
        "{nobody:?}"
    );

    let untrusting = to(3, mtls(), None, &secret);
    assert_eq!(
        failed(ask(&caller, &untrusting, &url).await).code,
        "no-connection"
    );

    let unreadable = to(4, mtls(), Some(root), "no key at all");
    assert_eq!(
        failed(ask(&caller, &unreadable, &url).await).code,
        "connection-invalid"
    );
}

/// What the process of the redirect is told: where it begins, where that leads, the certificate and its key.
const REDIRECT: [&str; 4] = [
    "SEMEL_TEST_STAGE",
    "SEMEL_TEST_OTHER",
    "SEMEL_TEST_CERTIFICATE",
    "SEMEL_TEST_KEY",
];

/// What a process trusts besides is read from its environment, so that the redirect is followed in another.
#[tokio::test]
async fn a_client_certificate_stays_at_the_origin_of_its_connection() {
    let papers = Papers::issue().await;
    let [cert, key, ca] = ["server.pem", "server.key", "ca.pem"].map(|name| papers.path(name));
    let arguments = ["--cert", &cert, "--key", &key, "--client-ca", &ca];
    let stage = Stage::with(&arguments).await.unwrap();
    let other = Stage::with(&arguments).await.unwrap();
    let told = [
        stage.https_url(""),
        other.https_url("/echo"),
        papers.read("client.pem"),
        papers.read("client.key"),
    ];

    let mut followed = Program::at(std::env::current_exe().unwrap())
        .args(["http::auth::redirect_away", "--exact", "--ignored"])
        .env("SSL_CERT_FILE", &ca);
    for (name, value) in REDIRECT.iter().zip(told) {
        followed = followed.env(name, value);
    }
    let ended = followed.run(patience()).await.unwrap();

    assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("1 passed"), "{}", ended.stdout);
}

#[tokio::test]
#[ignore = "runs in a process of its own, which trusts both stages"]
async fn redirect_away() {
    let [stage, other, certificate, key] = REDIRECT.map(|name| std::env::var(name).unwrap());
    let auth = HttpAuth::Mtls {
        certificate,
        secret: "key".to_owned(),
    };
    let mut goal = target(&stage, auth);
    goal.redirects = 1;
    let to = destination(goal, &[("key", &key)]);
    let caller = caller(&Reach::open());
    let follow = async |path: String| {
        let read = get(&format!("{stage}{path}"));
        caller
            .send_request(&read, route(Some(&to)), None, Pooling::Shared)
            .await
    };

    let here = done(follow("/redirect?to=/echo".to_owned()).await);
    let away = failed(follow(format!("/redirect?to={other}")).await);

    let client = here.response["json"]["client"].as_str().unwrap().to_owned();
    assert!(client.contains("semel"), "{client}");
    assert_eq!(away.code, "sign-in-refused", "it asked for a certificate");
}

#[tokio::test]
async fn a_token_is_asked_for_only_where_requests_may_go() {
    let open = Stage::with(&["--host", "127.0.0.2"]).await.unwrap();
    let closed = Stage::start().await.unwrap();
    let base = format!("http://127.0.0.2:{}/guarded", open.port);
    let to = destination(target(&base, oauth2(&closed, "")), &[CLIENT]);
    let range = "127.0.0.2/32".parse().unwrap();

    let direct = caller(&Reach::new(Egress::new(vec![range])));
    let direct = failed(ask(&direct, &to, &base).await);
    let proxy = format!("http://127.0.0.2:{}", open.port);
    let through = Egress::new(vec![range]).through(proxy.parse().unwrap());
    let through = failed(ask(&caller(&Reach::new(through)), &to, &base).await);

    assert_eq!(direct.code, "address-refused");
    assert_eq!(through.code, "address-refused");
    assert_eq!(closed.counts().await["connections"], 0);
}
