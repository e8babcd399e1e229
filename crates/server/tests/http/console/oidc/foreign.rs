//! A second provider, which has nothing in common with the first: Canaille, which is written in Python.
//! Nothing of one implementation may be taken for what the specifications say.

use anyhow::{Context, Result, ensure};
use semel_model::Role;
use semel_testkit::ForeignProvider;
use semel_testkit::oidc::PASSWORD;
use serde_json::{Value, json};

use super::leaving::{HOME, is_out};
use super::traveller::{Shown, Traveller};
use super::{Scene, start_world};

impl Scene<ForeignProvider> {
    async fn start_foreign() -> Result<Self> {
        let provider = ForeignProvider::start().await?;
        let world = start_world(provider.issuer()).await?;
        let scene = Self { world, provider };
        scene.register(&json!({})).await?;
        let (ada, eve) = (["ops", "staff"], ["guests <script>"]);
        scene.provider.know("ada", "Ada Lovelace", &ada).await?;
        scene.provider.know("eve", "<b>Eve</b>", &eve).await?;
        scene.provider.know("bob", "Bob", &[]).await?;
        Ok(scene)
    }

    async fn register(&self, changes: &Value) -> Result<()> {
        self.provider.know_semel(&self.base(), changes).await
    }

    /// A browser that is led back to Semel, with or without the person's consent.
    async fn enter(&self, person: &str, page: &str, consent: &str) -> Result<Traveller> {
        let mut browser = self.come_to_provider(page).await?;
        self.prove(&mut browser, person).await?;
        if browser.last().hidden("csrf_token").is_some() {
            answer(&mut browser, ("answer", consent)).await?;
        }
        Ok(browser)
    }

    /// Fills in the provider's forms up to that which asks for consent.
    async fn prove(&self, browser: &mut Traveller, person: &str) -> Result<()> {
        answer(browser, ("login", person)).await?;
        answer(browser, ("password", PASSWORD)).await?;
        Ok(())
    }

    async fn expect_refused(&self, browser: &Traveller, status: u16, said: &[&str]) -> Result<()> {
        let page = browser.last();
        ensure!(page.status == status, "{}\n{}", page.status, page.text);
        for said in said {
            ensure!(page.text.contains(said), "{said}: {}", page.text);
        }
        ensure!(browser.cookie(&self.base(), "semel_dev").is_none());
        let client = &self.world.client;
        let people = client.list_people(&Default::default()).await?.items;
        ensure!(people.is_empty(), "{people:?}");
        Ok(())
    }
}

/// Sends the form of the page that a browser is at. It goes where the page came from.
async fn answer(browser: &mut Traveller, field: (&str, &str)) -> Result<Shown> {
    let shown = browser.last().clone();
    let token = shown.hidden("csrf_token");
    let token = token.with_context(|| format!("a form: {}", shown.text))?;
    let fields = [("csrf_token", token.as_str()), field];
    browser.submit(&shown.url, &fields).await
}

#[tokio::test]
async fn a_person_signs_in_with_the_rights_of_their_groups() -> Result<()> {
    let scene = Scene::start_foreign().await?;
    scene.map("ops", Role::Operator).await?;
    // Where the client asks for nothing, this provider takes RS512.
    for algorithm in [None, Some("RS256"), Some("PS384"), Some("EdDSA")] {
        let changes = json!({ "id_token_signed_response_alg": algorithm });
        scene.register(&changes).await?;

        let page = "/console/main/runs?q=state%3Afailed";
        let browser = scene.enter("ada", page, "accept").await?;

        let shown = browser.last();
        assert_eq!(
            (shown.status, shown.url.as_str()),
            (200, format!("{}{page}", scene.base()).as_str()),
            "{algorithm:?}: {}\n{}",
            shown.text,
            scene.provider.output()
        );
        assert!(shown.text.contains("Ada Lovelace (ada)"), "{algorithm:?}");
    }
    let client = &scene.world.client;
    let people = client.list_people(&Default::default()).await?.items;
    let [ada] = people.as_slice() else {
        anyhow::bail!("one person, however often they sign in: {people:?}");
    };
    assert_eq!(
        (ada.subject.as_str(), ada.role),
        ("ada", Some(Role::Operator))
    );
    assert!(ada.issuer.ends_with('/') && ada.issuer == scene.provider.issuer());
    Ok(())
}

#[tokio::test]
async fn without_a_mapped_group_or_consent_nobody_enters() -> Result<()> {
    let scene = Scene::start_foreign().await?;
    scene.map("ops", Role::Viewer).await?;

    let foreign = scene.enter("eve", HOME, "accept").await?;
    // It leaves the claim out where there is no group, in both places.
    let alone = scene.enter("bob", HOME, "accept").await?;
    let unwilling = scene.enter("ada", HOME, "deny").await?;

    let said = ["group-missing", "guests &#60;script&#62;"];
    scene.expect_refused(&foreign, 403, &said).await?;
    let said = ["group-missing", "names no group of yours"];
    scene.expect_refused(&alone, 403, &said).await?;
    let said = ["provider-refused", "access_denied"];
    scene.expect_refused(&unwilling, 403, &said).await
}

#[tokio::test]
async fn signing_out_ends_the_session_at_the_provider() -> Result<()> {
    let scene = Scene::start_foreign().await?;
    scene.map("ops", Role::Viewer).await?;
    let mut browser = scene.enter("ada", HOME, "accept").await?;
    let form = browser.last().hidden("form").context("a form")?;

    let out = format!("{}/console/main/sign-out", scene.base());
    let left = browser.submit(&out, &[("form", &form)]).await?;
    let refresh = left.refresh.context("the way to the provider")?;
    let there = refresh.strip_prefix("0; url=").context("an address")?;
    browser.go(there).await?;
    let back = answer(&mut browser, ("answer", "logout")).await?;
    let again = format!("{}/console/sign-in/oidc?to=", scene.base());
    let asked = browser.go(&again).await?;

    assert_eq!(back.url, format!("{}/console/sign-in", scene.base()));
    assert!(
        asked.url.starts_with(scene.provider.issuer()) && asked.text.contains("name=\"login\""),
        "the provider asks who is there: {} {}",
        asked.url,
        asked.text
    );
    Ok(())
}

/// This provider does not name itself in a refusal, although it says that it does (RFC 9207).
#[tokio::test]
async fn a_sign_in_is_renewed_until_the_account_is_locked() -> Result<()> {
    let scene = Scene::start_foreign().await?;
    scene.map("ops", Role::Viewer).await?;
    let mut browser = scene.enter("ada", HOME, "accept").await?;
    let renewed = |browser: &Traveller| {
        let mut trail = browser.trail.iter();
        trail.any(|url| url.starts_with(scene.provider.issuer()) && url.contains("prompt=none"))
    };

    scene.pass(11).await?;
    let shown = scene.until(&mut browser, renewed).await?;
    assert_eq!(
        (shown.status, shown.url),
        (200, format!("{}{HOME}", scene.base())),
        "{}",
        shown.text
    );
    scene.provider.lock("ada").await?;
    scene.pass(11).await?;
    let shown = scene.until(&mut browser, is_out).await?;

    assert!(
        shown
            .url
            .ends_with("/console/sign-in?to=%2Fconsole%2Fmain%2F"),
        "{}: {}",
        shown.url,
        shown.text
    );
    assert_eq!(browser.cookie(&scene.base(), "semel_dev"), None);
    Ok(())
}

#[tokio::test]
async fn what_is_for_another_client_or_from_another_issuer_signs_nobody_in() -> Result<()> {
    let scene = Scene::start_foreign().await?;
    scene.map("ops", Role::Viewer).await?;
    for audience in [json!(["other"]), json!(["semel", "other"])] {
        scene.register(&json!({ "audience": audience })).await?;
        let browser = scene.enter("ada", HOME, "accept").await?;
        let said = ["identity-invalid", "the token is not for this server"];
        scene.expect_refused(&browser, 403, &said).await?;
    }
    scene.register(&json!({})).await?;

    // It calls itself by the name that it is reached by.
    let mut browser = scene.come_to_provider(HOME).await?;
    let mut trail = browser.trail.iter();
    let asked = trail.find_map(|url| url.strip_prefix(scene.provider.issuer()));
    let asked = asked.context("the provider")?.to_owned();
    let other = scene.provider.issuer().replace("127.0.0.1", "localhost");
    browser.go(&format!("{other}{asked}")).await?;
    scene.prove(&mut browser, "ada").await?;
    if browser.last().hidden("csrf_token").is_some() {
        answer(&mut browser, ("answer", "accept")).await?;
    }
    let said = ["identity-invalid", "not from the configured issuer"];
    scene.expect_refused(&browser, 403, &said).await?;

    let almost = scene.provider.issuer().trim_end_matches('/');
    let world = start_world(almost).await?;
    let page = world.bare.get("/console/sign-in/oidc").await?;
    assert_eq!(page.status, 502);
    let said = format!("calls itself `{almost}/`");
    assert!(page.text().contains(&said), "{}", page.text());
    Ok(())
}
