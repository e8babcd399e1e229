//! What the tables say of runs and named effects at one moment.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::Result;
use semel_testkit::Connection;

use super::cell::Cell;
use super::oracle::{Role, Scene, Stands};

/// What is not as it must be, by cell.
pub(super) type Objections = BTreeMap<String, Vec<String>>;

/// A run's record.
pub(super) struct Record {
    pub(super) run: String,
    pub(super) state: String,
    pub(super) result: Option<String>,
}

/// A named effect.
struct Name {
    state: String,
    holder_ended: bool,
}

/// All runs and named effects.
pub(super) struct Snapshot {
    runs: HashMap<String, Record>,
    waiters: HashSet<String>,
    /// Runs that no worker holds.
    asleep: HashSet<String>,
    names: HashMap<String, Name>,
    /// Runs whose end a named effect does not know of yet.
    notices: HashSet<String>,
}

impl Snapshot {
    pub(super) async fn read(client: &Connection) -> Result<Self> {
        let runs = "SELECT convert_from(key, 'UTF8'), 'run_' || replace(id::text, '-', ''),
                           state::text, result::text FROM runs";
        let waiters = "SELECT convert_from(r.key, 'UTF8')
                         FROM named_effect_waiters w JOIN runs r ON r.id = w.run_id";
        let asleep = "SELECT convert_from(r.key, 'UTF8')
                        FROM queue q JOIN runs r ON r.id = q.run_id WHERE q.holder IS NULL";
        let notices = "SELECT convert_from(r.key, 'UTF8')
                         FROM named_effect_notices w JOIN runs r ON r.id = w.run_id";
        let names = "SELECT convert_from(n.key, 'UTF8'), n.state::text, r.ended_at IS NOT NULL
                       FROM named_effects n LEFT JOIN runs r ON r.id = n.holder_run";
        let runs = client.query(runs, &[]).await?;
        let waiters = client.query(waiters, &[]).await?;
        let asleep = client.query(asleep, &[]).await?;
        let notices = client.query(notices, &[]).await?;
        let names = client.query(names, &[]).await?;
        Ok(Self {
            runs: runs
                .iter()
                .map(|row| {
                    let (run, state, result) = (row.get(1), row.get(2), row.get(3));
                    (row.get(0), Record { run, state, result })
                })
                .collect(),
            waiters: waiters.iter().map(|row| row.get(0)).collect(),
            asleep: asleep.iter().map(|row| row.get(0)).collect(),
            names: names
                .iter()
                .map(|row| {
                    let (state, holder_ended) = (row.get(1), row.get(2));
                    (
                        row.get(0),
                        Name {
                            state,
                            holder_ended,
                        },
                    )
                })
                .collect(),
            notices: notices.iter().map(|row| row.get(0)).collect(),
        })
    }

    pub(super) fn run(&self, cell: Cell, role: Role) -> Option<&Record> {
        self.runs.get(&cell.key(role))
    }

    /// The state of a cell's named effect.
    pub(super) fn name(&self, cell: Cell) -> Option<&str> {
        let name = self.names.get(&format!("charge:{}", cell.object()))?;
        Some(&name.state)
    }

    /// Whether a run sleeps until its key is free.
    pub(super) fn waits(&self, cell: Cell, role: Role) -> bool {
        let key = cell.key(role);
        self.waiters.contains(&key) && self.asleep.contains(&key)
    }

    /// Whether no run of a cell moves that the first server has.
    pub(super) fn is_still(&self, cell: Cell) -> bool {
        let moves = |role| {
            self.run(cell, role)
                .is_some_and(|run| run.state == "active")
        };
        let waits = self.waits(cell, Role::Struck);
        (waits || !moves(Role::Struck)) && !moves(Role::Waiter)
    }

    /// How a cell stands, for people.
    pub(super) fn describe(&self, cell: Cell) -> String {
        let of_role = |role: Role| {
            let run = self.run(cell, role)?;
            let key = cell.key(role);
            let (state, waits) = (&run.state, self.waiters.contains(&key));
            let (asleep, tells) = (self.asleep.contains(&key), self.notices.contains(&key));
            Some(format!(
                "{role:?} is {state}, is a waiter: {waits}, asleep: {asleep}, has a notice: {tells}"
            ))
        };
        let runs = cell.roles(Scene::Over).into_iter().filter_map(of_role);
        let runs: Vec<String> = runs.collect();
        format!("{}; the key is {:?}", runs.join("; "), self.name(cell))
    }

    /// What is not as it must be in a scene: a run that does not stand as it must, a wait for
    /// a holder that has ended, or an end that the named effect does not know of.
    pub(super) fn object_to(&self, cell: Cell, scene: Scene) -> Vec<String> {
        let mut objections = Vec::new();
        let named = self.names.get(&format!("charge:{}", cell.object()));
        let open = named.is_some_and(|name| ["pending", "in_doubt"].contains(&&*name.state));
        let orphaned = !open || named.is_some_and(|name| name.holder_ended);
        for role in cell.roles(scene) {
            let (wanted, waits) = (cell.stands(role, scene), self.waits(cell, role));
            let is_waiter = self.waiters.contains(&cell.key(role));
            let state = self.run(cell, role).map_or("lost", |run| &run.state);
            let stands = match wanted {
                Stands::Succeeded => state == "succeeded" && !is_waiter,
                Stands::Failed => state == "failed" && !is_waiter,
                Stands::Cancelled => state == "cancelled" && !is_waiter,
                Stands::InDoubt => state == "in_doubt" && !is_waiter,
                Stands::Waiting => state == "active" && waits,
                Stands::Sending => state == "active" && !is_waiter,
            };
            if !stands {
                objections.push(format!(
                    "{role:?} is {state}, waits: {waits}, instead of {wanted:?}"
                ));
            }
            if is_waiter && orphaned {
                objections.push(format!("{role:?} waits for a holder that has ended"));
            }
            if self.notices.contains(&cell.key(role)) {
                objections.push(format!("the end of {role:?} is not delivered"));
            }
        }
        if open && named.is_some_and(|name| name.holder_ended) {
            objections.push("a run that has ended holds the key".to_owned());
        }
        objections
    }
}
