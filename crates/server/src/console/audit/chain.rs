//! Whether the chain of the audit record holds: each act fits the digest of all before it.

use semel_api::types::{AuditRecord, Page as Found, RemovedStretch, read_digest};
use semel_model::Right;
use semel_model::audit_chain::{ChainBreak, ChainEnd};

use super::refuse;
use crate::answer::Answered;
use crate::console::markup::{self, Markup};
use crate::console::shell::{Shell, keep, show_list};
use crate::console::visit::Visit;
use crate::console::words;
use crate::error::ApiError;

/// How many acts a page checks: what follows is checked on the next one.
const PAGE: &str = "500";

/// How far the chain was checked.
struct Checked {
    end: ChainEnd,
    /// How many acts were removed before the first that was read.
    removed: i64,
    /// Why it does not hold behind that.
    broken: Option<ChainBreak>,
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
    let end = known.filter(|_| after > 0).map(|digest| ChainEnd {
        position: after,
        digest,
    });
    let mut checked = Checked {
        end: end.unwrap_or(ChainEnd::START),
        removed: 0,
        broken: None,
    };
    if let Err(error) = checked.pass_removed(&visit).await {
        return keep(shell, error, Vec::new());
    }
    // From before what was removed: none of that may be there.
    let found: Found<AuditRecord> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, Vec::new()),
    };
    let first = found.items.first().and_then(|act| act.position);
    if first.is_some_and(|first| first > checked.end.next()) {
        // Retention may have been at work between the two.
        if let Err(error) = checked.pass_removed(&visit).await {
            return keep(shell, error, Vec::new());
        }
    }
    for act in &found.items {
        checked.follow(act);
    }
    let ended = found.next.is_none();
    show_list(shell, Markup::default(), body(&visit, &checked, ended))
}

impl Checked {
    /// Goes on behind what retention removed, by its seals.
    async fn pass_removed(&mut self, visit: &Visit) -> Result<(), ApiError> {
        loop {
            let from = self.end.position.to_string();
            let address = words::address("/v1/audit/removed", &[("after", &from), ("limit", PAGE)]);
            let found: Found<RemovedStretch> = visit.get(&address).await?;
            let before = self.end.position;
            for acts in found.items.iter().map(RemovedStretch::acts) {
                let passed = acts.ok_or(ChainBreak::Changed);
                if let Err(broken) = passed.and_then(|acts| self.end.pass(&acts)) {
                    self.broken = Some(broken);
                    return Ok(());
                }
            }
            self.removed += self.end.position - before;
            if found.next.is_none() {
                return Ok(());
            }
        }
    }

    fn follow(&mut self, act: &AuditRecord) {
        if self.broken.is_some() {
            return;
        }
        let sealed = act.sealed().ok_or(ChainBreak::Changed);
        let followed = sealed.and_then(|(act, digest)| self.end.follow(&act, &digest));
        self.broken = followed.err();
    }
}

fn body(visit: &Visit, checked: &Checked, ended: bool) -> Vec<Markup> {
    let (position, digest) = (checked.end.position, hex::encode(checked.end.digest));
    let (text, class) = match &checked.broken {
        Some(ChainBreak::Overtaken(_)) => (
            "Older acts were removed by retention since you began. Check again from the beginning."
                .to_owned(),
            "verdict",
        ),
        Some(why @ (ChainBreak::Missing(_) | ChainBreak::Changed)) => {
            let at = checked.end.next();
            let text = format!("The chain does not hold at no. {at}: {why}.");
            (text, "verdict is-bad")
        }
        None if ended => {
            let text = format!(
                "The chain holds up to its end, no. {position}: every act that was read is as it was sealed."
            );
            (text, "verdict")
        }
        None => {
            let text = format!("The chain holds up to no. {position}; there is more.");
            (text, "verdict")
        }
    };
    let verdict = Markup::text(&text).within("p", class);
    let removed = match checked.removed {
        0 => Markup::default(),
        removed => Markup::text(&format!(
            "{removed} older acts, by retention; their seals fit"
        )),
    };
    let facts = markup::facts(vec![
        ("Checked up to", Markup::text(&format!("no. {position}"))),
        ("Digest there", markup::code(&digest)),
        ("Removed", removed),
    ]);
    let help = "Compare the digest with one that you kept: who can write to the database could have sealed another record.";
    let mut body = vec![verdict, facts, Markup::text(help).within("p", "help")];
    if !ended && checked.broken.is_none() {
        let (after, here) = (position.to_string(), visit.page("/audit/chain"));
        let next = words::address(&here, &[("after", &after), ("digest", &digest)]);
        let link = Markup::text("Check what follows").link(&next);
        body.push(link.within("p", "next"));
    }
    if matches!(checked.broken, Some(ChainBreak::Overtaken(_))) {
        let again = Markup::text("Check from the beginning").link(&visit.page("/audit/chain"));
        body.push(again.within("p", "next"));
    }
    let back = Markup::text("The audit record").link(&visit.page("/audit"));
    body.push(back.within("p", "presets"));
    body
}
