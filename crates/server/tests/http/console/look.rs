//! Light or dark, and the zone of times: chosen by a form, kept by cookies, right from the first byte.

use anyhow::{Context, Result, ensure};
use hyper::Method;

use super::browser::{browse, link};
use super::stage::Stage;
use super::{Browser, hidden};
use crate::world::World;

#[tokio::test]
async fn a_choice_without_script_is_there_on_every_page_from_the_first_byte() -> Result<()> {
    let stage = Stage::start().await?;
    let browser = Browser::signed_in(&stage.world).await?;
    let page = "/console/main/runs?q=state%3Asucceeded";
    let before = browser.page(page).await?;
    let form = hidden(&before, "form")?;
    let fields = [
        ("form", form.as_str()),
        ("theme", "dark"),
        ("time", "local"),
        ("zone", "Europe/Berlin"),
        ("to", page),
    ];

    let chosen = browser.post("/console/main/look", &fields).await?;
    let cookies = chosen.headers.get_all("set-cookie").iter();
    let cookies: Vec<&str> = cookies.filter_map(|it| it.to_str().ok()).collect();
    let pairs: Vec<&str> = cookies
        .iter()
        .filter_map(|it| it.split(';').next())
        .collect();
    let sent = pairs.join("; ");
    let with = [("cookie", sent.as_str())];
    let get = async |path: &str| browser.send(Method::GET, path, &with, String::new()).await;
    let after = get(page).await?.text();

    assert!(
        before.contains("<html lang=\"en\">") && before.contains(" UTC\">"),
        "{before}"
    );
    assert_eq!(
        (chosen.status.as_u16(), chosen.header("location")),
        (303, Some(page))
    );
    assert!(
        cookies
            .iter()
            .all(|it| it.contains("HttpOnly") && it.contains("Path=/console"))
    );
    assert_eq!(sent, "semel_theme=dark; semel_zone=Europe/Berlin");
    assert!(
        after.contains("<html lang=\"en\" data-theme=\"dark\">"),
        "{after}"
    );
    assert!(after.contains("<meta name=\"color-scheme\" content=\"dark\">"));
    assert!(
        after.contains(" CET\">") || after.contains(" CEST\">"),
        "{after}"
    );
    for other in ["/console/sign-in", "/console/main/none"] {
        let text = get(other).await?.text();
        ensure!(text.contains("data-theme=\"dark\""), "{other}: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_choice_that_is_none_changes_nothing_and_leads_nowhere_else() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;
    let form = hidden(&browser.page("/console/main/").await?, "form")?;
    let ask = async |theme: &str, zone: &str, to: &str| {
        let fields = [
            ("form", form.as_str()),
            ("theme", theme),
            ("time", "local"),
            ("zone", zone),
            ("to", to),
        ];
        browser.post("/console/main/look", &fields).await
    };

    for (theme, zone) in [
        ("pink", "UTC"),
        ("dark", "Nowhere/Atall"),
        ("dark", "a; b"),
        ("", ""),
    ] {
        let refused = ask(theme, zone, "/console/main/").await?;
        assert_eq!(refused.status, 400, "{theme} {zone}: {}", refused.text());
        ensure!(refused.header("set-cookie").is_none());
    }
    let elsewhere = ask("dark", "UTC", "//evil.example/").await?;
    assert_eq!(elsewhere.header("location"), Some("/console/main/"));
    let without = browser
        .post("/console/main/look", &[("theme", "dark")])
        .await?;
    assert_eq!(
        without.status, 403,
        "a form of another site changes nothing"
    );
    Ok(())
}

#[tokio::test]
async fn the_key_t_changes_the_theme_and_the_browser_names_its_zone() -> Result<()> {
    let stage = Stage::start().await?;
    let link = link(&stage).await?;

    browse(move |browser| {
        browser.look(1280, 800, false)?;
        browser.open(&link, "location.pathname === '/console/main/'")?;
        let zone = browser.eval("document.getElementById('zone').value")?;
        ensure!(zone.as_str().is_some_and(|zone| !zone.is_empty()), "{zone}");
        for theme in ["light", "dark", ""] {
            browser.eval(
                "document.dispatchEvent(new KeyboardEvent('keydown', {key: 't', bubbles: true}))",
            )?;
            browser.until(&format!(
                "(document.documentElement.dataset.theme || '') === '{theme}'"
            ))?;
            let ground = browser.eval("getComputedStyle(document.body).backgroundColor")?;
            let ground = ground.as_str().context("a colour")?.to_owned();
            ensure!(
                (ground == "rgb(20, 23, 26)") == (theme == "dark"),
                "{theme}: {ground}"
            );
        }
        ensure!(browser.seen.is_empty(), "{:?}", browser.seen);
        Ok(())
    })
    .await
}
