//! The page about pauses works as printed.

use anyhow::{Result, ensure};

use crate::desk::Desk;
use crate::steps::page::Page;

#[tokio::test]
async fn the_page_about_pauses_works_as_printed() -> Result<()> {
    let page = Page::read("pause")?;
    let flows = page.flows()?;
    let flows: Vec<(&str, &str)> = flows
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let desk = Desk::open(&flows).await?;
    let mut said = Vec::new();
    for block in page.all("sh") {
        said.push(desk.say(&format!("exec 2>&1\nset -e\n{block}")).await?);
        if said.len() == 1 {
            // Before the second block resumes it.
            let held = desk
                .until_said("semel flow list 2>&1", "1 run is held")
                .await?;
            ensure!(held.contains("wrong prices since noon"), "{held}");
            let run = desk.data("semel run list").await?;
            let run = run["items"][0]["run"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let shown = desk.say(&format!("semel run show {run}")).await?;
            ensure!(shown.contains("the flow orders is paused"), "{shown}");
            let doctor = desk.say("semel doctor 2>&1 || true").await?;
            ensure!(doctor.contains("the flow orders is paused"), "{doctor}");
            let ready = desk.say("curl -s $SEMEL_URL/readyz").await?;
            ensure!(ready.contains("\"paused\":1"), "{ready}");
        }
    }

    let [paused, resumed, connection, plan] = &said[..] else {
        anyhow::bail!("{} blocks: {said:?}", said.len());
    };
    ensure!(paused.contains("orders is paused"), "{paused}");
    ensure!(paused.contains("semel flow resume orders"), "{paused}");
    ensure!(resumed.contains("orders is resumed"), "{resumed}");
    ensure!(
        connection.contains("the connection bank is paused"),
        "{connection}"
    );
    ensure!(
        connection.contains("continue at 20 in a second"),
        "{connection}"
    );
    desk.until_said("semel run list --state succeeded", "o-1")
        .await?;
    ensure!(
        plan.contains("1 runs of orders would be cancelled"),
        "{plan}"
    );
    let shown = desk.data("semel run cancel --flow orders").await?;
    let digest = shown["digest"].as_str().unwrap_or_default().to_owned();
    let apply = "semel run cancel --flow orders --reason 'a wrong import' --apply";
    let made = desk.data(&format!("{apply} {digest}")).await?;
    let job = made["job"].as_str().unwrap_or_default().to_owned();
    desk.until_said("semel run list --state cancelled", "o-2")
        .await?;
    desk.until_said(&format!("semel run job {job}"), "1 of 1 done")
        .await?;
    Ok(())
}
