//! A doubt's page while it is looked into: where to look, when it can be denied, and what was said of it.

use anyhow::{Result, ensure};
use semel_model::Right;
use semel_testkit::Peer;

use super::{Browser, hidden};
use crate::attending::{connect, doubt};
use crate::world::World;

#[tokio::test]
async fn a_doubt_leads_to_the_destination_and_says_when_it_can_be_denied() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    connect(&world, &bank, "https://bank.example/find?a=1&q={key}").await?;
    let doubt = doubt(&world, &bank, "k").await?;
    let browser = Browser::signed_in(&world).await?;
    let key = doubt.key_sent.unwrap_or(doubt.id);
    let link = format!(
        "<a href=\"https://bank.example/find?a=1&amp;q={key}\" rel=\"noreferrer\">look there</a>"
    );

    let page = browser
        .page(&format!("/console/main/effects/{}", doubt.id))
        .await?;
    let list = browser.page("/console/main/doubts").await?;
    let observer = Browser::with_rights(&world, "observer", Right::Read.into()).await?;
    let hidden = observer
        .page(&format!("/console/main/effects/{}", doubt.id))
        .await?;

    for shown in [&page, &list] {
        ensure!(shown.contains(&link), "{shown}");
        ensure!(shown.contains("Did not happen opens <time "), "{shown}");
        let why = "the exchange takes up to 2s, and the destination may act for 7s after it";
        ensure!(shown.contains(why), "{shown}");
    }
    ensure!(!hidden.contains("bank.example"), "{hidden}");
    Ok(())
}

#[tokio::test]
async fn who_looks_into_a_doubt_is_said_by_forms_and_what_is_snoozed_stands_last() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    connect(&world, &bank, "https://bank.example/").await?;
    let one = doubt(&world, &bank, "k-1").await?.id;
    let two = doubt(&world, &bank, "k-2").await?.id;
    let browser = Browser::signed_in(&world).await?;
    let path = format!("/console/main/effects/{one}");
    let page = browser.page(&path).await?;
    let form = hidden(&page, "form")?;

    for (verb, name, value) in [
        ("assign", "assignee", "ada <b>"),
        ("note", "note", "asked the bank"),
        ("snooze", "snooze", "4h"),
    ] {
        let fields = [("form", form.as_str()), ("key", verb), (name, value)];
        let said = browser.post(&format!("{path}/{verb}"), &fields).await?;
        assert_eq!(said.status, 303, "{verb}: {}", said.text());
    }
    let page = browser.page(&path).await?;
    let list = browser.page("/console/main/doubts").await?;
    let fields = [("form", form.as_str()), ("key", "x"), ("snooze", "long")];
    let wrong = browser.post(&format!("{path}/snooze"), &fields).await?;

    for shown in [&page, &list] {
        ensure!(shown.contains("ada &lt;b&gt;"), "{shown}");
        ensure!(shown.contains("asked the bank"), "{shown}");
    }
    let (awake, snoozed) = list
        .split_once(">Snoozed</h2>")
        .ok_or_else(|| anyhow::anyhow!("no heading: {list}"))?;
    ensure!(awake.contains(&two.to_string()) && !awake.contains(&one.to_string()));
    ensure!(snoozed.contains(&one.to_string()) && !snoozed.contains(&two.to_string()));
    ensure!(list.contains("1 effect may or may not"), "{list}");
    ensure!(wrong.status.is_client_error(), "{}", wrong.status);
    Ok(())
}

#[tokio::test]
async fn what_was_typed_about_a_doubt_stays_when_it_is_refused() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    connect(&world, &bank, "https://bank.example/").await?;
    let doubt = doubt(&world, &bank, "k-1").await?.id;
    let browser = Browser::signed_in(&world).await?;
    let path = format!("/console/main/effects/{doubt}");
    let form = hidden(&browser.page(&path).await?, "form")?;
    let (who, found) = ("a".repeat(5_000), "n".repeat(50_000));

    for (verb, name, value) in [("assign", "assignee", &who), ("note", "note", &found)] {
        let fields = [("form", form.as_str()), ("key", verb), (name, value)];
        let refused = browser.post(&format!("{path}/{verb}"), &fields).await?;

        let page = refused.text();
        ensure!(
            refused.status.is_client_error(),
            "{verb}: {}",
            refused.status
        );
        ensure!(page.contains("class=\"trouble\""), "{verb}: {page}");
        ensure!(page.contains(value.as_str()), "{verb} lost what was typed");
    }
    Ok(())
}
