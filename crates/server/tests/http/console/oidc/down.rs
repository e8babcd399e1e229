//! A provider that does not answer: who is signed in loses no page before the time is over.

use std::time::Duration;

use anyhow::Result;
use semel_store::clock;
use semel_testkit::until_some;

use super::liar::{Liar, edit};

#[tokio::test]
async fn pages_stay_until_the_fifteen_minutes_are_over() -> Result<()> {
    let liar = Liar::start().await?;
    let told = |nonce: &str| liar.sign("k", &liar.claims(nonce));
    let (mut browser, shown) = liar.attempt(told).await?;
    assert_eq!(shown.status, 200, "{}", shown.text);
    let page = format!("{}/console/main/runs", liar.base());
    let pass = async |minutes: u64| {
        let ahead = Duration::from_secs(60 * minutes);
        clock::move_ahead(liar.world.engine.cell(), ahead).await
    };

    edit(&liar.script, |script| {
        script.configuration = Some("down".to_owned())
    });
    pass(11).await?;
    let renewed = until_some("the sign-in to be renewed", async || {
        let shown = browser.go(&page).await?;
        let tried = browser.trail.iter().any(|url| url.contains("quiet=yes"));
        Ok(tried.then_some(shown))
    });
    let shown = renewed.await?;
    assert_eq!((shown.status, shown.url.as_str()), (200, page.as_str()));
    let again = browser.go(&page).await?;
    assert_eq!((again.status, again.url.as_str()), (200, page.as_str()));
    assert!(
        !browser.trail.iter().any(|url| url.contains("quiet=yes")),
        "it is left alone for a while: {:?}",
        browser.trail
    );

    pass(5).await?;
    until_some("the sign-in to end", async || {
        let shown = browser.go(&page).await?;
        Ok(shown.text.contains("<h1>Sign in</h1>").then_some(()))
    })
    .await
}
