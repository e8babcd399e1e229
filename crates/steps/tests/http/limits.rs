//! One destination's trouble is not another's.

use std::sync::Arc;
use std::time::Duration;

use semel_model::connection::HttpAuth;
use semel_model::request::ExternalRequest;
use semel_model::{Guard, Outcome, Span};
use semel_steps::{Attempt, Destination, Executors, Reach};
use semel_testkit::{Peer, patience};

use super::stage::{Open, destination, key, request, route, target};

/// How long a request may be held: longer than a slow machine takes to make a thousand.
const HELD_FOR: Span = Span::from_const_secs(600);

async fn post(executors: &Executors, to: &Destination, path: &str) -> Outcome {
    let semel_model::connection::Target::Http(goal) = &to.connection.to else {
        panic!("not http");
    };
    let mut request = request("POST", &format!("{}{path}", goal.base_url));
    request.timeout = HELD_FOR;
    let attempt = Attempt {
        request: &ExternalRequest::Http(request),
        route: route(Some(to)),
        key: key(),
        guard: Guard::Review,
    };
    executors.perform(attempt).await
}

fn named(name: &str, peer: &Peer, concurrency: u32) -> Arc<Destination> {
    let mut to = destination(target(&peer.url(""), HttpAuth::None), &[]);
    to.name = name.to_owned();
    to.connection.limits.concurrency = concurrency;
    Arc::new(to)
}

#[tokio::test]
async fn a_hanging_destination_with_a_thousand_sockets_blocks_no_other() {
    let (stuck, well) = (Peer::start().await.unwrap(), Peer::start().await.unwrap());
    let executors = Executors::new(Arc::new(Open), &Reach::open()).unwrap();
    let to_stuck = named("stuck", &stuck, 1000);
    let to_well = named("well", &well, 8);
    let mut hanging = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let (executors, to) = (executors.clone(), to_stuck.clone());
        hanging.spawn(async move { post(&executors, &to, "/hold/plain/x").await });
    }
    stuck.until_held(1000, patience()).await.unwrap();

    // All of these are answered while the thousand are held.
    let one_more = post(&executors, &to_stuck, "/hold/plain/x").await;
    for _ in 0..50 {
        let outcome = post(&executors, &to_well, "/plain/x").await;
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }

    assert!(matches!(&one_more, Outcome::Failed(fault) if fault.code == "destination-busy"));
    assert_eq!(stuck.totals().await.unwrap().effects, 0);
    stuck.let_go().await.unwrap();
    let ended = hanging.join_all().await;
    assert!(
        ended
            .iter()
            .all(|outcome| matches!(outcome, Outcome::Done(_)))
    );
}

#[tokio::test]
async fn a_destination_that_only_fails_is_left_alone() {
    let peer = Peer::start().await.unwrap();
    let executors = Executors::new(Arc::new(Open), &Reach::open()).unwrap();
    let to = named("books", &peer, 8);

    let mut codes = Vec::new();
    for _ in 0..25 {
        codes.push(match post(&executors, &to, "/status/503/plain/x").await {
            Outcome::InDoubt(doubt) => doubt.code,
            Outcome::Failed(fault) => fault.code,
            Outcome::Done(_) => "done".to_owned(),
        });
    }

    assert!(
        codes[..20].iter().all(|code| code == "http-503"),
        "{codes:?}"
    );
    assert!(
        codes[20..].iter().all(|code| code == "destination-paused"),
        "{codes:?}"
    );
    assert_eq!(peer.totals().await.unwrap().calls, 20);
}

#[tokio::test]
async fn a_host_that_hangs_gets_a_share_of_the_runs_without_any_connection() {
    let (stuck, well) = (Peer::start().await.unwrap(), Peer::start().await.unwrap());
    let reach = Reach::open().with_capacity(64);
    let executors = Executors::new(Arc::new(Open), &reach).unwrap();
    let post = |url: String| {
        let executors = executors.clone();
        async move {
            let mut request = request("POST", &url);
            request.timeout = HELD_FOR;
            let attempt = Attempt {
                request: &ExternalRequest::Http(request),
                route: route(None),
                key: key(),
                guard: Guard::Review,
            };
            executors.perform(attempt).await
        }
    };
    let mut hanging = tokio::task::JoinSet::new();
    for _ in 0..64 {
        hanging.spawn(post(stuck.url("/hold/plain/x")));
    }
    stuck.until_held(16, patience()).await.unwrap();

    let beside = post(well.url("/plain/x")).await;
    let mut refused = 0;
    while refused < 48 {
        let outcome = hanging.join_next().await.unwrap().unwrap();
        assert!(matches!(&outcome, Outcome::Failed(fault) if fault.code == "destination-busy"));
        refused += 1;
    }
    let held = stuck.until_held(0, Duration::ZERO).await.unwrap().len();
    stuck.let_go().await.unwrap();
    let ended = hanging.join_all().await;

    assert!(matches!(beside, Outcome::Done(_)), "{beside:?}");
    assert_eq!(held, 16, "a quarter of what the process has in hand");
    let done = ended.iter().filter(|it| matches!(it, Outcome::Done(_)));
    assert_eq!(done.count(), 16);
}
