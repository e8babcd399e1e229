//! The console, as a browser without script sees it.

mod accessible;
mod acts;
mod attending;
mod browser;
mod doubts;
mod events;
mod flows;
mod hostile;
mod keyboard;
mod live;
mod look;
mod managing;
mod oidc;
mod operating;
mod pages;
mod pictures;
mod recording;
mod replaying;
mod rules;
mod searches;
mod signing_in;
mod stage;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_api::Client;
use semel_model::Rights;
use semel_testkit::client::Answer;

use crate::world::{World, add_token_with};

/// A browser: it keeps its cookie, says where its forms come from, and runs no script.
#[derive(Clone)]
pub(crate) struct Browser<'a> {
    world: &'a World,
    cookie: String,
}

impl<'a> Browser<'a> {
    /// A browser that is not signed in.
    pub(crate) fn new(world: &'a World) -> Self {
        let cookie = String::new();
        Self { world, cookie }
    }

    /// A browser that is signed in with the test's token.
    pub(crate) async fn signed_in(world: &'a World) -> Result<Self> {
        Self::signed_in_as(world, &world.client).await
    }

    /// A browser that is signed in with a token of these rights.
    pub(crate) async fn with_rights(world: &'a World, name: &str, rights: Rights) -> Result<Self> {
        let token = add_token_with(world.engine.cell(), name, rights).await?;
        Self::signed_in_as(world, &Client::new(world.client.base(), &token)?).await
    }

    /// A browser that is signed in with the token of a client.
    pub(crate) async fn signed_in_as(world: &'a World, client: &Client) -> Result<Self> {
        let code = client.make_sign_in_code().await?.code;
        let mut browser = Self::new(world);
        let entered = browser.sign_in(&code).await?;
        ensure!(entered.status == 303, "{}", entered.text());
        Ok(browser)
    }

    /// Sends the form of the page that signs in, and keeps the cookie.
    pub(crate) async fn sign_in(&mut self, code: &str) -> Result<Answer> {
        let answer = self.post("/console/sign-in", &[("code", code)]).await?;
        if let Some(cookie) = answer.header("set-cookie") {
            let pair = cookie.split(';').next().context("a pair")?;
            self.cookie = pair.to_owned();
        }
        Ok(answer)
    }

    /// Asks for a page.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, &[], String::new()).await
    }

    /// A page that is there.
    pub(crate) async fn page(&self, path: &str) -> Result<String> {
        let answer = self.get(path).await?;
        ensure!(
            answer.status == 200,
            "{path}: {} {}",
            answer.status,
            answer.text()
        );
        Ok(answer.text())
    }

    /// Sends a form from a page of this console.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Result<Answer> {
        let own = format!("http://{}", self.world.address);
        self.send(Method::POST, path, &[("origin", &own)], encode(fields))
            .await
    }

    /// Sends anything.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<Answer> {
        let mut all = vec![("content-type", "application/x-www-form-urlencoded")];
        if !self.cookie.is_empty() {
            all.push(("cookie", &self.cookie));
        }
        all.extend(headers);
        Ok(self
            .world
            .bare
            .send(method, path, &all, body.into())
            .await?)
    }
}

/// The fields of a form as a browser sends them.
pub(crate) fn encode(fields: &[(&str, &str)]) -> String {
    let pairs = fields.iter().map(|(name, value)| {
        let value: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
        format!("{name}={value}")
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// The value of the first hidden field of this name on a page.
pub(crate) fn hidden(page: &str, name: &str) -> Result<String> {
    let start = format!("name=\"{name}\" value=\"");
    let rest = page.split(&start).nth(1).context("a hidden field")?;
    Ok(rest.split('"').next().unwrap_or_default().to_owned())
}
