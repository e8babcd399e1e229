//! What who may only read, or only decide, learns: that things are there, and nothing of what was sent.

use anyhow::{Context, Result, ensure};
use futures_util::future::{join, join_all, join3};
use hyper::Method;
use semel_api::Client;
use semel_api::types::{PushFlow, StartRun};
use semel_model::{Right, Rights, Span};
use semel_testkit::client::Answer;
use semel_testkit::{until, until_some};
use serde_json::{Value, json};

use crate::world::{World, add_token_with};

async fn get(world: &World, token: &str, path: &str) -> Result<Answer> {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let answer = world.bare.send(Method::GET, path, &headers, "".into());
    Ok(answer.await?)
}

const COUNTING: &str = "
trigger: { webhook: { auth: none, key: input.id } }
steps:
  - { id: one, function: '1' }
";

#[tokio::test]
async fn a_payload_cannot_be_guessed_by_its_fingerprint() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("counting", COUNTING).await?;
    for amount in [1, 2] {
        let body = format!(r#"{{"id":"o-1","amount":{amount}}}"#);
        world.bare.post("/hooks/main/counting", body).await?;
    }
    let duplicate = until_some("the repeat to be recorded", async || {
        let found = world.client.list_duplicates(None);
        Ok(found.await?.items.pop())
    })
    .await?;
    let reader = add_token_with(world.engine.cell(), "reader", Right::Read.into()).await?;

    let key: Value = get(&world, &world.token, "/v1/keys/counting?key=o-1")
        .await?
        .json()?;
    let fingerprint = key["fingerprint"].as_str().context("a fingerprint")?;
    let repeat = duplicate.fingerprint.context("a fingerprint")?;
    for path in [
        "/v1/keys/counting?key=o-1".to_owned(),
        format!("/v1/flows/{flow}/keys"),
        "/v1/duplicates".to_owned(),
        "/v1/find?key=o-1".to_owned(),
    ] {
        let shown = get(&world, &reader, &path).await?;
        assert_eq!(shown.status, 200, "{path}");
        let text = shown.text();
        ensure!(
            !text.contains(fingerprint) && !text.contains(&repeat),
            "{path}: {text}"
        );
    }
    Ok(())
}

const ASKING: &str = "
trigger: { api: {} }
steps:
  - id: sign
    approval: { from: [GROUP], show: { secret: '${{ input.secret }}' }, within: 1h }
";

#[tokio::test]
async fn an_approver_sees_what_they_are_asked_about_and_nothing_of_others() -> Result<()> {
    let world = World::start().await?;
    for group in ["finance", "marketing"] {
        let steps = ASKING.replace("GROUP", group);
        let flow = world.publish(group, &steps).await?;
        let start = StartRun {
            key: Some("k".to_owned()),
            input: json!({ "secret": format!("hush-{group}") }),
            ..StartRun::default()
        };
        world.client.start_run(&flow, &start, None).await?;
    }
    let rights: Rights = [Right::Read, Right::Approve].into_iter().collect();
    let marketer = add_token_with(world.engine.cell(), "marketing", rights).await?;
    let client = Client::new(world.client.base(), &marketer)?;

    let asked = until_some("two approvals", async || {
        let found = client.list_approvals(None).await?.items;
        Ok((found.len() == 2).then_some(found))
    })
    .await?;

    for approval in &asked {
        let is_own = approval.from == ["marketing"];
        assert_eq!(approval.digest.is_some(), is_own, "{approval:?}");
        assert_eq!(approval.shown.is_null(), !is_own, "{approval:?}");
        assert_eq!(approval.key.as_deref(), Some("k"));
        let one = client.get_approval(approval.approval).await?;
        assert_eq!(one.shown.is_null(), !is_own, "{one:?}");
    }
    for path in ["/v1/approvals", "/v1/approvals?all=true", "/v1/find?key=k"] {
        let text = get(&world, &marketer, path).await?.text();
        ensure!(!text.contains("hush-finance"), "{path}: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn audits_of_keys_are_read_one_at_a_time_and_leave_lists_alone() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("counting", COUNTING).await?;
    // What an audit reads is locked, so that each takes a while.
    let mut locking = world.database.connect().await?;
    let lock = locking.transaction().await?;
    lock.batch_execute("LOCK TABLE duplicates IN ACCESS EXCLUSIVE MODE")
        .await?;
    let path = format!("/v1/keys/{flow}/audit");

    let audits = (0..8).map(|_| get(&world, &world.token, &path));
    let listed = get(&world, &world.token, "/v1/runs");
    let (audits, listed) = join(join_all(audits), listed).await;

    let audits: Vec<Answer> = audits.into_iter().collect::<Result<_>>()?;
    let refused = audits.iter().filter(|answer| answer.status == 429);
    let refused: Vec<String> = refused.map(Answer::text).collect();
    let first = refused.first().context("who finds no place is refused")?;
    ensure!(first.contains("another audit"), "{first}");
    assert_eq!(listed?.status, 200, "lists are there for others");
    lock.rollback().await?;
    assert_eq!(get(&world, &world.token, &path).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn an_audit_of_keys_does_not_wait_for_those_of_another_namespace() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("counting", COUNTING).await?;
    let stranger = world.stranger().await?;
    let source = format!("flow: {flow}\n{COUNTING}");
    stranger.push_flow(&flow, &PushFlow { source }).await?;
    stranger.publish_flow(&flow, "publish elsewhere").await?;
    let mut locking = world.database.connect().await?;
    let lock = locking.transaction().await?;
    lock.batch_execute("LOCK TABLE duplicates IN ACCESS EXCLUSIVE MODE")
        .await?;

    let path = format!("/v1/keys/{flow}/audit");
    let many = join_all((0..8).map(|_| get(&world, &world.token, &path)));
    let other = stranger.audit_keys(&flow, Span::from_secs(3_600));
    let unlocking = async {
        let waiting = world.database.connect().await?;
        let look = async || -> Result<i64> {
            let row = waiting.query_one(WAITING_AUDITS, &[]).await?;
            Ok(row.get(0))
        };
        until("an audit of each namespace", look, |count| *count >= 2).await?;
        lock.rollback().await?;
        anyhow::Ok(())
    };
    let (many, other, unlocked) = join3(many, other, unlocking).await;

    unlocked?;
    let many: Vec<Answer> = many.into_iter().collect::<Result<_>>()?;
    assert!(many.iter().any(|answer| answer.status == 200));
    assert_eq!(other?.flow, flow);
    Ok(())
}

/// Those that wait for the lock on what they read.
const WAITING_AUDITS: &str = "
    SELECT count(*) FROM pg_locks
     WHERE relation = 'duplicates'::regclass AND mode = 'AccessShareLock' AND NOT granted";
