//! Named effects as callers see them.

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use semel_model::named_effect::OnDoubt;
use semel_model::{
    EffectId, EffectName, EffectScope, Fingerprint, NamedEffectId, NamedEffectState, RunId, Span,
    TokenId,
};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;

use super::upkeep::LEASE_LOST;
use super::{EffectAction, RETRY_AFTER_LEASE};
use crate::cell::{ReadError, SlotCell};

/// What is expired is absent, and a lost lease is a doubt, also before the service has seen it. While an
/// effect is undone, who does that is its holder: a later run of the key may.
const READ: &str = "
    SELECT n.id, n.scope, n.key, n.generation,
           CASE WHEN n.expires_at <= moment() THEN 'absent'
                WHEN n.lease_until <= moment() THEN 'in_doubt'
                ELSE n.state::text END,
           n.kind, n.destination, n.method, n.fingerprint, n.token,
           n.holder_name, CASE WHEN n.state = 'undoing' THEN n.undo_run ELSE n.holder_run END, n.holder_step, n.holder_item, n.holder_generation,
           n.on_doubt, n.lease_ms, n.lease_until, n.heartbeat_at, n.begun_at,
           n.settled_at, n.settled_by, n.expires_at, n.result, n.external_id, n.fault, n.note,
           n.keep_ms, n.status, n.holder, n.holder_token,
           CASE WHEN n.undo_seq IS NOT NULL THEN n.undo_run END, n.reuse_count
      FROM named_effects n
     WHERE n.id BETWEEN $1 AND $2 AND n.namespace_id = $3
     ORDER BY n.id
     LIMIT 2";

pub(crate) const STATEMENTS: &[&str] = &[READ];

/// The latest holder of a named effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderView {
    /// A run.
    Run {
        /// The run.
        run: RunId,
        /// The step's path.
        step: String,
        /// The item of the step; empty where it has none.
        item: String,
        /// The generation of the run's own effect.
        generation: u32,
    },
    /// A process outside.
    Script {
        /// Host and process.
        name: String,
        /// The API token that it uses.
        caller: TokenId,
        /// How long it may be silent.
        lease: Span,
        /// What it agreed to if it is lost.
        on_doubt: OnDoubt,
    },
}

/// A named effect that is not absent.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedEffectView {
    /// The effect.
    pub id: NamedEffectId,
    /// Its name.
    pub name: EffectName,
    /// How many intents the name had before.
    pub generation: u32,
    /// Its state.
    pub state: NamedEffectState,
    /// What it is.
    pub action: EffectAction,
    /// Of its latest request or command line.
    pub fingerprint: Option<Fingerprint>,
    /// The token of its latest holder.
    pub token: i64,
    /// Its latest holder.
    pub holder: HolderView,
    /// What tells that holder from others.
    pub(super) holder_id: Uuid,
    /// When a script that holds it counts as lost.
    pub lease_until: Option<Timestamp>,
    /// When its holder was last heard of.
    pub heartbeat_at: Timestamp,
    /// When its latest holder began it.
    pub begun_at: Timestamp,
    /// When it became done or failed.
    pub settled_at: Option<Timestamp>,
    /// The operator who settled its doubt.
    pub settled_by: Option<String>,
    /// When it is forgotten.
    pub expires_at: Option<Timestamp>,
    /// Its result.
    pub result: Option<Value>,
    /// What the destination calls the thing that it made.
    pub external_id: Option<String>,
    /// Why it failed, or why it is in doubt.
    pub fault: Option<Value>,
    /// What a holder reported too late.
    pub note: Option<String>,
    /// How long it is remembered.
    pub keep: Span,
    /// The HTTP status of the response to a step, where there was one.
    pub status: Option<u16>,
    /// The run that undoes it, or that left it in doubt whether it did.
    pub undo: Option<RunId>,
    /// How many others asked for it and got its result.
    pub reuse_count: u32,
}

impl NamedEffectView {
    /// The key that the destination is sent.
    #[must_use]
    pub fn key(&self) -> EffectId {
        EffectId::named(self.id, self.generation)
    }

    /// When nothing of a script can run any more that was lost without a word: one that reported its
    /// doubt itself has ended, and a run has no lease.
    #[must_use]
    pub fn lost_until(&self) -> Option<Timestamp> {
        let HolderView::Script { lease, .. } = &self.holder else {
            return None;
        };
        let code = self.fault.as_ref().map(|fault| &fault["code"]);
        let is_lost = self.lease_until.is_some() || code.is_some_and(|code| code == LEASE_LOST);
        let over = lease.to_duration() + RETRY_AFTER_LEASE;
        is_lost.then(|| {
            self.heartbeat_at
                .checked_add(over)
                .unwrap_or(Timestamp::MAX)
        })
    }
}

/// Looks a named effect up; nothing where it is absent or expired.
pub async fn find(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: NamedEffectId,
) -> Result<Option<NamedEffectView>, ReadError> {
    let client = cell.reader().await?;
    let values: [&(dyn ToSql + Sync); 3] = [id.as_uuid(), id.as_uuid(), &namespace_id];
    let rows = client.query(READ, &values).await?;
    Ok(rows.first().and_then(read_view))
}

/// Looks up the named effect that one of its keys, pasted from a destination, belongs to.
pub async fn find_by_key(
    cell: SlotCell<'_>,
    namespace_id: i32,
    key: EffectId,
) -> Result<Option<NamedEffectView>, ReadError> {
    let (low, high) = NamedEffectId::from_uuid(*key.as_uuid()).owned_range();
    let client = cell.reader().await?;
    let rows = client.query(READ, &[&low, &high, &namespace_id]).await?;
    Ok(rows.iter().find_map(read_view))
}

/// The same inside a transaction.
pub(super) async fn read(
    tx: &Transaction<'_>,
    namespace_id: i32,
    id: NamedEffectId,
) -> Result<Option<NamedEffectView>, ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [id.as_uuid(), id.as_uuid(), &namespace_id];
    let rows = tx.query(READ, &values).await?;
    Ok(rows.first().and_then(read_view))
}

/// Nothing where the row is absent.
pub(super) fn read_view(row: &Row) -> Option<NamedEffectView> {
    let state: NamedEffectState = row.get::<_, &str>(4).parse().ok()?;
    let json = |index: usize| row.get::<_, Option<Json<Value>>>(index).map(|Json(it)| it);
    Some(NamedEffectView {
        id: NamedEffectId::from_uuid(row.get(0)),
        name: read_name(row),
        generation: row.get::<_, i32>(3).unsigned_abs(),
        state,
        action: EffectAction {
            kind: row.get(5),
            destination: row.get(6),
            method: row.get(7),
        },
        fingerprint: row.get::<_, Option<Uuid>>(8).map(Fingerprint::from_uuid),
        token: row.get(9),
        holder: read_holder(row),
        holder_id: row.get(29),
        lease_until: row.get(17),
        heartbeat_at: row.get(18),
        begun_at: row.get(19),
        settled_at: row.get(20),
        settled_by: row.get(21),
        expires_at: row.get(22),
        result: json(23),
        external_id: row.get(24),
        fault: json(25),
        note: row.get(26),
        keep: Span::from_millis(row.get::<_, i64>(27).unsigned_abs()),
        status: row.get::<_, Option<i16>>(28).map(i16::unsigned_abs),
        undo: row.get::<_, Option<Uuid>>(31).map(RunId::from_uuid),
        reuse_count: row.get::<_, i32>(32).unsigned_abs(),
    })
}

fn read_name(row: &Row) -> EffectName {
    let scope: &str = row.get(1);
    let name = scope
        .parse()
        .ok()
        .and_then(|scope: EffectScope| EffectName::new(scope, row.get::<_, Vec<u8>>(2)).ok());
    match name {
        Some(name) => name,
        None => unreachable!("the record has no scope {scope}"),
    }
}

fn read_holder(row: &Row) -> HolderView {
    if let Some(run) = row.get::<_, Option<Uuid>>(11) {
        return HolderView::Run {
            run: RunId::from_uuid(run),
            step: row.get::<_, Option<String>>(12).unwrap_or_default(),
            item: row.get::<_, Option<String>>(13).unwrap_or_default(),
            generation: row
                .get::<_, Option<i32>>(14)
                .unwrap_or_default()
                .unsigned_abs(),
        };
    }
    let on_doubt = row
        .get::<_, Option<&str>>(15)
        .and_then(|it| it.parse().ok());
    HolderView::Script {
        name: row.get::<_, Option<String>>(10).unwrap_or_default(),
        caller: TokenId::from_uuid(row.get::<_, Option<Uuid>>(30).unwrap_or_default()),
        lease: Span::from_millis(
            row.get::<_, Option<i64>>(16)
                .unwrap_or_default()
                .unsigned_abs(),
        ),
        on_doubt: on_doubt.unwrap_or(OnDoubt::Ask),
    }
}
