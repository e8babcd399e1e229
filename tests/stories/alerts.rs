//! Alerts by command: the page as printed, `doctor`, and the lines of `semel dev`.

use anyhow::{Context, Result, ensure};
use semel_testkit::{Peer, until_some};
use serde_json::{Value, json};

use crate::asked::object;
use crate::desk::Desk;
use crate::steps::page::Page;

#[tokio::test]
async fn the_page_of_alerts_works_as_printed() -> Result<()> {
    let page = Page::read("alerts")?;
    let (desk, peer) = (Desk::open(&[]).await?, Peer::start().await?);
    let secret = "echo whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw | semel secret set ops_signing";
    let doctor = desk.say("semel doctor").await?;

    let mut said = Vec::new();
    for block in page.all("sh") {
        let block = block
            .replace("https://ops.example/semel", &peer.url("/plain/ops"))
            .replace("semel secret set ops_signing ", &format!("{secret} "));
        said.push(desk.say(&format!("set -e\n{block}")).await?);
    }

    let [set, seen, unset] = &said[..] else {
        anyhow::bail!("{} blocks: {said:?}", said.len());
    };
    ensure!(
        doctor.contains("only printed to the server's log"),
        "{doctor}"
    );
    ensure!(set.contains("alerts go to ops-hook from now on"), "{set}");
    ensure!(set.contains("the message was delivered"), "{set}");
    ensure!(seen.contains("they go to ops-hook"), "{seen}");
    ensure!(unset.contains("not sent any more"), "{unset}");
    assert_eq!(peer.count("/plain/ops").await?.effects, 1);
    let doctor = desk.say("semel doctor").await?;
    ensure!(doctor.contains("none are set"), "{doctor}");
    Ok(())
}

#[tokio::test]
async fn dev_prints_alerts_as_lines() -> Result<()> {
    let peer = Peer::start().await?;
    let flow = format!(
        "flow: lost\ntrigger: {{ manual: {{}} }}\nsteps:\n  - {{ id: call, http: {{ post: '{}', json: 1 }} }}\n",
        peer.url("/late/1/plain/x")
    );
    let desk = Desk::open(&[("lost", &flow)]).await?;

    desk.say("semel run start lost --key 1").await?;
    desk.until_printed("alert: [semel] 1 effect is in doubt: lost/call")
        .await?;

    let listed = desk.data("semel alert list").await?;
    let group = &listed["groups"][0];
    assert_eq!(
        (&group["kind"], &group["total"]),
        (&json!("doubt"), &json!(1))
    );
    Ok(())
}

#[tokio::test]
async fn the_command_that_an_alert_of_a_doubt_names_can_be_run() -> Result<()> {
    let peer = Peer::start().await?;
    let flow = format!(
        "flow: lost\ntrigger: {{ manual: {{}} }}\nsteps:\n  - {{ id: call, http: {{ post: '{}', json: 1 }} }}\n",
        peer.url("/late/1/plain/x")
    );
    let desk = Desk::open(&[("lost", &flow)]).await?;
    desk.say(&format!(
        "set -e
         semel connection create ops-hook --kind webhook --base-url {} --secret ops_signing
         echo whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw | semel secret set ops_signing
         semel alert set ops-hook",
        peer.url("/plain/ops")
    ))
    .await?;

    desk.say("semel run start lost --key 1").await?;
    let message = until_some("a message about the doubt", async || {
        let mut effects = peer.effects().await?.into_iter();
        Ok(effects.find(|effect| effect.path == "/plain/ops"))
    })
    .await?;
    let body: Value = serde_json::from_str(&message.body)?;
    let text = body["text"].as_str().context("a text")?;
    let mut lines = text.lines();
    let next = lines.find_map(|line| line.strip_prefix("Next: "));
    let said = desk.say(next.context(text.to_owned())?).await?;

    ensure!(said.contains("lost") && said.contains("call"), "{said}");
    Ok(())
}

#[tokio::test]
async fn alerts_go_only_where_messages_can_go() -> Result<()> {
    let desk = Desk::open(&[]).await?;
    desk.say("semel connection create bank --kind http --base-url https://bank.example")
        .await?;

    let (code, unknown) = object(&desk, "semel alert set nowhere").await?;
    let (http_code, http) = object(&desk, "semel alert set bank").await?;
    desk.say("semel alert unset").await?;
    let (test_code, unset) = object(&desk, "semel alert test").await?;
    let (_, listed) = object(&desk, "semel alert list").await?;

    assert_eq!((code, http_code), (2, 2), "{unknown} {http}");
    assert_eq!(unknown["error"]["code"], "alert-invalid");
    let message = http["error"]["message"].as_str().context("a message")?;
    ensure!(message.contains("smtp, slack or webhook"), "{message}");
    assert_eq!(
        (test_code, &unset["error"]["code"]),
        (5, &json!("alert-not-set"))
    );
    assert_eq!(listed["data"], json!({"groups": []}));
    Ok(())
}
