//! `semel audit verify`.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

use semel_api::types::AuditRecord;
use semel_model::audit_chain::{CHAIN_START, SealedAct};
use serde_json::json;

use crate::answer::{Answer, Problem};

/// Verify an exported audit record: that no act was changed, removed or put in between.
///
/// Needs no server. Compare the digest that it prints with one that you kept: whoever can write to
/// the database could have sealed another record.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel audit export audit.jsonl && semel audit verify audit.jsonl")]
pub(crate) struct Arguments {
    /// What `semel audit export` wrote, from its first position on.
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Answer, Problem> {
    let shown = arguments.file.display();
    let unreadable = |error| Problem::local(format!("cannot read {shown}: {error}"));
    let file = File::open(&arguments.file).map_err(unreadable)?;
    let (mut position, mut digest) = (0, CHAIN_START);
    for line in BufReader::new(file).lines() {
        let line = line.map_err(unreadable)?;
        position += 1;
        digest = follow(&line, position, &digest)
            .map_err(|why| Problem::local(format!("{shown}, line {position}: {why}")))?;
    }
    let digest = hex::encode(digest);
    let body = json!({ "acts": position, "digest": digest });
    let text = format!("{position} acts, each as it was sealed\n{digest}");
    Ok(Answer::done(&body, text))
}

/// The digest after one more line, where it is the one that the line has.
fn follow(line: &str, position: i64, before: &[u8; 32]) -> Result<[u8; 32], String> {
    let act: AuditRecord =
        serde_json::from_str(line).map_err(|error| format!("it is no act: {error}"))?;
    if act.position != Some(position) {
        return Err(format!(
            "an act is missing: position {position} is expected"
        ));
    }
    let sealed = SealedAct {
        position,
        id: act.id,
        at: act.at,
        actor: &act.actor,
        action: &act.action,
        subject: &act.subject,
        reason: act.reason.as_deref(),
        run: act.run,
    };
    let digest = sealed.seal(before);
    match act.digest.as_deref() == Some(hex::encode(digest).as_str()) {
        true => Ok(digest),
        false => Err("it was changed, or something before it was".to_owned()),
    }
}
