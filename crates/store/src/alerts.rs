//! The `alert_…` tables: what people must learn of, in groups, and the messages about it.
//!
//! ```text
//! what happens ══▶ event ══▶ group ══▶ message due ══▶ sending ══▶ done
//!                              ▲                          └══════▶ failed | in doubt
//!                              └──────────── its count ◀──────────────┘
//! ```
//!
//! `══▶` is a commit. An event is written in the commit of what happened, only if the namespace has
//! alerts set, and is deleted in the commit that counts it: so each is counted once. A message is
//! written before it is sent, in the commit that takes its count from the group. The count of a
//! message that was not delivered goes back to its group in the commit of its outcome.

mod bursts;
mod groups;
mod messages;
mod settings;
mod views;

pub use bursts::count_bursts;
pub use groups::{DueGroup, MessageText, fold, intend};
pub use messages::{
    AlertMessage, AlertOutcome, OpenWork, begin_test, count_failing, forget, look, settle, take_due,
};
pub use settings::{AlertSetting, ensure_printed, find, set, unset};
pub use views::{AlertGroupView, AlertMessageView, list_groups};

use semel_model::{AlertKind, RunId};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{HomeCell, ReadError};

// Crosses slots (V10): events are written in commits of any slot and folded into groups, which are
// control data, and whether a namespace has alerts set is read in those commits. With a second cell,
// each cell keeps its own events and a copy of the settings, and passes counts to the home cell.

/// Writes events from the rows of a query that names `namespace_id`, `kind`, `flow`, `connection`,
/// `step`, `run_id` and `count`, as far as their namespaces have alerts set.
macro_rules! raise {
    ($rows:literal) => {
        concat!(
            "INSERT INTO alert_events (namespace_id, kind, flow, connection, step, run_id, count)
        SELECT x.namespace_id, x.kind::alert_kind, x.flow, x.connection, x.step, x.run_id, x.count
          FROM (",
            $rows,
            ") AS x
         WHERE EXISTS (SELECT 1 FROM alert_settings s WHERE s.namespace_id = x.namespace_id)"
        )
    };
}
pub(crate) use raise;

/// Alerts of a batch of transitions.
pub(crate) const RAISE: &str = raise!(
    "SELECT t.namespace_id, t.kind, t.flow, t.connection, t.step, t.run_id, 1::int8 AS count
          FROM unnest($1::int4[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[])
            AS t (namespace_id, kind, flow, connection, step, run_id)"
);

pub(crate) const STATEMENTS: &[&str] = &[RAISE];
pub(crate) const SETTINGS: &[&str] = settings::STATEMENTS;
pub(crate) const GROUPS: &[&str] = groups::STATEMENTS;
pub(crate) const MESSAGES: &[&str] = messages::STATEMENTS;
pub(crate) const BURSTS: &[&str] = bursts::STATEMENTS;
pub(crate) const VIEWS: &[&str] = views::STATEMENTS;

/// Something that happened to a run, which people must learn of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaisedAlert {
    /// What happened.
    pub kind: AlertKind,
    /// The flow.
    pub flow: String,
    /// The connection that the step uses; empty if there is none.
    pub connection: String,
    /// The step; empty if there is none.
    pub step: String,
}

/// Alerts of a batch, by column.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    namespaces: Vec<i32>,
    kinds: Vec<&'static str>,
    flows: Vec<&'a str>,
    connections: Vec<&'a str>,
    steps: Vec<&'a str>,
    runs: Vec<Option<Uuid>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn push(&mut self, namespace_id: i32, run: Option<RunId>, raised: &'a RaisedAlert) {
        self.namespaces.push(namespace_id);
        self.kinds.push(raised.kind.as_str());
        self.flows.push(&raised.flow);
        self.connections.push(&raised.connection);
        self.steps.push(&raised.step);
        self.runs.push(run.map(|run| *run.as_uuid()));
    }

    pub(crate) fn values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.kinds.is_empty()).then(|| {
            vec![
                &self.namespaces as &(dyn ToSql + Sync),
                &self.kinds,
                &self.flows,
                &self.connections,
                &self.steps,
                &self.runs,
            ]
        })
    }
}

/// Records an alert that belongs to no run, if the namespace has alerts set.
pub async fn raise_one(
    cell: HomeCell<'_>,
    namespace_id: i32,
    raised: &RaisedAlert,
) -> Result<(), ReadError> {
    let mut rows = Rows::default();
    rows.push(namespace_id, None, raised);
    if let Some(values) = rows.values() {
        cell.reader().await?.execute(RAISE, &values).await?;
    }
    Ok(())
}
