//! Who leaves is out: groups are read again, and sign-ins end where the provider or an operator says so.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use semel_api::types::{ChangePerson, UnmapGroup};
use semel_model::Role;
use semel_store::clock;
use semel_testkit::until_some;
use serde_json::json;

use super::Scene;
use super::traveller::{Shown, Traveller};

pub(super) const HOME: &str = "/console/main/";

impl<P> Scene<P> {
    pub(super) async fn pass(&self, minutes: u64) -> Result<()> {
        let ahead = Duration::from_secs(60 * minutes);
        clock::move_ahead(self.world.engine.cell(), ahead).await?;
        Ok(())
    }

    /// Opens a page until the server has forgotten what it looked up a moment ago.
    pub(super) async fn until(
        &self,
        browser: &mut Traveller,
        there: impl Fn(&Traveller) -> bool,
    ) -> Result<Shown> {
        let url = format!("{}{HOME}", self.base());
        until_some("the page to be another one", async || {
            let shown = browser.go(&url).await?;
            Ok(there(browser).then_some(shown))
        })
        .await
    }
}

impl Scene {
    fn went_through_provider(&self, browser: &Traveller) -> bool {
        let mut trail = browser.trail.iter();
        trail.any(|url| url.starts_with(self.provider.issuer()) && url.contains("prompt=none"))
    }
}

pub(super) fn is_out(browser: &Traveller) -> bool {
    browser.last().text.contains("<h1>Sign in</h1>")
}

#[tokio::test]
async fn after_ten_minutes_a_page_goes_through_the_provider_and_nothing_is_lost() -> Result<()> {
    let scene = Scene::start().await?;
    scene.map("ops", Role::Viewer).await?;
    let mut browser = scene.enter("ada", HOME).await?;
    let before = browser.last().hidden("form").context("a form")?;

    scene.pass(9).await?;
    browser.go(&format!("{}{HOME}", scene.base())).await?;
    ensure!(
        !scene.went_through_provider(&browser),
        "{:?}",
        browser.trail
    );
    scene.pass(2).await?;
    let shown = scene
        .until(&mut browser, |browser| scene.went_through_provider(browser))
        .await?;

    assert_eq!(
        (shown.status, shown.url),
        (200, format!("{}{HOME}", scene.base()))
    );
    assert!(
        shown.text.contains(&before),
        "forms of open pages still work"
    );
    browser.go(&format!("{}{HOME}", scene.base())).await?;
    assert!(
        !scene.went_through_provider(&browser),
        "{:?}",
        browser.trail
    );
    scene.pass(11).await?;
    let out = format!("{}/console/main/sign-out", scene.base());
    let again = browser.submit(&out, &[("form", &before)]).await?;
    assert_eq!(
        again.status, 200,
        "a form works until the fifteen minutes are over"
    );
    Ok(())
}

#[tokio::test]
async fn a_sign_in_of_a_week_is_not_renewed_but_made_anew() -> Result<()> {
    let scene = Scene::start().await?;
    scene.map("ops", Role::Viewer).await?;
    let mut browser = scene.enter("ada", HOME).await?;
    let before = browser
        .cookie(&scene.base(), "semel_dev")
        .map(str::to_owned);
    let client = scene.world.database.connect().await?;
    let aged =
        "UPDATE sign_ins SET created_at = moment() - interval '7 days' + interval '12 minutes'";
    client.batch_execute(aged).await?;

    scene.pass(11).await?;
    let shown = scene
        .until(&mut browser, |browser| scene.went_through_provider(browser))
        .await?;

    assert_eq!(shown.status, 200);
    let after = browser
        .cookie(&scene.base(), "semel_dev")
        .map(str::to_owned);
    assert!(after.is_some() && after != before, "another cookie");
    Ok(())
}

#[tokio::test]
async fn a_change_of_rights_gives_a_sign_in_no_more_time() -> Result<()> {
    let scene = Scene::start().await?;
    scene.map("ops", Role::Viewer).await?;
    scene.map("on-call", Role::Operator).await?;
    let mut browser = scene.enter("ada", HOME).await?;
    let cookie = |browser: &Traveller| {
        let cookie = browser.cookie(&scene.base(), "semel_dev");
        cookie.map(str::to_owned)
    };
    let before = cookie(&browser);
    let client = scene.world.database.connect().await?;
    let aged = "UPDATE sign_ins SET created_at = moment() - interval '3 days'";
    client.batch_execute(aged).await?;

    let ada = json!({ "name": "Ada Lovelace", "groups": ["ops", "on-call"] });
    scene.provider.know("ada", &ada).await?;
    scene.pass(11).await?;
    scene
        .until(&mut browser, |browser| scene.went_through_provider(browser))
        .await?;

    let after = cookie(&browser);
    assert!(
        after.is_some() && after != before,
        "other rights, another cookie"
    );
    let old = "SELECT count(*) FROM sign_ins WHERE created_at < moment() - interval '3 days'";
    let old: i64 = client.query_one(old, &[]).await?.get(0);
    assert_eq!(old, 1, "its seven days have not begun again");
    Ok(())
}

#[tokio::test]
async fn a_sign_in_that_the_provider_does_not_renew_is_over() -> Result<()> {
    let scene = Scene::start().await?;
    scene.map("ops", Role::Viewer).await?;
    let (mut idle, mut left) = (
        scene.enter("ada", HOME).await?,
        scene.enter("ada", HOME).await?,
    );

    scene.provider.end_sessions().await?;
    scene.pass(11).await?;
    scene.until(&mut left, is_out).await?;
    let cookie = left.cookie(&scene.base(), "semel_dev");

    assert_eq!(cookie, None, "the browser holds nothing");
    assert!(
        left.last().url.contains("to=%2Fconsole%2Fmain%2F"),
        "{}",
        left.last().url
    );
    scene.pass(5).await?;
    scene.until(&mut idle, is_out).await?;
    assert!(
        !scene.went_through_provider(&idle),
        "it is over without asking"
    );
    Ok(())
}

#[tokio::test]
async fn who_loses_the_group_is_out_at_the_next_reading() -> Result<()> {
    let scene = Scene::start().await?;
    scene.map("ops", Role::Viewer).await?;
    let mut browser = scene.enter("ada", HOME).await?;

    let moved = json!({ "name": "Ada Lovelace", "groups": ["staff"] });
    scene.provider.know("ada", &moved).await?;
    scene.pass(11).await?;
    let shown = scene
        .until(&mut browser, |browser| browser.last().status == 403)
        .await?;

    assert!(shown.text.contains("group-missing"), "{}", shown.text);
    scene.until(&mut browser, is_out).await?;
    Ok(())
}

#[tokio::test]
async fn an_operator_ends_what_a_person_or_a_group_has() -> Result<()> {
    let scene = Scene::start().await?;
    scene.map("ops", Role::Viewer).await?;
    let mut browser = scene.enter("ada", HOME).await?;
    let client = &scene.world.client;
    let people = client.list_people(&Default::default()).await?.items;
    let ada = people.first().context("ada")?.id;
    let reason = ChangePerson {
        reason: Some("the account was taken over".to_owned()),
    };

    client.revoke_person(ada, &reason).await?;
    browser.go(&format!("{}{HOME}", scene.base())).await?;
    assert!(is_out(&browser), "at once on this server");
    let refused = scene.enter("ada", HOME).await?;
    assert_eq!(refused.last().status, 403);
    assert!(
        refused.last().text.contains("person-revoked"),
        "{}",
        refused.last().text
    );

    client.restore_person(ada, &ChangePerson::default()).await?;
    let mut again = scene.enter("ada", HOME).await?;
    assert_eq!(again.last().status, 200);
    let group = "ops".to_owned();
    client.unmap_group(&UnmapGroup { group }).await?;
    again.go(&format!("{}{HOME}", scene.base())).await?;
    assert!(is_out(&again), "at once on this server");
    let acts = client.list_audit(&Default::default()).await?.items;
    let mut done: Vec<&str> = acts.iter().map(|act| act.action.as_str()).collect();
    done.retain(|action| action.starts_with("person.") || action.starts_with("member."));
    assert_eq!(
        done,
        [
            "member.unmap",
            "person.restore",
            "person.revoke",
            "member.map"
        ]
    );
    Ok(())
}

#[tokio::test]
async fn signing_out_at_the_provider_ends_every_sign_in_of_the_person() -> Result<()> {
    let scene = Scene::start().await?;
    scene.map("ops", Role::Viewer).await?;
    scene
        .provider
        .know("bob", &json!({ "groups": ["ops"] }))
        .await?;
    let (mut one, mut other) = (
        scene.enter("ada", HOME).await?,
        scene.enter("ada", HOME).await?,
    );
    let mut bob = scene.enter("bob", HOME).await?;
    let form = one.last().hidden("form").context("a form")?;

    let out = format!("{}/console/main/sign-out", scene.base());
    let left = one.submit(&out, &[("form", &form)]).await?;
    let refresh = left.refresh.context("the way to the provider")?;
    let there = refresh.strip_prefix("0; url=").context("an address")?;
    let asked = one.go(there).await?;
    let (action, token) = (
        asked.action().context("a form")?,
        asked.hidden("xsrf").context("a token")?,
    );
    let back = one
        .submit(&action, &[("xsrf", &token), ("logout", "yes")])
        .await?;

    assert!(
        left.text.contains("You are signed out of Semel."),
        "{}",
        left.text
    );
    assert_eq!(
        back.url.split('?').next(),
        Some(format!("{}/console/sign-in", scene.base()).as_str())
    );
    scene
        .until(&mut other, is_out)
        .await
        .with_context(|| scene.provider.output())?;
    bob.go(&format!("{}{HOME}", scene.base())).await?;
    assert_eq!(bob.last().status, 200, "nobody else is out");
    Ok(())
}
