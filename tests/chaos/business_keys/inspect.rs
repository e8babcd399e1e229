//! Looking at cells after everything has come to rest, and settling what is in doubt as an operator
//! would: by looking at the destination.

use std::collections::{HashMap, HashSet};

use anyhow::{Result, ensure};
use hyper::Method;
use semel_testkit::peer::Effect;
use semel_testkit::until_some;
use serde_json::{Value, json};

use super::cell::Cell;
use super::lane::Lane;
use super::oracle::{Role, Scene, Stands};
use super::snapshot::{Objections, Snapshot};
use crate::invariants;
use crate::servers::Served;

/// After so long an operator may say of any request here that it did not happen.
const LATER: &str = "UPDATE clock SET time_offset = time_offset + interval '20 minutes'";

impl Lane {
    /// Looks at all cells, settles what is in doubt, and looks again; adds to what was found before.
    pub(super) async fn conclude(
        &self,
        server: &Served,
        cells: &[Cell],
        mut objections: Objections,
    ) -> Result<Objections> {
        let mut object = |cell: &Cell, found: Vec<String>| {
            if !found.is_empty() {
                let of_cell = objections.entry(cell.to_string()).or_default();
                of_cell.extend(found);
            }
        };
        let snapshot = Snapshot::read(&self.client).await?;
        for cell in cells {
            object(cell, snapshot.object_to(*cell, Scene::Woken));
            object(cell, self.check_lists(server, *cell, &snapshot).await?);
        }
        let refused = self.settle_all(server).await?;
        for cell in cells {
            object(
                cell,
                refused.get(&cell.object()).cloned().unwrap_or_default(),
            );
        }
        self.until_rest(cells, Scene::Over).await?;
        let snapshot = Snapshot::read(&self.client).await?;
        let effects = self.peer.effects().await?;
        for cell in cells {
            object(cell, snapshot.object_to(*cell, Scene::Over));
            object(cell, check_results(*cell, &snapshot));
            object(cell, self.check_counts(*cell, &effects).await?);
        }
        if self.mistake.is_none() && objections.is_empty() {
            invariants::hold_but(&self.home, &[server], &["duties"]).await?;
        }
        Ok(objections)
    }

    /// A run that waits behind a stopped run says so.
    async fn check_lists(
        &self,
        server: &Served,
        cell: Cell,
        snapshot: &Snapshot,
    ) -> Result<Vec<String>> {
        let mut objections = Vec::new();
        let Some(behind) = cell.doubts(Scene::Woken) else {
            return Ok(objections);
        };
        let behind = snapshot.run(cell, behind).map(|run| run.run.as_str());
        for role in cell.roles(Scene::Woken) {
            let Some(run) = snapshot.run(cell, role) else {
                continue;
            };
            if cell.stands(role, Scene::Woken) != Stands::Waiting {
                continue;
            }
            let path = format!("/v1/runs/{}", run.run);
            let shown = self.home.command(server, Method::GET, &path, String::new());
            let shown: Value = shown.await?.json()?;
            let waits = &shown["waits_for_key"];
            let named = waits["behind"].as_str();
            if named != behind || waits["behind_state"] != "in_doubt" {
                objections.push(format!("{role:?} is shown to wait for {waits}"));
            }
        }
        Ok(objections)
    }

    /// Settles every doubt by what the destination has. Gives what was refused, by object: a bug may
    /// keep a run busy, or end its doubt meanwhile.
    async fn settle_all(&self, server: &Served) -> Result<HashMap<String, Vec<String>>> {
        let mut refused: HashMap<String, Vec<String>> = HashMap::new();
        let doubts = "SELECT 'eff_' || replace(e.id::text, '-', ''), convert_from(r.key, 'UTF8')
                        FROM effects e JOIN runs r ON r.id = e.run_id WHERE e.state = 'in_doubt'";
        let rows = self.client.query(doubts, &[]).await?;
        let mut made: HashMap<String, usize> = HashMap::new();
        for effect in self.peer.effects().await? {
            let object = effect.path.rsplit('/').next().unwrap_or_default();
            made.insert(object.to_owned(), effect.index);
        }
        self.client.batch_execute(LATER).await?;
        for row in &rows {
            let (effect, run): (&str, &str) = (row.get(0), row.get(1));
            let object = run.rsplit_once('-').map_or(run, |(object, _)| object);
            let reason = "looked at the destination";
            let body = match made.get(object) {
                Some(index) => json!({
                    "verdict": "happened", "reason": reason, "external_id": format!("ext_{index}"),
                    "result": { "id": format!("ext_{index}"), "effect": index },
                }),
                None => json!({ "verdict": "did_not_happen", "reason": reason }),
            };
            if let Err(error) = self.settle(server, effect, &body).await {
                let why = format!("{run} cannot be settled: {error:#}");
                refused.entry(object.to_owned()).or_default().push(why);
            }
        }
        Ok(refused)
    }

    /// Settles one doubt, again while a worker holds its run: every lease ends with the clock's leap.
    async fn settle(&self, server: &Served, effect: &str, body: &Value) -> Result<()> {
        let path = format!("/v1/effects/{effect}/settle");
        let settle = async || {
            let body = body.to_string();
            match self.home.command(server, Method::POST, &path, body).await {
                Ok(_) => Ok(Some(())),
                Err(error) if error.to_string().contains("run-busy") => Ok(None),
                Err(error) => Err(error),
            }
        };
        let what = format!("{effect} to be settled");
        self.bounded(until_some(&what, settle)).await
    }

    /// Fails where the destination acted more often than the table allows, which no lost lease excuses.
    pub(super) async fn expect_no_effect_too_many(&self, cells: &[Cell]) -> Result<()> {
        for cell in cells {
            let count = self.peer.count(&cell.path()).await?;
            let (most, _) = cell.counts();
            ensure!(
                count.effects <= most.max(1),
                "{cell}: an effect too many: {count:?}"
            );
        }
        Ok(())
    }

    /// The destination acted once, and all requests carried one key.
    async fn check_counts(&self, cell: Cell, effects: &[Effect]) -> Result<Vec<String>> {
        let mut objections = Vec::new();
        let count = self.peer.count(&cell.path()).await?;
        if (count.effects, count.calls) != cell.counts() {
            objections.push(format!("{count:?} instead of {:?}", cell.counts()));
        }
        let path = cell.path();
        let of_cell = effects.iter().filter(|effect| effect.path == path);
        let keys: HashSet<&str> = of_cell.filter_map(|effect| effect.key.as_deref()).collect();
        for sent in &keys {
            let calls = self.peer.count_of_key(sent).await?.calls;
            if calls != count.calls {
                objections.push(format!("{calls} of {} calls carried {sent}", count.calls));
            }
        }
        if keys.len() != 1 {
            objections.push(format!("{} keys were sent", keys.len()));
        }
        Ok(objections)
    }
}

/// All runs that succeeded have the one result.
fn check_results(cell: Cell, snapshot: &Snapshot) -> Vec<String> {
    let runs = cell.roles(Scene::Over).into_iter();
    let runs = runs.filter(|role| cell.stands(*role, Scene::Over) == Stands::Succeeded);
    let results: HashSet<Option<&str>> = runs
        .map(|role: Role| {
            snapshot
                .run(cell, role)
                .and_then(|run| run.result.as_deref())
        })
        .collect();
    match results.len() == 1 && !results.contains(&None) {
        true => Vec::new(),
        false => vec![format!("{}: {results:?}", cell.key(Role::Struck))],
    }
}
