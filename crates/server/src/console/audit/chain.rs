//! Whether the chain of the audit record holds: each act fits the digest of all before it.

use semel_api::types::{AuditRecord, Page as Found};
use semel_model::Right;
use semel_model::audit_chain::{CHAIN_START, SealedAct};

use super::refuse;
use crate::answer::Answered;
use crate::console::markup::{self, Markup};
use crate::console::shell::{Shell, keep, show_list};
use crate::console::visit::Visit;
use crate::console::words;

/// How many acts are read at a time.
const PAGE: &str = "500";

/// How many times a page reads: what follows is checked on the next one.
const READS_MAX: usize = 4;

/// How far the chain was checked.
struct Checked {
    position: i64,
    digest: [u8; 32],
    /// Where it does not hold.
    broken: Option<(i64, &'static str)>,
}

/// `GET /console/{namespace}/audit/chain`: from the beginning, or behind an act whose digest is known.
pub(in crate::console) async fn page(visit: Visit) -> Answered {
    // Without the digest of the act before, there is nothing to continue from.
    let known = read_digest(visit.parameter("digest"));
    let after: i64 = match known {
        Some(_) => visit.parameter("after").parse().unwrap_or(0),
        None => 0,
    };
    let from = after.to_string();
    let json = words::address("/v1/audit/chain", &[("after", &from), ("limit", PAGE)]);
    let command = "semel audit export audit.jsonl && semel audit verify audit.jsonl";
    let shell = Shell::new(
        &visit,
        "/audit",
        "Chain of the audit record",
        &json,
        command,
    );
    if let Some(missing) = visit.lacks(Right::Audit) {
        return refuse(shell, &missing);
    }
    let mut checked = Checked {
        position: after,
        digest: known.filter(|_| after > 0).unwrap_or(CHAIN_START),
        broken: None,
    };
    let mut ended = false;
    for _ in 0..READS_MAX {
        let from = checked.position.to_string();
        let address = words::address("/v1/audit/chain", &[("after", &from), ("limit", PAGE)]);
        let found: Found<AuditRecord> = match visit.get(&address).await {
            Ok(found) => found,
            Err(error) => return keep(shell, error, Vec::new()),
        };
        for act in &found.items {
            checked.follow(act);
        }
        ended = found.next.is_none();
        if ended || checked.broken.is_some() {
            break;
        }
    }
    show_list(shell, Markup::default(), body(&visit, &checked, ended))
}

fn read_digest(text: &str) -> Option<[u8; 32]> {
    hex::decode(text).ok()?.try_into().ok()
}

impl Checked {
    fn follow(&mut self, act: &AuditRecord) {
        if self.broken.is_some() {
            return;
        }
        let position = self.position + 1;
        if act.position != Some(position) {
            self.broken = Some((position, "an act is missing"));
            return;
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
        let digest = sealed.seal(&self.digest);
        match act.digest.as_deref() == Some(hex::encode(digest).as_str()) {
            true => (self.position, self.digest) = (position, digest),
            false => self.broken = Some((position, "it was changed, or something before it was")),
        }
    }
}

fn body(visit: &Visit, checked: &Checked, ended: bool) -> Vec<Markup> {
    let (position, digest) = (checked.position, hex::encode(checked.digest));
    let verdict = match &checked.broken {
        Some((at, why)) => {
            let text = format!("The chain does not hold at no. {at}: {why}.");
            Markup::text(&text).within("p", "verdict is-bad")
        }
        None if ended => {
            let text = format!("The chain holds: {position} acts, each as it was sealed.");
            Markup::text(&text).within("p", "verdict")
        }
        None => {
            let text = format!("The chain holds up to no. {position}; there is more.");
            Markup::text(&text).within("p", "verdict")
        }
    };
    let facts = markup::facts(vec![
        ("Checked up to", Markup::text(&format!("no. {position}"))),
        ("Digest there", markup::code(&digest)),
    ]);
    let help = "Compare the digest with one that you kept: who can write to the database could have sealed another record.";
    let mut body = vec![verdict, facts, Markup::text(help).within("p", "help")];
    if !ended && checked.broken.is_none() {
        let (after, here) = (position.to_string(), visit.page("/audit/chain"));
        let next = words::address(&here, &[("after", &after), ("digest", &digest)]);
        let link = Markup::text("Check what follows").link(&next);
        body.push(link.within("p", "next"));
    }
    let back = Markup::text("The audit record").link(&visit.page("/audit"));
    body.push(back.within("p", "presets"));
    body
}
