//! What stands for the names in addresses: runs, effects and keys of the filled database.

use anyhow::{Context, Result, bail};
use semel_model::{EffectId, NamedEffectId, RunId, WaitId};
use tokio_postgres::Client;
use uuid::Uuid;

/// A run of a flow in the middle of all of them.
const RUN: &str = "
    SELECT r.id
      FROM runs r
      JOIN releases l ON l.id = r.release_id
      JOIN flows f ON f.id = l.flow_id
     WHERE f.namespace_id = (SELECT id FROM namespaces WHERE name = 'default') AND f.name = $1
       AND r.parent_id IS NULL AND r.state::text = $2 AND r.accepted_at < now() - interval '1 hour'
     ORDER BY r.accepted_at
     LIMIT 1";

/// An order whose key came twice, in the middle of the time.
const REPEATED: &str = "
    SELECT r.id, convert_from(r.key, 'UTF8')
      FROM runs r
      JOIN duplicates d ON d.run_id = r.id AND d.verdict = 'repeat'
     WHERE r.namespace_id = (SELECT id FROM namespaces WHERE name = 'default') AND r.parent_id IS NULL
       AND r.accepted_at < now() - interval '30 days'
     ORDER BY r.accepted_at DESC
     LIMIT 1";

const ONE: [(&str, &str); 8] = [
    (
        "event",
        "SELECT id FROM effects WHERE namespace_id = $1 AND kind = 'emit' ORDER BY intended_at DESC LIMIT 1",
    ),
    (
        "task",
        "SELECT id FROM tasks WHERE namespace_id = $1 ORDER BY opened_at DESC LIMIT 1",
    ),
    (
        "job",
        "SELECT id FROM run_jobs WHERE namespace_id = $1 LIMIT 1",
    ),
    (
        "plan",
        "SELECT id FROM replay_plans WHERE namespace_id = $1 LIMIT 1",
    ),
    (
        "doubt",
        "SELECT subject_id FROM attention WHERE namespace_id = $1 AND kind = 'doubt' ORDER BY since DESC LIMIT 1",
    ),
    (
        "approval",
        "SELECT id FROM approvals WHERE namespace_id = $1 AND state = 'open' ORDER BY opened_at DESC LIMIT 1",
    ),
    (
        "wait",
        "SELECT w.id FROM waits w JOIN runs r ON r.id = w.run_id WHERE r.namespace_id = $1 AND w.opened_at IS NOT NULL LIMIT 1",
    ),
    (
        "once",
        "SELECT id FROM named_effects WHERE namespace_id = $1 ORDER BY begun_at DESC LIMIT 1",
    ),
];

/// What stands for each name.
pub(super) struct Samples {
    named: Vec<(String, String)>,
}

impl Samples {
    /// Chooses them from a filled database.
    pub(super) async fn choose(client: &Client) -> Result<Self> {
        let mut named: Vec<(String, String)> = Vec::new();
        let mut add = |name: &str, value: String| named.push((name.to_owned(), value));
        let row = client.query_opt(REPEATED, &[]).await?;
        let row = row.context("this database is not filled: run semel-bench fill first")?;
        let run = RunId::from_uuid(row.get(0));
        let key: String = row.get(1);
        add("effect", EffectId::derive(run, "charge", "", 0).to_string());
        add("external", format!("ext0_{key}"));
        add("run", run.to_string());
        add("key", key);
        for (name, flow, state) in [
            ("doubtful", "charging", "in_doubt"),
            ("batch", "batch", "succeeded"),
            ("asking", "asking", "active"),
            ("waiting", "waiting", "active"),
            ("working", "working", "active"),
        ] {
            let row = client.query_opt(RUN, &[&flow, &state]).await?;
            let row = row.with_context(|| format!("no run of {flow} is {state}"))?;
            add(name, RunId::from_uuid(row.get(0)).to_string());
        }
        let namespace = "SELECT id FROM namespaces WHERE name = 'default'";
        let namespace: i32 = client.query_one(namespace, &[]).await?.get(0);
        for (name, text) in ONE {
            let row = client.query_opt(text, &[&namespace]).await?;
            let id: Uuid = row.with_context(|| format!("no {name} is there"))?.get(0);
            add(name, shown(name, id));
        }
        let since = "SELECT to_char(now() - interval '1 day', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')";
        add("since", client.query_one(since, &[]).await?.get(0));
        let digest = "SELECT encode(digest, 'hex') FROM resources ORDER BY created_at LIMIT 1";
        add("digest", client.query_one(digest, &[]).await?.get(0));
        add("flow", "orders".to_owned());
        add("name", "hooked".to_owned());
        Ok(Self { named })
    }

    /// An address with values for its names.
    pub(super) fn fill_in(&self, address: &str) -> Result<String> {
        // Some places have a sample of their own.
        let mut filled = address
            .replace("/v1/schedules/{flow}", "/v1/schedules/nightly")
            .replace("/v1/once/{effect}", "/v1/once/{once}")
            .replace("/{run}/child-runs", "/{batch}/child-runs");
        for (name, value) in &self.named {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        if filled.contains('{') {
            bail!("{address} has a name without a sample: add one to samples.rs");
        }
        Ok(filled)
    }
}

/// An identity as the API writes it.
fn shown(name: &str, id: Uuid) -> String {
    match name {
        "task" | "doubt" | "event" => EffectId::from_uuid(id).to_string(),
        "approval" | "wait" => WaitId::from_uuid(id).to_string(),
        "once" => EffectId::named(NamedEffectId::from_uuid(id), 0).to_string(),
        "job" => semel_model::RunJobId::from_uuid(id).to_string(),
        _ => semel_model::ReplayPlanId::from_uuid(id).to_string(),
    }
}
