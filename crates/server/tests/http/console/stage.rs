//! An installation with something of everything: runs that ended, one in doubt, one that waits for a
//! decision, repeats, and texts that a page must only show.

mod more;

use anyhow::{Context, Result, ensure};
use semel_api::types::{Approval, Effect, RunStatus, StartRun};
use semel_model::RunId;
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::json;

use crate::world::{World, patience_span};

/// What would act, break out of an attribute, or turn text round, if a page did more than show it.
pub(super) const HOSTILE: &str = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'><b>&amp;\u{202e}\u{7}{{7*7}}";

/// An installation with something of everything.
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) bank: Peer,
    /// A run that succeeded, whose key came three times.
    pub(super) done: RunId,
    /// A run that is stopped at a doubt.
    pub(super) stopped: RunId,
    /// The doubt.
    pub(super) doubt: Effect,
    /// A run that waits for a decision.
    pub(super) waiting: RunId,
    /// The decision that it waits for.
    pub(super) approval: Approval,
    /// A run with hostile texts everywhere.
    pub(super) hostile: RunId,
}

impl Stage {
    pub(super) async fn start() -> Result<Self> {
        let (world, bank) = (World::start().await?, Peer::start().await?);
        let charging = format!(
            "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    guard: review\n    \
             http: {{ post: '{}', json: {{ order: '${{{{ input.order }}}}' }}, timeout: 1s }}\n  \
             - {{ id: note, function: 'input.order' }}\nresult: steps.charge.result\n",
            bank.url("/plain/charges")
        );
        world.publish("charging", &charging).await?;
        let asking = "trigger: { api: {} }\nsteps:\n  - id: sign\n    \
                      approval: { from: [test], show: '${{ input }}', within: 1h }\n\
                      result: steps.sign.result.approved\n";
        world.publish("asking", asking).await?;
        let done = start(&world, "charging", "o-1", "o-1").await?;
        for _ in 0..2 {
            start(&world, "charging", "o-1", "o-1").await?;
        }
        let hostile = start(&world, "charging", HOSTILE, HOSTILE).await?;
        bank.next("/plain/", Behaviour::CloseWithoutAnswer).await?;
        let stopped = start(&world, "charging", "o-2", "o-2").await?;
        let doubt = world
            .client
            .list_doubts()
            .await?
            .items
            .pop()
            .context("a doubt")?;
        let waiting = begin(&world, "asking", "a-1", HOSTILE).await?;
        let approval = world.until_asked(waiting).await?;
        Ok(Self {
            world,
            bank,
            done,
            stopped,
            doubt,
            waiting,
            approval,
            hostile,
        })
    }

    /// Every page of the console, with something on each.
    pub(super) async fn all_pages(&self) -> Result<Vec<String>> {
        let mut pages = self.pages();
        pages.extend(self.furnish().await?);
        Ok(pages)
    }

    /// The pages about runs that there is something on.
    pub(super) fn pages(&self) -> Vec<String> {
        let Self {
            done,
            stopped,
            waiting,
            hostile,
            ..
        } = self;
        let hostile_key: String = HOSTILE.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let mut pages: Vec<String> = [
            "/",
            "/runs",
            "/runs?q=flow%3Acharging%20state%3Asucceeded",
            "/keys?key=o-1",
            "/searches",
            "/doubts",
            "/doubts/group?flow=charging&step=charge",
            "/doubts/group?flow=charging&step=charge&verdict=did_not_happen",
            "/approvals",
            "/approvals?all=yes",
            "/duplicates",
            "/duplicates?held=yes",
            "/effects",
            "/effects?state=in_doubt",
            "/flows",
            "/flows/charging",
            "/flows/asking",
            "/audit",
            "/tokens",
            "/people",
        ]
        .iter()
        .map(|page| format!("/console/main{page}"))
        .collect();
        for run in [done, stopped, waiting, hostile] {
            pages.push(format!("/console/main/runs/{run}"));
        }
        pages.push(format!("/console/main/runs/{done}/duplicates"));
        pages.push(format!("/console/main/effects/{}", self.doubt.id));
        pages.push(format!(
            "/console/main/approvals/{}",
            self.approval.approval
        ));
        pages.push(format!("/console/main/keys?key={hostile_key}"));
        pages
    }
}

/// Starts a run, and waits until it ends or stops.
async fn start(world: &World, flow: &str, key: &str, order: &str) -> Result<RunId> {
    let patience = Some(patience_span());
    let ask = ask(key, order);
    let started = world
        .client
        .start_run(&flow.parse()?, &ask, patience)
        .await?;
    let state = started.body.state;
    ensure!(
        [RunStatus::Succeeded, RunStatus::InDoubt].contains(&state),
        "{started:?}"
    );
    Ok(started.body.run)
}

/// A part of each run's payload that no id, digest or time of a page can have in it by chance.
pub(super) const SENT: &str = "sent with the order";

/// Starts a run.
pub(super) async fn begin(world: &World, flow: &str, key: &str, order: &str) -> Result<RunId> {
    let started = world
        .client
        .start_run(&flow.parse()?, &ask(key, order), None)
        .await?;
    Ok(started.body.run)
}

fn ask(key: &str, order: &str) -> StartRun {
    StartRun {
        key: Some(key.to_owned()),
        input: json!({"order": order, "amount": 4200, "for": SENT}),
        ..StartRun::default()
    }
}
