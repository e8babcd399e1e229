//! `semel audit export`.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use semel_api::types::{AuditRecord, ChainFilter};
use serde_json::json;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;

/// How many acts are asked for at once.
const PAGE: u16 = 500;

/// Write the sealed audit record to a file, one act per line as JSON, in its order.
///
/// Each line has the digest of itself and all lines before it. A file that exists is continued: what
/// was done since is added. An act is sealed within seconds.
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
    let mut added = 0_usize;
    loop {
        let filter = ChainFilter {
            after,
            limit: Some(PAGE),
        };
        let page = client.read_audit_chain(&filter).await?;
        let mut lines = String::new();
        for act in &page.items {
            let line = serde_json::to_string(act);
            let line = line.map_err(|error| Problem::local(error.to_string()))?;
            lines.push_str(&line);
            lines.push('\n');
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
    act.and_then(|act| act.position).ok_or_else(|| {
        let shown = path.display();
        Problem::local(format!("the last line of {shown} is no act of an export"))
            .hint("name another file, or remove its last line if writing it was cut short")
    })
}
