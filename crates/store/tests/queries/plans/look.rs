//! Reads plans: which nodes read a table or an index, and by what.

use anyhow::{Context, Result};
use serde_json::Value;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Tables that stay small: their plans do not matter.
const SMALL: &[&str] = &[
    "alert_settings",
    "clock",
    "connections",
    "config_version",
    "flows",
    "namespaces",
    "releases",
    "sessions",
    "subscriptions",
    "tokens",
];

/// Whose settings a statement is made under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Session {
    /// A connection of the pool.
    Reader,
    /// A writer's own.
    Writer,
    /// A connection of the pool that lists for requests.
    List,
}

/// A statement and its plan.
pub(super) struct Explained {
    pub(super) module: &'static str,
    pub(super) text: &'static str,
    plan: Value,
}

impl Explained {
    /// Explains statements whose values are not known, as a cached plan is made.
    pub(super) async fn all(
        client: &Client,
        session: Session,
        statements: &[(&'static str, &'static str)],
    ) -> Result<Vec<Self>> {
        client.batch_execute("RESET ALL; SET jit = off").await?;
        let settings = match session {
            Session::Reader => "",
            Session::Writer => semel_store::writer_session(),
            Session::List => semel_store::list_session(),
        };
        client.batch_execute(settings).await?;
        client
            .batch_execute("SET plan_cache_mode = force_generic_plan")
            .await?;
        let mut all = Vec::with_capacity(statements.len());
        for (module, text) in statements {
            let plan = explain(client, text).await;
            let plan = plan.with_context(|| format!("{module}: {text}"))?;
            all.push(Self { module, text, plan });
        }
        // The next state of the tables is written in the same session.
        client.batch_execute("RESET ALL").await?;
        Ok(all)
    }

    /// What the plan reads beyond what it needs.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        walk(&self.plan, "", &mut findings);
        findings
    }
}

async fn explain(client: &Client, text: &str) -> Result<Value> {
    let count = (1..=64)
        .rev()
        .find(|number| {
            let name = format!("${number}");
            text.match_indices(&name).any(|(at, _)| {
                !text[at + name.len()..].starts_with(|next: char| next.is_ascii_digit())
            })
        })
        .unwrap_or(0);
    let values = match count {
        0 => String::new(),
        _ => format!("({})", vec!["NULL"; count].join(", ")),
    };
    client
        .batch_execute(&format!("PREPARE hot AS {text}"))
        .await?;
    let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE hot{values}");
    let explained = client.simple_query(&explain).await;
    client.batch_execute("DEALLOCATE hot").await?;
    let row = explained?.into_iter().find_map(|message| {
        let SimpleQueryMessage::Row(row) = message else {
            return None;
        };
        row.get(0).map(str::to_owned)
    });
    let plan: Value = serde_json::from_str(&row.context("a plan")?)?;
    Ok(plan[0]["Plan"].clone())
}

fn walk(node: &Value, table: &str, findings: &mut Vec<String>) {
    let word = |name: &str| node[name].as_str().unwrap_or_default();
    let table = match word("Relation Name") {
        "" => table,
        named => named,
    };
    let grows = !SMALL.contains(&table);
    let (kind, index, condition) = (word("Node Type"), word("Index Name"), word("Index Cond"));
    let reads_index = matches!(kind, "Index Scan" | "Index Only Scan" | "Bitmap Index Scan");
    if kind == "Seq Scan" && grows {
        findings.push(format!("a scan of {table}"));
    }
    if reads_index && grows && condition.is_empty() {
        findings.push(format!("all of {index}"));
    }
    if reads_index && index == "queue_by_holder" {
        findings.push(format!("held rows by {index}: {condition}"));
    }
    for below in node["Plans"].as_array().into_iter().flatten() {
        walk(below, table, findings);
    }
}
