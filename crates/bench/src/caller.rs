//! Calls to a server of the product, with a token or as a browser that is signed in.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use semel_testkit::Client;
use semel_testkit::client::Answer;
use serde_json::{Value, json};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// A program, with a token.
    Program,
    /// A browser, with the cookie of its sign-in.
    Browser,
}

/// One server, and what opens it.
pub(crate) struct Caller {
    client: Client,
    address: SocketAddr,
    bearer: String,
    cookie: String,
}

impl Caller {
    /// The API of a server, opened by a token.
    pub(crate) fn new(address: SocketAddr, token: &str) -> Self {
        Self {
            client: Client::new(address, 1),
            address,
            bearer: format!("Bearer {token}"),
            cookie: String::new(),
        }
    }

    /// Where the server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The cookie of the sign-in.
    pub(crate) fn cookie(&self) -> &str {
        &self.cookie
    }

    /// Signs in to the console, as the page does that `semel open` opens.
    pub(crate) async fn sign_in(&mut self) -> Result<()> {
        let made = self
            .change(Method::POST, "/v1/sign-in-codes", &json!({}), "sign in")
            .await?;
        let code = made["code"].as_str().context("a code to sign in with")?;
        let origin = format!("http://{}", self.address);
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("origin", origin.as_str()),
        ];
        let body = format!("code={code}");
        let answer = self
            .client
            .send(Method::POST, "/console/sign-in", &headers, body.into())
            .await?;
        ensure!(answer.status == 303, "cannot sign in: {}", answer.text());
        let cookie = answer.header("set-cookie").context("a cookie")?;
        self.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Ok(())
    }

    /// Asks for an address, whatever the answer is.
    pub(crate) async fn get(&self, who: Who, path: &str) -> Result<Answer> {
        let header = match who {
            Who::Program => ("authorization", self.bearer.as_str()),
            Who::Browser => ("cookie", self.cookie.as_str()),
        };
        let headers = [header];
        let answer = self.client.send(Method::GET, path, &headers, Bytes::new());
        Ok(answer.await?)
    }

    /// Asks for JSON that must be there.
    pub(crate) async fn read(&self, path: &str) -> Result<Value> {
        let answer = self.get(Who::Program, path).await?;
        ensure!(answer.status == 200, "{path}: {}", answer.text());
        answer.json()
    }

    /// Sends a command, which must succeed, under a key of its own.
    pub(crate) async fn change(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        key: &str,
    ) -> Result<Value> {
        let answer = self.send(method, path, body, key).await?;
        ensure!(answer.status.is_success(), "{path}: {}", answer.text());
        answer.json()
    }

    /// Sends a command, whatever the answer is.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        key: &str,
    ) -> Result<Answer> {
        let headers = [
            ("authorization", self.bearer.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", key),
        ];
        let sent = self
            .client
            .send(method, path, &headers, body.to_string().into());
        Ok(sent.await?)
    }
}
