//! OpenID providers in processes of their own: npm's `oidc-provider`, which is certified, and a foreign one.
//!
//! `.ci/run` installs them; `SEMEL_OIDC_MODULES` and `SEMEL_CANAILLE_PYTHON` name other places. Tests say
//! which people they know.

mod foreign;
mod running;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use self::running::{RunningProvider, installed};
use crate::program::Program;

pub use self::foreign::{ForeignProvider, PASSWORD};
pub use self::running::{CLIENT_ID, CLIENT_SECRET};

/// npm's `oidc-provider`, which ends with this value.
#[derive(Debug)]
pub struct OidcProvider(RunningProvider);

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
        let modules = installed("SEMEL_OIDC_MODULES", "oidc/node_modules")?;
        ensure!(
            modules.join("oidc-provider").is_dir(),
            "{} has no oidc-provider: .ci/run installs it",
            modules.display()
        );
        let mut program = Program::at("node")
            .arg(&script)
            .env("OIDC_MODULES", modules)
            .env("NODE_ENV", "test");
        for (name, value) in variables {
            program = program.env(name, value);
        }
        Ok(Self(RunningProvider::start(program, folder).await?))
    }

    /// What it calls itself.
    pub fn issuer(&self) -> &str {
        &self.0.issuer
    }

    /// What it wrote.
    pub fn output(&self) -> String {
        self.0.output()
    }

    /// Lets Semel at an address be its client, whose identities are signed in a way.
    pub async fn know_semel(&self, at: &str, algorithm: &str) -> Result<()> {
        let client = client_of(at, algorithm);
        self.0.tell(&format!("client/{CLIENT_ID}"), &client).await
    }

    /// As [`Self::know_semel`], and names the session in identities and logout tokens.
    pub async fn know_semel_by_session(&self, at: &str) -> Result<()> {
        let mut client = client_of(at, "RS256");
        client["backchannel_logout_session_required"] = json!(true);
        self.0.tell(&format!("client/{CLIENT_ID}"), &client).await
    }

    /// Makes a person known, with these claims; null forgets them.
    pub async fn know(&self, person: &str, claims: &Value) -> Result<()> {
        self.0.tell(&format!("account/{person}"), claims).await
    }

    /// Ends every session of the provider itself, without telling anybody.
    pub async fn end_sessions(&self) -> Result<()> {
        self.0.tell("sessions/all", &Value::Null).await
    }
}

fn client_of(at: &str, algorithm: &str) -> Value {
    json!({
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "redirect_uris": [format!("{at}/console/sign-in/oidc/callback")],
        "post_logout_redirect_uris": [format!("{at}/console/sign-in")],
        "backchannel_logout_uri": format!("{at}/console/sign-in/oidc/logout"),
        "id_token_signed_response_alg": algorithm,
        "grant_types": ["authorization_code"],
        "response_types": ["code"],
    })
}
