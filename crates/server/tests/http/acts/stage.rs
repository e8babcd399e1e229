//! A server with a subject for every act, and the requests that carry the acts out.

use anyhow::{Context, Result};
use hyper::Method;
use semel_api::types::{PushFlow, PutConnection, RunStatus, SetSecret, StartRun};
use semel_model::{RunId, SecretText};
use semel_testkit::peer::Behaviour;
use semel_testkit::{Peer, until};
use serde_json::{Value, json};

use crate::world::{World, patience_span};

/// Everything that the acts below change, as one digest.
const STATE: &str = "
    SELECT md5(concat_ws('|',
        (SELECT string_agg(concat(run_id, cancel), ',' ORDER BY run_id) FROM queue),
        (SELECT string_agg(concat(id, state), ',' ORDER BY id) FROM runs),
        (SELECT string_agg(concat(id, state), ',' ORDER BY id) FROM effects),
        (SELECT string_agg(concat(id, state), ',' ORDER BY id) FROM waits),
        (SELECT string_agg(concat(id, state), ',' ORDER BY id) FROM approvals),
        (SELECT string_agg(id::text, ',' ORDER BY id) FROM claims),
        (SELECT string_agg(concat(flow_id, number), ',' ORDER BY id) FROM releases),
        (SELECT string_agg(concat(name, live_release), ',' ORDER BY id) FROM flows),
        (SELECT string_agg(concat(name, version), ',' ORDER BY name) FROM connections),
        (SELECT string_agg(concat(name, version, data_key, retires_at), ',' ORDER BY name, version) FROM secrets),
        (SELECT count(*) FROM data_keys),
        (SELECT string_agg(concat(name, event), ',' ORDER BY name) FROM subscriptions),
        (SELECT string_agg(concat(namespace_id, connection), ',') FROM alert_settings),
        (SELECT string_agg(concat(flow, paused_at), ',' ORDER BY id) FROM schedules)))";

/// A server with a subject for every act.
pub(super) struct Stage {
    pub(super) world: World,
    _bank: Peer,
    pub(super) waiting: RunId,
    pub(super) failed: RunId,
    wait: String,
    approval: (String, String),
    pub(super) doubt: String,
}

async fn start(world: &World, flow: &str) -> Result<(RunId, RunStatus)> {
    let start = StartRun {
        key: Some("k".to_owned()),
        ..StartRun::default()
    };
    let flow = flow.parse()?;
    let patience = Some(patience_span());
    let started = world.client.start_run(&flow, &start, patience).await?.body;
    Ok((started.run, started.state))
}

async fn publish_flows(world: &World, bank: &Peer) -> Result<()> {
    let charge = format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    guard: review\n    \
         http: {{ post: '{}', json: {{ n: 1 }}, timeout: 1s }}\n",
        bank.url("/plain/c")
    );
    world.publish("charging", &charge).await?;
    let waits =
        "trigger: { api: {} }\nsteps:\n  - { id: on, wait: { callback: true, within: 1h } }\n";
    world.publish("waiting", waits).await?;
    world.publish("answering", waits).await?;
    let asks =
        "trigger: { api: {} }\nsteps:\n  - { id: sign, approval: { from: [test], within: 1h } }\n";
    world.publish("asking", asks).await?;
    let fails = "trigger: { api: {} }\nsteps:\n  - { id: no, fail: { code: no, message: no } }\n";
    world.publish("failing", fails).await?;
    let ticks = "trigger: { schedule: { every: 1d } }\nsteps:\n  - { id: one, function: '1' }\n";
    world.publish("nightly", ticks).await?;
    let source = "flow: fresh\ntrigger: { api: {} }\nsteps:\n  - { id: one, function: '1' }\n";
    let source = source.to_owned();
    world
        .client
        .push_flow(&"fresh".parse()?, &PushFlow { source })
        .await?;
    Ok(())
}

pub(super) async fn stage() -> Result<Stage> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    publish_flows(&world, &bank).await?;
    let hook = json!({ "to": { "webhook": { "url": "https://x.example/h", "secret": "sealed" } } });
    let put = PutConnection {
        connection: serde_json::from_value(hook)?,
        replace: false,
    };
    world
        .client
        .put_connection(&"hook".parse()?, &put, None)
        .await?;
    world
        .client
        .put_connection(&"spare".parse()?, &put, None)
        .await?;
    // A former value, which verifies for a day.
    for value in ["hush-hush", "hush-hush-hush"] {
        let set = SetSecret {
            value: SecretText::new(value.to_owned()),
            overlap: None,
            hosts: None,
        };
        world
            .client
            .set_secret(&"sealed".parse()?, &set, None)
            .await?;
    }
    bank.next("/plain/", Behaviour::CloseWithoutAnswer).await?;
    let (charged, state) = start(&world, "charging").await?;
    anyhow::ensure!(state == RunStatus::InDoubt, "{state}");
    let doubts = world.client.list_doubts().await?.items;
    let doubt = doubts.iter().find(|effect| effect.run == charged);
    let doubt = doubt.context("a doubt")?.id.to_string();
    let (failed, _) = start(&world, "failing").await?;
    let lone = |flow: &'static str| {
        let start = StartRun {
            key: Some("k".to_owned()),
            ..StartRun::default()
        };
        let client = &world.client;
        async move {
            anyhow::Ok(
                client
                    .start_run(&flow.parse()?, &start, None)
                    .await?
                    .body
                    .run,
            )
        }
    };
    let (waiting, answering, asking) = (
        lone("waiting").await?,
        lone("answering").await?,
        lone("asking").await?,
    );
    world.until_waiting(waiting).await?;
    let wait = world.until_waiting(answering).await?.id.to_string();
    let asked = world.until_asked(asking).await?;
    Ok(Stage {
        approval: (
            asked.approval.to_string(),
            asked.digest.context("a digest")?.to_string(),
        ),
        _bank: bank,
        waiting,
        failed,
        wait,
        doubt,
        world,
    })
}

impl Stage {
    /// Every act, in an order in which all can be done: what it is recorded as, and the request.
    pub(super) fn acts(&self, reason: &str) -> Vec<(&'static str, Method, String, Value)> {
        let (approval, digest) = &self.approval;
        let hook =
            json!({ "to": { "webhook": { "url": "https://y.example/h", "secret": "sealed" } } });
        let why = || json!({ "reason": reason });
        let (post, put) = (Method::POST, Method::PUT);
        vec![
            (
                "run.cancel",
                post.clone(),
                format!("/v1/runs/{}/cancel", self.waiting),
                why(),
            ),
            (
                "key.drop",
                post.clone(),
                "/v1/keys/failing/drop?key=k".to_owned(),
                why(),
            ),
            (
                "run.resume",
                post.clone(),
                format!("/v1/runs/{}/resume", self.failed),
                why(),
            ),
            (
                "doubt.settle fail",
                post.clone(),
                format!("/v1/effects/{}/settle", self.doubt),
                json!({ "verdict": "fail", "reason": reason }),
            ),
            (
                "schedule.pause",
                post.clone(),
                "/v1/schedules/nightly/pause".to_owned(),
                why(),
            ),
            (
                "schedule.resume",
                post.clone(),
                "/v1/schedules/nightly/resume".to_owned(),
                why(),
            ),
            (
                "flow.pause",
                post.clone(),
                "/v1/flows/nightly/pause".to_owned(),
                why(),
            ),
            (
                "flow.resume",
                post.clone(),
                "/v1/flows/nightly/resume".to_owned(),
                why(),
            ),
            (
                "wait.complete",
                post.clone(),
                format!("/v1/waits/{}/complete", self.wait),
                json!({ "payload": 1 }),
            ),
            (
                "approval.approve",
                post.clone(),
                format!("/v1/approvals/{approval}/decide"),
                json!({ "approved": true, "digest": digest }),
            ),
            (
                "flow.publish",
                post.clone(),
                "/v1/flows/fresh/publish".to_owned(),
                json!({}),
            ),
            (
                "flow.promote",
                post.clone(),
                "/v1/flows/fresh/promote".to_owned(),
                json!({ "release": 1 }),
            ),
            (
                "connection.put",
                put.clone(),
                "/v1/connections/hook".to_owned(),
                json!({ "connection": hook, "replace": true }),
            ),
            (
                "connection.delete",
                Method::DELETE,
                "/v1/connections/spare".to_owned(),
                Value::Null,
            ),
            (
                "secret.set",
                put.clone(),
                "/v1/secrets/other".to_owned(),
                json!({ "value": "hush-hush-hush" }),
            ),
            (
                "secret.bind",
                put.clone(),
                "/v1/secrets/sealed".to_owned(),
                json!({ "value": "hush-hush-hush", "hosts": ["127.0.0.1"] }),
            ),
            (
                "secret.retire",
                put.clone(),
                "/v1/secrets/sealed".to_owned(),
                json!({ "value": "hush-hush-hush", "overlap": "0s" }),
            ),
            (
                "secret.rotate",
                post.clone(),
                "/v1/secrets/rotate".to_owned(),
                json!({}),
            ),
            (
                "secret.delete",
                Method::DELETE,
                "/v1/secrets/other".to_owned(),
                Value::Null,
            ),
            (
                "subscription.put",
                put.clone(),
                "/v1/subscriptions/all".to_owned(),
                json!({ "event": "order.*", "connection": "hook" }),
            ),
            (
                "subscription.delete",
                Method::DELETE,
                "/v1/subscriptions/all".to_owned(),
                Value::Null,
            ),
            (
                "alert.set",
                put,
                "/v1/alerts".to_owned(),
                json!({ "connection": "hook" }),
            ),
            (
                "alert.unset",
                Method::DELETE,
                "/v1/alerts".to_owned(),
                Value::Null,
            ),
            (
                "schedule.fire",
                post,
                "/v1/schedules/nightly/fire".to_owned(),
                json!({}),
            ),
        ]
    }

    pub(super) async fn send(
        &self,
        method: &Method,
        path: &str,
        body: &Value,
        key: &str,
    ) -> Result<u16> {
        let authorization = format!("Bearer {}", self.world.token);
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", key),
        ];
        let body = match body.is_null() {
            true => String::new(),
            false => body.to_string(),
        };
        let sent = self
            .world
            .bare
            .send(method.clone(), path, &headers, body.into());
        let answer = sent.await?;
        Ok(answer.status.as_u16())
    }

    /// Waits until no worker holds or may take a run: what an act set in motion moves on by
    /// itself after its answer.
    pub(super) async fn rest(&self) -> Result<()> {
        let moving = "SELECT count(*) FROM queue WHERE holder IS NOT NULL OR due_at <= now()";
        let client = self.world.database.connect().await?;
        let look = async || Ok(client.query_one(moving, &[]).await?.get::<_, i64>(0));
        until("no run to move", look, |moving| *moving == 0).await?;
        Ok(())
    }

    pub(super) async fn state(&self) -> Result<String> {
        let client = self.world.database.connect().await?;
        Ok(client.query_one(STATE, &[]).await?.get(0))
    }

    pub(super) async fn recorded(&self, action: &str) -> Result<i64> {
        let count = "SELECT count(*) FROM audit WHERE action = $1 AND actor = 'token:test'";
        let client = self.world.database.connect().await?;
        Ok(client.query_one(count, &[&action]).await?.get(0))
    }
}
