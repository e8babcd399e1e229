//! Real servers in the places of the hosts that the pages name.

use std::path::Path;

use anyhow::{Context, Result};
use semel_testkit::{Database, Model, Peer, Smtp, Sshd};

/// The password that every server of the story takes.
const PASSWORD: &str = "a-password-for-stories";

/// What the flows of a page act on.
#[derive(Default)]
pub(super) struct Destinations {
    peer: Option<Peer>,
    database: Option<Database>,
    smtp: Option<Smtp>,
    model: Option<Model>,
    sshd: Option<Sshd>,
}

impl Destinations {
    /// Starts what the page of a step needs.
    pub(super) async fn start(step: &str) -> Result<Self> {
        let mut here = Self::default();
        match step {
            "http" | "wait" => here.peer = Some(Peer::start().await?),
            "db" => here.database = Some(Database::empty().await?),
            "notify" => here.smtp = Some(Smtp::start_with_user("shop", PASSWORD).await?),
            "llm" => here.model = Some(Model::start().await?),
            "ssh" => here.sshd = Some(Sshd::start().await?),
            _ => {}
        }
        Ok(here)
    }

    pub(super) fn peer(&self) -> Result<&Peer> {
        self.peer.as_ref().context("no peer was started")
    }

    pub(super) fn database(&self) -> Result<&Database> {
        self.database.as_ref().context("no database was made")
    }

    pub(super) fn smtp(&self) -> Result<&Smtp> {
        self.smtp.as_ref().context("no mail server was started")
    }

    pub(super) fn model(&self) -> Result<&Model> {
        self.model.as_ref().context("no model was started")
    }

    fn sshd(&self) -> Result<&Sshd> {
        self.sshd.as_ref().context("no sshd was started")
    }

    /// A page's command, led to the server that stands here: a connection gets its address, a
    /// secret its value, which is read from a file as a person would have typed it.
    pub(super) fn redirect(&self, line: &str, desk: &Path) -> Result<String> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["semel", "connection", "create", name, ..] => {
                let sets = self.sets(name)?;
                let sets = sets.iter().map(|set| format!(" --set '{set}'"));
                Ok(line.to_owned() + &sets.collect::<String>())
            }
            ["semel", "secret", "set", name] => {
                let value = match name {
                    "builder_key" => self.sshd()?.private_key()?,
                    _ => PASSWORD.to_owned(),
                };
                std::fs::write(desk.join("typed"), value)?;
                Ok(format!("{line} < typed"))
            }
            _ => Ok(line.to_owned()),
        }
    }

    fn sets(&self, name: &str) -> Result<Vec<String>> {
        let at = |kind: &str, address: std::net::SocketAddr| {
            vec![
                format!("to.{kind}.host={}", address.ip()),
                format!("to.{kind}.port={}", address.port()),
            ]
        };
        let mut sets = match name {
            "books" => vec![format!("to.http.base_url={}", self.peer()?.url("/keyed"))],
            "printer" => vec![format!("to.http.base_url={}", self.peer()?.url("/put"))],
            "model" => vec![format!("to.llm.base_url={}", self.model()?.url())],
            "shop" => at("postgres", self.database()?.server().address()),
            "mail" => at("smtp", self.smtp()?.address()),
            "builder" => at("ssh", self.sshd()?.address()),
            _ => return None.with_context(|| format!("no stand-in for {name}")),
        };
        match name {
            "shop" => sets.extend([
                format!("to.postgres.database={}", self.database()?.name()),
                "to.postgres.user=postgres".to_owned(),
                "to.postgres.tls=off".to_owned(),
            ]),
            "mail" => sets.push("to.smtp.tls=off".to_owned()),
            "builder" => sets.extend([
                format!("to.ssh.user={}", self.sshd()?.user()),
                format!("to.ssh.host_key={}", self.sshd()?.host_key()?),
            ]),
            _ => {}
        }
        Ok(sets)
    }
}
