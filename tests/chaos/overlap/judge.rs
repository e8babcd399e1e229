//! What the journals and the destination say about runs of one key.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use semel_testkit::{Connection, Peer};
use serde_json::Value;

use crate::queries::until_none;

/// From the first intent to the end of a run no other of its key is running.
pub(crate) async fn check_journal(client: &Connection, policy: &str) -> Result<()> {
    let rows = client
        .query(
            "SELECT regexp_replace(convert_from(r.key, 'UTF8'), '-[0-9a-z]+$', ''),
                    convert_from(r.key, 'UTF8'),
                    extract(epoch FROM min(j.at))::float8, extract(epoch FROM max(j.at))::float8
               FROM runs r JOIN releases l ON l.id = r.release_id JOIN flows f ON f.id = l.flow_id
               JOIN journal j ON j.run_id = r.id
              WHERE f.name = $1
                AND (j.events::text LIKE '%\"intended\"%' OR j.events::text LIKE '%\"done\"%')
              GROUP BY 1, 2 ORDER BY 1, 3",
            &[&policy],
        )
        .await?;
    let mut last: Option<(String, String, f64)> = None;
    for row in &rows {
        let (key, id, first, end): (String, String, f64, f64) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        if let Some((other, before, until)) = &last
            && *other == key
        {
            ensure!(first >= *until, "{id} began while {before} was running");
        }
        last = Some((key, id, end));
    }
    ensure!(!rows.is_empty(), "the journals were read");
    Ok(())
}

/// The destination saw the runs of a key one after the other, each whole unless it gave way.
pub(crate) async fn check_peer(
    peer: &Peer,
    ends: &HashMap<String, (String, String)>,
) -> Result<()> {
    let mut under_way: HashMap<String, (String, usize)> = HashMap::new();
    let mut calls: HashMap<String, usize> = HashMap::new();
    for effect in peer.effects().await? {
        let body: Value = serde_json::from_str(&effect.body)?;
        let id = body["id"].as_str().context("an id")?.to_owned();
        let (key, _) = id.rsplit_once('-').context("a key")?;
        let step = match effect.path.rsplit('/').next() {
            Some("begin") => 1,
            Some("work") => 2,
            _ => 3,
        };
        let seen = calls.entry(id.clone()).or_default();
        ensure!(step == *seen + 1, "{id}: call {step} after {seen}");
        *seen = step;
        let (other, _) = under_way
            .entry(key.to_owned())
            .or_insert_with(|| (id.clone(), step));
        if *other != id {
            ensure!(step == 1, "{id} continues at call {step} after {other}");
            let over = calls.get(other.as_str()).copied().unwrap_or_default();
            let gave_way = ends
                .get(other.as_str())
                .is_some_and(|(state, _)| state == "superseded");
            ensure!(
                over == 3 || gave_way,
                "{id} began while {other} was at call {over}"
            );
        }
        under_way.insert(key.to_owned(), (id, step));
    }
    for (id, (state, _)) in ends {
        let joined = id.starts_with("join") && !calls.contains_key(id);
        let count = calls.get(id).copied().unwrap_or_default();
        let fine = match state.as_str() {
            "succeeded" => count == 3 || joined,
            // A run that was skipped never begins; one that was replaced may have.
            _ => count == 0 || id.starts_with("replace"),
        };
        ensure!(fine, "{id} is {state} after {count} calls");
    }
    Ok(())
}

/// Waits until no gate has an entry left.
pub(crate) async fn empty(client: &Connection) -> Result<()> {
    let left = "SELECT (SELECT count(*) FROM gate_entries) + (SELECT count(*) FROM gates)
                     + (SELECT count(*) FROM gate_exits)";
    until_none(client, left).await
}
