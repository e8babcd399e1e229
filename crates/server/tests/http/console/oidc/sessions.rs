//! A provider ends one of its sessions, and not all that a person has.

use anyhow::{Context, Result};
use semel_model::Role;
use serde_json::{Value, json};
use url::Url;

use super::Scene;
use super::leaving::{HOME, is_out};
use super::liar::{Liar, edit, parameter};
use super::traveller::Traveller;

impl Liar {
    /// A browser that is signed in by a session of the provider.
    async fn enter(&self, session: &Value) -> Result<Traveller> {
        let identity = |nonce: &str| {
            let mut claims = self.claims(nonce);
            claims["sid"] = session.clone();
            self.sign("k", &claims)
        };
        Ok(self.attempt(identity).await?.0)
    }

    /// Sends a logout token with these claims, and gives the status and how many are signed in.
    async fn end(&self, id: &str, named: &Value) -> Result<(u16, i64)> {
        let mut claims = self.claims("");
        let claims = claims.as_object_mut().context("claims")?;
        claims.retain(|name, _| !["nonce", "sub"].contains(&name.as_str()));
        claims.extend(named.as_object().context("claims")?.clone());
        let event = "http://schemas.openid.net/event/backchannel-logout";
        claims.insert("events".to_owned(), json!({ event: {} }));
        claims.insert("jti".to_owned(), json!(id));
        let token = self.sign("k", &Value::Object(claims.clone()))?;
        Ok((self.log_out(&token).await?, self.count_sign_ins().await?))
    }

    async fn is_in(&self, browser: &mut Traveller) -> Result<bool> {
        browser.go(&format!("{}{HOME}", self.base())).await?;
        Ok(!is_out(browser))
    }
}

#[tokio::test]
async fn a_logout_token_without_a_subject_ends_the_session_that_it_names() -> Result<()> {
    let liar = Liar::start().await?;
    let mut one = liar.enter(&json!("s1")).await?;
    let mut other = liar.enter(&json!("s2")).await?;
    let mut unnamed = liar.enter(&Value::Null).await?;
    for browser in [&mut one, &mut other, &mut unnamed] {
        assert!(liar.is_in(browser).await?);
    }

    assert_eq!(liar.end("j1", &json!({})).await?, (400, 3), "nothing named");
    let gone = liar.end("j2", &json!({ "sid": "s9" })).await?;
    assert_eq!(gone, (200, 3), "a session that is over already");
    let ended = liar.end("j3", &json!({ "sid": "s1" })).await?;

    assert_eq!(ended, (200, 2));
    assert!(!liar.is_in(&mut one).await?, "at once on this server");
    assert!(liar.is_in(&mut other).await? && liar.is_in(&mut unnamed).await?);
    Ok(())
}

#[tokio::test]
async fn a_session_of_a_person_is_theirs_alone() -> Result<()> {
    let liar = Liar::start().await?;
    let mut one = liar.enter(&json!("s1")).await?;
    let mut other = liar.enter(&json!("s2")).await?;
    let mut unnamed = liar.enter(&Value::Null).await?;

    let foreign = json!({ "sub": "eve", "sid": "s1" });
    assert_eq!(liar.end("j1", &foreign).await?, (200, 3));
    let own = json!({ "sub": "mallory", "sid": "s1" });
    assert_eq!(liar.end("j2", &own).await?, (200, 1));

    assert!(!liar.is_in(&mut one).await?);
    assert!(!liar.is_in(&mut unnamed).await?, "it may be the one meant");
    assert!(liar.is_in(&mut other).await?);
    Ok(())
}

#[tokio::test]
async fn a_sign_in_follows_the_session_that_renews_it() -> Result<()> {
    let liar = Liar::start().await?;
    let mut browser = liar.enter(&json!("s1")).await?;

    let page = format!("{}/console/sign-in/oidc?quiet=yes", liar.base());
    browser.go(&page).await?;
    let to = Url::parse(browser.trail.last().context("the provider")?)?;
    let mut claims = liar.claims(&parameter(&to, "nonce")?);
    claims["sid"] = json!("s2");
    let identity = liar.sign("k", &claims)?;
    edit(&liar.script, |script| script.token = identity);
    liar.come_back(&mut browser, &parameter(&to, "state")?)
        .await?;

    let earlier = liar.end("j1", &json!({ "sid": "s1" })).await?;
    assert_eq!(earlier, (200, 1));
    let present = liar.end("j2", &json!({ "sid": "s2" })).await?;
    assert_eq!(present, (200, 0));
    Ok(())
}

/// The real provider names person and session, in identities and in logout tokens.
#[tokio::test]
async fn a_session_that_ends_at_the_provider_leaves_the_others() -> Result<()> {
    let scene = Scene::start().await?;
    scene.map("ops", Role::Viewer).await?;
    let base = scene.base();
    scene.provider.know_semel_by_session(&base).await?;
    let mut one = scene.enter("ada", HOME).await?;
    let mut other = scene.enter("ada", HOME).await?;

    let there = format!("{}/session/end?client_id=semel", scene.provider.issuer());
    let asked = one.go(&there).await?;
    let (action, token) = (
        asked.action().context("a form")?,
        asked.hidden("xsrf").context("a token")?,
    );
    let fields = [("xsrf", token.as_str()), ("logout", "yes")];
    one.submit(&action, &fields).await?;

    scene
        .until(&mut one, is_out)
        .await
        .with_context(|| scene.provider.output())?;
    other.go(&format!("{base}{HOME}")).await?;
    assert!(!is_out(&other), "{}", other.last().text);
    Ok(())
}
