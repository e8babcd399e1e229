//! Approvals of a month: clicked several times and contrarily, or never; and each of their events
//! is dispatched once.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{BACK, Month};
use crate::crowd::Post;

/// How long people have, in hours.
const WITHIN: i64 = 600;

/// How often they are reminded, in hours.
const REMIND: i64 = 100;

/// The clicks on each approval: whether they approve.
const CLICKS: [bool; 3] = [true, false, true];

/// Of this many approvals, one times out and is rejected, and one times out and the run continues.
const SILENT_EVERY: usize = 10;

/// Counts the events of approvals, each under a name of its own.
const EARS: [(&str, &str); 3] = [
    ("decided", "${{ input.approval }}"),
    ("escalated", "${{ input.approval }}"),
    ("reminded", "${{ input.approval }}/${{ input.number }}"),
];

/// The approvals, the clicks that are still to come, and the answers to those that were made.
pub(crate) struct Approvals {
    count: usize,
    clicks: Vec<Click>,
    per_leap: usize,
    decisions: HashMap<usize, bool>,
    contrary: usize,
}

struct Click {
    id: usize,
    path: String,
    digest: String,
    approved: bool,
}

/// What happens to an approval without a decision.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Decided,
    Rejected,
    GoesOn,
}

fn fate(id: usize) -> Fate {
    match id % SILENT_EVERY {
        0 => Fate::Rejected,
        1 => Fate::GoesOn,
        _ => Fate::Decided,
    }
}

/// Asks people so many things.
pub(crate) async fn prepare(month: &mut Month, count: usize) -> Result<Approvals> {
    let server = month.servers[0].as_ref().context("a server")?;
    for (name, on_timeout) in [("ask", "reject"), ("ask-anyway", "continue")] {
        let source = format!(
            "flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - id: tell\n    \
             kv: {{ set: 'link/${{{{ input.id }}}}', value: '${{{{ waits.sign.url }}}}' }}\n  - id: sign\n    \
             approval: {{ from: [finance], escalate: [board], show: {{ id: '${{{{ input.id }}}}' }}, \
             within: {WITHIN}h, remind: {REMIND}h, on_timeout: {on_timeout}, login: false }}\n  - id: after\n    \
             kv: {{ add: 'after/${{{{ input.id }}}}' }}\nresult: steps.sign.result\n"
        );
        month.home.publish(server, name, &source).await?;
    }
    for (what, entry) in EARS {
        let source = format!(
            "flow: hear-{what}\ntrigger:\n  event: {{ name: semel.approval.{what} }}\nsteps:\n  - id: count\n    \
             kv: {{ add: '{what}/{entry}' }}\n"
        );
        let name = format!("hear-{what}");
        month.home.publish(server, &name, &source).await?;
    }
    let posts = (0..count).map(|id| {
        let flow = match fate(id) {
            Fate::GoesOn => "ask-anyway",
            Fate::Rejected | Fate::Decided => "ask",
        };
        Post {
            subject: id,
            path: format!("/hooks/default/{flow}"),
            body: format!(r#"{{"id":"a{id}"}}"#),
        }
    });
    month.deliver(posts.collect()).await?;
    let mut clicks = until_asked(month, count).await?;
    month.chance.shuffle(&mut clicks);
    // All have come long before the approvals time out.
    let per_leap = clicks.len() / 20 + 1;
    Ok(Approvals {
        count,
        clicks,
        per_leap,
        decisions: HashMap::new(),
        contrary: 0,
    })
}

/// Waits until all approvals are open, and returns the clicks that will be made.
async fn until_asked(month: &Month, count: usize) -> Result<Vec<Click>> {
    let known = "SELECT a.shown->>'id', k.value #>> '{}', a.digest
                   FROM approvals a JOIN kv k ON k.entry = 'link/' || (a.shown->>'id')
                  WHERE a.state = 'open'";
    month.until_rows(known, count).await?;
    let mut clicks = vec![];
    for row in &month.client.query(known, &[]).await? {
        let id = number(row.get(0))?;
        let url: &str = row.get(1);
        let at = url.find("/approvals/").context("a link")?;
        if fate(id) != Fate::Decided {
            continue;
        }
        clicks.extend(CLICKS.map(|approved| Click {
            id,
            path: url[at..].to_owned(),
            digest: row.get(2),
            approved,
        }));
    }
    Ok(clicks)
}

fn number(name: &str) -> Result<usize> {
    Ok(name.trim_start_matches('a').parse()?)
}

impl Approvals {
    /// Makes some of the clicks, where a server is there to take them. One without an answer is
    /// made again at the next leap.
    pub(crate) async fn go_on(&mut self, month: &mut Month) -> Result<()> {
        let Some(server) = month.any() else {
            return Ok(());
        };
        let client = server.client.clone();
        let some = self.per_leap.min(self.clicks.len());
        for click in self.clicks.split_off(self.clicks.len() - some) {
            let body =
                json!({ "approved": click.approved, "digest": click.digest, "name": "Grace" });
            let status = match client.post(&click.path, body.to_string()).await {
                Ok(answer) => answer.status.as_u16(),
                Err(_) => 503,
            };
            match status {
                200 => self.told(click.id, click.approved)?,
                409 => {
                    self.told(click.id, !click.approved)?;
                    self.contrary += 1;
                }
                503 => self.clicks.insert(0, click),
                _ => anyhow::bail!("a click is answered with {status}"),
            }
        }
        Ok(())
    }

    /// Every click gets the same decision.
    fn told(&mut self, id: usize, approved: bool) -> Result<()> {
        let known = *self.decisions.entry(id).or_insert(approved);
        ensure!(known == approved, "clicks on a{id} got two decisions");
        Ok(())
    }

    /// Compares the history with the answers and events; returns what there was.
    pub(crate) async fn check(&self, month: &Month) -> Result<Value> {
        ensure!(
            self.clicks.is_empty(),
            "{} clicks are left",
            self.clicks.len()
        );
        let after = month.counts("after").await?;
        let heard = [
            month.counts("decided").await?,
            month.counts("escalated").await?,
        ];
        let reminded = month.counts("reminded").await?;
        ensure!(
            reminded.values().all(|times| *times == 1),
            "a reminder came twice"
        );
        let mut silent = 0;
        let rows = self.read(month).await?;
        ensure!(rows.len() == self.count, "{} approvals", rows.len());
        for (name, run) in &rows {
            let id = number(name)?;
            let decided = self.decisions.get(&id).copied();
            let fate = fate(id);
            silent += usize::from(fate != Fate::Decided);
            let (approved, state) = match (fate, decided) {
                (Fate::Decided, Some(true)) => (Some(true), "succeeded"),
                (Fate::Decided, Some(false)) => (Some(false), "failed"),
                (Fate::Rejected, None) => (None, "failed"),
                (Fate::GoesOn, None) => (None, "succeeded"),
                _ => anyhow::bail!("{name} got {decided:?}"),
            };
            ensure!(
                run.approved == approved && run.state == state,
                "{name} is {:?} and {}, not {approved:?} and {state}",
                run.approved,
                run.state
            );
            let went_on = after.get(name).copied().unwrap_or_default();
            ensure!(
                went_on == i64::from(state == "succeeded"),
                "{name} continued {went_on} times"
            );
            let [told, escalated] = heard.each_ref().map(|it| it.get(&run.wait).copied());
            ensure!(
                told == Some(1),
                "the end of {name} was dispatched {told:?} times"
            );
            let late = fate != Fate::Decided;
            ensure!(
                escalated == Some(1) || !late && escalated.is_none(),
                "{name} was escalated {escalated:?} times"
            );
            ensure!(
                !late || run.waited + BACK >= WITHIN * 60,
                "{name} timed out after {} minutes",
                run.waited
            );
            ensure!(
                !late || reminded.contains_key(&format!("{}/1", run.wait)),
                "no reminder of {name}"
            );
        }
        Ok(json!({
            "approvals": self.count, "decided": self.decisions.len(), "timed_out": silent,
            "told_that_it_was_decided_otherwise": self.contrary, "reminders": reminded.len(),
        }))
    }

    async fn read(&self, month: &Month) -> Result<HashMap<String, Ended>> {
        let ended = "
            SELECT a.shown->>'id', a.approved, r.state::text,
                   floor(extract(epoch FROM r.ended_at - a.opened_at) / 60)::int8,
                   'wait_' || replace(a.id::text, '-', '')
              FROM approvals a JOIN runs r ON r.id = a.run_id";
        let rows = month.client.query(ended, &[]).await?;
        let ended = rows.iter().map(|row| {
            let ended = Ended {
                approved: row.get(1),
                state: row.get(2),
                waited: row.get(3),
                wait: row.get(4),
            };
            (row.get(0), ended)
        });
        Ok(ended.collect())
    }
}

/// The outcome of an approval and of its run.
struct Ended {
    approved: Option<bool>,
    state: String,
    waited: i64,
    wait: String,
}
