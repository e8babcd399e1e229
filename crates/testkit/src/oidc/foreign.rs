//! A provider that has nothing in common with the other one: Canaille, which is written in Python.
//!
//! It calls itself by a name with a slash at the end, signs by RS512 where a client asks for nothing, and
//! asks people for a password and for their consent, on pages of its own.

use anyhow::Result;
use serde_json::{Value, json};

use super::running::{CLIENT_ID, CLIENT_SECRET, RunningProvider, installed};
use crate::program::Program;

/// What everybody proves themselves with there.
pub const PASSWORD: &str = "hush-password-of-people";

/// Canaille, which ends with this value.
#[derive(Debug)]
pub struct ForeignProvider(RunningProvider);

impl ForeignProvider {
    /// Starts a provider that knows nobody.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let script = folder.path().join("foreign.py");
        std::fs::write(&script, include_str!("foreign.py"))?;
        let program = Program::at(installed("SEMEL_CANAILLE_PYTHON", "canaille/bin/python")?)
            .arg(&script)
            .arg(folder.path())
            .arg(PASSWORD);
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

    /// Lets Semel at an address be its client, with some settings changed.
    pub async fn know_semel(&self, at: &str, changes: &Value) -> Result<()> {
        let mut client = json!({
            "client_name": "Semel",
            "client_secret": CLIENT_SECRET,
            "redirect_uris": [format!("{at}/console/sign-in/oidc/callback")],
            "post_logout_redirect_uris": [format!("{at}/console/sign-in")],
            "token_endpoint_auth_method": "client_secret_basic",
            "id_token_signed_response_alg": null,
            "grant_types": ["authorization_code"],
            "response_types": ["code"],
            "scope": ["openid", "profile", "groups"],
            "audience": [CLIENT_ID],
        });
        for (name, value) in changes.as_object().into_iter().flatten() {
            client[name] = value.clone();
        }
        self.0.tell(&format!("client/{CLIENT_ID}"), &client).await
    }

    /// Makes a person known, with their groups.
    pub async fn know(&self, person: &str, name: &str, groups: &[&str]) -> Result<()> {
        let said = json!({ "name": name, "groups": groups });
        self.0.tell(&format!("account/{person}"), &said).await
    }

    /// Locks the account of a person who left. They keep their groups.
    pub async fn lock(&self, person: &str) -> Result<()> {
        self.0.tell(&format!("lock/{person}"), &Value::Null).await
    }
}
