//! `semel audit export`.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use semel_api::Client;
use semel_api::types::{AuditRecord, ChainFilter, RemovedStretch};
use serde::Serialize;
use serde_json::json;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;

/// How many acts are asked for at once.
const PAGE: u16 = 500;

/// Write the sealed audit record to a file, one act per line as JSON, in its order.
///
/// Each line has the digest of itself and all lines before it. A file that exists is continued: what
/// was done since is added. An act is sealed within seconds. What the server removed as past its time
/// (`serve.audit_keep`) is one line with the seal that was kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel audit export audit.jsonl && semel audit verify audit.jsonl")]
pub(crate) struct Arguments {
    /// The file.
    file: PathBuf,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let path = &arguments.file;
    let mut after = last_position(path)?;
    let unwritable = |error| Problem::local(format!("cannot write {}: {error}", path.display()));
    let opened = OpenOptions::new().create(true).append(true).open(path);
    let mut file = opened.map_err(unwritable)?;
    let removed = list_removed(&client, after).await?;
    if let Some(stretch) = removed.first().filter(|it| it.first <= after) {
        let (first, last, shown) = (after + 1, stretch.last, path.display());
        let text = format!("the acts {first} to {last} were removed before {shown} had them");
        return Err(Problem::local(text).hint("keep this file, and export to a new one"));
    }
    let mut lines = String::new();
    for stretch in &removed {
        lines.push_str(&line(stretch)?);
        after = stretch.last;
    }
    file.write_all(lines.as_bytes()).map_err(unwritable)?;
    let mut added = 0_usize;
    loop {
        let filter = ChainFilter {
            after,
            limit: Some(PAGE),
        };
        let page = client.read_audit_chain(&filter).await?;
        let mut lines = String::new();
        for act in &page.items {
            lines.push_str(&line(act)?);
            after = act.position.unwrap_or(after);
        }
        added += page.items.len();
        file.write_all(lines.as_bytes()).map_err(unwritable)?;
        if page.next.is_none() {
            break;
        }
    }
    file.sync_all().map_err(unwritable)?;
    let body = json!({ "added": added, "position": after });
    let text = format!("{added} acts added to {}, {after} in all", path.display());
    let verify = format!("semel audit verify {}", path.display());
    Ok(Answer::done(&body, text).next(verify))
}

/// What was removed and ends behind a position, in order.
async fn list_removed(client: &Client, after: i64) -> Result<Vec<RemovedStretch>, Problem> {
    let mut removed: Vec<RemovedStretch> = Vec::new();
    loop {
        let filter = ChainFilter {
            after: removed.last().map_or(after, |it| it.last),
            limit: Some(PAGE),
        };
        let page = client.list_removed_audit(&filter).await?;
        removed.extend(page.items);
        if page.next.is_none() {
            return Ok(removed);
        }
    }
}

fn line(what: &impl Serialize) -> Result<String, Problem> {
    let line = serde_json::to_string(what);
    let line = line.map_err(|error| Problem::local(error.to_string()))?;
    Ok(line + "\n")
}

/// Where an earlier export ended.
fn last_position(path: &Path) -> Result<i64, Problem> {
    let unreadable = |error| Problem::local(format!("cannot read {}: {error}", path.display()));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(unreadable(error)),
    };
    let mut last = None;
    for line in BufReader::new(file).lines() {
        last = Some(line.map_err(unreadable)?);
    }
    let Some(last) = last else { return Ok(0) };
    let act = serde_json::from_str::<AuditRecord>(&last).ok();
    let stretch = serde_json::from_str::<RemovedStretch>(&last).ok();
    let position = act.and_then(|act| act.position);
    position.or(stretch.map(|it| it.last)).ok_or_else(|| {
        let shown = path.display();
        Problem::local(format!("the last line of {shown} is no act of an export"))
            .hint("name another file, or remove its last line if writing it was cut short")
    })
}
