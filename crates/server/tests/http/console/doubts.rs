//! Many doubts of one group: a preview names them, and its digest settles them.

use anyhow::{Context, Result, ensure};
use semel_api::types::{RunStatus, StartRun};
use semel_model::{Right, RunId};
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;

use super::{Browser, hidden};
use crate::world::{World, patience_span};

/// A flow whose calls get no answer for a while.
async fn charging(world: &World, bank: &Peer, name: &str) -> Result<()> {
    let flow = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    guard: review\n    \
         http: {{ post: '{}', json: {{ n: 1 }}, timeout: 1s }}\n",
        bank.url("/plain/charges")
    );
    world.publish(name, &flow).await?;
    Ok(())
}

async fn doubt(
    world: &World,
    bank: &Peer,
    flow: &str,
    key: &str,
    lost: Behaviour,
) -> Result<RunId> {
    bank.next("/plain/charges", lost).await?;
    let start = StartRun {
        key: Some(key.to_owned()),
        ..StartRun::default()
    };
    let patience = Some(patience_span());
    let started = world
        .client
        .start_run(&flow.parse()?, &start, patience)
        .await?;
    ensure!(started.body.state == RunStatus::InDoubt, "{started:?}");
    Ok(started.body.run)
}

/// The addresses of the groups that a page of doubts leads to.
fn groups(page: &str) -> Vec<String> {
    let links = page.split("href=\"/console/main/doubts/group").skip(1);
    let links = links.filter_map(|rest| rest.split('"').next());
    links
        .map(|rest| format!("/console/main/doubts/group{}", rest.replace("&amp;", "&")))
        .collect()
}

#[tokio::test]
async fn the_doubts_of_one_group_are_settled_by_the_digest_of_their_preview() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    charging(&world, &bank, "charging").await?;
    charging(&world, &bank, "beside").await?;
    let lost = || Behaviour::CloseWithoutAnswer;
    let runs = [
        doubt(&world, &bank, "charging", "o-1", lost()).await?,
        doubt(&world, &bank, "charging", "o-2", lost()).await?,
    ];
    let other = doubt(&world, &bank, "beside", "o-3", lost()).await?;
    // What was seen is another thing: it is no member of the group.
    let late = doubt(
        &world,
        &bank,
        "charging",
        "o-4",
        Behaviour::AnswerStatus(503),
    )
    .await?;
    let browser = Browser::signed_in(&world).await?;

    let found = groups(&browser.page("/console/main/doubts").await?);
    ensure!(found.len() == 3, "{found:?}");
    let group = found
        .iter()
        .find(|it| it.contains("flow=charging"))
        .context("a group")?;
    let choose = browser.page(group).await?;
    ensure!(!choose.contains("name=\"digest\""), "nothing is chosen yet");
    let preview = browser.page(&format!("{group}&verdict=happened")).await?;
    ensure!(
        preview.contains("2 effects are in doubt. Nothing is settled yet."),
        "{preview}"
    );
    ensure!(!preview.contains(&other.to_string()) && !preview.contains(&late.to_string()));

    let digest = hidden(&preview, "digest")?;
    let confirm = async |digest: &str, reason: &str| {
        let fields = ["form", "key", "flow", "step", "seen", "verdict"].map(|name| {
            // The form that confirms is the last one.
            let (_, last) = preview.split_once("id=\"confirm\"").context("a form")?;
            let text = hidden(last, name)?
                .replace("&#39;", "'")
                .replace("&quot;", "\"");
            Ok::<_, anyhow::Error>((name, text))
        });
        let fields: Vec<(&str, String)> = fields.into_iter().collect::<Result<_>>()?;
        let mut all: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (*n, v.as_str())).collect();
        all.extend([("digest", digest), ("reason", reason)]);
        browser.post("/console/main/doubts/group", &all).await
    };
    let wrong = confirm("0000000000000000", "seen in their books").await?;
    ensure!(wrong.status == 409, "{}", wrong.text());
    ensure!(
        wrong.text().contains("seen in their books"),
        "what was typed stays"
    );
    ensure!(world.client.list_doubts().await?.items.len() == 4);
    let done = confirm(&digest, "seen in their books").await?;

    assert_eq!(
        done.header("location"),
        Some("/console/main/doubts"),
        "{}",
        done.text()
    );
    for run in runs {
        let patience = patience_span();
        let end = world.client.await_run(run, patience).await?;
        assert_eq!(end.state, RunStatus::Succeeded);
    }
    let left = world.client.list_doubts().await?.items;
    let left: Vec<RunId> = left.iter().map(|it| it.run).collect();
    ensure!(left.len() == 2 && left.contains(&other) && left.contains(&late));
    Ok(())
}

#[tokio::test]
async fn who_may_not_settle_sees_the_group_and_no_preview() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    charging(&world, &bank, "charging").await?;
    doubt(
        &world,
        &bank,
        "charging",
        "o-1",
        Behaviour::CloseWithoutAnswer,
    )
    .await?;
    let rights = [Right::Read, Right::Payload].into_iter().collect();
    let browser = Browser::with_rights(&world, "viewer", rights).await?;

    let page = "/console/main/doubts/group?flow=charging&step=charge&verdict=fail";
    let shown = browser.page(page).await?;
    let form = hidden(&shown, "form")?;
    let fields = [
        ("form", form.as_str()),
        ("key", "k"),
        ("flow", "charging"),
        ("step", "charge"),
        ("verdict", "fail"),
        ("digest", "x"),
        ("reason", "r"),
    ];
    let refused = browser.post("/console/main/doubts/group", &fields).await?;

    ensure!(shown.contains("does not have the right settle"), "{shown}");
    ensure!(!shown.contains("name=\"digest\""), "{shown}");
    assert_eq!(refused.status, 403);
    ensure!(world.client.list_doubts().await?.items.len() == 1);
    Ok(())
}
