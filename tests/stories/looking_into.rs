//! A person at the command line looks into a doubt, reads lists to their end, and completes a wait.

use anyhow::{Context as _, Result, ensure};
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::json;

use crate::desk::Desk;

#[tokio::test]
async fn a_doubt_is_assigned_noted_and_put_off() -> Result<()> {
    let peer = Peer::start().await?;
    let charge = format!(
        "flow: charge\ntrigger: {{ api: {{ key: input.id }}, manual: {{ key: input.id }} }}\nsteps:\n  \
         - {{ id: pay, http: {{ post: '{}', text: hi, timeout: 1s }} }}\n",
        peer.url("/plain/charge")
    );
    let desk = Desk::open(&[("charge", &charge)]).await?;
    peer.next("/plain/charge", Behaviour::CloseWithoutAnswer)
        .await?;
    desk.start("charge", &json!({ "id": "1" })).await?;
    let listed = desk.until_said("semel doubt list", "eff_").await?;
    let mut words = listed.split_whitespace();
    let effect = words
        .find(|word| word.starts_with("eff_"))
        .context("an effect")?;

    desk.say(&format!("semel doubt assign {effect} ada"))
        .await?;
    desk.say(&format!("semel doubt note {effect} 'asked the bank'"))
        .await?;
    let put_off = desk
        .say(&format!("semel doubt snooze {effect} --for 2h"))
        .await?;
    let awake = desk.data("semel doubt list").await?;
    let snoozed = desk.say("semel doubt list --snoozed").await?;
    let shown = desk.say(&format!("semel effect show {effect}")).await?;
    desk.say(&format!("semel doubt snooze {effect} --end"))
        .await?;
    let again = desk.say("semel doubt list").await?;

    ensure!(put_off.contains("snoozed until"), "{put_off}");
    assert_eq!(awake["items"], json!([]), "{awake}");
    ensure!(
        snoozed.contains(effect) && snoozed.contains("ada"),
        "{snoozed}"
    );
    ensure!(shown.contains("asked the bank"), "{shown}");
    ensure!(shown.contains("deniable  from"), "{shown}");
    ensure!(again.contains(effect), "{again}");
    Ok(())
}

#[tokio::test]
async fn runs_releases_and_waits_are_found_by_command() -> Result<()> {
    let held = "flow: held\ntrigger: { api: { key: input.id }, manual: { key: input.id } }\nsteps:\n  \
        - { id: hold, wait: { callback: true, within: 1h } }\n";
    let desk = Desk::open(&[("held", held)]).await?;
    let run = desk.start("held", &json!({ "id": "1" })).await?;
    let listed = desk.until_said("semel wait list", "wait_").await?;
    let mut words = listed.split_whitespace();
    let wait = words
        .find(|word| word.starts_with("wait_"))
        .context("a wait")?;

    let shown = desk.say(&format!("semel wait show {wait}")).await?;
    let of_release = desk
        .say("semel run list --flow held --release r1 --since 2020-01-01T00:00:00Z")
        .await?;
    let before = desk
        .data("semel run list --until 2020-01-01T00:00:00Z")
        .await?;
    let releases = desk.say("semel flow releases held").await?;
    let jobs = desk.data("semel run job --limit 5").await?;
    let plans = desk.data("semel replay list --limit 5").await?;
    let acts = desk
        .data(&format!("semel audit list --subject {run}"))
        .await?;

    ensure!(shown.contains("hold") && shown.contains("open"), "{shown}");
    ensure!(of_release.contains(&run), "{of_release}");
    assert_eq!(before["items"], json!([]));
    ensure!(releases.contains("r1"), "{releases}");
    assert_eq!((&jobs["items"], &plans["items"]), (&json!([]), &json!([])));
    assert_eq!(acts["items"], json!([]), "nobody did anything to it");
    Ok(())
}
