//! One real run of each kind, made by the product itself over its API.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use hyper::Method;
use semel_model::{FlowName, NamespaceName};
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_postgres::Client;

use super::flows::FLOWS;
use super::plan::Kind;
use super::read;
use super::template::{Subject, Template};
use crate::caller::Caller;

/// How often something is looked for, and how many times.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOKS_MAX: u32 = 600;

/// The flow and the key of the original of each kind.
pub(super) const ORIGINALS: [(Kind, &str, &str); 20] = [
    (Kind::Ordered, "orders", "original-ordered"),
    (Kind::OrderedAgain, "orders", "original-again"),
    (Kind::Stocked, "stock", "original-stocked"),
    (Kind::Seldom, "seldom", "original-seldom"),
    (Kind::Failed, "failing", "original-failed"),
    (Kind::Cancelled, "sleeping", "original-cancelled"),
    (Kind::Superseded, "skipping", "original-superseded"),
    (Kind::InDoubt, "charging", "original-doubt"),
    (Kind::NeedsReview, "reviewing", "original-review"),
    (Kind::Quarantined, "waiting", "original-quarantined"),
    (Kind::Waiting, "waiting", "original-waiting"),
    (Kind::Asking, "asking", "original-asking"),
    (Kind::Asked, "asking", "original-asked"),
    (Kind::Sleeping, "sleeping", "original-sleeping"),
    (Kind::Working, "working", "original-working"),
    (Kind::Retrying, "retrying", "original-retrying"),
    (Kind::Mismatched, "orders", "original-mismatched"),
    (Kind::Held, "holding", "original-held"),
    (Kind::Emitted, "emitting", "original-emitted"),
    (Kind::Batch, "batch", "original-batch"),
];

/// The original of runs that no worker took: made by a server without workers.
pub(super) const QUEUED: (Kind, &str, &str) = (Kind::Queued, "orders", "original-queued");

/// What scripts do once: one that is done, one that is in doubt.
pub(super) const ONCE: [&str; 2] = ["original-once-done", "original-once-doubt"];

/// Where originals are made.
pub(super) struct Stage<'a> {
    pub(super) caller: &'a Caller,
    pub(super) peer: &'a Peer,
    pub(super) client: &'a Client,
}

impl Stage<'_> {
    /// Publishes every flow, and makes what surrounds runs.
    pub(super) async fn publish(&self) -> Result<()> {
        let url = self.peer.url("/plain/hook");
        let webhook = json!({ "to": { "webhook": { "url": url, "secret": "hooked" } } });
        let secret = json!({ "value": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz" });
        let subscription = json!({ "event": "order.*", "connection": "hooked" });
        self.put("/v1/secrets/hooked", &secret).await?;
        self.put("/v1/connections/hooked", &json!({ "connection": webhook }))
            .await?;
        self.put("/v1/subscriptions/hooked", &subscription).await?;
        for (name, releases) in FLOWS {
            for (number, source) in releases.iter().enumerate() {
                let source = source.replace("PEER", &self.peer.url(""));
                let flow = format!("/v1/flows/{name}");
                let draft = json!({ "source": format!("flow: {name}\n{source}") });
                let key = format!("{name} {number}");
                let publish = format!("{flow}/publish");
                self.change(Method::PUT, &format!("{flow}/draft"), &draft, &key)
                    .await?;
                let published = self
                    .change(Method::POST, &publish, &json!({}), &key)
                    .await?;
                let release = json!({ "release": published["release"] });
                self.change(Method::POST, &format!("{flow}/promote"), &release, &key)
                    .await?;
            }
        }
        Ok(())
    }

    /// Makes the original of every kind that needs a worker.
    pub(super) async fn play(&self) -> Result<()> {
        for (kind, flow, key) in ORIGINALS {
            let made = self.play_one(kind, flow, key).await;
            made.with_context(|| format!("cannot make {key}"))?;
        }
        self.do_once(ONCE[0], true).await?;
        self.do_once(ONCE[1], false).await?;
        self.act_on_many().await
    }

    /// A job that cancels runs, and a plan that replays some.
    async fn act_on_many(&self) -> Result<()> {
        let mut job = json!({ "verb": "cancel", "flow": "skipping", "reason": "no longer wanted" });
        let path = "/v1/run-jobs/preview";
        let planned = self.change(Method::POST, path, &job, "plan a job").await?;
        job["digest"] = planned["digest"].clone();
        self.change(Method::POST, "/v1/run-jobs", &job, "a job")
            .await?;
        let plan = json!({ "flow": "failing", "reason": "the stock is back" });
        self.change(Method::POST, "/v1/replay-plans", &plan, "a plan")
            .await?;
        Ok(())
    }

    async fn play_one(&self, kind: Kind, flow: &str, key: &str) -> Result<()> {
        self.prepare(kind, flow).await?;
        let run = if kind == Kind::Held {
            self.deliver(flow, key).await?
        } else {
            self.start(flow, key).await?
        };
        self.act(kind, (flow, key), &run).await?;
        self.until_state(&run, end_of(kind)).await?;
        if [Kind::OrderedAgain, Kind::Mismatched, Kind::Held].contains(&kind) {
            let text = "SELECT 1 FROM duplicates d JOIN runs r ON r.id = d.run_id
                         WHERE r.key = $1::text::bytea";
            self.until(text, &[&key]).await?;
        }
        if kind == Kind::Emitted {
            let text = "SELECT 1 FROM webhook_deliveries WHERE state = 'delivered'";
            self.until(text, &[]).await?;
        }
        Ok(())
    }

    /// Sees to it that a run comes into its state.
    async fn prepare(&self, kind: Kind, flow: &str) -> Result<()> {
        let busy = Behaviour::RefuseWith(429);
        if kind == Kind::InDoubt {
            let lost = Behaviour::CloseWithoutAnswer;
            self.peer.next("/plain/", lost).await?;
        }
        if kind == Kind::NeedsReview {
            self.peer.next_times("/plain/", 2, busy).await?;
        }
        if kind == Kind::Retrying {
            self.peer.next("/plain/", busy).await?;
        }
        if kind == Kind::Superseded {
            self.start(flow, "original-runs-already").await?;
            self.until("SELECT 1 FROM gates WHERE running > 0", &[])
                .await?;
        }
        Ok(())
    }

    /// Does to a run what its kind takes.
    async fn act(&self, kind: Kind, (flow, key): (&str, &str), run: &str) -> Result<()> {
        if kind == Kind::Cancelled {
            self.until_state(run, "waiting").await?;
            let reason = json!({ "reason": "no longer wanted" });
            let path = format!("/v1/runs/{run}/cancel");
            self.change(Method::POST, &path, &reason, key).await?;
        }
        if kind == Kind::Quarantined {
            self.until_state(run, "waiting").await?;
            let text = "UPDATE queue SET stalled_takes = 5, due_at = moment()
                         WHERE run_id = (SELECT id FROM runs WHERE key = $1::text::bytea)";
            self.client.execute(text, &[&key]).await?;
        }
        if kind == Kind::Asked {
            self.until_state(run, "waiting").await?;
            self.decide(run, key).await?;
        }
        if kind == Kind::OrderedAgain {
            self.until_state(run, "succeeded").await?;
            self.start(flow, key).await?;
        }
        if kind == Kind::Mismatched {
            self.until_state(run, "succeeded").await?;
            let path = format!("/v1/flows/{flow}/runs");
            let body = json!({ "input": { "id": key, "amount": 1 } });
            let sent = self.caller.send(Method::POST, &path, &body, "another");
            sent.await?;
        }
        Ok(())
    }

    /// Starts a run. Returns its identity.
    pub(super) async fn start(&self, flow: &str, key: &str) -> Result<String> {
        let lines: Vec<Value> = (0..20)
            .map(|it| json!({ "id": format!("line-{it}") }))
            .collect();
        let mut input = json!({ "id": key, "amount": 4200, "customer": "c-17" });
        if flow == "batch" {
            input["lines"] = lines.into();
        }
        let path = format!("/v1/flows/{flow}/runs");
        let body = json!({ "input": input });
        let started = self.change(Method::POST, &path, &body, key).await?;
        Ok(started["run"].as_str().context("a run")?.to_owned())
    }

    /// Delivers the same key with two payloads.
    async fn deliver(&self, flow: &str, key: &str) -> Result<String> {
        let path = format!("/hooks/default/{flow}");
        let mut run = None;
        for total in [1, 2] {
            let body = json!({ "id": key, "total": total });
            let started = self.change(Method::POST, &path, &body, key).await?;
            run = started["run"].as_str().map(str::to_owned);
        }
        run.context("a run")
    }

    async fn decide(&self, run: &str, key: &str) -> Result<()> {
        let asked = self
            .caller
            .read(&format!("/v1/approvals?run={run}"))
            .await?;
        let asked = &asked["items"][0];
        let id = asked["approval"].as_str().context("an approval")?;
        let decision = json!({ "approved": true, "digest": asked["digest"] });
        let path = format!("/v1/approvals/{id}/decide");
        self.change(Method::POST, &path, &decision, key).await?;
        Ok(())
    }

    async fn do_once(&self, key: &str, is_done: bool) -> Result<()> {
        let begin = json!({
            "key": key,
            "holder": "holder_00000000000040008000000000000001",
            "holder_name": "host:1",
        });
        let path = "/v1/once/begin";
        let begun = self.change(Method::POST, path, &begin, key).await?;
        let mut report = json!({ "key": key, "token": begun["hold"]["token"] });
        let path = match is_done {
            true => "/v1/once/done",
            false => {
                report["in_doubt"] = json!(true);
                report["message"] = json!("the command was killed");
                "/v1/once/fail"
            }
        };
        self.change(Method::POST, path, &report, key).await?;
        Ok(())
    }

    async fn put(&self, path: &str, body: &Value) -> Result<()> {
        self.change(Method::PUT, path, body, path).await?;
        Ok(())
    }

    async fn change(&self, method: Method, path: &str, body: &Value, key: &str) -> Result<Value> {
        self.caller.change(method, path, body, key).await
    }

    async fn until_state(&self, run: &str, state: &str) -> Result<()> {
        let mut last = Value::Null;
        for _ in 0..LOOKS_MAX {
            last = self.caller.read(&format!("/v1/runs/{run}")).await?["state"].clone();
            if last == state {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
        bail!("the run is {last} and should be {state}: look at the server's log")
    }

    async fn until(
        &self,
        text: &str,
        values: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<()> {
        for _ in 0..LOOKS_MAX {
            if self.client.query_opt(text, values).await?.is_some() {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
        bail!("nothing was found by {text}: look at the server's log")
    }
}

/// The state in which an original of a kind stays.
fn end_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Ordered
        | Kind::OrderedAgain
        | Kind::Stocked
        | Kind::Asked
        | Kind::Mismatched
        | Kind::Held
        | Kind::Emitted
        | Kind::Batch
        | Kind::Seldom => "succeeded",
        Kind::Failed => "failed",
        Kind::Cancelled => "cancelled",
        Kind::Superseded => "superseded",
        Kind::InDoubt => "in_doubt",
        Kind::NeedsReview => "needs_review",
        Kind::Quarantined => "quarantined",
        Kind::Waiting | Kind::Asking | Kind::Sleeping | Kind::Working => "waiting",
        Kind::Retrying => "retrying",
        Kind::Queued => "queued",
    }
}

/// Reads every original, in no server's way any more.
pub(super) async fn read_all(client: &Client) -> Result<Vec<(Kind, Template)>> {
    let namespace: NamespaceName = "default".parse()?;
    let mut all = Vec::new();
    for (kind, flow, key) in ORIGINALS.into_iter().chain([QUEUED]) {
        let flow: FlowName = flow.parse()?;
        let template = read::read(client, &namespace, Subject::Run(flow), key).await?;
        all.push((kind, template));
    }
    Ok(all)
}
