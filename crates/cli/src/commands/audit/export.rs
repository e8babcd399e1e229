//! `semel audit export`.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use semel_api::Client;
use semel_api::types::{AuditRecord, ChainFilter, RemovedFilter, RemovedStretch, read_digest};
use semel_model::audit_chain::ChainEnd;
use serde::Serialize;
use serde_json::json;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;

/// How many acts are asked for at once.
const PAGE: u16 = 500;

/// How often it is asked again while acts are removed.
const TRIES: u32 = 5;

const CHANGED: &str =
    "the record was changed: compare it with an earlier export, and with a digest that you kept";

/// Write the sealed audit record to a file, one act per line as JSON, in its order.
///
/// Each line has the digest of itself and all lines before it. A file that exists is continued: what
/// was done since is added, if the server's record has the digest that the file ends with. An act is
/// sealed within seconds. What the server removed as past its time (`serve.audit_keep`) is one line
/// with the seal that was kept. The export is an act of the record itself (`audit.export`).
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
    let end = read_end(path)?;
    must_continue(&client, path, end).await?;
    let mut after = end.position;
    let unwritable = |error| Problem::local(format!("cannot write {}: {error}", path.display()));
    let opened = OpenOptions::new().create(true).append(true).open(path);
    let mut file = opened.map_err(unwritable)?;
    let (mut added, mut removed) = (0, 0);
    // The server records an export once, by its first page.
    let mut begins = Some(true);
    loop {
        let next = read_next(&client, path, after, &mut begins).await?;
        let mut lines = String::new();
        for stretch in &next.removed {
            lines.push_str(&line(stretch)?);
            removed += stretch.last.saturating_sub(after);
            after = stretch.last;
        }
        for act in &next.acts {
            lines.push_str(&line(act)?);
            after = act.position.unwrap_or(after);
        }
        added += next.acts.len();
        file.write_all(lines.as_bytes()).map_err(unwritable)?;
        if next.is_last {
            break;
        }
    }
    file.sync_all().map_err(unwritable)?;
    let body = json!({ "added": added, "removed": removed, "position": after });
    let older = match removed {
        0 => String::new(),
        _ => format!("; {removed} older acts were removed by retention"),
    };
    let text = format!(
        "{added} acts added to {}, up to no. {after}{older}",
        path.display()
    );
    let verify = format!("semel audit verify {}", path.display());
    Ok(Answer::done(&body, text).next(verify))
}

/// Refuses a file that is of another record, or of this one before it was rewritten: what follows there
/// does not follow from the file. Nothing is written then.
async fn must_continue(client: &Client, path: &Path, end: ChainEnd) -> Result<(), Problem> {
    if end == ChainEnd::START {
        return Ok(());
    }
    let filter = ChainFilter {
        after: end.position.saturating_sub(1),
        limit: Some(1),
        export: None,
    };
    let page = client.read_audit_chain(&filter).await?;
    let act = page.items.first();
    let act = act.filter(|act| act.position == Some(end.position));
    let digest = match act.and_then(|act| act.digest.clone()) {
        Some(digest) => Some(digest),
        // The act may have been removed, and its seal kept.
        None => match list_removed(client, filter.after).await?.first() {
            Some(stretch) if stretch.last == end.position => Some(stretch.digest.clone()),
            // Removed with some that follow: that is said where they are read.
            Some(stretch) if stretch.first <= end.position => return Ok(()),
            Some(_) | None => None,
        },
    };
    if digest.is_some_and(|digest| digest == hex::encode(end.digest)) {
        return Ok(());
    }
    let (shown, position) = (path.display(), end.position);
    let text = format!(
        "{shown} does not belong to this record: its last act, no. {position}, is not there, or is another one"
    );
    Err(Problem::local(text).hint(
        "keep the file. If it is of another server or namespace, export to a new file; if it is of this one, the \
         record was changed: compare both with a digest that you kept",
    ))
}

/// What follows in the chain.
struct Next {
    removed: Vec<RemovedStretch>,
    acts: Vec<AuditRecord>,
    is_last: bool,
}

/// Reads what follows a position: the seals of what was removed, then acts. Where retention was at work between the
/// two questions, both are asked again.
async fn read_next(
    client: &Client,
    path: &Path,
    after: i64,
    begins: &mut Option<bool>,
) -> Result<Next, Problem> {
    let next = after.saturating_add(1);
    let mut missing = next;
    for _ in 0..TRIES {
        let removed = list_removed(client, after).await?;
        let end = removed.last().map_or(after, |it| it.last);
        if removed.first().is_some_and(|it| it.first <= after) {
            let shown = path.display();
            let text = format!("the acts {next} to {end} were removed before {shown} had them");
            return Err(Problem::local(text).hint("keep this file, and export to a new one"));
        }
        // From before what was removed: none of that may be there.
        let filter = ChainFilter {
            after,
            limit: Some(PAGE),
            export: begins.take(),
        };
        let page = client.read_audit_chain(&filter).await?;
        match page.items.first().and_then(|act| act.position) {
            Some(first) if first <= end => {
                let text =
                    format!("the act no. {first} is there although it is said to be removed");
                return Err(Problem::local(text).hint(CHANGED));
            }
            Some(first) if first > end.saturating_add(1) => missing = end.saturating_add(1),
            Some(_) | None => {
                return Ok(Next {
                    removed,
                    acts: page.items,
                    is_last: page.next.is_none(),
                });
            }
        }
    }
    let text = format!("the act no. {missing} is missing in the record");
    Err(Problem::local(text).hint(CHANGED))
}

/// What was removed and ends behind a position, in order.
async fn list_removed(client: &Client, after: i64) -> Result<Vec<RemovedStretch>, Problem> {
    let mut removed: Vec<RemovedStretch> = Vec::new();
    loop {
        let filter = RemovedFilter {
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

/// The end of an earlier export; the start of the chain if there is no file.
fn read_end(path: &Path) -> Result<ChainEnd, Problem> {
    let unreadable = |error| Problem::local(format!("cannot read {}: {error}", path.display()));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ChainEnd::START),
        Err(error) => return Err(unreadable(error)),
    };
    let mut last = None;
    for line in BufReader::new(file).lines() {
        last = Some(line.map_err(unreadable)?);
    }
    let Some(last) = last else {
        return Ok(ChainEnd::START);
    };
    read_line(&last).ok_or_else(|| {
        let shown = path.display();
        Problem::local(format!("the last line of {shown} is no act of an export"))
            .hint("name another file, or remove its last line if writing it was cut short")
    })
}

/// The end of the chain after a line of an export; none where it is no such line.
fn read_line(line: &str) -> Option<ChainEnd> {
    let act = serde_json::from_str::<AuditRecord>(line).ok();
    let act = act.and_then(|act| Some((act.position?, act.digest?)));
    let stretch = serde_json::from_str::<RemovedStretch>(line).ok();
    let (position, digest) = act.or(stretch.map(|it| (it.last, it.digest)))?;
    Some(ChainEnd {
        position,
        digest: read_digest(&digest)?,
    })
}
