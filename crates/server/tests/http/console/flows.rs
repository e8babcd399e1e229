//! The pages of a flow: its graph, a delivery by the printed line, starts, releases and rehearsals.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_api::types::RunFilter;
use semel_model::Right;
use semel_testkit::until_some;

use super::stage::Stage;
use super::{Browser, hidden};
use crate::world::World;

const ROUTED: &str = "/console/main/flows/routed";

#[tokio::test]
async fn a_flow_is_drawn_and_the_same_is_there_as_a_table_and_a_file() -> Result<()> {
    let stage = Stage::start().await?;
    stage.furnish_unrehearsed().await?;
    let browser = Browser::signed_in(&stage.world).await?;

    let page = browser.page(ROUTED).await?;
    let bearer = format!("Bearer {}", stage.world.token);
    let headers = [("authorization", bearer.as_str())];
    let route = "/v1/flows/routed/graph.svg?release=2";
    let file = stage
        .world
        .bare
        .send(Method::GET, route, &headers, "".into())
        .await?;
    let json = browser
        .get("/console/main/json/flows/routed/graph.svg")
        .await?;

    for step in ["route", "each", "count", "stop", "charge"] {
        ensure!(
            page.contains(&format!("href=\"#step-{step}\"")),
            "{step}: {page}"
        );
        ensure!(
            page.contains(&format!("id=\"step-{step}\"")),
            "{step}: {page}"
        );
    }
    assert!(
        page.contains("aria-describedby=\"graph-table\"") && page.contains("id=\"graph-table\"")
    );
    assert_eq!(
        (file.status.as_u16(), file.header("content-type")),
        (200, Some("image/svg+xml"))
    );
    assert!(file.text().starts_with("<svg ") && !file.text().contains("<script>alert"));
    assert!(
        file.header("content-security-policy")
            .is_some_and(|it| it.contains("sandbox"))
    );
    assert_eq!(json.header("content-disposition"), Some("attachment"));
    Ok(())
}

/// The text between two marks of a page, as a person copies it.
fn copied(page: &str, name: &str) -> Result<String> {
    let rest = page
        .split(&format!("<dt>{name}</dt>"))
        .nth(1)
        .context("a fact")?;
    let text = rest.split("data-copy>").nth(1).context("a text")?;
    let text = text.split("</code>").next().unwrap_or_default();
    let text = text.replace("&quot;", "\"").replace("&#39;", "'");
    Ok(text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&"))
}

#[tokio::test]
async fn the_line_of_a_hook_works_as_printed() -> Result<()> {
    let world = World::start().await?;
    let flow = "trigger:\n  webhook: { auth: none, key: input.order.id }\nsteps:\n  \
                - { id: one, function: 'input.order.id' }\n";
    world.publish("hooked", flow).await?;
    let browser = Browser::signed_in(&world).await?;
    let page = browser.page("/console/main/flows/hooked").await?;
    let line = copied(&page, "A delivery")?;
    // The installation of a test does not know its own port.
    let line = line.replace(
        "http://127.0.0.1:7171",
        &format!("http://{}", world.address),
    );

    let ran = tokio::task::spawn_blocking(move || Command::new("sh").arg("-c").arg(line).output());
    let ran = ran.await??;
    let answer: serde_json::Value = serde_json::from_slice(&ran.stdout)?;

    ensure!(answer["run"].is_string(), "{answer}");
    ensure!(page.contains("whoever knows the address"), "{page}");
    Ok(())
}

#[tokio::test]
async fn a_form_starts_one_run_and_pauses_its_flow_for_who_may() -> Result<()> {
    let stage = Stage::start().await?;
    stage.furnish_unrehearsed().await?;
    let world = &stage.world;
    let browser = Browser::signed_in(world).await?;
    let page = browser.page(ROUTED).await?;
    let (form, key) = (hidden(&page, "form")?, hidden(&page, "key")?);
    let fields = [
        ("form", form.as_str()),
        ("key", &key),
        ("trigger", "manual"),
        ("input", r#"{"id": "m-1", "kind": "z"}"#),
    ];
    let start = format!("{ROUTED}/start");

    let first = browser.post(&start, &fields).await?;
    let again = browser.post(&start, &fields).await?;
    let broken = browser
        .post(&start, &[fields[0], fields[1], ("input", "{")])
        .await?;

    assert_eq!(first.status, 303, "{}", first.text());
    assert_eq!(first.header("location"), again.header("location"));
    assert_eq!(broken.status, 400);
    ensure!(
        broken.text().contains("the input is not JSON"),
        "{}",
        broken.text()
    );
    let filter = RunFilter {
        flow: Some("routed".parse()?),
        ..RunFilter::default()
    };
    assert_eq!(world.client.list_runs(&filter).await?.items.len(), 1);

    let pause = [fields[0], ("key", "p-1"), ("reason", "<b>look</b> first")];
    let paused = browser.post(&format!("{ROUTED}/pause"), &pause).await?;
    let after = browser.page(ROUTED).await?;
    let resume = [
        fields[0],
        ("key", "p-2"),
        ("reason", "seen"),
        ("per_second", "5"),
    ];
    let resumed = browser.post(&format!("{ROUTED}/resume"), &resume).await?;
    assert_eq!(
        (paused.status.as_u16(), resumed.status.as_u16()),
        (303, 303)
    );
    ensure!(
        after.contains("Paused by token:test: &lt;b&gt;look&lt;/b&gt; first"),
        "{after}"
    );
    let rights = [Right::Read, Right::Payload].into_iter().collect();
    let viewer = Browser::with_rights(world, "viewer", rights).await?;
    let seen = viewer.page(ROUTED).await?;
    for right in ["start", "operate"] {
        let missing = format!("The token viewer does not have the right {right}.");
        ensure!(seen.contains(&missing), "{right}: {seen}");
    }
    Ok(())
}

#[tokio::test]
async fn a_difference_says_what_it_means_and_a_rehearsal_what_it_showed() -> Result<()> {
    let stage = Stage::start().await?;
    stage.furnish().await?;
    let browser = Browser::signed_in(&stage.world).await?;

    let diff = browser.page(&format!("{ROUTED}/diff/r1..r2")).await?;
    let same = browser.page(&format!("{ROUTED}/diff/r1..r1")).await?;
    let shown = browser
        .page(&format!("{ROUTED}/releases/2/rehearsal"))
        .await?;
    let none = browser
        .page(&format!("{ROUTED}/releases/1/rehearsal"))
        .await?;

    ensure!(
        diff.contains("guard") && diff.contains("natural") && diff.contains("<ins>+ "),
        "{diff}"
    );
    ensure!(same.contains("Both mean the same.") && same.contains("The texts are equal."));
    ensure!(
        shown.contains("violated") && shown.contains("Repeat exactly this case"),
        "{shown}"
    );
    ensure!(shown.contains("semel rehearse") && shown.contains("not proven: its rehearsal failed"));
    ensure!(
        none.contains("not rehearsed") && none.contains("This release is live."),
        "{none}"
    );
    for wrong in [
        "/diff/r1..r9",
        "/diff/x",
        "/diff/r1",
        "/releases/9/rehearsal",
        "/releases/x/rehearsal",
    ] {
        let answer = browser.get(&format!("{ROUTED}{wrong}")).await?;
        assert_eq!(answer.status, 404, "{wrong}");
    }
    Ok(())
}

#[tokio::test]
async fn a_release_is_promoted_rolled_back_and_rehearsed_by_forms() -> Result<()> {
    let stage = Stage::start().await?;
    stage.furnish().await?;
    let world = &stage.world;
    let browser = Browser::signed_in(world).await?;
    let of = |number: i32, verb: &str| format!("{ROUTED}/releases/{number}/{verb}");
    let form = hidden(&browser.page(ROUTED).await?, "form")?;
    let live = async || -> Result<Option<i32>> {
        Ok(world.client.get_flow(&"routed".parse()?).await?.flow.live)
    };

    let fields = [("form", form.as_str()), ("key", "k-1")];
    let promoted = browser.post(&of(2, "promote"), &fields).await?;
    assert_eq!(
        (promoted.status.as_u16(), live().await?),
        (303, Some(2)),
        "{}",
        promoted.text()
    );
    let back = browser
        .page(&format!("{ROUTED}/releases/1/rehearsal"))
        .await?;
    ensure!(back.contains("Roll back to this release"), "{back}");
    let rolled = browser
        .post(&of(1, "promote"), &[fields[0], ("key", "k-2")])
        .await?;
    assert_eq!((rolled.status.as_u16(), live().await?), (303, Some(1)));

    let rights = [Right::Read, Right::Promote].into_iter().collect();
    let promoter = Browser::with_rights(world, "promoter", rights).await?;
    let page = promoter
        .page(&format!("{ROUTED}/releases/2/rehearsal"))
        .await?;
    let own = hidden(&page, "form")?;
    let reason = [
        ("form", own.as_str()),
        ("key", "k-3"),
        ("reason", "because"),
    ];
    let denied = promoter.post(&of(2, "promote"), &reason).await?;
    assert_eq!(
        (denied.status.as_u16(), live().await?),
        (403, Some(1)),
        "{}",
        denied.text()
    );
    ensure!(page.contains("does not have the right override"), "{page}");

    let page = browser
        .page(&format!("{ROUTED}/releases/1/rehearsal"))
        .await?;
    let key = hidden(&page, "key")?;
    let fields = [fields[0], ("key", key.as_str())];
    let asked = browser.post(&of(1, "rehearse"), &fields).await?;
    let again = browser.post(&of(1, "rehearse"), &fields).await?;
    assert_eq!(
        (asked.status.as_u16(), again.status.as_u16()),
        (303, 303),
        "{}",
        asked.text()
    );
    until_some("the rehearsal to end", async || {
        let page = browser
            .page(&format!("{ROUTED}/releases/1/rehearsal"))
            .await?;
        Ok(page.contains("Every case").then_some(()))
    })
    .await
}
