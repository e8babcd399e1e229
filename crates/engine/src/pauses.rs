//! What operators paused, as this process knows it.
//!
//! The set is cached with its version. A decision looks at the set and keeps the version, and the
//! commit of its intent compares that version with the database's: so a set that is out of date holds
//! nothing up for good, and lets nothing through.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use semel_flow::Flow;
use semel_store::pauses::{self, CACHED_MAX, PauseKind, PauseRow};
use semel_store::{Cell, ReadError};

use crate::state::FoldedRun;

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
    /// How many of the pauses that are over are known.
    over_count: usize,
    /// When the first of them ended: others may have ended before.
    over_since: Option<Timestamp>,
}

/// The pauses of one flow or connection.
#[derive(Debug, Default)]
struct Pauses {
    /// The pause that is not over.
    open: Option<OpenPause>,
    /// When each of the others began and ended, in the order of their ends.
    over: Vec<PauseSpan>,
}

/// A pause that is not over.
#[derive(Clone, Copy, Debug)]
struct OpenPause {
    id: i64,
    /// When it began.
    from: Timestamp,
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
        let open = namespace.connections.get(name?)?.open?;
        Some(open.id)
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
            if let Some(until) = row.resumed_at {
                namespace.over_count += 1;
                let first = namespace.over_since.map_or(until, |first| first.min(until));
                namespace.over_since = Some(first);
            }
            let named = match row.kind {
                PauseKind::Flow => &mut namespace.flows,
                PauseKind::Connection => &mut namespace.connections,
            };
            let known = named.entry(row.name).or_default();
            match row.resumed_at {
                None => {
                    known.open = Some(OpenPause {
                        id: row.id,
                        from: row.paused_at,
                    });
                }
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
            (namespace, flow.map(|open| open.id))
        });
        RunPauses { of }
    }

    /// Whether the set has every pause of a namespace that ended after an instant. It has the latest
    /// [`CACHED_MAX`] of those that are over.
    pub fn reaches_back_to(&self, namespace_id: i32, seen: Timestamp) -> bool {
        let Some(namespace) = self.namespaces.get(&namespace_id) else {
            return true;
        };
        let all = i64::try_from(namespace.over_count).is_ok_and(|count| count < CACHED_MAX);
        all || namespace.over_since.is_none_or(|first| seen >= first)
    }

    /// The next pause that is over and by which the clocks of a run are to be moved: it ended after
    /// the run's last event. The span begins where the run's time stood still.
    pub fn deferral(&self, namespace_id: i32, flow: &Flow, state: &FoldedRun) -> Option<PauseSpan> {
        let namespace = self.namespaces.get(&namespace_id)?;
        let Deferrable { connection, seen } = Deferrable::of(state, flow)?;
        let flow = namespace.flows.get(flow.name.as_str());
        let connection = connection.and_then(|name| namespace.connections.get(name));
        next_span(flow.into_iter().chain(connection), seen)
    }
}

/// The time until the first end of a pause behind `seen`, from when on some of these pauses held the run: of two that
/// overlap, the one that ends later may have begun before the other. That one is over, or still open.
fn next_span<'a>(
    named: impl Iterator<Item = &'a Pauses> + Clone,
    seen: Timestamp,
) -> Option<PauseSpan> {
    let over = named.clone().flat_map(|pauses| &pauses.over);
    let over = over.filter(|span| span.until > seen);
    let until = over.clone().map(|span| span.until).min()?;
    let open = named.filter_map(|pauses| pauses.open);
    let begun = over.map(|span| span.from).chain(open.map(|open| open.from));
    let from = begun.filter(|from| *from <= until).min()?;
    Some(PauseSpan {
        from: from.max(seen),
        until,
    })
}

/// A run whose clocks pauses stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deferrable<'a> {
    /// The connection whose pauses stop them, besides those of its flow.
    pub(crate) connection: Option<&'a str>,
    /// The end of the last pause that its clocks were moved by, or its last event.
    pub(crate) seen: Timestamp,
}

impl<'a> Deferrable<'a> {
    /// Nothing where no clock of the run goes.
    pub(crate) fn of(state: &'a FoldedRun, flow: &'a Flow) -> Option<Self> {
        if !state.counts_time(flow) {
            return None;
        }
        let deferred = state.deferred_until.unwrap_or(Timestamp::MIN);
        Some(Self {
            connection: state.counted_over(flow),
            seen: state.touched_at?.max(deferred),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pauses(over: &[(i64, i64)], open: Option<i64>) -> Pauses {
        let span = |&(from, until): &(i64, i64)| PauseSpan {
            from: at(from),
            until: at(until),
        };
        let from = |from| OpenPause {
            id: 1,
            from: at(from),
        };
        Pauses {
            open: open.map(from),
            over: over.iter().map(span).collect(),
        }
    }

    /// The spans by which a run is deferred that has seen nothing of these pauses, one after the other.
    fn spans(flow: &Pauses, connection: &Pauses) -> Vec<(i64, i64)> {
        let (mut seen, mut spans) = (at(0), Vec::new());
        while let Some(span) = next_span([flow, connection].into_iter(), seen) {
            seen = span.until;
            spans.push((span.from.as_second(), span.until.as_second()));
        }
        spans
    }

    #[test]
    fn a_run_is_deferred_by_all_the_time_that_either_of_two_pauses_took() {
        let none = pauses(&[], None);
        let flow = pauses(&[(10, 40)], None);

        assert_eq!(spans(&flow, &none), [(10, 40)]);
        assert_eq!(
            spans(&flow, &pauses(&[(50, 60)], None)),
            [(10, 40), (50, 60)]
        );
        assert_eq!(
            spans(&flow, &pauses(&[(30, 60)], None)),
            [(10, 40), (40, 60)]
        );
        assert_eq!(spans(&flow, &pauses(&[(5, 20)], None)), [(5, 20), (20, 40)]);
        assert_eq!(
            spans(&flow, &pauses(&[(20, 30)], None)),
            [(10, 30), (30, 40)]
        );
        let within = pauses(&[(15, 20), (25, 30)], None);
        assert_eq!(spans(&flow, &within), [(10, 20), (20, 30), (30, 40)]);
        assert_eq!(spans(&flow, &pauses(&[], Some(5))), [(5, 40)]);
        assert_eq!(spans(&flow, &pauses(&[], Some(50))), [(10, 40)]);
    }
}
