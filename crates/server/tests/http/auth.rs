//! Authentication: which tokens are accepted, and what they may see.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hyper::Method;
use semel_api::types::{Cancel, StartRun};
use semel_api::{Client, Code};
use semel_model::Right;
use semel_server::auth::token_format;
use semel_testkit::until;

use crate::log::Log;
use crate::world::{World, add_token_with, refused};

/// The longest that a token works after it was revoked.
const WORKS_FOR: Duration = Duration::from_secs(5);

#[tokio::test]
async fn every_failed_authentication_has_the_same_answer() -> Result<()> {
    let world = World::start().await?;
    let unknown = token_format::mint()?.text;
    let mut forged = world.token.clone();
    let last = if forged.ends_with('0') { "1" } else { "0" };
    forged.replace_range(forged.len() - 1.., last);

    let bare = world.bare.get("/v1/whoami").await?;
    for token in [unknown, forged, "semel_x_y".to_owned()] {
        let client = Client::new(world.client.base(), &token)?;
        assert_eq!(refused(client.whoami().await)?, Code::Unauthorized);
    }

    assert_eq!(bare.status, 401);
    assert_eq!(bare.header("www-authenticate"), Some("Bearer"));
    assert_eq!(bare.header("cache-control"), Some("no-store"));
    Ok(())
}

#[tokio::test]
async fn failed_authentication_is_counted_by_reason_and_a_token_that_ended_is_logged() -> Result<()>
{
    let log = Log::default();
    // The server runs on the thread of the test.
    let _heard = tracing::subscriber::set_default(log.clone());
    let world = World::start().await?;
    let cell = world.engine.cell();
    let revoked = add_token_with(cell, "laptop", Right::Read.into()).await?;
    let expired = add_token_with(cell, "old-job", Right::Read.into()).await?;
    let database = world.database.connect().await?;
    let end = "UPDATE tokens SET revoked_at = moment() WHERE name = 'laptop';
               UPDATE tokens SET expires_at = moment() WHERE name = 'old-job'";
    database.batch_execute(end).await?;
    let unknown = token_format::mint()?.text;
    let mut forged = revoked.clone();
    let last = if forged.ends_with('0') { "1" } else { "0" };
    forged.replace_range(forged.len() - 1.., last);

    world.bare.get("/v1/whoami").await?;
    let ended = [&revoked, &revoked, &expired].map(String::as_str);
    for token in ended.into_iter().chain([&*unknown, &*forged, "semel_x_y"]) {
        let client = Client::new(world.client.base(), token)?;
        assert_eq!(refused(client.whoami().await)?, Code::Unauthorized);
    }

    let metrics = world.metrics().await?.text();
    for (reason, count) in [
        ("missing", 1),
        ("malformed", 1),
        ("unknown", 1),
        ("wrong-secret", 1),
        ("revoked", 2),
        ("expired", 1),
        ("network", 0),
    ] {
        let line = format!("semel_token_auth_failures_total{{reason=\"{reason}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    let logged = log.text();
    let told: Vec<&str> = logged
        .lines()
        .filter(|line| line.contains("a token was used that no longer works"))
        .collect();
    assert_eq!(told.len(), 2, "a line for each token: {told:?}");
    for (line, words) in told
        .iter()
        .zip([["laptop", "revoked"], ["old-job", "expired"]])
    {
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
        assert!(line.contains("127.0.0.1"), "{line}");
    }
    for token in [&revoked, &expired] {
        assert!(!logged.contains(&token[token.len() - 64..]), "a secret");
    }
    Ok(())
}

#[tokio::test]
async fn an_address_that_tries_token_after_token_is_limited_and_a_working_token_never_is()
-> Result<()> {
    let world = World::start().await?;
    let guess = async |client: &semel_testkit::Client| -> Result<u16> {
        let bearer = format!("Bearer {}", token_format::mint()?.text);
        let headers = [("authorization", bearer.as_str())];
        let answer = client.send(Method::GET, "/v1/whoami", &headers, "".into());
        Ok(answer.await?.status.as_u16())
    };

    let mut statuses = Vec::new();
    for _ in 0..12 {
        statuses.push(guess(&world.bare).await?);
    }
    let working = world.client.whoami().await;
    let elsewhere = guess(&world.elsewhere()).await?;
    let bare = world.bare.get("/v1/whoami").await?;

    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses[10..], [429; 2]);
    assert!(
        working.is_ok(),
        "it works from the same address: {working:?}"
    );
    assert_eq!(elsewhere, 401, "another address has its own limit");
    assert_eq!(bare.status, 401, "who presents nothing guesses nothing");
    Ok(())
}

#[tokio::test]
async fn whoami_shows_the_token_s_owner() -> Result<()> {
    let world = World::start().await?;

    let whoami = world.client.whoami().await?;

    assert_eq!(whoami.namespace.as_str(), "main");
    assert_eq!(whoami.token, "test");
    Ok(())
}

#[tokio::test]
async fn a_revoked_token_stops_working_within_five_seconds() -> Result<()> {
    let world = World::start().await?;
    world.client.whoami().await?;
    let database = world.database.connect().await?;

    let revoke = "UPDATE tokens SET revoked_at = moment()";
    database.batch_execute(revoke).await?;
    let revoked = Instant::now();
    // What was asked in time may be answered late, on a machine that stands still.
    let look = async || {
        let asked = revoked.elapsed();
        let shown = world.client.whoami().await.is_ok();
        ensure!(!shown || asked < WORKS_FOR, "it works after {asked:?}");
        Ok(shown)
    };
    until("the token to stop working", look, |shown| !shown).await?;
    Ok(())
}

#[tokio::test]
async fn another_namespace_s_objects_are_not_found() -> Result<()> {
    let world = World::start().await?;
    let flow = "trigger: { api: {} }\nsteps: [{ id: one, function: '1' }]\n";
    let flow = world.publish("mine", flow).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        ..StartRun::default()
    };
    let run = world.client.start_run(&flow, &start, None).await?.body.run;
    let stranger = world.stranger().await?;
    let cancel = Cancel {
        reason: "mine now".to_owned(),
    };

    let shown = stranger.get_run(run).await;
    let cancelled = stranger.cancel_run(run, &cancel, "c").await;
    let key = stranger.get_key(&flow, "k").await;
    let started = stranger.start_run(&flow, &start, None).await;

    assert_eq!(refused(shown)?, Code::RunNotFound);
    assert_eq!(refused(cancelled)?, Code::RunNotFound);
    assert_eq!(refused(key)?, Code::KeyNotFound);
    assert_eq!(refused(started)?, Code::FlowNotFound);
    assert_eq!(stranger.list_flows().await?.items, []);
    Ok(())
}
