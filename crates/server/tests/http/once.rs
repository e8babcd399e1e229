//! Named effects of scripts over HTTP: who is first, what a repeat gets, and what is refused.

use anyhow::{Context, Result};
use hyper::Method;
use semel_api::types::{
    BeginOnce, FailOnce, FinishOnce, FreeOnce, GetOnce, HeartbeatOnce, OnceFilter, OnceHold,
    PutConnection, RedoOnce, SetAlerts, SettleOnce,
};
use semel_api::{Client, Code};
use semel_model::{AlertKind, HolderId, NamedEffectState, Span};
use semel_testkit::{patience, until};
use serde_json::{Value, json};

use crate::world::{World, refused};

fn begin(key: &str) -> BeginOnce {
    BeginOnce {
        scope: None,
        key: key.to_owned(),
        holder: HolderId::generate(),
        holder_name: "box-7, process 1".to_owned(),
        request: json!({ "amount": 12 }),
        lease: None,
        on_doubt: None,
        keep: None,
    }
}

fn done(key: &str, token: i64, result: Value) -> FinishOnce {
    FinishOnce {
        scope: None,
        key: key.to_owned(),
        token,
        result: Some(result),
        external_id: None,
    }
}

fn fail(key: &str, token: i64, in_doubt: bool) -> FailOnce {
    FailOnce {
        scope: None,
        key: key.to_owned(),
        token,
        code: None,
        message: "declined".to_owned(),
        in_doubt,
    }
}

fn get(key: &str) -> GetOnce {
    GetOnce {
        scope: None,
        key: key.to_owned(),
    }
}

async fn first(client: &Client, key: &str) -> Result<OnceHold> {
    let begun = client.begin_once(&begin(key)).await?;
    begun.hold.context("it is first")
}

#[tokio::test]
async fn a_begin_is_repeated_and_others_find_what_is_there() -> Result<()> {
    let world = World::start().await?;
    let client = &world.client;
    let mine = begin("a");

    let hold = client.begin_once(&mine).await?.hold.context("a hold")?;
    let again = client.begin_once(&mine).await?.hold.context("a hold")?;
    let other = client.begin_once(&begin("a")).await?;
    let beat = HeartbeatOnce {
        scope: None,
        key: "a".to_owned(),
        token: hold.token,
    };
    client.heartbeat_once(&beat, patience()).await?;
    let finish = done("a", hold.token, json!({ "id": "ch_1" }));
    let reported = client.finish_once(&finish).await?;
    let repeated = client.finish_once(&finish).await?;
    let late = client.heartbeat_once(&beat, patience()).await;
    let contrary = client.finish_once(&done("a", hold.token, json!(2))).await;
    let found = client
        .begin_once(&begin("a"))
        .await?
        .effect
        .context("an effect")?;

    assert_eq!(hold.token, again.token);
    let other = other.effect.context("an effect")?;
    assert_eq!(other.state, NamedEffectState::Pending);
    assert_eq!(other.holder_name.as_deref(), Some("box-7, process 1"));
    assert!(!reported.replayed && repeated.replayed);
    assert_eq!(refused(late)?, Code::OnceNotHeld);
    assert_eq!(refused(contrary)?, Code::OnceNotHeld);
    assert_eq!(found.state, NamedEffectState::Done);
    assert_eq!(found.result, Some(json!({ "id": "ch_1" })));
    assert_eq!(found.effect_key, hold.effect_key);
    let mismatch = BeginOnce {
        request: json!({ "amount": 13 }),
        ..begin("a")
    };
    assert_eq!(
        refused(client.begin_once(&mismatch).await)?,
        Code::OnceMismatch
    );
    Ok(())
}

#[tokio::test]
async fn a_reported_doubt_of_a_process_raises_one_alert() -> Result<()> {
    let world = World::start().await?;
    let client = &world.client;
    let mail = json!({ "smtp": { "host": "mail.example", "from": "semel@mail.example" } });
    let connection = PutConnection {
        connection: serde_json::from_value(json!({ "to": mail }))?,
        replace: false,
    };
    client
        .put_connection(&"ops".parse()?, &connection, None)
        .await?;
    let set = SetAlerts {
        connection: "ops".to_owned(),
        to: vec!["ops@mail.example".to_owned()],
    };
    client.set_alerts(&set, None).await?;
    let hold = first(client, "a").await?;

    client.fail_once(&fail("a", hold.token, true)).await?;
    client.fail_once(&fail("a", hold.token, true)).await?;
    let other = first(client, "b").await?;
    client.fail_once(&fail("b", other.token, true)).await?;
    let look = async || Ok(client.list_alerts().await?.groups);
    let groups = until("two doubts of processes to be counted", look, |groups| {
        groups.iter().map(|group| group.total).sum::<i64>() >= 2
    })
    .await?;

    assert_eq!(groups.len(), 1, "{groups:?}");
    assert_eq!((groups[0].kind, groups[0].total), (AlertKind::Doubt, 2));
    Ok(())
}

#[tokio::test]
async fn a_key_that_a_process_holds_is_not_freed_and_the_answer_says_what_settles_it() -> Result<()>
{
    let world = World::start().await?;
    let client = &world.client;
    let hold = first(client, "a").await?;
    let free = FreeOnce {
        effect_key: hold.effect_key,
        reason: "it hangs".to_owned(),
    };

    let held = client.free_once(&free).await;
    client.finish_once(&done("a", hold.token, json!(1))).await?;
    let finished = client.free_once(&free).await;

    let said = held.as_ref().err().context("refused")?.to_string();
    assert!(said.contains("`semel once settle` settles it"), "{said}");
    assert_eq!(refused(held)?, Code::OnceNotHeld);
    let said = finished.as_ref().err().context("refused")?.to_string();
    assert!(said.contains("the effect is done"), "{said}");
    assert_eq!(refused(finished)?, Code::OnceNotHeld);
    Ok(())
}

#[tokio::test]
async fn a_doubt_is_settled_and_a_done_effect_redone_by_their_token_with_a_record() -> Result<()> {
    let world = World::start().await?;
    let client = &world.client;
    let hold = first(client, "a").await?;
    let settle = SettleOnce {
        scope: None,
        key: "a".to_owned(),
        token: hold.token,
        happened: true,
        result: Some(json!("seen")),
        external_id: Some("ch_1".to_owned()),
        reason: "seen at the bank".to_owned(),
    };
    let redo = RedoOnce {
        scope: None,
        key: "a".to_owned(),
        token: Some(hold.token),
        effect_key: None,
        reason: "once more".to_owned(),
    };

    let held = client.settle_once(&settle).await;
    client.fail_once(&fail("a", hold.token, true)).await?;
    let undone = client.redo_once(&redo).await;
    let silent = SettleOnce {
        reason: " ".to_owned(),
        ..settle.clone()
    };
    let silent = client.settle_once(&silent).await;
    let settled = client.settle_once(&settle).await?;
    let again = client.settle_once(&settle).await?;
    let shown = client.get_once(&get("a")).await?;
    let redone = client.redo_once(&redo).await?;
    let repeated = client.redo_once(&redo).await?;
    let gone = client.get_once(&get("a")).await;
    let next = first(client, "a").await?;

    assert_eq!(refused(held)?, Code::OnceNotInDoubt);
    assert_eq!(refused(undone)?, Code::OnceNotDone);
    assert_eq!(refused(silent)?, Code::ReasonInvalid);
    assert!(!settled.replayed && again.replayed && !redone.replayed && repeated.replayed);
    assert_eq!(shown.settled_by.as_deref(), Some("token:test"));
    assert_eq!(refused(gone)?, Code::OnceNotFound);
    assert_eq!(next.generation, 1);
    assert_ne!(next.effect_key, hold.effect_key);
    let database = world.database.connect().await?;
    let acts = "SELECT action, reason FROM audit WHERE action LIKE 'once.%' ORDER BY id";
    let acts = database.query(acts, &[]).await?;
    let acts: Vec<(&str, &str)> = acts.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [
        ("once.settle", "seen at the bank"),
        ("once.redo", "once more"),
    ];
    assert_eq!(acts, expected);
    Ok(())
}

#[tokio::test]
async fn another_namespace_and_another_scope_have_keys_of_their_own() -> Result<()> {
    let world = World::start().await?;
    let stranger = world.stranger().await?;
    let hold = first(&world.client, "a").await?;

    let reported = stranger.finish_once(&done("a", hold.token, json!(1))).await;
    let shown = stranger.get_once(&get("a")).await;
    let theirs = first(&stranger, "a").await?;
    let pasted = world.client.get_once_by_key(hold.effect_key).await?;
    let stolen = stranger.get_once_by_key(hold.effect_key).await;
    let scoped = BeginOnce {
        scope: Some("billing".parse()?),
        ..begin("a")
    };
    let scoped = world.client.begin_once(&scoped).await?;
    let listed = stranger.list_once(&OnceFilter::default()).await?;
    let filter = OnceFilter {
        scope: Some("billing".parse()?),
        ..OnceFilter::default()
    };
    let billing = world.client.list_once(&filter).await?;

    assert_eq!(refused(reported)?, Code::OnceNotFound);
    assert_eq!(refused(shown)?, Code::OnceNotFound);
    assert_ne!(theirs.effect_key, hold.effect_key);
    assert_eq!((pasted.key.as_str(), pasted.token), ("a", Some(hold.token)));
    assert_eq!(refused(stolen)?, Code::OnceNotFound);
    assert!(scoped.first);
    assert_eq!((listed.items.len(), billing.items.len()), (1, 1));
    assert_eq!(billing.items[0].scope, "once/billing");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_stored_is_refused_and_changes_nothing() -> Result<()> {
    let world = World::start().await?;
    let client = &world.client;
    let long = "k".repeat(1_025);
    for key in ["", &long] {
        let begun = client.begin_once(&begin(key)).await;
        assert_eq!(refused(begun)?, Code::OnceKeyInvalid);
    }
    for lease in [Span::from_millis(1), Span::from_secs(86_401)] {
        let lease = BeginOnce {
            lease: Some(lease),
            ..begin("a")
        };
        assert_eq!(refused(client.begin_once(&lease).await)?, Code::BodyInvalid);
    }
    for name in ["a\0b".to_owned(), "n".repeat(513)] {
        let name = BeginOnce {
            holder_name: name,
            ..begin("a")
        };
        assert_eq!(refused(client.begin_once(&name).await)?, Code::BodyInvalid);
    }
    let hold = first(client, "a").await?;
    let large = done("a", hold.token, json!("x".repeat(300_000)));
    assert_eq!(
        refused(client.finish_once(&large).await)?,
        Code::BodyInvalid
    );
    let odd = FailOnce {
        code: Some("No Such".to_owned()),
        ..fail("a", hold.token, false)
    };
    assert_eq!(refused(client.fail_once(&odd).await)?, Code::BodyInvalid);
    let ahead = done("a", hold.token + 1, json!(1));
    assert_eq!(
        refused(client.finish_once(&ahead).await)?,
        Code::OnceNotHeld
    );
    let shown = client.get_once(&get("a")).await?;
    assert_eq!((shown.state, shown.note), (NamedEffectState::Pending, None));

    let bearer = format!("Bearer {}", world.token);
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let body = r#"{"key":"a","token":1,"reslt":2}"#;
    let bare = &world.bare;
    let odd = bare
        .send(Method::POST, "/v1/once/done", &headers, body.into())
        .await?;
    assert_eq!(odd.status, 400, "{}", odd.text());
    Ok(())
}

#[tokio::test]
async fn a_lost_process_may_still_run_for_a_while() -> Result<()> {
    let world = World::start().await?;
    let client = &world.client;
    let lost = BeginOnce {
        lease: Some(Span::from_secs(1)),
        ..begin("a")
    };
    let hold = client.begin_once(&lost).await?.hold.context("a hold")?;
    let look = async || Ok(client.get_once(&get("a")).await?.state);
    let is_lost = |state: &NamedEffectState| *state == NamedEffectState::InDoubt;
    until("the process to be lost", look, is_lost).await?;
    let settle = |happened| SettleOnce {
        scope: None,
        key: "a".to_owned(),
        token: hold.token,
        happened,
        result: None,
        external_id: None,
        reason: "checked".to_owned(),
    };

    let denied = client.settle_once(&settle(false)).await;
    let seen = client.settle_once(&settle(true)).await?;

    assert_eq!(refused(denied)?, Code::SettleTooSoon);
    assert!(!seen.replayed);
    Ok(())
}
