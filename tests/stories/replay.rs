//! The page about replay works as printed: its flow, its commands and what they say, with a real
//! destination in the place of the example's.

use anyhow::{Context, Result, ensure};
use regex::Regex;
use semel_testkit::Peer;

use crate::desk::Desk;

const PAGE: &str = include_str!("../../docs/replay.md");

/// The flow of the page. The destination refuses an amount of 0.
fn flow_of_the_page(peer: &Peer, weight: u32) -> Result<String> {
    let flow = PAGE.split("```yaml\n").nth(1).context("a flow")?;
    let flow = flow.split("```").next().context("its end")?;
    ensure!(flow.contains("weight: 0"), "the mistake: {flow}");
    let hosts = Regex::new("https://[a-z]+[.]example")?;
    let flow = hosts.replace_all(flow, peer.url("/strict"));
    Ok(flow.replace("weight: 0", &format!("amount: {weight}")))
}

/// What a command says, without what differs from one time to the next.
fn without_ids(text: &str) -> Result<Vec<String>> {
    let ids = Regex::new("(run|eff|plan)_[0-9a-f]+…?")?;
    let digests = Regex::new("(digest|--apply) [0-9a-f]+…?")?;
    let external = Regex::new("done by ID, [a-z]+_[0-9]+")?;
    let text = ids.replace_all(text, "ID");
    let text = digests.replace_all(&text, "$1 DIGEST");
    let text = external.replace_all(&text, "done by ID, EXTERNAL");
    Ok(text
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect())
}

/// The commands of a block of the page, each with what it says there.
fn commands(block: usize) -> Result<Vec<(String, Vec<String>)>> {
    let block = PAGE.split("```text\n").nth(block).context("a block")?;
    let block = block.split("```").next().context("its end")?;
    let commands = block.split("$ semel ").skip(1);
    let read = |text: &str| {
        let (line, said) = text.split_once('\n').context("a line")?;
        Ok((format!("semel {line}"), without_ids(said)?))
    };
    commands.map(read).collect()
}

/// Types a command of the page about an identity, and expects what the page prints.
async fn says(
    desk: &Desk,
    (line, said): &(String, Vec<String>),
    id: &str,
    digest: &str,
) -> Result<()> {
    let name = id.split('_').next().unwrap_or_default();
    let line = Regex::new(&format!("{name}_[0-9a-f]+…"))?.replace_all(line, id);
    let line = Regex::new("--apply [0-9a-f]+…")?.replace_all(&line, format!("--apply {digest}"));
    let typed = desk.say(&format!("{line} 2>&1")).await?;
    let typed = without_ids(&typed)?;
    let typed: Vec<_> = typed
        .iter()
        .filter(|it| !it.starts_with("next: "))
        .collect();
    ensure!(
        typed == said.iter().collect::<Vec<_>>(),
        "{line}: {typed:#?} {said:#?}"
    );
    Ok(())
}

#[tokio::test]
async fn the_page_about_replay_works_as_printed() -> Result<()> {
    let peer = Peer::start().await?;
    let desk = Desk::open(&[("orders", &flow_of_the_page(&peer, 0)?)]).await?;
    let hook = format!("{}/hooks/default/orders", desk.url());
    for order in ["o-1", "o-2", "o-3"] {
        desk.say(&format!("curl -sf -d '{{\"id\":\"{order}\"}}' {hook}"))
            .await?;
        desk.until_said("semel run list --state failed", order)
            .await?;
    }
    let fixed = flow_of_the_page(&peer, 7)?;
    std::fs::write(desk.folder().join("orders.flow.yaml"), fixed)?;
    desk.until_said("semel flow list", "r2").await?;
    let failed = desk.data("semel run list --state failed").await?;
    let run = failed["items"][2]["run"].as_str().context("a run")?;
    let shown = desk.data(&format!("semel run replay {run}")).await?;
    let digest = shown["digest"].as_str().context("a digest")?;

    for command in commands(1)? {
        says(&desk, &command, run, digest).await?;
    }
    desk.until_said("semel run list --state succeeded", "o-1")
        .await?;
    let many = commands(2)?;
    let plan = desk.data(&many[0].0).await?;
    let plan = plan["plan"].as_str().context("a plan")?;
    desk.until_said(&format!("semel replay show {plan}"), "planned")
        .await?;
    says(&desk, &many[1], plan, "").await?;
    let apply = many[2].0.replace("plan_0193…", plan);
    desk.say(&apply).await?;

    for order in ["o-2", "o-3"] {
        desk.until_said("semel run list --state succeeded", order)
            .await?;
    }
    for step in ["reserve", "charges", "parcels", "messages"] {
        let seen = peer.count(&format!("/strict/{step}")).await?;
        assert_eq!(seen.effects, 3, "{step}");
    }
    Ok(())
}
