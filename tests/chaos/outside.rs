//! Crashes around what programs and people outside do: the server is killed at every commit of a
//! task and of an approval, and the client that got no answer asks again.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::client::Answer;
use semel_testkit::{Cluster, Connection, Options, free_address, pace, patience, until};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::Harness;
use crate::invariants;
use crate::servers::{Home, Served, faults, serve_at};

/// The server's lease. The clock is moved past that of a dead one.
const LEASE: &str = "2s";

/// How long a client rests before it asks again.
const REST: Duration = Duration::from_millis(50);

const FLOWS: [(&str, &str); 2] = [
    (
        "work",
        "flow: work
trigger:
  webhook: { auth: none, key: input.id }
retry: { attempts: 9, delay: 50ms, max_delay: 200ms, within: 1h }
steps:
  - id: act
    task: { queue: work, input: { id: '${{ input.id }}' }, within: 1h, lease: 20s }
    guard: review
result: steps.act.result
",
    ),
    (
        "ask",
        "flow: ask
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: act
    approval: { from: [first], show: { id: '${{ input.id }}' }, within: 1h }
result: steps.act.result.by
",
    ),
];

/// Where the server is killed: while the run comes to its step, or while a worker or a person acts.
#[derive(Clone, Copy, Debug)]
enum When {
    Coming(&'static str),
    Acting(&'static str),
}

const CASES: [(&str, When); 13] = [
    ("work", When::Coming("intent.before")),
    ("work", When::Coming("intent.after")),
    ("work", When::Acting("claim.after")),
    ("work", When::Acting("answer.before")),
    ("work", When::Acting("answer.after")),
    ("work", When::Acting("outcome.before")),
    ("work", When::Acting("outcome.after")),
    ("ask", When::Coming("other.before")),
    ("ask", When::Coming("other.after")),
    ("ask", When::Acting("decide.before")),
    ("ask", When::Acting("decide.after")),
    ("ask", When::Acting("record.before")),
    ("ask", When::Acting("record.after")),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_commit_of_a_task_or_an_approval_loses_and_repeats_nothing() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let mut place = Place::open(&home).await?;
    for (name, source) in FLOWS {
        home.publish(&place.server, name, source).await?;
    }

    for (number, (flow, when)) in CASES.into_iter().enumerate() {
        let played = place.play(number, flow, when).await;
        played.with_context(|| format!("{flow}, killed {when:?}"))?;
    }
    invariants::hold_but(&home, &[&place.server], &["duties"]).await
}

struct Place<'a> {
    home: &'a Home,
    harness: Harness,
    listen: String,
    server: Served,
    client: Connection,
}

impl<'a> Place<'a> {
    async fn open(home: &'a Home) -> Result<Self> {
        let (listen, harness) = (free_address()?.to_string(), Harness::start()?);
        Ok(Self {
            server: start(home, &harness, &listen).await?,
            client: home.connect().await?,
            home,
            harness,
            listen,
        })
    }

    async fn play(&mut self, number: usize, flow: &str, when: When) -> Result<()> {
        let id = format!("case-{number}");
        let path = format!("/hooks/default/{flow}");
        let body = format!(r#"{{"id":"{id}"}}"#);
        if let When::Coming(point) = when {
            let watch = self.harness.arm(point, Some(&id));
            ensure!(self.server.client.post(&path, body).await?.status == 202);
            let held = watch.until_held().await?;
            self.kill().await?;
            drop(held);
            self.act(flow, &id).await?;
        } else if let When::Acting(point) = when {
            ensure!(self.server.client.post(&path, body).await?.status == 202);
            self.until_asked(flow, &id).await?;
            let watch = self.harness.arm(point, None);
            let acting = {
                let (home, listen) = (self.home.token().to_owned(), self.listen.clone());
                let (flow, id, link) = (flow.to_owned(), id.clone(), self.link(flow, &id).await?);
                tokio::spawn(async move { act(&listen, &home, &flow, &id, &link).await })
            };
            let held = watch.until_held().await?;
            self.kill().await?;
            drop(held);
            acting.await??;
        }
        self.check(flow, &id).await
    }

    async fn act(&self, flow: &str, id: &str) -> Result<()> {
        self.until_asked(flow, id).await?;
        let link = self.link(flow, id).await?;
        act(&self.listen, self.home.token(), flow, id, &link).await
    }

    async fn kill(&mut self) -> Result<()> {
        self.home.kill(&mut self.server, LEASE).await?;
        self.server = start(self.home, &self.harness, &self.listen).await?;
        Ok(())
    }

    /// Waits until the run stands at its step.
    async fn until_asked(&self, flow: &str, id: &str) -> Result<()> {
        let table = match flow {
            "work" => "SELECT count(*) FROM tasks WHERE input->>'id' = $1",
            _ => "SELECT count(*) FROM approvals WHERE shown->>'id' = $1",
        };
        let look =
            async || -> Result<i64> { Ok(self.client.query_one(table, &[&id]).await?.get(0)) };
        until("the step to begin", look, |asked| *asked > 0).await?;
        Ok(())
    }

    /// What a person or a worker needs to know: the approval's identity and digest.
    async fn link(&self, flow: &str, id: &str) -> Result<Value> {
        if flow == "work" {
            return Ok(Value::Null);
        }
        let row = "SELECT 'wait_' || replace(id::text, '-', ''), digest
                     FROM approvals WHERE shown->>'id' = $1";
        let row = self.client.query_one(row, &[&id]).await?;
        let (wait, digest): (String, String) = (row.get(0), row.get(1));
        Ok(json!({ "wait": wait, "digest": digest }))
    }

    /// The run ended as it should, and its step has one outcome.
    async fn check(&self, flow: &str, id: &str) -> Result<()> {
        let state =
            "SELECT state::text, result::text FROM runs WHERE convert_from(key, 'UTF8') = $1";
        let look = async || -> Result<(String, Option<String>)> {
            let row = self.client.query_one(state, &[&id]).await?;
            Ok((row.get(0), row.get(1)))
        };
        let at_rest = |(state, _): &(String, Option<String>)| state != "active";
        let (state, result) = until("the run to end", look, at_rest).await?;
        ensure!(state == "succeeded", "the run is {state}");
        let promised = match flow {
            "work" => json!({ "did": id }),
            _ => json!("token:first"),
        };
        let result: Value = serde_json::from_str(&result.unwrap_or_default())?;
        ensure!(result == promised, "the result is {result}");
        let outcomes = "SELECT count(*) FROM journal j JOIN runs r ON r.id = j.run_id,
                               json_array_elements(j.events) e
                         WHERE convert_from(r.key, 'UTF8') = $1
                           AND e->>'event' IN ('done', 'approval_decided', 'doubted')";
        let outcomes: i64 = self.client.query_one(outcomes, &[&id]).await?.get(0);
        ensure!(outcomes == 1, "{outcomes} outcomes are recorded");
        Ok(())
    }
}

async fn start(home: &Home, harness: &Harness, listen: &str) -> Result<Served> {
    let program = faults()?.env("SEMEL_FAULTS", harness.socket());
    serve_at(program, &home.url(), LEASE, listen).await
}

async fn act(listen: &str, token: &str, flow: &str, id: &str, link: &Value) -> Result<()> {
    let acted = timeout(patience(), insist(listen, token, flow, id, link)).await;
    acted.context("a client without an answer")?
}

/// Does what a worker or a person does, again and again until there is an answer.
async fn insist(listen: &str, token: &str, flow: &str, id: &str, link: &Value) -> Result<()> {
    let client = semel_testkit::Client::new(listen, 2);
    let bearer = format!("Bearer {token}");
    let ask = async |path: &str, body: Value| -> Result<Answer> {
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", id),
        ];
        loop {
            let sent = client.send(Method::POST, path, &headers, body.to_string().into());
            match sent.await {
                Ok(answer) if answer.status.as_u16() < 500 => return Ok(answer),
                Ok(_) | Err(_) => pace(REST).await,
            }
        }
    };
    if flow == "ask" {
        let path = format!(
            "/v1/approvals/{}/decide",
            link["wait"].as_str().unwrap_or_default()
        );
        let decide = json!({ "approved": true, "digest": link["digest"] });
        let decided = ask(&path, decide).await?;
        ensure!(decided.status == 200, "{}", decided.text());
        return Ok(());
    }
    let claim = json!({ "queue": "work", "wait": "10s" });
    let claimed: Value = ask("/v1/tasks/claim", claim).await?.json()?;
    let task = &claimed["tasks"][0];
    ensure!(task["input"]["id"] == json!(id), "{claimed}");
    ensure!(
        task["attempt"] == json!(1),
        "nothing is begun again: {claimed}"
    );
    let path = format!(
        "/v1/tasks/{}/complete",
        task["task"].as_str().unwrap_or_default()
    );
    let complete = json!({ "token": task["token"], "result": { "did": id } });
    let completed = ask(&path, complete).await?;
    ensure!(completed.status == 200, "{}", completed.text());
    Ok(())
}
