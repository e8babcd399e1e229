//! What surrounds runs: releases with a rehearsal, a schedule, a connection, a subscription, work for
//! workers, and what is done to many runs.

use anyhow::{Context, Result};
use semel_api::types::{
    AskRehearsal, AskRunJob, PlanReplay, PushFlow, PutConnection, PutSubscription, RunJobVerb,
    SetAlerts, SetSecret, StartRun, TaskFilter,
};
use semel_model::{Label, RunId, SecretText};
use semel_testkit::until_some;
use serde_json::json;

use super::{HOSTILE, Stage, begin};
use crate::run_lists::BATCH;
use crate::world::{World, patience_span};

/// A flow with something of everything that a graph has, in its first release and in its second.
fn routed(guard: &str, condition: &str) -> String {
    let condition = serde_json::to_string(condition).unwrap_or_default();
    let when = json!(format!("input.kind == {condition}"));
    format!(
        "about: {about}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n  manual: {{ key: input.id }}\n\
         keep: 30d\nsteps:\n  - id: route\n    switch:\n      cases:\n        - when: {when}\n          steps:\n            \
         - id: each\n              foreach:\n                in: input.lines\n                key: item.id\n                steps:\n                  \
         - {{ id: count, kv: {{ add: lines }} }}\n      default:\n        - {{ id: stop, return: '1' }}\n  \
         - id: charge\n    guard: {guard}\n    http: {{ post: 'http://127.0.0.1:1/charges' }}\n\
         examples:\n  - {{ name: one, input: {{ id: a, kind: {condition}, lines: [] }} }}\n",
        about = json!(HOSTILE),
    )
}

/// The whole text of its second release, whose rehearsal fails.
fn second_routed() -> String {
    format!("flow: routed\n{}", routed("natural", HOSTILE))
}

const SCHEDULED: &str = "trigger: { schedule: { cron: '30 8 * * MON-FRI', zone: Europe/Berlin } }\n\
    steps:\n  - { id: one, kv: { add: nights } }\n";

const WORKING: &str = "trigger: { api: {} }\nsteps:\n  - id: resize\n    \
    task: { queue: images, input: '${{ input }}', within: 1h, lease: 30s }\n    guard: key\n";

const EMITTING: &str =
    "trigger: { api: {} }\nsteps:\n  - id: tell\n    emit: { event: order.paid }\n";

const HELD: &str = "trigger: { api: {} }\nsteps:\n  \
    - { id: hold, wait: { callback: true, within: 1h } }\n";

const FAILING: &str = "trigger: { api: {} }\nsteps:\n  \
    - { id: one, fail: { code: no, message: '${{ input.order }}' } }\n";

impl Stage {
    /// Makes what surrounds runs, with a rehearsal, which takes seconds. Returns the pages that show it.
    pub(crate) async fn furnish(&self) -> Result<Vec<String>> {
        let pages = self.furnish_unrehearsed().await?;
        rehearse(&self.world, &second_routed()).await?;
        Ok(pages)
    }

    /// The same without the rehearsal.
    pub(crate) async fn furnish_unrehearsed(&self) -> Result<Vec<String>> {
        let world = &self.world;
        self.connect().await?;
        world.publish("routed", &routed("review", "b")).await?;
        let client = &world.client;
        let flow = "routed".parse()?;
        let source = second_routed();
        client.push_flow(&flow, &PushFlow { source }).await?;
        client.publish_flow(&flow, "second").await?;
        world.publish("nightly", SCHEDULED).await?;
        for (flow, text) in [
            ("working", WORKING),
            ("emitting", EMITTING),
            ("failing", FAILING),
            ("held", HELD),
        ] {
            world.publish(flow, text).await?;
            begin(world, flow, "w-1", HOSTILE).await?;
        }
        self.wait_for_work().await?;
        let mut pages: Vec<String> = [
            "/flows/routed",
            "/flows/routed?release=2",
            "/flows/routed/releases",
            "/flows/routed/diff/r1..r2",
            "/flows/routed/releases/1/rehearsal",
            "/flows/routed/releases/2/rehearsal",
            "/schedules",
            "/schedules/nightly",
            "/connections",
            "/connections/hooked",
            "/secrets",
            "/subscriptions",
            "/subscriptions/hooked",
            "/events",
            "/servers",
            "/tasks",
            "/tasks?queue=images&all=yes",
            "/jobs",
            "/jobs/new?verb=resume&flow=failing&state=failed",
            "/replays",
            "/settings",
            "/refusals",
            "/waits",
            "/waits?all=yes",
            "/audit/chain",
        ]
        .iter()
        .map(|page| format!("/console/main{page}"))
        .collect();
        let events = world.client.list_events(&Default::default()).await?.items;
        let event = events.first().context("an event")?;
        pages.push(format!("/console/main/events/{}", event.id));
        pages.extend(self.act_on_many().await?);
        let held = begin(world, "held", "h-1", HOSTILE).await?;
        let wait = world.until_waiting(held).await?.id;
        for page in [format!("/waits/{wait}"), format!("/audit?subject={wait}")] {
            pages.push(format!("/console/main{page}"));
        }
        let batch = self.go_through_a_list().await?;
        for page in ["", "/items?state=failed", "/items", "/replay"] {
            pages.push(format!("/console/main/runs/{batch}{page}"));
        }
        Ok(pages)
    }

    async fn connect(&self) -> Result<()> {
        let (client, name): (_, Label) = (&self.world.client, "hooked".parse()?);
        let url = self.bank.url("/hook");
        let webhook = json!({ "webhook": { "url": url, "secret": "hooked" } });
        let connection = PutConnection {
            connection: serde_json::from_value(json!({ "to": webhook }))?,
            replace: false,
        };
        client.put_connection(&name, &connection, None).await?;
        let secret = SetSecret {
            value: SecretText::new("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz".to_owned()),
            overlap: None,
            hosts: None,
        };
        client.set_secret(&name, &secret, None).await?;
        let subscription = PutSubscription {
            event: "order.*".to_owned(),
            connection: "hooked".to_owned(),
            replace: false,
        };
        client.put_subscription(&name, &subscription, None).await?;
        let set = SetAlerts {
            connection: "hooked".to_owned(),
            to: vec![],
        };
        client.set_alerts(&set, None).await?;
        Ok(())
    }

    async fn wait_for_work(&self) -> Result<()> {
        let client = &self.world.client;
        until_some("a task", async || {
            let tasks = client.list_tasks(&TaskFilter::default()).await?;
            Ok(tasks.items.into_iter().next())
        })
        .await?;
        let name: Label = "hooked".parse()?;
        until_some("a delivery", async || {
            let listed = client.list_deliveries(&name, &Default::default()).await?;
            Ok(listed.items.into_iter().next())
        })
        .await?;
        Ok(())
    }

    /// A run whose items all failed.
    async fn go_through_a_list(&self) -> Result<RunId> {
        let world = &self.world;
        let flow = world.publish("batch", BATCH).await?;
        let line = |id: &str| json!({ "id": id, "bad": true });
        let start = StartRun {
            key: Some("b-1".to_owned()),
            input: json!({ "lines": [line("x"), line(HOSTILE)] }),
            ..StartRun::default()
        };
        let patience = Some(patience_span());
        let started = world.client.start_run(&flow, &start, patience).await?;
        Ok(started.body.run)
    }

    /// A job that cancels runs, and a plan that replays some.
    async fn act_on_many(&self) -> Result<[String; 2]> {
        let client = &self.world.client;
        let mut job = AskRunJob {
            verb: RunJobVerb::Cancel,
            flow: "working".parse()?,
            state: None,
            after: None,
            before: None,
            digest: None,
            reason: Some(HOSTILE.to_owned()),
        };
        job.digest = Some(client.plan_run_job(&job).await?.digest);
        let job = client.make_run_job(&job, "job").await?.body.job;
        let failed = begin(&self.world, "failing", "f-2", HOSTILE).await?;
        let patience = patience_span();
        client.await_run(failed, patience).await?;
        let plan = PlanReplay {
            flow: "failing".parse()?,
            state: None,
            since: None,
            until: None,
            error: None,
            per_second: None,
            reason: Some(HOSTILE.to_owned()),
        };
        let plan = client.plan_replay(&plan, "plan").await?.body.plan;
        Ok([
            format!("/console/main/jobs/{job}"),
            format!("/console/main/replays/{plan}"),
        ])
    }
}

/// Has a text rehearsed, and waits for the end.
async fn rehearse(world: &World, source: &str) -> Result<()> {
    let id = "00000000-0000-4000-8000-0000000000c0";
    let ask = AskRehearsal {
        source: source.to_owned(),
        file: "routed.flow.yaml".to_owned(),
        example: None,
        fault: None,
        seed: 0,
    };
    world.client.ask_rehearsal(id, &ask).await?;
    let ended = until_some("the rehearsal to end", async || {
        let rehearsal = world.client.get_rehearsal(id).await?;
        Ok(rehearsal.is_over().then_some(rehearsal))
    });
    ended.await?.report.context("a report")?;
    Ok(())
}
