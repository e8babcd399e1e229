//! A browser without script that goes from one site to another, follows redirects and keeps cookies.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::Client;

use crate::console::encode;

/// How often a browser is led elsewhere before it gives up.
const REDIRECTS_MAX: usize = 20;

/// A page that was shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    pub(super) url: String,
    pub(super) status: u16,
    pub(super) text: String,
    /// Where the browser is to go by itself.
    pub(super) refresh: Option<String>,
}

impl Shown {
    /// The first link that begins so.
    pub(super) fn link(&self, start: &str) -> Option<String> {
        let rest = self.text.split(&format!("href=\"{start}")).nth(1)?;
        let rest = rest.split('"').next()?;
        Some(format!(
            "{start}{}",
            rest.replace("&#38;", "&").replace("&amp;", "&")
        ))
    }

    /// Where its first form goes.
    pub(super) fn action(&self) -> Option<String> {
        let rest = self.text.split(" action=\"").nth(1)?;
        Some(rest.split('"').next()?.to_owned())
    }

    /// The value of a hidden field.
    pub(super) fn hidden(&self, name: &str) -> Option<String> {
        let rest = self
            .text
            .split(&format!("name=\"{name}\" value=\""))
            .nth(1)?;
        Some(rest.split('"').next()?.to_owned())
    }
}

/// The browser.
#[derive(Clone, Default)]
pub(super) struct Traveller {
    jar: BTreeMap<(String, String), String>,
    last: Shown,
    /// Every address that it was at.
    pub(super) trail: Vec<String>,
}

impl Traveller {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// The page that it is at.
    pub(super) fn last(&self) -> &Shown {
        &self.last
    }

    /// The value of a cookie of a site.
    pub(super) fn cookie(&self, base: &str, name: &str) -> Option<&str> {
        let (authority, _) = split(base).ok()?;
        let value = self.jar.get(&(authority, name.to_owned()));
        value.map(String::as_str)
    }

    /// Gives it a cookie.
    pub(super) fn set_cookie(&mut self, base: &str, name: &str, value: &str) -> Result<()> {
        let (authority, _) = split(base)?;
        self.jar
            .insert((authority, name.to_owned()), value.to_owned());
        Ok(())
    }

    /// Opens an address.
    pub(super) async fn go(&mut self, url: &str) -> Result<Shown> {
        self.trail.clear();
        self.visit(Method::GET, url, String::new()).await
    }

    /// Sends a form.
    pub(super) async fn submit(&mut self, url: &str, fields: &[(&str, &str)]) -> Result<Shown> {
        self.trail.clear();
        self.visit(Method::POST, url, encode(fields)).await
    }

    async fn visit(&mut self, method: Method, url: &str, body: String) -> Result<Shown> {
        let (mut method, mut url, mut body) = (method, url.to_owned(), body);
        for _ in 0..REDIRECTS_MAX {
            self.trail.push(url.clone());
            let (authority, path) = split(&url)?;
            let cookies: Vec<String> = self
                .jar
                .iter()
                .filter(|((at, _), _)| *at == authority)
                .map(|((_, name), value)| format!("{name}={value}"))
                .collect();
            let (cookies, origin) = (cookies.join("; "), format!("http://{authority}"));
            let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
            headers.push(("cookie", &cookies));
            if method == Method::POST {
                headers.push(("origin", &origin));
            }
            let sent = Client::new(&authority, 1);
            let sent = sent.send(method.clone(), &path, &headers, body.clone().into());
            let answer = sent.await?;
            for line in answer.headers.get_all("set-cookie") {
                self.keep(&authority, line.to_str()?)?;
            }
            // A renewal goes to the provider by a page that is shown for no time.
            let refresh = answer.header("refresh");
            let refresh = refresh.filter(|_| url.contains("/console/sign-in/oidc?"));
            let onward = refresh.and_then(|refresh| refresh.strip_prefix("0; url="));
            let Some(to) = answer.header("location").or(onward) else {
                self.last = Shown {
                    url,
                    status: answer.status.as_u16(),
                    refresh: answer.header("refresh").map(str::to_owned),
                    text: answer.text(),
                };
                return Ok(self.last.clone());
            };
            url = match to.starts_with('/') {
                true => format!("http://{authority}{to}"),
                false => to.to_owned(),
            };
            (method, body) = (Method::GET, String::new());
        }
        anyhow::bail!("it is led round in circles: {:?}", self.trail)
    }

    fn keep(&mut self, authority: &str, line: &str) -> Result<()> {
        let (pair, rest) = line.split_once(';').unwrap_or((line, ""));
        let (name, value) = pair.split_once('=').context("a pair")?;
        let key = (authority.to_owned(), name.to_owned());
        match rest.contains("Max-Age=0") || value.is_empty() {
            true => self.jar.remove(&key),
            false => self.jar.insert(key, value.to_owned()),
        };
        Ok(())
    }
}

fn split(url: &str) -> Result<(String, String)> {
    let rest = url.strip_prefix("http://").context("an address")?;
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    ensure!(!authority.is_empty(), "{url}");
    Ok((authority.to_owned(), format!("/{path}")))
}
