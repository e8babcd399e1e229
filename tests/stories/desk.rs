//! `semel dev` in a folder of its own, and a person who types commands there.

use std::path::Path;

use anyhow::{Context, Result};
use semel_testkit::{Process, Program, patience, until};
use serde_json::Value;
use tempfile::TempDir;

use crate::first_minutes::run;

/// The folder, the server, and what opens it.
pub(crate) struct Desk {
    folder: TempDir,
    url: String,
    token: String,
    dev: Process,
}

impl Desk {
    /// Opens one with flows that are live.
    pub(crate) async fn open(flows: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        for (name, text) in flows {
            std::fs::write(folder.path().join(format!("{name}.flow.yaml")), text)?;
        }
        let dev = Program::semel()?
            .arg("dev")
            .current_dir(folder.path())
            .start()?;
        dev.until_line("semel is ready at", patience()).await?;
        let desk = Self {
            url: kept(folder.path(), "url")?,
            token: kept(folder.path(), "token")?,
            folder,
            dev,
        };
        for (name, _) in flows {
            desk.until_said("semel flow list", name).await?;
        }
        Ok(desk)
    }

    /// Waits until `semel dev` prints a line with these words.
    pub(crate) async fn until_printed(&self, words: &str) -> Result<String> {
        self.dev.until_line(words, patience()).await
    }

    /// Where the server listens.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What opens it.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The folder of `semel dev`.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Types a command, and gives what it says.
    pub(crate) async fn say(&self, line: &str) -> Result<String> {
        self.say_in(self.folder(), line).await
    }

    /// Types a command in another folder, whose flows are not published by themselves.
    pub(crate) async fn say_in(&self, folder: &Path, line: &str) -> Result<String> {
        let (url, token) = (&self.url, &self.token);
        let line = format!("export SEMEL_URL='{url}' SEMEL_TOKEN='{token}'; {line}");
        run(folder, &line).await
    }

    /// The same for a program: the data of what it says.
    pub(crate) async fn data(&self, line: &str) -> Result<Value> {
        let said: Value = serde_json::from_str(&self.say(&format!("{line} --json")).await?)?;
        Ok(said["data"].clone())
    }

    /// Types a command until it says something.
    pub(crate) async fn until_said(&self, line: &str, wanted: &str) -> Result<String> {
        let look = async || Ok(self.say(line).await);
        let is_said = |said: &Result<String>| said.as_ref().is_ok_and(|said| said.contains(wanted));
        until(&format!("{wanted:?} by {line}"), look, is_said).await?
    }

    /// Starts a run of a flow.
    pub(crate) async fn start(&self, flow: &str, input: &Value) -> Result<String> {
        let line = format!("semel run start {flow} --input '{input}'");
        let started = self.data(&line).await?;
        let run = started["run"].as_str();
        Ok(run.with_context(|| started.to_string())?.to_owned())
    }
}

fn kept(folder: &Path, name: &str) -> Result<String> {
    let text = std::fs::read_to_string(folder.join(".semel").join(name))?;
    Ok(text.trim().to_owned())
}
