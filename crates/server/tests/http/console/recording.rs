//! What was done, refused and waited for: the audit record with its filters, files and chain; refused
//! deliveries; waits.

use anyhow::{Context, Result, ensure};
use semel_api::types::{AuditFilter, Cancel, RunStatus, StartRun};
use semel_model::{Right, RunId};
use semel_testkit::until_some;
use serde_json::{Value, json};

use super::{Browser, hidden};
use crate::world::{World, patience_span};

const HELD: &str = "trigger: { api: {} }\nsteps:\n  \
    - { id: hold, wait: { callback: true, within: 1h } }\nresult: steps.hold.result\n";

async fn start(world: &World, key: &str) -> Result<RunId> {
    let start = StartRun {
        key: Some(key.to_owned()),
        input: json!({}),
        ..StartRun::default()
    };
    let started = world
        .client
        .start_run(&"held".parse()?, &start, None)
        .await?;
    world.until_waiting(started.body.run).await?;
    Ok(started.body.run)
}

async fn cancel(world: &World, run: RunId, reason: &str) -> Result<()> {
    let ask = Cancel {
        reason: reason.to_owned(),
    };
    let key = format!("cancel {run}");
    world.client.cancel_run(run, &ask, &key).await?;
    Ok(())
}

#[tokio::test]
async fn the_audit_record_is_filtered_and_exported() -> Result<()> {
    let world = World::start().await?;
    world.publish("held", HELD).await?;
    let (one, two) = (start(&world, "a").await?, start(&world, "b").await?);
    cancel(&world, one, "=cmd, \"quoted\"").await?;
    cancel(&world, two, "no longer wanted").await?;
    let browser = Browser::signed_in(&world).await?;
    let page = async |query: &str| browser.page(&format!("/console/main/audit{query}")).await;
    let list = |page: &str| page.split("<tbody>").nth(1).unwrap_or_default().to_owned();

    let of_one = list(&page(&format!("?subject={one}")).await?);
    let of_act = list(&page("?action=run.cancel&actor=token%3Atest").await?);
    let none = page("?until=2020-01-01T00%3A00%3A00Z").await?;
    let of_today = page("?since=24h&action=run.cancel").await?;
    let before_today = page("?until=2020-01-01").await?;
    let export = format!("/console/main/audit/export?subject={one}");
    let csv = browser.get(&format!("{export}&format=csv")).await?;
    let json_file = browser
        .get(&format!("{export}&format=json&since=24h"))
        .await?;
    let viewer = Browser::with_rights(&world, "viewer", Right::Read.into()).await?;
    let denied = viewer.get(&format!("{export}&format=csv")).await?;
    let exports = AuditFilter {
        action: Some("audit.export".to_owned()),
        ..AuditFilter::default()
    };
    let exports = world.client.list_audit(&exports).await?.items;

    let (one, two) = (one.to_string(), two.to_string());
    ensure!(of_one.contains(&one) && !of_one.contains(&two), "{of_one}");
    ensure!(of_act.contains(&one) && of_act.contains(&two), "{of_act}");
    ensure!(!of_act.contains("flow.promote"), "{of_act}");
    ensure!(none.contains("Nothing is recorded"), "{none}");
    ensure!(of_today.contains(&two), "{of_today}");
    ensure!(of_today.contains("value=\"24h\""), "as it was typed");
    ensure!(
        before_today.contains("Nothing is recorded"),
        "{before_today}"
    );
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    let kind = csv.header("content-disposition");
    assert_eq!(kind, Some("attachment; filename=\"audit.csv\""));
    let text = csv.text();
    assert_eq!(text.lines().count(), 2, "{text}");
    ensure!(text.contains("\"'=cmd, \"\"quoted\"\"\""), "{text}");
    let acts: Vec<Value> = serde_json::from_str(&json_file.text())?;
    assert_eq!(acts.len(), 1);
    assert_eq!(acts[0]["subject"], one);
    let number = acts[0]["id"].as_i64().context("its number")?;
    let extent = format!("1 acts, id {number} to {number}");
    let of_files: Vec<&str> = exports.iter().map(|it| it.subject.as_str()).collect();
    assert_eq!(
        of_files,
        [extent.as_str(), extent.as_str()],
        "one act for each file, none for pages and refusals"
    );
    for act in &exports {
        assert_eq!(act.actor, "token:test");
        assert_eq!(act.address.as_deref(), Some("127.0.0.1"));
        ensure!(act.token.is_some(), "{act:?}");
    }
    assert_eq!(denied.status, 403);
    let wrong = browser.get("/console/main/audit?since=then").await?;
    assert_eq!(wrong.status, 400);
    ensure!(wrong.text().contains("name=\"since\""), "the form stays");
    Ok(())
}

#[tokio::test]
async fn the_page_of_the_chain_says_whether_it_holds() -> Result<()> {
    let world = World::start().await?;
    world.publish("held", HELD).await?;
    let run = start(&world, "a").await?;
    cancel(&world, run, "no longer wanted").await?;
    let browser = Browser::signed_in(&world).await?;
    until_some("the acts to be sealed", async || {
        let acts = world.client.list_audit(&Default::default()).await?.items;
        let sealed = acts.iter().filter(|act| act.position.is_some()).count();
        Ok((sealed > 3).then_some(()))
    })
    .await?;

    let holds = browser.page("/console/main/audit/chain").await?;
    let client = world.database.connect().await?;
    client
        .batch_execute(
            "ALTER TABLE audit DISABLE TRIGGER audit_append_only;
             UPDATE audit SET actor = 'nobody'
              WHERE id IN (SELECT audit_id FROM audit_chain WHERE position = 2)",
        )
        .await?;
    let broken = browser.page("/console/main/audit/chain").await?;

    ensure!(holds.contains("The chain holds"), "{holds}");
    ensure!(
        broken.contains("The chain does not hold at no. 2"),
        "{broken}"
    );
    Ok(())
}

#[tokio::test]
async fn a_refused_delivery_is_listed_with_what_was_wrong() -> Result<()> {
    let world = World::start().await?;
    let hooked = "trigger: { webhook: { auth: none, key: input.id } }\nsteps:\n  \
        - { id: one, function: '1' }\n";
    world.publish("hooked", hooked).await?;
    world.bare.post("/hooks/main/hooked", "{}").await?;
    let browser = Browser::signed_in(&world).await?;

    let page = until_some("the refusal to be listed", async || {
        let page = browser.page("/console/main/refusals").await?;
        Ok(page.contains("key-failed").then_some(page))
    })
    .await?;
    let other = browser.page("/console/main/refusals?code=none").await?;
    let today = "/console/main/refusals?flow=hooked&since=24h";
    let today = browser.page(today).await?;
    let before = browser
        .page("/console/main/refusals?until=2020-01-01")
        .await?;
    let wrong = browser.get("/console/main/refusals?since=then").await?;

    ensure!(
        page.contains("/console/main/refusals?flow=hooked"),
        "{page}"
    );
    for none in [&other, &before] {
        ensure!(none.contains("No such delivery was refused."), "{none}");
    }
    ensure!(today.contains("key-failed"), "{today}");
    ensure!(today.contains("name=\"since\" type=\"text\" autocomplete=\"off\" value=\"24h\""));
    assert_eq!(wrong.status, 400);
    ensure!(wrong.text().contains("name=\"since\""), "the form stays");
    Ok(())
}

#[tokio::test]
async fn a_wait_is_found_by_its_id_and_completed_once_by_a_form() -> Result<()> {
    let world = World::start().await?;
    world.publish("held", HELD).await?;
    let run = start(&world, "a").await?;
    let wait = world.until_waiting(run).await?.id;
    let browser = Browser::signed_in(&world).await?;
    let path = format!("/console/main/waits/{wait}");

    let found = browser.get(&format!("/console/main/runs?q={wait}")).await?;
    let list = browser.page("/console/main/waits").await?;
    let page = browser.page(&path).await?;
    let (form, key) = (hidden(&page, "form")?, "complete-1".to_owned());
    let send = async |payload: &str| {
        let fields = [
            ("form", form.as_str()),
            ("key", key.as_str()),
            ("payload", payload),
        ];
        browser.post(&format!("{path}/complete"), &fields).await
    };
    let wrong = send("{not json").await?;
    let done = send("{\"paid\": true}").await?;
    let again = send("{\"paid\": true}").await?;
    let patience = patience_span();
    let end = world.client.await_run(run, patience).await?;
    let shown = browser.page(&path).await?;

    assert_eq!(found.header("location"), Some(path.as_str()));
    ensure!(list.contains(&path), "{list}");
    ensure!(wrong.status.is_client_error() && wrong.text().contains("{not json"));
    assert_eq!((done.status.as_u16(), again.status.as_u16()), (303, 303));
    assert_eq!(end.state, RunStatus::Succeeded);
    assert_eq!(end.result, Some(json!({ "paid": true })));
    ensure!(shown.contains("answered") && !shown.contains("Complete this wait"));
    let approval = format!("/console/main/waits/wait_{}", "0".repeat(32));
    assert_eq!(browser.get(&approval).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn the_id_of_an_approval_leads_to_its_page() -> Result<()> {
    let world = World::start().await?;
    let asking = "trigger: { api: {} }\nsteps:\n  - id: sign\n    \
        approval: { from: [test], show: '${{ input }}', within: 1h }\n";
    let flow = world.publish("asking", asking).await?;
    let start = StartRun {
        key: Some("a".to_owned()),
        input: json!({}),
        ..StartRun::default()
    };
    let run = world.client.start_run(&flow, &start, None).await?.body.run;
    let approval = world.until_asked(run).await?;
    let browser = Browser::signed_in(&world).await?;
    let id = approval.approval;

    let found = browser.get(&format!("/console/main/runs?q={id}")).await?;
    let to = found.header("location").context("a page")?.to_owned();
    let led = browser.get(&to).await?;

    let page = format!("/console/main/approvals/{id}");
    ensure!(
        to == page || led.header("location") == Some(page.as_str()),
        "{to}"
    );
    Ok(())
}
