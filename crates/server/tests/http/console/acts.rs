//! Acts: forms that do once what they say, for those who may, and show the record of it.

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_api::types::RunStatus;
use semel_model::Right;

use super::stage::Stage;
use super::{Browser, encode, hidden};
use crate::held::held_order;
use crate::world::{World, patience_span};

/// The fields that every form of a page carries.
async fn carried(browser: &Browser<'_>, path: &str) -> Result<(String, String)> {
    let page = browser.page(path).await?;
    Ok((hidden(&page, "form")?, hidden(&page, "key")?))
}

#[tokio::test]
async fn a_doubt_is_settled_by_a_form_once() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let path = format!("/console/main/effects/{}", stage.doubt.id);
    let page = browser.page(&path).await?;
    let (form, key) = carried(&browser, &path).await?;
    let fields = [
        ("form", form.as_str()),
        ("key", &key),
        ("attempt", "1"),
        ("verdict", "happened"),
        ("result", r#"{"id": "ch_9"}"#),
        ("external_id", "ch_9"),
        ("reason", "<b>seen</b> in their list"),
    ];
    let settle = format!("{path}/settle");

    let bare: Vec<(&str, &str)> = fields
        .iter()
        .copied()
        .filter(|(name, _)| *name != "result")
        .collect();
    let refused = browser.post(&settle, &bare).await?;
    let first = browser.post(&settle, &fields).await?;
    let again = browser.post(&settle, &fields).await?;
    let after = browser.page(&path).await?;

    assert!(
        page.contains("Read by: result."),
        "what later steps read is asked for: {page}"
    );
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(
        refused.text().contains("result-needed") && refused.text().contains("seen"),
        "what was typed stays"
    );
    let to = format!("{path}#audit");
    assert_eq!(
        (first.status.as_u16(), first.header("location")),
        (303, Some(to.as_str()))
    );
    assert_eq!(again.status, 303, "a second click is the same act");
    assert!(
        after.contains("doubt.settle happened")
            && after.contains("&lt;b&gt;seen&lt;/b&gt; in their list"),
        "{after}"
    );
    assert_eq!(after.matches("doubt.settle happened").count(), 1);
    let patience = patience_span();
    let end = stage
        .world
        .client
        .await_run(stage.stopped, patience)
        .await?;
    assert_eq!(end.state, RunStatus::Succeeded);
    assert_eq!(
        stage.bank.count("/plain/").await?.effects,
        3,
        "nothing is sent again"
    );
    Ok(())
}

#[tokio::test]
async fn a_form_that_is_not_from_here_settles_nothing() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let path = format!("/console/main/effects/{}", stage.doubt.id);
    let (form, key) = carried(&browser, &path).await?;
    let fields = [
        ("form", form.as_str()),
        ("key", &key),
        ("verdict", "fail"),
        ("reason", "x"),
    ];
    let settle = format!("{path}/settle");
    let foreign = [("origin", "https://evil.example")];

    let crossed = browser
        .send(Method::POST, &settle, &foreign, encode(&fields))
        .await?;
    let without = browser.post(&settle, &fields[1..]).await?;
    let nobody = Browser::new(&stage.world).post(&settle, &fields).await?;
    let by_get = browser
        .get(&format!("{settle}?{}", encode(&fields)))
        .await?;

    assert_eq!(
        (crossed.status.as_u16(), without.status.as_u16()),
        (403, 403)
    );
    assert_eq!(nobody.status, 303, "{}", nobody.text());
    assert_eq!(by_get.status, 405, "a GET changes nothing");
    let effect = stage.world.client.get_effect(stage.doubt.id).await?;
    assert_eq!(effect.state, semel_model::effect::EffectState::InDoubt);
    assert!(effect.acts.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_viewer_sees_what_is_missing_and_changes_nothing() -> Result<()> {
    let stage = Stage::start().await?;
    let rights = [Right::Read, Right::Payload].into_iter().collect();
    let viewer = Browser::with_rights(&stage.world, "viewer", rights).await?;
    let doubt = format!("/console/main/effects/{}", stage.doubt.id);
    let run = format!("/console/main/runs/{}", stage.waiting);

    for (path, right, verb) in [(&doubt, "settle", "settle"), (&run, "operate", "cancel")] {
        let page = viewer.page(path).await?;
        let missing = format!("The token viewer does not have the right {right}.");
        assert!(page.contains(&missing), "{page}");
        let (form, key) = carried(&viewer, path).await?;
        let fields = [
            ("form", form.as_str()),
            ("key", &key),
            ("attempt", "1"),
            ("verdict", "fail"),
            ("reason", "because"),
        ];
        let refused = viewer.post(&format!("{path}/{verb}"), &fields).await?;
        assert_eq!(refused.status, 403, "{}", refused.text());
        assert!(refused.text().contains("right-missing"));
        let buttons = page.matches("name=\"decision\"").count();
        assert_eq!(
            page.matches(" disabled>").count(),
            2 * buttons,
            "{path}: fieldset and button"
        );
    }
    let detail = stage.world.client.get_run(stage.waiting).await?;
    ensure!(!detail.run.cancelling && detail.acts.is_empty());
    Ok(())
}

/// What was found at the destination is about the attempt that was looked at.
#[tokio::test]
async fn a_finding_about_another_attempt_settles_nothing_and_is_not_offered_again() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let path = format!("/console/main/effects/{}", stage.doubt.id);
    let (form, key) = carried(&browser, &path).await?;
    let settle = async |attempt: &str| {
        let fields = [
            ("form", form.as_str()),
            ("key", &key),
            ("attempt", attempt),
            ("verdict", "did_not_happen"),
            ("reason", "looked"),
        ];
        browser.post(&format!("{path}/settle"), &fields).await
    };

    let (other, none) = (settle("7").await?, settle("").await?);

    for refused in [&other, &none] {
        ensure!(refused.status.is_client_error(), "{}", refused.text());
    }
    let asked = other.text();
    let asked = asked.split("id=\"settle\"").nth(1).context("the form")?;
    ensure!(!asked.contains(" checked"), "{asked}");
    ensure!(other.text().contains("looked"), "what was typed stays");
    let effect = stage.world.client.get_effect(stage.doubt.id).await?;
    assert_eq!(effect.state, semel_model::effect::EffectState::InDoubt);
    Ok(())
}

/// A browser presses the first button for Enter in a single line.
#[tokio::test]
async fn an_approval_is_decided_by_a_button_and_by_nothing_else() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let path = format!("/console/main/approvals/{}", stage.approval.approval);
    let page = browser.page(&path).await?;
    let (form, key) = carried(&browser, &path).await?;
    let digest = hidden(&page, "digest")?;
    let fields = [
        ("form", form.as_str()),
        ("key", &key),
        ("digest", &digest),
        ("comment", "no, the amount is wrong"),
    ];

    let refused = browser.post(&format!("{path}/decide"), &fields).await?;

    ensure!(
        page.contains("<textarea class=\"code\" id=\"comment\""),
        "{page}"
    );
    assert_eq!(refused.status, 400, "{}", refused.text());
    let after = browser.page(&path).await?;
    ensure!(!after.contains("Approved by") && !after.contains("Rejected by"));
    Ok(())
}

#[tokio::test]
async fn a_run_is_cancelled_with_a_reason_and_an_approval_decided() -> Result<()> {
    let stage = Stage::start().await?;
    let world = &stage.world;
    let browser = Browser::signed_in(world).await?;
    let approval = format!("/console/main/approvals/{}", stage.approval.approval);
    let page = browser.page(&approval).await?;
    let (form, key) = carried(&browser, &approval).await?;
    let digest = hidden(&page, "digest")?;
    let decision = [
        ("form", form.as_str()),
        ("key", &key),
        ("digest", &digest),
        ("decision", "approve"),
        ("comment", "fine"),
    ];
    let decided = browser
        .post(&format!("{approval}/decide"), &decision)
        .await?;
    let again = browser
        .post(&format!("{approval}/decide"), &decision)
        .await?;
    let after = browser.page(&approval).await?;
    assert_eq!(
        (decided.status.as_u16(), again.status.as_u16()),
        (303, 303),
        "{}",
        decided.text()
    );
    assert!(
        after.contains("Approved by token:test") && after.contains("“fine”"),
        "{after}"
    );
    let patience = patience_span();
    let end = world.client.await_run(stage.waiting, patience).await?;
    assert_eq!(end.state, RunStatus::Succeeded);

    let other = super::stage::begin(world, "asking", "a-2", "x").await?;
    let run = format!("/console/main/runs/{other}");
    let (form, key) = carried(&browser, &run).await?;
    let cancel = [
        ("form", form.as_str()),
        ("key", &key),
        ("reason", "a mistake"),
    ];
    let silent = browser.post(&format!("{run}/cancel"), &cancel[..2]).await?;
    let cancelled = browser.post(&format!("{run}/cancel"), &cancel).await?;
    let end = world.client.await_run(other, patience).await?;
    let after = browser.page(&run).await?;

    assert_eq!(silent.status, 422, "a reason is needed: {}", silent.text());
    assert_eq!(cancelled.status, 303, "{}", cancelled.text());
    assert_eq!(end.state, RunStatus::Cancelled);
    assert!(after.contains("run.cancel") && after.contains("a mistake"));
    stage
        .world
        .client
        .get_run(other)
        .await
        .context("it is there")?;
    Ok(())
}

#[tokio::test]
async fn a_held_delivery_shows_what_differs_and_is_decided_once() -> Result<()> {
    let world = World::start().await?;
    let (first, held) = held_order(&world).await?;
    let browser = Browser::signed_in(&world).await?;
    let path = format!("/console/main/runs/{}/duplicates", first.run);
    let page = browser.page(&path).await?;
    let (form, key) = carried(&browser, &path).await?;
    let fields = [
        ("form", form.as_str()),
        ("key", &key),
        ("decision", "dismiss"),
        ("reason", "their test"),
    ];

    let dismissed = browser.post(&format!("{path}/{held}"), &fields).await?;
    let again = browser.post(&format!("{path}/{held}"), &fields).await?;
    let after = browser.page(&path).await?;

    assert!(
        page.contains("/total") && page.contains(">5<") && page.contains(">7<"),
        "{page}"
    );
    assert_eq!(dismissed.status, 303, "{}", dismissed.text());
    assert_eq!(again.status, 303);
    assert!(
        after.contains("Decided by token:test: dismissed."),
        "{after}"
    );
    assert!(!after.contains("Dismiss it"));
    Ok(())
}

#[tokio::test]
async fn a_key_is_dropped_by_a_form_once_and_only_with_a_reason_and_the_right() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let path = "/console/main/keys?key=o-1";
    let (form, key) = carried(&browser, path).await?;
    let mut fields = vec![
        ("form", form.as_str()),
        ("key", &key),
        ("subject", "o-1"),
        ("flow", "charging"),
        ("reason", ""),
    ];
    let drop_key = "/console/main/keys/drop";

    let without = browser.post(drop_key, &fields).await?;
    fields.pop();
    fields.push(("reason", "the order was sent by mistake"));
    let first = browser.post(drop_key, &fields).await?;
    let again = browser.post(drop_key, &fields).await?;
    fields[2].1 = "o-2";
    let running = browser.post(drop_key, &fields).await?;

    ensure!(without.status.is_client_error(), "{}", without.status);
    ensure!(without.text().contains("class=\"trouble\""));
    let to = Some("/console/main/keys?key=o-1");
    for dropped in [&first, &again] {
        assert_eq!(
            (dropped.status.as_u16(), dropped.header("location")),
            (303, to)
        );
    }
    ensure!(
        running.status.is_client_error(),
        "a run in doubt keeps its key"
    );
    let page = browser.page("/console/main/audit?subject=o-1").await?;
    let recorded = browser.page("/console/main/audit").await?;
    let count = recorded.matches("the order was sent by mistake").count();
    ensure!(count == 1, "{count} records: {page}");
    let viewer = Browser::with_rights(&stage.world, "viewer", Right::Read.into()).await?;
    let seen = viewer.page("/console/main/keys?key=o-2").await?;
    ensure!(seen.contains("does not have the right operate"), "{seen}");
    ensure!(
        seen.contains("/console/main/json/find?key=o-2\">Export as JSON"),
        "{seen}"
    );
    Ok(())
}
