//! Every list that operators read, page by page, as they read it: none may end with an error.

use semel_model::run::RunState;
use semel_model::{FlowName, NamespaceName, ScheduleId};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;

use super::{InvariantReport, SNAPSHOT_MAX};
use crate::approvals;
use crate::audit::list::{self as acts, ActFilter};
use crate::cell::{Cell, ReadError};
use crate::duplicates;
use crate::effects;
use crate::flows;
use crate::kv;
use crate::listed::{Listed, Position};
use crate::named_effects::{self, NamedEffectFilter};
use crate::namespaces::{self, NamespaceView};
use crate::reconcile_passes;
use crate::refused_deliveries::{self, RefusedFilter};
use crate::replay_plans;
use crate::run_jobs;
use crate::runs::{self, RunFilter};
use crate::schedules;
use crate::subscriptions;
use crate::tasks::{self, TaskFilter};
use crate::tokens;
use crate::waits;
use crate::webhook_deliveries;

/// How many items a page has.
const PAGE: u16 = 200;

/// The most pages of one list that are read: the newest 20,000 items.
const PAGES_MAX: usize = 100;

/// The states in which a run is listed for people.
const STOPPED: [RunState; 3] = [
    RunState::InDoubt,
    RunState::NeedsReview,
    RunState::Quarantined,
];

/// Reads the lists of all namespaces.
pub(super) async fn read_all(
    cell: &Cell,
    report: &mut InvariantReport,
    progress: &mut impl FnMut(u64),
) -> Result<(), ReadError> {
    let mut after = String::new();
    loop {
        let page = namespaces::list(cell.home(), &after, PAGE).await?;
        for namespace in &page {
            let mut reading = Reading {
                cell,
                namespace_id: namespace.id,
                report: &mut *report,
            };
            reading.runs().await?;
            reading.ledger().await?;
            reading.waiting().await?;
            reading.arrivals().await?;
            reading.deliveries().await?;
            reading.entries().await?;
            reading.operators().await?;
            reading.recurrences(namespace).await?;
            progress(report.looked_at);
        }
        match page.last() {
            Some(last) if page.len() == usize::from(PAGE) => after.clone_from(&last.name),
            Some(_) | None => return Ok(()),
        }
    }
}

/// The lists of one namespace.
struct Reading<'a> {
    cell: &'a Cell,
    namespace_id: i32,
    report: &'a mut InvariantReport,
}

impl Reading<'_> {
    async fn runs(&mut self) -> Result<(), ReadError> {
        let (cell, id) = (self.cell, self.namespace_id);
        for state in [None].into_iter().chain(STOPPED.map(Some)) {
            let page = async |before: Option<Position>| {
                let filter = RunFilter {
                    state,
                    before,
                    ..RunFilter::default()
                };
                runs::list(cell.every(), id, &filter, PAGE).await
            };
            let name = state.map_or("runs", |state| state.as_str());
            self.read_pages(name, page).await?;
        }
        Ok(())
    }

    async fn ledger(&mut self) -> Result<(), ReadError> {
        let (cell, id) = (self.cell, self.namespace_id);
        let page = async |before: Option<Position>| {
            effects::list(cell.every(), id, None, before, PAGE).await
        };
        self.read_pages("effects", page).await?;
        let page = async |after: Option<Position>| {
            effects::list_doubts(cell.every(), id, after, PAGE).await
        };
        self.read_pages("doubts", page).await?;
        let filter = NamedEffectFilter::default();
        let page = async |after: Option<Position>| {
            named_effects::list(cell.every(), id, &filter, after, PAGE).await
        };
        self.read_pages("business keys", page).await
    }

    async fn waiting(&mut self) -> Result<(), ReadError> {
        let (cell, id) = (self.cell, self.namespace_id);
        let page = async |before: Option<Position>| {
            waits::list(cell.every(), id, true, before, PAGE).await
        };
        self.read_pages("waits", page).await?;
        let page = async |before: Option<Position>| {
            approvals::list(cell.every(), id, true, before, PAGE).await
        };
        self.read_pages("approvals", page).await?;
        let page = async |before: Option<Position>| {
            let filter = TaskFilter {
                all: true,
                before,
                ..TaskFilter::default()
            };
            tasks::list(cell.every(), id, &filter, PAGE).await
        };
        self.read_pages("tasks", page).await
    }

    /// The first page of each: their positions are no times.
    async fn arrivals(&mut self) -> Result<(), ReadError> {
        let (cell, id) = (self.cell, self.namespace_id);
        let page = async {
            let page = duplicates::list(cell.every(), id, None, PAGE, true).await?;
            Ok(page.0)
        };
        self.read_first("duplicates", page).await?;
        let page = async {
            let page = duplicates::list_held(cell.every(), id, None, None, PAGE, true).await?;
            Ok(page.0)
        };
        self.read_first("held deliveries", page).await?;
        let filter = RefusedFilter::default();
        let page = refused_deliveries::list(cell.every(), id, &filter, PAGE);
        self.read_first("refused deliveries", page).await?;
        let filter = ActFilter::default();
        let page = acts::list(cell.every(), id, &filter, PAGE);
        self.read_first("acts", page).await
    }

    async fn deliveries(&mut self) -> Result<(), ReadError> {
        let (cell, id) = (self.cell, self.namespace_id);
        for subscription in subscriptions::list(cell.home(), id).await? {
            let name = subscription.name.as_str();
            let page = webhook_deliveries::list(cell.every(), id, name, None, None, PAGE);
            self.read_first(&format!("deliveries of {name}"), page)
                .await?;
        }
        Ok(())
    }

    async fn entries(&mut self) -> Result<(), ReadError> {
        let mut after = kv::ListedUntil::default();
        for _ in 0..PAGES_MAX {
            let page = kv::list(self.cell.every(), self.namespace_id, "", &after);
            let Some((entries, next)) = self.read("entries", page).await? else {
                return Ok(());
            };
            self.report.looked_at += entries.len() as u64;
            let Some(next) = next else {
                return Ok(());
            };
            after = next;
        }
        Ok(())
    }

    /// Sets of runs that operators change together, and the tokens.
    async fn operators(&mut self) -> Result<(), ReadError> {
        let (home, id) = (self.cell.home(), self.namespace_id);
        let page =
            async |before: Option<Position>| replay_plans::list(home, id, before, PAGE).await;
        self.read_pages("replay plans", page).await?;
        let page = async |before: Option<Position>| run_jobs::list(home, id, before, PAGE).await;
        self.read_pages("run jobs", page).await?;
        let page = tokens::list(home, id, true, None, PAGE);
        self.read_first("tokens", page).await
    }

    /// Schedules, and the first page of the ticks and of the reconcile passes of each flow.
    async fn recurrences(&mut self, namespace: &NamespaceView) -> Result<(), ReadError> {
        let (cell, id) = (self.cell, self.namespace_id);
        let page = schedules::list_of_namespace(cell.every(), id);
        self.read_first("schedules", page).await?;
        let Ok(owner) = namespace.name.parse::<NamespaceName>() else {
            return Ok(());
        };
        for name in flows::list_names(cell.home(), id).await? {
            let Ok(flow) = name.parse::<FlowName>() else {
                continue;
            };
            let schedule = ScheduleId::derive(&owner, &flow);
            let slot = cell.of(schedule);
            let page = schedules::list_ticks(slot, schedule, None, i64::from(PAGE));
            self.read_first(&format!("ticks of {name}"), page).await?;
            let page = reconcile_passes::list(slot, id, schedule, PAGE);
            let passes = format!("reconcile passes of {name}");
            self.read_first(&passes, page).await?;
        }
        Ok(())
    }

    async fn read_pages<T>(
        &mut self,
        list: &str,
        mut page: impl AsyncFnMut(Option<Position>) -> Result<Listed<T>, ReadError>,
    ) -> Result<(), ReadError> {
        let mut next = None;
        for _ in 0..PAGES_MAX {
            let Some(read) = self.read(list, page(next)).await? else {
                return Ok(());
            };
            self.report.looked_at += read.items.len() as u64;
            next = read.next;
            if next.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn read_first<T>(
        &mut self,
        list: &str,
        page: impl Future<Output = Result<Vec<T>, ReadError>>,
    ) -> Result<(), ReadError> {
        if let Some(items) = self.read(list, page).await? {
            self.report.looked_at += items.len() as u64;
        }
        Ok(())
    }

    /// Nothing where the page failed or took too long, which is in the report then.
    async fn read<T>(
        &mut self,
        list: &str,
        page: impl Future<Output = Result<T, ReadError>>,
    ) -> Result<Option<T>, ReadError> {
        let name = format!("{list} of namespace {}", self.namespace_id);
        let error = match timeout(SNAPSHOT_MAX, page).await {
            Ok(Ok(read)) => return Ok(Some(read)),
            Ok(Err(error)) => error,
            Err(_) => {
                self.report.unknown.push(name);
                return Ok(None);
            }
        };
        if let Some(words) = error.refusal() {
            self.report
                .add(name, format!("ends with an error: {words}"));
            return Ok(None);
        }
        match error {
            ReadError::Unreadable(words) => {
                self.report.add(name, format!("cannot be read: {words}"));
            }
            ReadError::Database(cause) if cause.code() == Some(&SqlState::QUERY_CANCELED) => {
                self.report.unknown.push(name);
            }
            error @ (ReadError::Database(_) | ReadError::Unreachable(_) | ReadError::Slow) => {
                return Err(error);
            }
        }
        Ok(None)
    }
}
