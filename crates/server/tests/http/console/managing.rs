//! Who may use the namespace: a token that is made in a browser and shown once, and roles of groups.

use anyhow::{Context, Result, ensure};
use semel_api::Client;
use semel_model::{Right, Rights};
use semel_testkit::until;

use super::{Browser, hidden};
use crate::world::World;

#[tokio::test]
async fn a_token_is_made_shown_once_and_revoked() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;
    let page = browser.page("/console/main/tokens").await?;
    let (form, key) = (hidden(&page, "form")?, hidden(&page, "key")?);
    let fields = [
        ("form", form.as_str()),
        ("key", key.as_str()),
        ("name", "laptop <b>"),
        ("role", "viewer"),
        ("lifetime", "7d"),
    ];

    let made = browser.post("/console/main/tokens", &fields).await?;
    let again = browser.post("/console/main/tokens", &fields).await?;
    let listed = browser.page("/console/main/tokens").await?;

    assert_eq!(made.status, 200, "{}", made.text());
    assert_eq!(made.header("cache-control"), Some("no-store"));
    let secret = |page: &str| -> Result<String> {
        let rest = page.split("class=\"secret\">").nth(1).context("a token")?;
        Ok(rest.split('<').next().unwrap_or_default().to_owned())
    };
    let token = secret(&made.text())?;
    assert_eq!(
        secret(&again.text())?,
        token,
        "a second click makes no other"
    );
    ensure!(!listed.contains(&token), "no other page shows it");
    assert_eq!(listed.matches("laptop &lt;b&gt;").count(), 1, "{listed}");
    let client = Client::new(world.client.base(), &token)?;
    let own = client.whoami().await?;
    ensure!(!own.rights.contains(Right::Operate), "{own:?}");

    let tokens = world.client.list_tokens(&Default::default()).await?.items;
    let id = tokens
        .iter()
        .find(|it| it.name == "laptop <b>")
        .context("the token")?
        .id;
    let fields = [
        ("form", form.as_str()),
        ("key", "revoke-1"),
        ("reason", "lost"),
    ];
    let path = format!("/console/main/tokens/{id}/revoke");
    let revoked = browser.post(&path, &fields).await?;
    assert_eq!(revoked.status, 303, "{}", revoked.text());
    let look = async || Ok(client.whoami().await.is_ok());
    until("the revoked token to stop working", look, |works| !works).await?;
    ensure!(
        !browser
            .page("/console/main/tokens")
            .await?
            .contains("laptop")
    );
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_about_a_token_is_said_and_what_was_typed_stays() -> Result<()> {
    let world = World::start().await?;
    let rights: Rights = [Right::Read, Right::Admin].into_iter().collect();
    let browser = Browser::with_rights(&world, "lead", rights).await?;
    let page = browser.page("/console/main/tokens").await?;
    let form = hidden(&page, "form")?;
    let send = async |name: &str, value: &str, number: usize| {
        let key = format!("k-{number}");
        let fields = [
            ("form", form.as_str()),
            ("key", key.as_str()),
            ("name", "typed-name"),
            (name, value),
        ];
        browser.post("/console/main/tokens", &fields).await
    };

    for (number, (name, value)) in [
        ("role", "king"),
        ("role", "admin"),
        ("rights", "fly"),
        ("networks", "everywhere"),
        ("lifetime", "long"),
        ("lifetime", "400d"),
    ]
    .into_iter()
    .enumerate()
    {
        let refused = send(name, value, number).await?;
        let text = refused.text();
        ensure!(refused.status.is_client_error(), "{name}={value}: {text}");
        ensure!(text.contains("class=\"trouble\""), "{name}={value}: {text}");
        ensure!(text.contains("value=\"typed-name\""), "{name}={value}");
    }
    let tokens = world.client.list_tokens(&Default::default()).await?.items;
    ensure!(tokens.iter().all(|it| it.name != "typed-name"));
    Ok(())
}

#[tokio::test]
async fn a_group_gets_a_role_and_loses_it() -> Result<()> {
    let world = World::start().await?;
    let browser = Browser::signed_in(&world).await?;
    let page = browser.page("/console/main/people").await?;
    let form = hidden(&page, "form")?;
    let send = async |fields: &[(&str, &str)]| {
        let mut all = vec![("form", form.as_str()), ("key", "k")];
        all.extend(fields);
        browser.post("/console/main/people/groups", &all).await
    };

    let given = send(&[
        ("group", "/company/ops"),
        ("role", "operator"),
        ("rights", "settle"),
    ])
    .await?;
    let shown = browser.page("/console/main/people").await?;
    let listed = world.client.list_group_roles().await?.items;
    let wrong = send(&[("group", "x"), ("role", "king")]).await?;
    let taken = send(&[("group", "/company/ops"), ("decision", "unmap")]).await?;

    assert_eq!((given.status.as_u16(), taken.status.as_u16()), (303, 303));
    ensure!(
        shown.contains("/company/ops") && shown.contains("operator"),
        "{shown}"
    );
    assert_eq!(listed.len(), 1);
    ensure!(listed[0].rights.contains(Right::Settle));
    ensure!(wrong.status.is_client_error());
    ensure!(world.client.list_group_roles().await?.items.is_empty());
    Ok(())
}
