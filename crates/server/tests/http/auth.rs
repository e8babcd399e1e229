//! Authentication: which tokens are accepted, and what they may see.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use semel_api::types::{Cancel, StartRun};
use semel_api::{Client, Code};
use semel_server::auth::token_format;
use semel_testkit::until;

use crate::world::{World, refused};

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
