//! `semel audit verify`.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

use semel_api::types::{AuditRecord, RemovedStretch};
use semel_model::audit_chain::ChainEnd;
use serde::Deserialize;
use serde_json::json;

use crate::answer::{Answer, Problem};

/// Verify an exported audit record: that no act was changed, removed or put in between.
///
/// Needs no server. What retention removed is passed by its seal, and counted. Compare the digest that it prints with one that you kept: whoever can write to
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
    let (mut end, mut removed) = (ChainEnd::START, 0);
    for (line, number) in BufReader::new(file).lines().zip(1_u64..) {
        let line = line.map_err(unreadable)?;
        removed += follow(&line, &mut end).map_err(|why| {
            Problem::local(format!("{shown}, line {number}: {why}"))
                .hint("compare the file with another export, and with a digest that you kept")
        })?;
    }
    let (acts, digest) = (end.position - removed, hex::encode(end.digest));
    let body =
        json!({ "acts": acts, "removed": removed, "position": end.position, "digest": digest });
    let older = match removed {
        0 => String::new(),
        _ => format!("; {removed} older acts were removed by retention"),
    };
    let text = format!("{acts} acts, each as it was sealed{older}\n{digest}");
    Ok(Answer::done(&body, text))
}

/// A line of an export.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Removed(RemovedStretch),
    Act(AuditRecord),
}

/// Goes on by one line. Says how many acts it stands for that were removed.
fn follow(line: &str, end: &mut ChainEnd) -> Result<i64, String> {
    let line = serde_json::from_str(line).map_err(|_| {
        "it is neither an act nor a removed stretch: the file is damaged, or not of `semel audit export`"
    })?;
    let before = end.position;
    match line {
        Line::Removed(stretch) => {
            let acts = stretch
                .acts()
                .ok_or("its digests are not 32 bytes in hexadecimal")?;
            end.pass(&acts).map_err(|why| why.to_string())?;
            Ok(end.position - before)
        }
        Line::Act(act) => {
            let (act, digest) = act.sealed().ok_or("it is not sealed")?;
            end.follow(&act, &digest).map_err(|why| why.to_string())?;
            Ok(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use semel_model::audit_chain::{ActTraces, CHAIN_START, SealedAct};

    use super::*;

    const AT: &str = "2026-11-01T00:00:00Z";

    #[test]
    fn what_was_removed_is_passed_by_its_seal_and_counted() {
        let act = SealedAct {
            position: 3,
            id: 7,
            at: AT.parse().unwrap(),
            actor: "token:ada",
            action: "key.drop",
            subject: "orders 1",
            reason: None,
            run: None,
            traces: ActTraces::default(),
        };
        let (start, seal) = (hex::encode(CHAIN_START), [9; 32]);
        let stretch = |before: &str| {
            let digest = hex::encode(seal);
            json!({ "first": 1, "last": 2, "digest_before": before, "digest": digest,
                    "latest_at": AT, "removed_at": AT })
        };
        let digest = hex::encode(act.seal(&seal));
        let left = json!({ "id": 7, "at": AT, "actor": "token:ada", "action": "key.drop",
                           "subject": "orders 1", "position": 3, "digest": digest });
        let mut end = ChainEnd::START;

        assert_eq!(follow(&stretch(&start).to_string(), &mut end), Ok(2));
        assert_eq!(follow(&left.to_string(), &mut end), Ok(0));
        assert_eq!(end.position, 3);
        assert!(follow(&stretch(&start).to_string(), &mut end).is_err());
        let other = stretch(&digest).to_string();
        assert!(follow(&other, &mut { ChainEnd::START }).is_err());
        assert!(follow("{}", &mut { ChainEnd::START }).is_err());
    }
}
