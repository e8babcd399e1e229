//! What operators paused, as this process knows it.
//!
//! The set is cached with its version. A decision looks at the set and keeps the version, and the
//! commit of its intent compares that version with the database's: so a set that is out of date holds
//! nothing up for good, and lets nothing through.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use semel_store::pauses::{self, PauseKind, PauseRow};
use semel_store::{Cell, ReadError};

use crate::state::{Current, FoldedRun};

/// What is paused, and what was, of all namespaces.
#[derive(Debug, Default)]
pub struct PauseSet {
    version: i64,
    namespaces: HashMap<i32, NamespacePauses>,
}

#[derive(Debug, Default)]
struct NamespacePauses {
    flows: HashMap<String, Pauses>,
    connections: HashMap<String, Pauses>,
}

/// The pauses of one flow or connection.
#[derive(Debug, Default)]
struct Pauses {
    /// The pause that is not over.
    open: Option<i64>,
    /// When each of the others began and ended, in the order of their ends.
    over: Vec<PauseSpan>,
}

/// The time from the beginning of a pause to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseSpan {
    /// When it began.
    pub from: Timestamp,
    /// When it ended.
    pub until: Timestamp,
}

/// What is paused, as far as the runs of one flow are concerned.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunPauses<'a> {
    of: Option<(&'a NamespacePauses, Option<i64>)>,
}

impl<'a> RunPauses<'a> {
    /// The pause of the flow.
    pub fn flow(self) -> Option<i64> {
        self.of.and_then(|(_, flow)| flow)
    }

    /// The pause of the connection that a request goes over.
    pub fn connection(self, name: Option<&str>) -> Option<i64> {
        let (namespace, _) = self.of?;
        namespace.connections.get(name?)?.open
    }
}

impl PauseSet {
    fn of(version: i64, rows: Vec<PauseRow>) -> Self {
        let mut set = Self {
            version,
            ..Self::default()
        };
        for row in rows {
            let namespace = set.namespaces.entry(row.namespace_id).or_default();
            let named = match row.kind {
                PauseKind::Flow => &mut namespace.flows,
                PauseKind::Connection => &mut namespace.connections,
            };
            let known = named.entry(row.name).or_default();
            match row.resumed_at {
                None => known.open = Some(row.id),
                Some(until) => known.over.push(PauseSpan {
                    from: row.paused_at,
                    until,
                }),
            }
        }
        let named = set.namespaces.values_mut();
        for pauses in named.flat_map(|it| it.flows.values_mut().chain(it.connections.values_mut()))
        {
            pauses.over.sort_unstable_by_key(|span| span.until);
        }
        set
    }

    /// The version of what this is.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// How many flows and connections are paused.
    pub fn count_open(&self) -> usize {
        let named = self.namespaces.values();
        let all = named.flat_map(|it| it.flows.values().chain(it.connections.values()));
        all.filter(|pauses| pauses.open.is_some()).count()
    }

    /// What is paused for the runs of a flow.
    pub fn of_flow(&self, namespace_id: i32, flow: &str) -> RunPauses<'_> {
        let of = self.namespaces.get(&namespace_id).map(|namespace| {
            let flow = namespace.flows.get(flow).and_then(|pauses| pauses.open);
            (namespace, flow)
        });
        RunPauses { of }
    }

    /// The next pause that is over and by which the deadlines of a run are to be moved: it ended after
    /// the run's last event. The span begins where the run's time stood still.
    pub fn deferral(&self, namespace_id: i32, flow: &str, state: &FoldedRun) -> Option<PauseSpan> {
        let namespace = self.namespaces.get(&namespace_id)?;
        let connection = match &state.current {
            Current::Fresh | Current::Fan(_) | Current::Broken(_) => return None,
            Current::Waiting { .. } | Current::Reading(_) | Current::Approving(_) => None,
            Current::Effect(pending) => pending.request.connection(),
        };
        let seen = state
            .touched_at?
            .max(state.deferred_until.unwrap_or(Timestamp::MIN));
        let flow = namespace.flows.get(flow);
        let connection = connection.and_then(|name| namespace.connections.get(name));
        let spans = flow.into_iter().chain(connection).flat_map(|it| &it.over);
        let next = spans
            .filter(|span| span.until > seen)
            .min_by_key(|span| span.until)?;
        Some(PauseSpan {
            from: next.from.max(seen),
            until: next.until,
        })
    }
}

/// The set that this process has cached.
pub(crate) struct PauseCache {
    cell: Cell,
    current: RwLock<Arc<PauseSet>>,
    loading: tokio::sync::Mutex<()>,
}

impl PauseCache {
    /// Reads what is paused.
    pub(crate) async fn load(cell: &Cell) -> Result<Self, ReadError> {
        let cache = Self {
            cell: cell.clone(),
            current: RwLock::default(),
            loading: tokio::sync::Mutex::default(),
        };
        cache.reload().await?;
        Ok(cache)
    }

    /// What is paused, as this process knows it.
    pub(crate) fn current(&self) -> Arc<PauseSet> {
        let current = self.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the set again where its version is another.
    pub(crate) async fn refresh(&self) -> Result<(), ReadError> {
        let version = pauses::version(self.cell.home()).await?;
        match version == self.current().version {
            true => Ok(()),
            false => self.reload().await,
        }
    }

    /// Reads the set again unless that happened since this version. Of many runs that were refused
    /// together, one reads.
    pub(crate) async fn refresh_from(&self, seen: i64) -> Result<(), ReadError> {
        let _loading = self.loading.lock().await;
        match self.current().version == seen {
            true => self.reload_from(Some(seen)).await,
            false => Ok(()),
        }
    }

    async fn reload(&self) -> Result<(), ReadError> {
        self.reload_from(None).await
    }

    /// Reads the set. A version that the database refused is given up also for a lower one: a database
    /// that was restored goes back.
    async fn reload_from(&self, refused: Option<i64>) -> Result<(), ReadError> {
        let (version, rows) = pauses::load(self.cell.home()).await?;
        let set = Arc::new(PauseSet::of(version, rows));
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // Of two that read at once, the later one may come first.
        if set.version >= current.version || Some(current.version) == refused {
            *current = set;
        }
        Ok(())
    }
}
