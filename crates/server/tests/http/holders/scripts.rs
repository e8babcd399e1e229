//! Named effects of scripts: only the API token that began reports, and shows its token to no other.

use anyhow::{Context, Result};
use semel_api::types::{
    BeginOnce, FailOnce, FinishOnce, GetOnce, HeartbeatOnce, OnceEffect, OnceFilter, SettleOnce,
};
use semel_api::{Client, Code};
use semel_model::{HolderId, NamedEffectState, Right};
use semel_testkit::patience;
use serde_json::json;

use super::{client, worker};
use crate::world::{World, refused};

fn begin() -> BeginOnce {
    BeginOnce {
        scope: None,
        key: "charge:o-1".to_owned(),
        holder: HolderId::generate(),
        holder_name: "box-7, process 1".to_owned(),
        request: json!({ "amount": 12 }),
        lease: None,
        on_doubt: None,
        keep: None,
    }
}

fn done(token: i64, result: &str) -> FinishOnce {
    FinishOnce {
        scope: None,
        key: "charge:o-1".to_owned(),
        token,
        result: Some(json!(result)),
        external_id: None,
    }
}

fn fail(token: i64, in_doubt: bool) -> FailOnce {
    FailOnce {
        scope: None,
        key: "charge:o-1".to_owned(),
        token,
        code: None,
        message: "declined".to_owned(),
        in_doubt,
    }
}

async fn shown(client: &Client) -> Result<OnceEffect> {
    let get = GetOnce {
        scope: None,
        key: "charge:o-1".to_owned(),
    };
    Ok(client.get_once(&get).await?)
}

/// Reports whatever can be reported under a token, and is refused each time.
async fn report_all(client: &Client, token: i64) -> Result<()> {
    let beat = HeartbeatOnce {
        scope: None,
        key: "charge:o-1".to_owned(),
        token,
    };
    let codes = [
        refused(client.heartbeat_once(&beat, patience()).await)?,
        refused(client.finish_once(&done(token, "forged")).await)?,
        refused(client.fail_once(&fail(token, true)).await)?,
        refused(client.fail_once(&fail(token, false)).await)?,
    ];
    assert_eq!(codes, [Code::OnceNotHeld; 4]);
    Ok(())
}

#[tokio::test]
async fn only_the_caller_that_began_a_key_reports_on_it() -> Result<()> {
    let world = World::start().await?;
    let (owner, other) = (worker(&world, "a").await?, worker(&world, "b").await?);
    let mine = begin();
    let hold = owner.begin_once(&mine).await?.hold.context("it is first")?;

    report_all(&other, hold.token).await?;
    let stands = shown(&world.client).await?;
    let taken = other.begin_once(&mine).await?;
    let again = owner.begin_once(&mine).await?.hold.context("its own")?;
    owner.finish_once(&done(hold.token, "true")).await?;
    let repeat = owner.finish_once(&done(hold.token, "true")).await?;
    let foreign = other.finish_once(&done(hold.token, "true")).await;
    let end = shown(&world.client).await?;

    assert_eq!(
        (stands.state, stands.note),
        (NamedEffectState::Pending, None)
    );
    assert!(!taken.first, "the nonce of another is no hold of one's own");
    assert_eq!(again.token, hold.token, "the answer to a begin was lost");
    assert!(repeat.replayed);
    assert_eq!(refused(foreign)?, Code::OnceNotHeld);
    assert_eq!(end.result, Some(json!("true")));
    Ok(())
}

#[tokio::test]
async fn the_token_of_a_hold_is_shown_to_its_holder_and_to_who_may_settle() -> Result<()> {
    let world = World::start().await?;
    let owner = worker(&world, "a").await?;
    let other = client(&world, "b", &[Right::Once, Right::Read, Right::Payload]).await?;
    let operator = client(&world, "c", &[Right::Read, Right::Settle]).await?;
    let hold = owner
        .begin_once(&begin())
        .await?
        .hold
        .context("it is first")?;

    let met = other
        .begin_once(&begin())
        .await?
        .effect
        .context("what is there")?;
    let listed = other.list_once(&OnceFilter::default()).await?.items;
    let by_key = other.get_once_by_key(hold.effect_key).await?;
    let found = shown(&other).await?;
    let seen = shown(&operator).await?;

    let hidden = [met.token, listed[0].token, by_key.token, found.token];
    assert_eq!(hidden, [None; 4]);
    assert_eq!(seen.token, Some(hold.token));
    Ok(())
}

#[tokio::test]
async fn an_operator_s_word_is_corrected_by_the_holder_and_by_nobody_else() -> Result<()> {
    let world = World::start().await?;
    let (owner, other) = (worker(&world, "a").await?, worker(&world, "b").await?);
    let third = worker(&world, "c").await?;
    let hold = owner
        .begin_once(&begin())
        .await?
        .hold
        .context("it is first")?;
    owner.fail_once(&fail(hold.token, true)).await?;
    let settle = SettleOnce {
        scope: None,
        key: "charge:o-1".to_owned(),
        token: hold.token,
        happened: false,
        result: None,
        external_id: None,
        reason: "no such charge".to_owned(),
    };

    report_all(&other, hold.token).await?;
    let doubt = shown(&world.client).await?;
    world.client.settle_once(&settle).await?;
    report_all(&other, hold.token).await?;
    let settled = shown(&world.client).await?;
    let next = other.begin_once(&begin()).await?.hold.context("free")?;
    report_all(&third, hold.token).await?;
    report_all(&third, next.token).await?;
    let forged = shown(&world.client).await?;
    let late = owner.finish_once(&done(hold.token, "true")).await;
    let noted = shown(&world.client).await?;
    other.fail_once(&fail(next.token, true)).await?;
    let again = SettleOnce {
        token: next.token,
        ..settle.clone()
    };
    world.client.settle_once(&again).await?;
    other.finish_once(&done(next.token, "after all")).await?;
    let corrected = shown(&world.client).await?;

    assert_eq!(doubt.state, NamedEffectState::InDoubt);
    assert_eq!(settled.state, NamedEffectState::Failed);
    assert_eq!(settled.settled_by.as_deref(), Some("token:test"));
    assert_eq!((doubt.note, settled.note, forged.note), (None, None, None));
    assert_eq!(refused(late)?, Code::OnceNotHeld, "another has begun");
    assert_eq!(noted.state, NamedEffectState::Pending);
    assert!(noted.note.unwrap_or_default().contains("former holder"));
    assert_eq!(corrected.state, NamedEffectState::Done);
    assert_eq!(corrected.result, Some(json!("after all")));
    Ok(())
}
