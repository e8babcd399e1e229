//! Signing in through an identity provider: a real one, in a process of its own.

mod down;
mod foreign;
mod leaving;
mod liar;
mod lying;
mod members;
mod sessions;
mod traveller;

use anyhow::{Context, Result, ensure};
use semel_api::types::MapGroup;
use semel_model::{Right, Rights, Role, SecretText};
use semel_server::ServerOptions;
use semel_server::oidc::OidcOptions;
use semel_testkit::OidcProvider;
use semel_testkit::oidc::{CLIENT_ID, CLIENT_SECRET};
use serde_json::json;

use self::traveller::Traveller;
use crate::world::World;

/// A server with a provider that knows it.
pub(super) struct Scene<P = OidcProvider> {
    pub(super) world: World,
    pub(super) provider: P,
}

/// A server that believes an issuer.
async fn start_world(issuer: &str) -> Result<World> {
    let mut oidc = OidcOptions::new(issuer, CLIENT_ID).map_err(anyhow::Error::msg)?;
    oidc.client_secret = Some(SecretText::new(CLIENT_SECRET.to_owned()));
    oidc.scopes = "openid profile groups".to_owned();
    oidc.name = "Example <ID>".to_owned();
    World::start_with(ServerOptions {
        oidc: Some(oidc),
        ..ServerOptions::default()
    })
    .await
}

impl<P> Scene<P> {
    pub(super) fn base(&self) -> String {
        format!("http://{}", self.world.address)
    }

    /// A browser at the provider, which it came to from the page that it asks for.
    async fn come_to_provider(&self, page: &str) -> Result<Traveller> {
        let mut browser = Traveller::new();
        let shown = browser.go(&format!("{}{page}", self.base())).await?;
        let link = shown
            .link("/console/sign-in/oidc?")
            .context("a link to the provider")?;
        browser.go(&format!("{}{link}", self.base())).await?;
        Ok(browser)
    }

    pub(super) async fn map(&self, group: &str, role: Role) -> Result<()> {
        self.map_with(group, role, Rights::default()).await
    }

    async fn map_with(&self, group: &str, role: Role, rights: Rights) -> Result<()> {
        let map = MapGroup {
            group: group.to_owned(),
            role,
            rights,
        };
        self.world.client.map_group(&map).await?;
        Ok(())
    }
}

impl Scene {
    pub(super) async fn start() -> Result<Self> {
        Self::start_at(OidcProvider::start().await?).await
    }

    async fn start_at(provider: OidcProvider) -> Result<Self> {
        let world = start_world(provider.issuer()).await?;
        let scene = Self { world, provider };
        scene.sign_with("RS256").await?;
        let ada = json!({ "name": "Ada Lovelace", "groups": ["ops", "staff"] });
        scene.provider.know("ada", &ada).await?;
        Ok(scene)
    }

    async fn sign_with(&self, algorithm: &str) -> Result<()> {
        self.provider.know_semel(&self.base(), algorithm).await
    }

    /// A browser that signs in as a person, from the page that it asks for.
    async fn enter(&self, person: &str, page: &str) -> Result<Traveller> {
        let mut browser = self.come_to_provider(page).await?;
        let form = browser.last().clone();
        ensure!(form.url.starts_with(self.provider.issuer()), "{}", form.url);
        let action = form.action().context("the provider's form")?;
        let fields = [("prompt", "login"), ("login", person), ("password", "x")];
        browser.submit(&action, &fields).await?;
        Ok(browser)
    }
}

#[tokio::test]
async fn a_group_may_have_rights_beyond_its_role() -> Result<()> {
    let scene = Scene::start().await?;
    scene.sign_with("RS256").await?;
    let settle: Rights = Right::Settle.into();
    scene.map_with("ops", Role::Operator, settle).await?;

    scene.enter("ada", "/console/main/").await?;

    let client = &scene.world.client;
    let people = client.list_people(&Default::default()).await?.items;
    let ada = people.first().context("a person")?;
    assert_eq!(ada.role, Some(Role::Operator));
    let both: Rights = Role::Operator
        .rights()
        .iter()
        .chain(settle.iter())
        .collect();
    assert_eq!(ada.rights, both);
    let unfit = scene.map_with("ops", Role::Viewer, settle).await;
    let said = unfit.err().context("a refusal")?.to_string();
    ensure!(said.contains("cannot be given settle"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_person_signs_in_with_the_rights_of_their_groups() -> Result<()> {
    let scene = Scene::start().await?;
    scene.map("ops", Role::Operator).await?;
    for algorithm in ["RS256", "PS256", "ES256", "EdDSA"] {
        scene.sign_with(algorithm).await?;

        let browser = scene
            .enter("ada", "/console/main/runs?q=state%3Afailed")
            .await?;

        let page = browser.last();
        let asked = format!("{}/console/main/runs?q=state%3Afailed", scene.base());
        assert_eq!(
            (page.status, page.url.as_str()),
            (200, asked.as_str()),
            "{algorithm}: {}",
            page.text
        );
        assert!(page.text.contains("Ada Lovelace (ada)"), "{algorithm}");
        assert_eq!(
            browser.cookie(&scene.base(), "semel_dev_oidc"),
            None,
            "it is used up"
        );
    }
    let client = &scene.world.client;
    let people = client.list_people(&Default::default()).await?.items;
    let [ada] = people.as_slice() else {
        anyhow::bail!("one person, however often they sign in: {people:?}");
    };
    assert_eq!(
        (ada.name.as_str(), ada.subject.as_str()),
        ("Ada Lovelace", "ada")
    );
    assert_eq!(ada.issuer, scene.provider.issuer());
    assert_eq!(
        (ada.role, ada.rights),
        (Some(Role::Operator), Role::Operator.rights())
    );
    let tokens = client.list_tokens(&Default::default()).await?.items;
    assert!(
        tokens.iter().all(|token| token.id != ada.id),
        "a person is no token"
    );
    let acts = client.list_audit(&Default::default()).await?.items;
    let act = acts.iter().find(|act| act.action == "console.sign-in");
    assert_eq!(act.context("the act")?.actor, "oidc:Ada Lovelace (ada)");
    Ok(())
}

#[tokio::test]
async fn a_provider_that_tells_groups_only_when_asked_is_asked() -> Result<()> {
    let scene = Scene::start_at(OidcProvider::start_lean().await?).await?;
    scene.map("ops", Role::Viewer).await?;

    let browser = scene.enter("ada", "/console/main/").await?;

    assert_eq!(browser.last().status, 200, "{}", browser.last().text);
    assert!(browser.last().text.contains("Ada Lovelace (ada)"));
    Ok(())
}

#[tokio::test]
async fn without_a_mapped_group_nobody_enters_and_the_page_says_what_to_ask_for() -> Result<()> {
    let scene = Scene::start().await?;
    let nobody = json!({ "name": "<b>Eve</b>", "groups": ["guests <script>"] });
    scene.provider.know("eve", &nobody).await?;
    scene.map("ops", Role::Viewer).await?;

    let browser = scene.enter("eve", "/console/main/").await?;

    let page = browser.last();
    assert_eq!(page.status, 403);
    for said in [
        "group-missing",
        "guests &#60;script&#62;",
        "semel member map GROUP --role ROLE",
        "Sign in with Example &#60;ID&#62;",
    ] {
        assert!(page.text.contains(said), "{said}: {}", page.text);
    }
    assert_eq!(browser.cookie(&scene.base(), "semel_dev"), None);
    let people = scene
        .world
        .client
        .list_people(&Default::default())
        .await?
        .items;
    assert!(people.is_empty(), "{people:?}");
    Ok(())
}

#[tokio::test]
async fn one_sign_in_opens_every_namespace_that_a_group_has_a_role_in() -> Result<()> {
    let scene = Scene::start().await?;
    let elsewhere = scene.world.stranger().await?;
    let map = |group: &str, role| MapGroup {
        group: group.to_owned(),
        role,
        rights: semel_model::Rights::default(),
    };
    elsewhere.map_group(&map("ops", Role::Viewer)).await?;
    elsewhere.map_group(&map("staff", Role::Approver)).await?;
    scene.map("staff", Role::Admin).await?;

    let mut first = scene.enter("ada", "/console").await?;
    let mut asked = scene.enter("ada", "/console/main/runs").await?;

    let base = scene.base();
    assert_eq!(
        first.last().url,
        format!("{base}/console/elsewhere/"),
        "the first by name"
    );
    assert_eq!(
        asked.last().url,
        format!("{base}/console/main/runs"),
        "the one asked for"
    );
    for browser in [&mut first, &mut asked] {
        for (page, status) in [("main", 200), ("elsewhere", 200), ("absent", 404)] {
            let shown = browser.go(&format!("{base}/console/{page}/runs")).await?;
            assert_eq!(shown.status, status, "{page}: {}", shown.text);
        }
        let runs = browser.go(&format!("{base}/console/main/runs")).await?;
        assert!(
            runs.text
                .contains("<a href=\"/console/elsewhere/runs\">elsewhere</a>"),
            "one page leads to the same of the other namespace: {}",
            runs.text
        );
        let own = browser.go(&format!("{base}/console/main/tokens")).await?;
        assert_eq!(own.status, 200, "admin there");
        let foreign = browser
            .go(&format!("{base}/console/elsewhere/tokens"))
            .await?;
        assert!(
            foreign
                .text
                .contains("Your groups do not give you the right admin."),
            "and nothing of it here: {}",
            foreign.text
        );
    }
    let people = elsewhere.list_people(&Default::default()).await?.items;
    let ada = people.first().context("ada")?;
    let both = Role::Viewer
        .rights()
        .iter()
        .chain(Role::Approver.rights().iter());
    assert_eq!(
        (ada.role, ada.rights),
        (None, both.collect()),
        "roles add up"
    );
    Ok(())
}
