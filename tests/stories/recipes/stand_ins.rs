//! Local servers in the places of the destinations that a page's commands name.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use semel_testkit::{Database, Model, Smtp, Sshd};

use super::providers::Providers;

/// The value of every secret, but for the key that opens the build machine. It has the form of a
/// secret of Standard Webhooks; to everything else it is a text.
pub(super) const SECRET: &str = "whsec_c2VtZWwtcmVjaXBlcy1hcmUtcGxheWVkLWluLXN0b3JpZXM=";

/// The script that the recipe of a build names.
const BUILD: &str = "/opt/build/run";

/// What a recipe acts on.
pub(super) struct StandIns {
    providers: Providers,
    database: Option<Database>,
    smtp: Option<Smtp>,
    model: Option<Model>,
    sshd: Option<Sshd>,
}

impl StandIns {
    /// Starts what the commands of a page connect to.
    pub(super) async fn start(commands: &[String]) -> Result<Self> {
        let names = |kind: &str| commands.iter().any(|line| line.contains(kind));
        let mut here = Self {
            providers: Providers::start().await?,
            database: None,
            smtp: None,
            model: None,
            sshd: None,
        };
        if names("--preset postgres") {
            here.database = Some(Database::empty().await?);
        }
        if names("--preset smtp") {
            here.smtp = Some(Smtp::start_with_user("shop", SECRET).await?);
        }
        if names("--preset openai") {
            here.model = Some(Model::start().await?);
        }
        if names("--kind ssh") {
            here.sshd = Some(Sshd::start().await?);
        }
        Ok(here)
    }

    pub(super) fn providers(&self) -> &Providers {
        &self.providers
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

    pub(super) fn sshd(&self) -> Result<&Sshd> {
        self.sshd.as_ref().context("no sshd was started")
    }

    /// A flow with the paths of this machine.
    pub(super) fn redirect_flow(&self, source: &str) -> Result<String> {
        if self.sshd.is_none() {
            return Ok(source.to_owned());
        }
        let script = self.sshd()?.file("build").display().to_string();
        Ok(source.replace(BUILD, &script))
    }

    /// A page's command, led to the server that stands here: a connection gets its address, a
    /// secret its value, which is read from a file as a person would have typed it.
    pub(super) fn redirect(&self, line: &str, folder: &Path) -> Result<String> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [
                "semel",
                "connection",
                "create",
                name,
                "--kind" | "--preset",
                kind,
                ..,
            ] => {
                let sets = self.sets(name, kind)?;
                let sets = sets.iter().map(|set| format!(" --set '{set}'"));
                Ok(line.to_owned() + &sets.collect::<String>())
            }
            ["semel", "secret", "set", name] => {
                let value = match name {
                    "builder_key" => self.sshd()?.private_key()?,
                    _ => SECRET.to_owned(),
                };
                std::fs::write(folder.join("typed"), value)?;
                Ok(format!("{line} < typed"))
            }
            _ => Ok(line.to_owned()),
        }
    }

    /// What a connection of a kind gets instead.
    fn sets(&self, name: &str, kind: &str) -> Result<Vec<String>> {
        let at = |kind: &str, address: SocketAddr| {
            vec![
                format!("to.{kind}.host={}", address.ip()),
                format!("to.{kind}.port={}", address.port()),
            ]
        };
        let mut sets = match kind {
            "http" | "hubspot" | "github" => {
                vec![format!("to.http.base_url={}", self.providers.url(name))]
            }
            "slack" => vec![format!("to.slack.base_url={}", self.providers.url(name))],
            "openai" => vec![format!("to.llm.base_url={}", self.model()?.url())],
            "postgres" => at("postgres", self.database()?.server().address()),
            "smtp" => at("smtp", self.smtp()?.address()),
            "ssh" => at("ssh", self.sshd()?.address()),
            _ => return None.with_context(|| format!("no stand-in for {kind}")),
        };
        match kind {
            "postgres" => sets.extend([
                format!("to.postgres.database={}", self.database()?.name()),
                "to.postgres.user=postgres".to_owned(),
                "to.postgres.tls=off".to_owned(),
            ]),
            "smtp" => sets.push("to.smtp.tls=off".to_owned()),
            "ssh" => sets.extend([
                format!("to.ssh.user={}", self.sshd()?.user()),
                format!("to.ssh.host_key={}", self.sshd()?.host_key()?),
            ]),
            _ => {}
        }
        Ok(sets)
    }
}
