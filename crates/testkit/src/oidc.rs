//! An OpenID provider in a process of its own: npm's `oidc-provider`, which is certified.
//!
//! `.ci/run` installs it; `SEMEL_OIDC_MODULES` names another place. Tests say which people it knows.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use serde_json::{Value, json};

use crate::client::Client;
use crate::program::{Process, Program};

/// How long the provider may take to listen: it makes keys first.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// What it says once it listens.
const LISTENING: &str = "issuer ";

/// What the provider knows Semel by.
pub const CLIENT_ID: &str = "semel";

/// What Semel proves that with. It has characters that a form and a head spell differently.
pub const CLIENT_SECRET: &str = "hush-client:secret/with spaces+and%signs-0123456789";

/// An OpenID provider, which ends with this value.
#[derive(Debug)]
pub struct OidcProvider {
    issuer: String,
    client: Client,
    process: Process,
    _folder: tempfile::TempDir,
}

impl OidcProvider {
    /// Starts a provider that knows nobody. It puts all claims into the identity itself.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// Starts one that tells name and groups only when it is asked with the access token.
    pub async fn start_lean() -> Result<Self> {
        Self::start_with(&[("OIDC_LEAN", "yes")]).await
    }

    async fn start_with(variables: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let script = folder.path().join("provider.mjs");
        std::fs::write(&script, include_str!("oidc/provider.mjs"))?;
        let mut program = Program::at("node")
            .arg(&script)
            .env("OIDC_MODULES", modules()?)
            .env("NODE_ENV", "test");
        for (name, value) in variables {
            program = program.env(name, value);
        }
        let process = program.start()?;
        let line = process.until_line(LISTENING, START_PATIENCE).await?;
        let (_, issuer) = line.split_once(LISTENING).context("an issuer")?;
        let issuer = issuer.trim().to_owned();
        let authority = issuer.strip_prefix("http://").context("an address")?;
        Ok(Self {
            client: Client::new(authority, 4),
            issuer,
            process,
            _folder: folder,
        })
    }

    /// What it calls itself.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// What it wrote.
    pub fn output(&self) -> String {
        format!("{}{}", self.process.stdout(), self.process.stderr())
    }

    /// Lets Semel at an address be its client, whose identities are signed in a way.
    pub async fn know_semel(&self, at: &str, algorithm: &str) -> Result<()> {
        let client = json!({
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            "redirect_uris": [format!("{at}/console/sign-in/oidc/callback")],
            "post_logout_redirect_uris": [format!("{at}/console/sign-in")],
            "backchannel_logout_uri": format!("{at}/console/sign-in/oidc/logout"),
            "id_token_signed_response_alg": algorithm,
            "grant_types": ["authorization_code"],
            "response_types": ["code"],
        });
        self.tell(&format!("client/{CLIENT_ID}"), &client).await
    }

    /// Makes a person known, with these claims; null forgets them.
    pub async fn know(&self, person: &str, claims: &Value) -> Result<()> {
        self.tell(&format!("account/{person}"), claims).await
    }

    /// Ends every session of the provider itself, without telling anybody.
    pub async fn end_sessions(&self) -> Result<()> {
        self.tell("sessions/all", &Value::Null).await
    }

    async fn tell(&self, what: &str, said: &Value) -> Result<()> {
        let path = format!("/test/{what}");
        let sent = self
            .client
            .send(Method::POST, &path, &[], said.to_string().into());
        let answer = sent.await?;
        ensure!(answer.status.is_success(), "{path}: {}", answer.status);
        Ok(())
    }
}

fn modules() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("SEMEL_OIDC_MODULES") {
        return Ok(path.into());
    }
    let cache = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("a home directory")?).join(".cache"),
    };
    let path = cache.join("semel/oidc/node_modules");
    ensure!(
        path.join("oidc-provider").is_dir(),
        "{} is not there: .ci/run installs it, or set SEMEL_OIDC_MODULES",
        path.display()
    );
    Ok(path)
}
