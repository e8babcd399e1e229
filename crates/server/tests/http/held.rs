//! Held deliveries: an operator lets one in or dismisses it, once.

use anyhow::{Context, Result, ensure};
use semel_api::types::{
    AcceptAsNew, DecidedHeld, Duplicate, HeldReason, Promote, PushFlow, RunStatus, Started,
};
use semel_api::{Client, ClientError, Code};
use semel_model::{DuplicateId, FlowName, Key, Right, Rights, Span};
use semel_store::audit::AuditEntry;
use semel_store::duplicates::{self, HeldDecision};
use semel_store::namespaces;
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::json;

use crate::authentic::SECRETS;
use crate::signing::{sign, webhook};
use crate::world::{World, add_token_of, add_token_with, patience_span, refused};

pub(crate) const HOOK: &str = "/hooks/main/orders";

/// Counts what it is given, and holds what does not match.
pub(crate) const ORDERS: &str = "trigger:\n  webhook: { auth: none, key: input.id, mismatch: hold }\n\
    steps:\n  - { id: note, kv: { add: orders } }\nresult: input.total\n";

pub(crate) fn said(reason: &str) -> HeldReason {
    HeldReason {
        reason: reason.to_owned(),
    }
}

pub(crate) fn under(key: &str) -> AcceptAsNew {
    AcceptAsNew {
        key: key.to_owned(),
        reason: "another order".to_owned(),
    }
}

/// The only thing that is held.
pub(crate) async fn the_held(world: &World) -> Result<(DuplicateId, Duplicate)> {
    let mut items = world.client.list_held(None).await?.items;
    let one = items.pop().context("something is held")?;
    ensure!(items.is_empty(), "{items:?}");
    Ok((one.duplicate.context("an id")?, one))
}

/// A run of an order, and another payload under its key that is held.
pub(crate) async fn held_order(world: &World) -> Result<(Started, DuplicateId)> {
    world.publish("orders", ORDERS).await?;
    let first = world.bare.post(HOOK, r#"{"id":"1","total":5}"#).await?;
    let other = world.bare.post(HOOK, r#"{"id":"1","total":7}"#).await?;
    ensure!(other.json::<Started>()?.held, "{}", other.text());
    let (id, held) = the_held(world).await?;
    ensure!(held.came_as.as_deref() == Some("1"), "{held:?}");
    Ok((first.json()?, id))
}

pub(crate) async fn count_runs(world: &World) -> Result<i64> {
    let client = world.database.connect().await?;
    let row = client.query_one("SELECT count(*) FROM runs", &[]).await?;
    Ok(row.get(0))
}

/// What the audit log has of held deliveries.
async fn acts(world: &World) -> Result<Vec<(String, String)>> {
    let client = world.database.connect().await?;
    let text = "SELECT action, actor FROM audit WHERE action LIKE 'duplicate.%' ORDER BY id";
    let rows = client.query(text, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

async fn operator(world: &World, name: &str) -> Result<Client> {
    let token = add_token_of(world.engine.cell(), "main", name, &[]).await?;
    Ok(Client::new(world.client.base(), &token)?)
}

#[tokio::test]
async fn a_held_delivery_gets_a_run_of_its_own_once() -> Result<()> {
    let world = World::start().await?;
    let (first, id) = held_order(&world).await?;

    let accepted = world.client.accept_as_new(id, &under("1-b"), "a").await?;
    let again = world.client.accept_as_new(id, &under("1-b"), "a").await?;
    let anew = world.client.accept_as_new(id, &under("1-b"), "b").await?;
    let run = accepted.body.run.context("a run")?;
    let patience = patience_span();
    let end = world.client.await_run(run, patience).await?;
    let repeat = world.bare.post(HOOK, r#"{"id":"1","total":7}"#).await?;
    let repeat: Started = repeat.json()?;

    assert!(again.replayed && !anew.replayed);
    assert_eq!(anew.body, accepted.body, "the same command again");
    assert_ne!(run, first.run);
    assert_eq!((end.state, end.key.as_str()), (RunStatus::Succeeded, "1-b"));
    assert_eq!(end.result, Some(json!(7)), "with its own payload");
    assert_eq!(
        (repeat.run, repeat.held),
        (run, false),
        "its sender gets its run"
    );
    assert_eq!(world.kv("orders").await?, json!(2));
    assert!(world.client.list_held(None).await?.items.is_empty());
    let shown = world.client.list_duplicates(Some(first.run)).await?.items;
    let made = shown.iter().find_map(|one| one.decision.as_ref());
    let made = made.context("the decision is shown")?;
    assert_eq!(
        (made.decision.as_str(), made.key.as_deref(), made.run),
        ("new_key", Some("1-b"), Some(run))
    );
    let one = (
        "duplicate.accept new-key".to_owned(),
        "token:test".to_owned(),
    );
    assert_eq!(acts(&world).await?, [one], "recorded once");
    Ok(())
}

#[tokio::test]
async fn a_held_replay_is_let_in_and_each_other_key_of_its_body_waits_for_its_own_decision()
-> Result<()> {
    let world = World::start().await?;
    world
        .set_secret("hook", SECRETS[0], Span::from_secs(0))
        .await?;
    let flow = format!(
        "trigger:\n  webhook: {}\nsteps:\n  - {{ id: note, kv: {{ add: seen }} }}\n\
         result: headers['x-github-delivery']\n",
        webhook("github", "hook")
    );
    world.publish("hook", &flow).await?;
    let signed = sign(
        "github",
        SECRETS[0],
        "/hooks/main/hook",
        1,
        world.now().await?,
    );
    let id = "x-github-delivery";
    let first: Started = world.send(&signed).await?.json()?;
    world.send(&signed.clone().with(id, "second")).await?;
    let (held, shown) = the_held(&world).await?;

    let second = under("second");
    let accepted = world.client.accept_as_new(held, &second, "a");
    let run = accepted.await?.body.run.context("a run")?;
    let patience = patience_span();
    let end = world.client.await_run(run, patience).await?;
    let again: Started = world
        .send(&signed.clone().with(id, "second"))
        .await?
        .json()?;
    let third: Started = world
        .send(&signed.clone().with(id, "third"))
        .await?
        .json()?;
    let same: Started = world.send(&signed).await?.json()?;

    assert_eq!(shown.stopped_by, "replay");
    assert_eq!(
        (end.state, end.result),
        (RunStatus::Succeeded, Some(json!("second"))),
        "with the headers that it came with"
    );
    assert_eq!((again.run, again.held), (run, false));
    assert_eq!((third.run, third.held), (first.run, true), "nothing starts");
    assert_eq!(same.run, first.run);
    assert_eq!(count_runs(&world).await?, 2);
    let (other, waits) = the_held(&world).await?;
    assert_ne!(other, held);
    assert_eq!(waits.came_as.as_deref(), Some("third"), "it is not hidden");
    assert_eq!(waits.fingerprint, shown.fingerprint, "of the same body");
    let dismissed = world
        .client
        .dismiss_held(other, &said("forged"), "b")
        .await?;
    assert_eq!(dismissed.body.run, None);
    let again: Started = world.send(&signed.with(id, "second")).await?.json()?;
    assert_eq!(
        (again.run, again.held),
        (run, false),
        "the first decision stands"
    );
    Ok(())
}

#[tokio::test]
async fn a_dismissed_delivery_starts_nothing_and_stays_dismissed() -> Result<()> {
    let world = World::start().await?;
    let (first, id) = held_order(&world).await?;
    let other = operator(&world, "ben").await?;

    let dismissed = world.client.dismiss_held(id, &said("a test"), "a").await?;
    let own = world.client.dismiss_held(id, &said("a test"), "b").await?;
    let accepted = other.accept_as_repeat(id, &said("no"), "c").await;
    let theirs = other.dismiss_held(id, &said("a test"), "d").await;
    let repeat = world.bare.post(HOOK, r#"{"id":"1","total":7}"#).await?;

    assert_eq!(dismissed.body.decision, "dismissed");
    assert_eq!(own.body, dismissed.body);
    for refused in [accepted.map(drop), theirs.map(drop)] {
        let Err(ClientError::Problem(problem)) = refused else {
            anyhow::bail!("taken: {refused:?}");
        };
        assert_eq!(problem.code(), Some(Code::HeldDecided));
        ensure!(
            problem.detail.starts_with("token:test dismissed it at "),
            "the second learns what the first decided: {}",
            problem.detail
        );
    }
    let repeat: Started = repeat.json()?;
    assert_eq!((repeat.run, repeat.held), (first.run, true));
    assert!(world.client.list_held(None).await?.items.is_empty());
    assert_eq!(count_runs(&world).await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_delivery_accepted_as_a_repeat_resumes_a_run_that_failed() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    let flow = format!(
        "trigger:\n  webhook: {{ auth: none, key: input.id, mismatch: hold, on_repeat: resume }}\n\
         steps:\n  - id: pay\n    guard: natural\n    http: {{ put: '{}', json: {{ n: 1 }} }}\n",
        bank.url("/plain/pay")
    );
    world.publish("orders", &flow).await?;
    bank.next("/plain/", Behaviour::RefuseWith(400)).await?;
    let first: Started = world.bare.post(HOOK, r#"{"id":"1"}"#).await?.json()?;
    let patience = patience_span();
    let failed = world.client.await_run(first.run, patience).await?;
    world.bare.post(HOOK, r#"{"id":"1","note":"x"}"#).await?;
    let (id, _) = the_held(&world).await?;

    let reason = said("a note");
    let accepted = world.client.accept_as_repeat(id, &reason, "a");
    let accepted = accepted.await?.body;
    let end = world.client.await_run(first.run, patience).await?;

    assert_eq!(failed.state, RunStatus::Failed);
    assert_eq!(
        (accepted.decision.as_str(), accepted.run),
        ("repeat", Some(first.run))
    );
    assert_eq!(end.state, RunStatus::Succeeded, "on_repeat applies");
    assert_eq!(count_runs(&world).await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_decision_that_a_crash_cut_short_is_completed_by_the_same_command() -> Result<()> {
    let world = World::start().await?;
    let (_, id) = held_order(&world).await?;
    let cell = world.engine.cell();
    let namespace_id = namespaces::ensure(cell.home(), &"main".parse()?).await?;
    // What a server leaves that dies after the decision and before the run.
    let held = duplicates::find_held(cell.of(id), namespace_id, id).await?;
    let held = held.context("it is there")?;
    let decision = HeldDecision::NewKey(Key::new(*b"1-b")?);
    let act = AuditEntry::new(namespace_id, "token:ann", "duplicate.accept new-key", "x");
    ensure!(duplicates::decide(cell.of(id), &held, &decision, &act).await?);

    let (_, shown) = the_held(&world).await?;
    let other = world.client.accept_as_new(id, &under("1-c"), "a").await;
    let dismissed = world.client.dismiss_held(id, &said("no"), "b").await;
    let completed = world.client.accept_as_new(id, &under("1-b"), "c").await?;

    let made = shown.decision.context("what was decided is shown")?;
    assert_eq!((made.key.as_deref(), made.run), (Some("1-b"), None));
    assert_eq!(refused(other)?, Code::HeldDecided);
    assert_eq!(refused(dismissed)?, Code::HeldDecided);
    assert!(completed.body.run.is_some());
    assert!(world.client.list_held(None).await?.items.is_empty());
    assert_eq!(count_runs(&world).await?, 2);
    Ok(())
}

#[tokio::test]
async fn of_many_operators_at_once_one_decides() -> Result<()> {
    let world = World::start().await?;
    let (_, id) = held_order(&world).await?;
    let mut operators = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        operators.push(operator(&world, name).await?);
    }

    let decisions = operators
        .iter()
        .enumerate()
        .map(|(n, operator)| async move {
            let key = format!("k-{n}");
            match n % 3 {
                0 => operator.accept_as_new(id, &under(&key), &key).await,
                1 => operator.accept_as_repeat(id, &said("same"), &key).await,
                _ => operator.dismiss_held(id, &said("no"), &key).await,
            }
        });
    let decided = futures_util::future::join_all(decisions).await;

    let mut won: Vec<DecidedHeld> = Vec::new();
    for one in decided {
        match one {
            Ok(answer) => won.push(answer.body),
            other => assert_eq!(refused(other)?, Code::HeldDecided),
        }
    }
    assert_eq!(won.len(), 1, "{won:?}");
    let runs = count_runs(&world).await?;
    assert_eq!(runs, if won[0].decision == "new_key" { 2 } else { 1 });
    assert_eq!(acts(&world).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_key_that_has_a_run_is_refused_and_decides_nothing() -> Result<()> {
    let world = World::start().await?;
    let (first, id) = held_order(&world).await?;
    let strict = ORDERS.replace(
        "steps:",
        "input_schema: { type: object, required: [customer] }\nsteps:",
    );

    let taken = world.client.accept_as_new(id, &under("1"), "a").await;
    let flow: FlowName = "orders".parse()?;
    let source = format!("flow: orders\n{strict}");
    world.client.push_flow(&flow, &PushFlow { source }).await?;
    let release = world.client.publish_flow(&flow, "strict").await?;
    let promote = Promote {
        release: release.body.release,
        override_reason: None,
    };
    world.client.promote_flow(&flow, &promote, "strict").await?;
    let unfit = world.client.accept_as_new(id, &under("1-b"), "b").await;
    let odd = world.client.accept_as_new(id, &under(""), "c").await;
    let silent = world.client.dismiss_held(id, &said("  "), "d").await;
    let (still, _) = the_held(&world).await?;

    let Err(ClientError::Problem(problem)) = taken else {
        anyhow::bail!("taken: {taken:?}");
    };
    assert_eq!(problem.code(), Some(Code::HeldNotAccepted));
    ensure!(
        problem.detail.contains(&first.run.to_string()),
        "{problem:?}"
    );
    assert_eq!(refused(unfit)?, Code::InputInvalid, "and it is taken back");
    assert_eq!(refused(odd)?, Code::KeyInvalid);
    assert_eq!(refused(silent)?, Code::ReasonInvalid);
    assert_eq!(still, id);
    let actions: Vec<String> = acts(&world).await?.into_iter().map(|it| it.0).collect();
    assert_eq!(
        actions,
        ["duplicate.accept new-key", "duplicate.accept refused"]
    );
    Ok(())
}

#[tokio::test]
async fn a_repeat_and_a_stranger_decide_nothing() -> Result<()> {
    let world = World::start().await?;
    let (first, id) = held_order(&world).await?;
    world.bare.post(HOOK, r#"{"id":"1","total":5}"#).await?;
    let repeats = world.client.list_duplicates(Some(first.run)).await?.items;
    let repeat = repeats.iter().find(|one| one.verdict == "repeat");
    let repeat = repeat.and_then(|one| one.duplicate).context("a repeat")?;
    let stranger = world.stranger().await?;
    let token = add_token_with(
        world.engine.cell(),
        "operator",
        Rights::ALL.without(Right::Override.into()),
    );
    let limited = Client::new(world.client.base(), &token.await?)?;

    let of_repeat = world.client.dismiss_held(repeat, &said("x"), "a").await;
    let of_stranger = stranger.dismiss_held(id, &said("x"), "b").await;
    let without_right = limited.accept_as_new(id, &under("2"), "c").await;
    let payload_less = limited.list_held(Some(&"orders".parse()?)).await?;

    assert_eq!(refused(of_repeat)?, Code::HeldNotAccepted);
    assert_eq!(refused(of_stranger)?, Code::DuplicateNotFound);
    assert_eq!(refused(without_right)?, Code::RightMissing);
    assert_eq!(payload_less.items.len(), 1);
    assert!(stranger.list_held(None).await?.items.is_empty());
    assert!(
        world
            .client
            .list_held(Some(&"others".parse()?))
            .await?
            .items
            .is_empty()
    );
    Ok(())
}
