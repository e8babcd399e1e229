//! The pages of `docs/steps/` work as printed: their flows and their commands, with real servers in
//! the places of the examples' hosts.

mod destinations;
pub(crate) mod page;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use semel_testkit::{Client, until, until_some};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::desk::Desk;
use destinations::Destinations;
use page::Page;

#[tokio::test]
async fn the_page_of_http_works_as_printed() -> Result<()> {
    let place = Place::open("http").await?;

    place.walk().await?;

    let done = place.to.peer()?.count("/keyed/invoices").await?;
    assert_eq!((done.calls, done.effects), (1, 1), "two starts, one call");
    Ok(())
}

#[tokio::test]
async fn the_page_of_db_works_as_printed() -> Result<()> {
    let place = Place::open("db").await?;
    let shop = place.to.database()?.connect().await?;
    shop.batch_execute(&place.page.only("sql")?).await?;

    place.walk().await?;

    let left = shop.query_one("SELECT count FROM stock", &[]).await?;
    assert_eq!(left.get::<_, i32>(0), 9, "two starts, one piece");
    Ok(())
}

#[tokio::test]
async fn the_page_of_kv_works_as_printed() -> Result<()> {
    Place::open("kv").await?.walk().await
}

#[tokio::test]
async fn the_page_of_ssh_works_as_printed() -> Result<()> {
    Place::open("ssh").await?.walk().await
}

#[tokio::test]
async fn the_page_of_notify_works_as_printed() -> Result<()> {
    let place = Place::open("notify").await?;

    place.walk().await?;

    let mails = place.to.smtp()?.mails()?;
    assert_eq!(mails.len(), 1, "two starts, one mail: {mails:?}");
    assert!(mails[0].contains("Your order o-1"), "{}", mails[0]);
    Ok(())
}

#[tokio::test]
async fn the_page_of_llm_works_as_printed() -> Result<()> {
    let place = Place::open("llm").await?;

    place.walk().await?;

    assert_eq!(place.to.model()?.asked().await?.len(), 1, "asked once");
    Ok(())
}

#[tokio::test]
async fn the_page_of_persist_works_as_printed() -> Result<()> {
    let place = Place::open("persist").await?;

    place.walk().await?;

    let listed = place.said("semel resource list").await?;
    assert!(listed.contains("lines of 2026-03-01"), "{listed}");
    Ok(())
}

#[tokio::test]
async fn the_page_of_emit_works_as_printed() -> Result<()> {
    let place = Place::open("emit").await?;

    place.walk().await?;

    let runs = place.said("semel run list --json").await?;
    let runs: Value = serde_json::from_str(&runs)?;
    let packed = runs["data"]["items"].as_array().context("runs")?;
    let packed = packed.iter().filter(|run| run["flow"] == json!("pack"));
    assert_eq!(packed.count(), 1, "one event, one run: {runs}");
    Ok(())
}

#[tokio::test]
async fn the_page_of_function_works_as_printed() -> Result<()> {
    Place::open("function").await?.walk().await
}

#[tokio::test]
async fn the_page_of_wait_works_as_printed() -> Result<()> {
    let place = Place::open("wait").await?;
    place.walk().await?;

    let url = place.until_handed_out().await?;
    let (authority, path) = url
        .trim_start_matches("http://")
        .split_once('/')
        .context("an address")?;
    let called = Client::new(authority, 1)
        .post(&format!("/{path}"), place.page.only("json")?)
        .await?;

    ensure!(called.status.is_success(), "{}", called.text());
    let start = place.page.start()?;
    assert_eq!(place.result_of(&start).await?, json!({ "sheets": 2 }));
    Ok(())
}

#[tokio::test]
async fn the_page_of_task_works_as_printed() -> Result<()> {
    Place::open("task").await?.walk().await
}

#[tokio::test]
async fn the_page_of_approval_works_as_printed() -> Result<()> {
    let place = Place::open("approval").await?;
    place.walk().await?;

    let approval = place.first_approval().await?;
    let shown = place
        .said(&format!("semel approval show {approval}"))
        .await?;
    let approve = format!("semel approval approve {approval} --comment fine");
    let done = place.said(&approve).await?;

    ensure!(
        shown.contains("4200") && shown.contains("digest"),
        "{shown}"
    );
    ensure!(done.contains("approved by token:dev"), "{done}");
    let promised: Value = serde_json::from_str(&place.page.only("json")?)?;
    assert_eq!(place.result_of(&place.page.start()?).await?, promised);
    Ok(())
}

/// `semel dev` in a folder of its own, and the files of a page in another.
struct Place {
    page: Page,
    to: Destinations,
    dev: Desk,
    /// Where the page's files are.
    folder: TempDir,
}

impl Place {
    /// The approval that the page's run asks for, once it does.
    async fn first_approval(&self) -> Result<String> {
        let look = async || {
            let listed = self.said("semel approval list --json").await?;
            let listed: Value = serde_json::from_str(&listed)?;
            let approval = listed["data"]["items"][0]["approval"].as_str();
            Ok(approval.map(str::to_owned))
        };
        until_some("an approval", look).await
    }

    async fn open(step: &str) -> Result<Self> {
        let page = Page::read(&format!("steps/{step}"))?;
        let to = Destinations::start(step).await?;
        let dev = Desk::open(&[]).await?;
        let folder = tempfile::tempdir()?;
        for (name, text) in page.flows()? {
            std::fs::write(folder.path().join(format!("{name}.flow.yaml")), text)?;
        }
        Ok(Self {
            page,
            to,
            dev,
            folder,
        })
    }

    /// Every command of the page. A start is made twice, and gives what the page says.
    async fn walk(&self) -> Result<()> {
        for line in self.page.commands()? {
            let line = self.to.redirect(&line, self.folder.path())?;
            if line.starts_with("semel key show") {
                self.until_said(&line, "succeeded").await?;
                continue;
            }
            let said = self.said(&line).await?;
            if line.starts_with("semel check") {
                ensure!(!said.contains("warning"), "{line}\n{said}");
            }
            if line.contains("--wait") {
                let result = self.result_of(&line).await?;
                if let Some(promised) = self.page.find("json") {
                    let promised: Value = serde_json::from_str(&promised)?;
                    ensure!(result == promised, "{line} gave {result}");
                }
            }
        }
        Ok(())
    }

    async fn said(&self, line: &str) -> Result<String> {
        self.dev.say_in(self.folder.path(), line).await
    }

    /// What a start that is repeated gives.
    async fn result_of(&self, start: &str) -> Result<Value> {
        let waiting = match start.contains("--wait") {
            true => start.to_owned(),
            false => format!("{start} --wait 30s"),
        };
        let said = self.said(&format!("{waiting} --json")).await?;
        let said: Value = serde_json::from_str(&said)?;
        ensure!(said["data"]["replayed"] == json!(true), "{said}");
        Ok(said["data"]["result"].clone())
    }

    async fn until_said(&self, line: &str, wanted: &str) -> Result<()> {
        let look = async || Ok(self.said(line).await);
        let is_said = |said: &Result<String>| said.as_ref().is_ok_and(|said| said.contains(wanted));
        until(&format!("{wanted:?} by {line}"), look, is_said).await??;
        Ok(())
    }

    /// The address that a flow handed to its destination.
    async fn until_handed_out(&self) -> Result<String> {
        let peer = self.to.peer()?;
        let look = async || Ok(peer.effects().await?.into_iter().next());
        let effect = until_some("an address to be handed out", look).await?;
        let body: Value = serde_json::from_str(&effect.body)?;
        let url = body["call_back"].as_str().context("an address")?;
        Ok(url.to_owned())
    }
}

/// Every kind of step that has a page is walked through here, and has its line on the first page.
#[test]
fn every_page_is_walked_through() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/steps");
    let first = std::fs::read_to_string(folder.join("README.md"))?;
    let story = include_str!("steps.rs");
    for entry in std::fs::read_dir(&folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let step = name.trim_end_matches(".md");
        if ["README", "faults"].contains(&step) {
            continue;
        }
        ensure!(first.contains(&format!("[`{step}`]({name})")), "{name}");
        let test = format!("fn the_page_of_{step}_works_as_printed(");
        ensure!(story.contains(&test), "{name} is not walked through");
    }
    Ok(())
}
