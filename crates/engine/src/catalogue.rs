//! The catalogue: releases as this process knows them.
//!
//! Control data is small and changes rarely. Each process keeps the live releases, compiled, and
//! looks twice a second whether they are stale. Releases that runs started on
//! earlier are loaded when a run needs them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use semel_flow::{Action, Flow, Step};
use semel_model::{FlowName, NamespaceName};
use semel_store::flows::{self, ReleaseRow};
use semel_store::namespaces::{self, NamespaceSettings};
use semel_store::{Cell, ReadError};

/// How many releases that are no longer live are kept compiled.
const OLD_RELEASES_MAX: usize = 1000;

/// A release, compiled.
#[derive(Debug)]
pub struct Release {
    /// The release, short.
    pub id: i32,
    /// Its number within the flow.
    pub number: i32,
    /// Its flow, short.
    pub flow_id: i32,
    /// Its namespace, short.
    pub namespace_id: i32,
    /// Its namespace.
    pub namespace: NamespaceName,
    /// What it says.
    pub flow: Flow,
    /// Whether anything in it reads the request's headers.
    pub reads_headers: bool,
    /// Whether anything in it reads the request's query.
    pub reads_query: bool,
    /// Whether any of its steps uses a connection.
    pub connected: bool,
    /// The connections that its steps use.
    pub connections: Vec<String>,
    /// Whether its runs may begin with an effect.
    pub may_open: bool,
    /// Whether its runs pass gates before they begin.
    pub has_gates: bool,
}

#[derive(Default)]
struct Live {
    version: i64,
    by_flow: HashMap<(i32, String), Arc<Release>>,
    by_hook: HashMap<String, HashMap<String, Arc<Release>>>,
    /// The flows whose live release this build cannot read, by namespace: another server may.
    unread: HashSet<(i32, String)>,
    gives_way: bool,
    namespaces: Arc<[NamespaceSettings]>,
}

/// Releases as this process knows them.
pub struct Catalogue {
    cell: Cell,
    live: RwLock<Arc<Live>>,
    known: Mutex<HashMap<i32, Arc<Release>>>,
    /// Releases that were logged as unreadable.
    unread: Mutex<HashSet<i32>>,
}

impl Catalogue {
    /// Loads the live releases.
    pub async fn load(cell: &Cell) -> Result<Self, ReadError> {
        let catalogue = Self {
            cell: cell.clone(),
            live: RwLock::default(),
            known: Mutex::default(),
            unread: Mutex::default(),
        };
        catalogue.refresh().await?;
        Ok(catalogue)
    }

    /// Loads the live releases again, if they changed.
    pub async fn refresh(&self) -> Result<(), ReadError> {
        let version = flows::version(self.cell.home()).await?;
        let known = self.live().version;
        if version == known {
            return Ok(());
        }
        let mut live = Live {
            version,
            namespaces: namespaces::list_settings(self.cell.home()).await?.into(),
            ..Live::default()
        };
        for row in flows::list_live(self.cell.home()).await? {
            let flow = (row.namespace_id, row.flow.clone());
            let Some(release) = self.compile(row) else {
                live.unread.insert(flow);
                continue;
            };
            live.gives_way |= release.flow.priority() < 0;
            if let Some(webhook) = &release.flow.trigger.webhook {
                live.by_hook
                    .entry(release.namespace.as_str().to_owned())
                    .or_default()
                    .insert(webhook.path.clone(), release.clone());
            }
            live.by_flow.insert(flow, release);
        }
        // Of two refreshes at the same time, the one that read older data may finish last.
        if let Ok(mut slot) = self.live.write()
            && (slot.version == known || slot.version < live.version)
        {
            *slot = Arc::new(live);
        }
        Ok(())
    }

    /// The live release behind a hook's address.
    pub fn find_hook(&self, namespace: &str, path: &str) -> Option<Arc<Release>> {
        self.live().by_hook.get(namespace)?.get(path).cloned()
    }

    /// The live release of a namespace that has a hook.
    pub fn find_hook_of(&self, namespace_id: i32, path: &str) -> Option<Arc<Release>> {
        let live = self.live();
        let hooks = live.by_hook.values().filter_map(|hooks| hooks.get(path));
        hooks
            .into_iter()
            .find(|release| release.namespace_id == namespace_id)
            .cloned()
    }

    /// The namespaces that are not like the others.
    pub(crate) fn namespaces(&self) -> Arc<[NamespaceSettings]> {
        self.live().namespaces.clone()
    }

    /// Whether some live flow has a low priority.
    pub(crate) fn has_flows_that_give_way(&self) -> bool {
        self.live().gives_way
    }

    /// The live releases of a namespace that take an event.
    pub fn releases_for_event(&self, namespace_id: i32, event: &str) -> Vec<Arc<Release>> {
        let takes = |release: &&Arc<Release>| {
            let trigger = release.flow.trigger.event.as_ref();
            release.namespace_id == namespace_id
                && trigger.is_some_and(|trigger| trigger.name == event)
        };
        self.live()
            .by_flow
            .values()
            .filter(takes)
            .cloned()
            .collect()
    }

    /// Whether this build cannot read the live release of a flow.
    pub(crate) fn is_unread(&self, namespace_id: i32, flow: &FlowName) -> bool {
        let flow = (namespace_id, flow.as_str().to_owned());
        self.live().unread.contains(&flow)
    }

    /// Whether this build cannot read some live release of a namespace.
    pub(crate) fn has_unread(&self, namespace_id: i32) -> bool {
        let live = self.live();
        live.unread.iter().any(|(of, _)| *of == namespace_id)
    }

    /// The live releases, and the state of the control data that they are of.
    pub(crate) fn all_live(&self) -> (i64, Vec<Arc<Release>>) {
        let live = self.live();
        (live.version, live.by_flow.values().cloned().collect())
    }

    /// The state of the control data that this is of.
    pub(crate) fn version(&self) -> i64 {
        self.live().version
    }

    /// The live release of a flow.
    pub fn find_flow(&self, namespace_id: i32, flow: &FlowName) -> Option<Arc<Release>> {
        self.live()
            .by_flow
            .get(&(namespace_id, flow.as_str().to_owned()))
            .cloned()
    }

    /// The release that a run started on.
    pub async fn get(&self, id: i32) -> Result<Option<Arc<Release>>, ReadError> {
        if let Some(release) = self.known(id) {
            return Ok(Some(release));
        }
        let row = flows::find_release(self.cell.home(), id).await?;
        Ok(row.and_then(|row| self.compile(row)))
    }

    /// Whether a release names a connection. True for a release that cannot be read.
    pub(crate) fn goes_over(&self, release: i32, connection: &str) -> bool {
        let known = self.known(release);
        known.is_none_or(|release| release.flow.connections().contains(connection))
    }

    fn live(&self) -> Arc<Live> {
        match self.live.read() {
            Ok(live) => live.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        }
    }

    fn known(&self, id: i32) -> Option<Arc<Release>> {
        self.known
            .lock()
            .ok()
            .and_then(|known| known.get(&id).cloned())
    }

    fn compile(&self, row: ReleaseRow) -> Option<Arc<Release>> {
        if let Some(release) = self.known(row.id) {
            return Some(release);
        }
        // Without the rules: they may have grown stricter since it was published.
        let flow = semel_flow::load(&row.source);
        let (Some(flow), Ok(namespace)) = (flow, row.namespace.parse()) else {
            // It was valid when it was published: this binary is older than the one that published
            // it.
            let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
            if unread.insert(row.id) {
                tracing::error!(
                    flow = row.flow,
                    release = row.number,
                    "a release cannot be read"
                );
            }
            return None;
        };
        let text = flow.to_canonical_json();
        let reads = |root: &str| text.contains(root);
        let works_out = |step: &&Step| matches!(step.action, Action::Function(_));
        let first = flow.steps.iter().find(|step| !works_out(step));
        let release = Arc::new(Release {
            id: row.id,
            number: row.number,
            flow_id: row.flow_id,
            namespace_id: row.namespace_id,
            namespace,
            connected: !flow.connections().is_empty(),
            connections: flow.connections().into_iter().map(str::to_owned).collect(),
            reads_headers: reads("headers"),
            reads_query: reads("query"),
            may_open: !has_gates(&flow)
                && first.is_some_and(|step| {
                    let looks_first = step.guard.probe().is_some_and(|probe| probe.before);
                    let is_task = matches!(step.action, Action::Task(_));
                    step.guard().is_some() && !is_task && !looks_first
                }),
            has_gates: has_gates(&flow),
            flow,
        });
        if let Ok(mut known) = self.known.lock() {
            // Live releases are held elsewhere too, and so are the releases of running runs.
            if known.len() >= self.live().by_flow.len() + OLD_RELEASES_MAX {
                known.retain(|_, release| Arc::strong_count(release) > 1);
            }
            known.insert(row.id, release.clone());
        }
        Some(release)
    }
}

impl Release {
    /// What its flow is counted by: namespace and flow, short.
    pub(crate) fn tallied(&self) -> (i32, i32) {
        (self.namespace_id, self.flow_id)
    }
}

/// Whether the runs of a flow pass gates.
fn has_gates(flow: &Flow) -> bool {
    let triggers = &flow.trigger;
    let orders = triggers.webhook.as_ref().and_then(|it| it.order.as_ref());
    let orders = orders.or_else(|| triggers.event.as_ref().and_then(|it| it.order.as_ref()));
    let limits = flow.limit.as_ref().and_then(|limit| limit.rules());
    flow.overlap.is_some() || limits.is_some() || orders.is_some()
}
