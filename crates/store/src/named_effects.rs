//! The `named_effects` table: effects whose key people choose, and who holds them.
//!
//! [`semel_model::named_effect`] draws its states.
//!
//! A row that is absent is kept for its generation and token alone, so that a new intent under the
//! name is never sent under a key that a destination still remembers; one under which nothing was done
//! is removed after a while. Tokens are at least the time in microseconds: they grow even where the row
//! was removed in between.
//!
//! A run that begins its own doubt again holds it as before. If that hold is freed, the effect is in
//! doubt again: a worker that was paused may have begun it, for a run that has ended since.
//!
//! Rows are locked one at a time, each before its waiters. A run that finds the effect held or in
//! doubt becomes a waiter in the same commit, under the lock that every settlement takes.
//!
//! Commit points: the `COMMIT` of [`begin`], [`done`], [`fail`], [`doubt`], [`free`], [`settle`],
//! [`begin_undo`], [`doubt_held`] and [`redo`]; [`heartbeat`], [`lapse`] and [`expire`] are one statement each. All may be repeated after
//! a lost answer.

use std::time::Duration;

use semel_model::id::digest;
use semel_model::named_effect::OnDoubt;
use semel_model::{
    EffectId, EffectName, Fingerprint, HolderId, NamedEffectId, NamedEffectState, RunId, SeededBug,
    Span, TokenId,
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::attention;
use crate::cell::{ReadError, SlotCell};

mod begin_columns;
mod holds;
mod list;
mod notices;
mod operator;
mod report;
mod reports;
mod reuses;
mod undo;
mod upkeep;
mod views;
mod waiters;

use begin_columns::BeginColumns;
pub(crate) use holds::STATEMENTS as HOLDS;
pub use holds::{HOLDS_MAX, OldHold, free_old_hold, list_old_holds};
pub(crate) use list::STATEMENTS as LISTS;
pub use list::{NamedEffectFilter, list, list_doubts, list_of_key};
pub use notices::{
    DueNotice, NameNotice, NameOutcome, deliver, list_notices, remove_notice, take_overdue_notices,
};
pub(crate) use notices::{NOTE, NoticeOrigin, Rows as NoticeRows, STATEMENTS as NOTICES};
pub(crate) use operator::STATEMENTS as OPERATOR;
pub use operator::{HOLDER_QUARANTINED, NamedSettlement, doubt_held, redo, settle};
pub(crate) use report::STATEMENTS as NOTES;
pub use report::{NamedReport, NamedResult, ReportedHold, Reporter};
pub(crate) use reports::STATEMENTS as REPORTS;
pub use reports::{done, done_with, doubt, fail, free, heartbeat};
pub(crate) use reuses::STATEMENTS as REUSES;
pub(crate) use undo::STATEMENTS as UNDO;
pub use undo::{UndoBegin, UndoBegun, begin_undo};
pub(crate) use upkeep::STATEMENTS as UPKEEP;
pub use upkeep::{LapsedEffect, expire, lapse};
pub(crate) use views::STATEMENTS as VIEWS;
pub use views::{HolderView, NamedEffectView, find, find_by_key};
pub(crate) use waiters::STATEMENTS as WAITERS;
pub use waiters::{NamedEffectWaiter, list_left_behind, put_back, wake, woken};

/// A row is locked even where it is not changed, so that what is read next is what was judged.
///
/// `EXCLUDED.begun_at` is the moment that everything is judged by. A name is free if it is absent,
/// failed or expired. A holder finds its own hold again; a run also where it is in doubt, because a
/// run is durable and alone says what is to be done about its doubt. A lost script is followed by
/// another only if both agreed to it. What a process reported as failed is over for it: its own begin
/// that comes late, or twice, begins nothing.
const BEGIN: &str = "
    INSERT INTO named_effects AS n (
           id, namespace_id, scope, key, kind, destination, method, fingerprint, token, holder,
           holder_name, holder_run, holder_step, holder_item, holder_generation, on_doubt,
           lease_ms, lease_until, heartbeat_at, begun_at, keep_ms, holder_token, endless, holder_seq)
    SELECT $1::uuid, $2::int4, $3::text, $4::bytea, $5::text, $6::text, $7::text, $8::uuid,
           (extract(epoch FROM p.now) * 1e6)::int8, $9::uuid,
           $10::text, $11::uuid, $12::text, $13::text, $14::int4, $15::text,
           $16::int8, p.now + make_interval(secs => $16::int8 / 1e3), p.now, p.now, $17::int8,
           $18::uuid, $21::bool, $19::int4
      FROM (SELECT moment() AS now) p
        ON CONFLICT (id) DO UPDATE
       SET state = 'pending',
           generation = CASE
               WHEN n.state IN ('pending', 'in_doubt') THEN n.generation
               WHEN n.state = 'absent' AND n.fingerprint IS NULL THEN n.generation
               WHEN n.state IN ('absent', 'failed') AND n.expires_at > EXCLUDED.begun_at
                    AND n.fingerprint = EXCLUDED.fingerprint AND NOT $20::bool THEN n.generation
               ELSE n.generation + 1 END,
           token = CASE WHEN n.holder = EXCLUDED.holder AND n.state IN ('pending', 'in_doubt')
                        THEN n.token ELSE greatest(n.token + 1, EXCLUDED.token) END,
           begun_at = CASE WHEN n.holder = EXCLUDED.holder AND n.state IN ('pending', 'in_doubt')
                           THEN n.begun_at ELSE EXCLUDED.begun_at END,
           fingerprint = CASE WHEN n.state = 'in_doubt' THEN n.fingerprint
                              ELSE EXCLUDED.fingerprint END,
           doubted = n.holder = EXCLUDED.holder
                     AND (n.state = 'in_doubt' OR (n.state = 'pending' AND n.doubted)),
           fault = CASE WHEN n.holder = EXCLUDED.holder AND n.state IN ('pending', 'in_doubt')
                        THEN n.fault END,
           former_holders = CASE
               WHEN n.holder = EXCLUDED.holder OR n.holder_token IS NULL THEN n.former_holders
               ELSE CASE WHEN jsonb_array_length(n.former_holders) < 8 THEN n.former_holders
                         ELSE n.former_holders - 0 END
                    || jsonb_build_array(jsonb_build_array(n.token, n.holder_token)) END,
           kind = EXCLUDED.kind, destination = EXCLUDED.destination, method = EXCLUDED.method,
           holder = EXCLUDED.holder, holder_name = EXCLUDED.holder_name,
           holder_token = EXCLUDED.holder_token, endless = n.endless OR EXCLUDED.endless,
           holder_seq = CASE WHEN n.holder = EXCLUDED.holder
                             THEN greatest(n.holder_seq, EXCLUDED.holder_seq) ELSE EXCLUDED.holder_seq END,
           holder_run = EXCLUDED.holder_run, holder_step = EXCLUDED.holder_step,
           holder_item = EXCLUDED.holder_item, holder_generation = EXCLUDED.holder_generation,
           on_doubt = EXCLUDED.on_doubt, lease_ms = EXCLUDED.lease_ms,
           lease_until = EXCLUDED.lease_until, heartbeat_at = EXCLUDED.heartbeat_at,
           reuse_count = 0, reused_by = '{}', undo_seq = NULL,
           keep_ms = EXCLUDED.keep_ms, settled_at = NULL, settled_by = NULL, expires_at = NULL,
           result = NULL, external_id = NULL, status = NULL, note = NULL
     WHERE n.state IN ('absent', 'failed')
           AND (n.state = 'absent' OR n.holder <> EXCLUDED.holder OR n.holder_run IS NOT NULL)
        OR n.expires_at <= EXCLUDED.begun_at
        OR (n.holder = EXCLUDED.holder
            AND ((n.state = 'pending'
                  AND (n.lease_until IS NULL OR n.lease_until > EXCLUDED.begun_at))
                 OR (n.state = 'in_doubt' AND n.holder_run IS NOT NULL)))
        OR (n.state IN ('pending', 'in_doubt') AND n.holder <> EXCLUDED.holder
            AND n.on_doubt = 'retry' AND EXCLUDED.on_doubt = 'retry'
            AND n.fingerprint = EXCLUDED.fingerprint AND n.kind = EXCLUDED.kind
            AND n.heartbeat_at + make_interval(secs => n.lease_ms / 1e3 + 60)
                <= EXCLUDED.begun_at)
 RETURNING n.token, n.generation, n.lease_until, n.doubted";

pub(crate) const STATEMENTS: &[&str] = &[BEGIN];

/// How long after the end of a lost script's lease another may follow it, if both agreed to that:
/// what `BEGIN` adds.
pub const RETRY_AFTER_LEASE: Duration = Duration::from_secs(60);

/// How often a name is begun again that became free while it was read.
const BEGIN_TRIES: usize = 3;

/// What an effect is, for telling two of the same name apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectAction {
    /// The kind of step, or `command`.
    pub kind: String,
    /// The connection or host; empty for a command.
    pub destination: String,
    /// The method of the request; empty for a command.
    pub method: String,
}

/// Who performs a named effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedHolder {
    /// A run, which is durable: its hold has no lease.
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
    /// A process outside, which may be lost.
    Script {
        /// What the process calls itself, made anew by each: it recognises its own hold.
        nonce: HolderId,
        /// The API token that it uses: nobody else reports on its hold.
        caller: TokenId,
        /// Host and process, for people.
        name: String,
        /// How long it may be silent.
        lease: Span,
        /// What it agrees to if it is lost.
        on_doubt: OnDoubt,
    },
}

impl NamedHolder {
    /// Whether it may follow a process that was lost, whose doubt ends with that.
    const fn may_follow(&self) -> bool {
        match self {
            Self::Script { on_doubt, .. } => matches!(on_doubt, OnDoubt::Retry),
            Self::Run { .. } => false,
        }
    }

    /// What tells this holder from others.
    fn identity(&self) -> Uuid {
        match self {
            Self::Run {
                run,
                step,
                item,
                generation,
            } => {
                let parts: [&[u8]; 4] = [
                    run.as_uuid().as_bytes(),
                    step.as_bytes(),
                    item.as_bytes(),
                    &generation.to_be_bytes(),
                ];
                Uuid::from_bytes(digest("semel.named.holder.1", &parts))
            }
            Self::Script { nonce, caller, .. } => {
                let parts: [&[u8]; 2] = [nonce.as_uuid().as_bytes(), caller.as_uuid().as_bytes()];
                Uuid::from_bytes(digest("semel.named.script.1", &parts))
            }
        }
    }
}

/// An effect that a holder wants to perform.
#[derive(Clone, Debug)]
pub struct NamedBegin {
    /// The effect.
    pub id: NamedEffectId,
    /// The namespace that owns it.
    pub namespace_id: i32,
    /// Its name, which the identity is derived from.
    pub name: EffectName,
    /// What it is.
    pub action: EffectAction,
    /// Of its request or command line.
    pub fingerprint: Fingerprint,
    /// Who performs it.
    pub holder: NamedHolder,
    /// How long it is remembered once it is done or failed.
    pub keep: Span,
    /// Whether one that is done with another request is taken for this one.
    pub accepts_other: bool,
    /// The length of the journal of the run that asks. A process has none.
    pub seq: Option<i32>,
    /// Whether its destination keeps a refusal under the latest key: then the next intent has another one, also for the same
    /// request.
    pub renews: bool,
    /// Whether something may remember its key without end: the marker of a `db` step, the claim of another flow, or a
    /// program that was given the key.
    pub endless: bool,
}

/// A hold on a named effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedHold {
    /// What every report has to carry.
    pub token: i64,
    /// The key to send to the destination.
    pub key: EffectId,
    /// How many intents the name had before.
    pub generation: u32,
    /// When a script counts as lost.
    pub lease_until: Option<jiff::Timestamp>,
}

/// What a holder finds.
#[derive(Clone, Debug)]
pub enum NamedBegun {
    /// It is this holder's to perform.
    First(NamedHold),
    /// It happened. The caller compares the fingerprints.
    Done(Box<NamedEffectView>),
    /// It happened, and is an effect of another kind, destination or method.
    Other(Box<NamedEffectView>),
    /// Another holder performs it, or undoes it. A run is a waiter now.
    Held(Box<NamedEffectView>),
    /// Whether it happened is unknown. A run is a waiter now.
    InDoubt(Box<NamedEffectView>),
    /// The process itself reported that it failed: this begin came late, or twice.
    Over(Box<NamedEffectView>),
}

/// Begins a named effect, or says what is there. Repeated by the same holder it gives the same token.
pub async fn begin(cell: SlotCell<'_>, asked: &NamedBegin) -> Result<NamedBegun, ReadError> {
    for _ in 0..BEGIN_TRIES {
        if let Some(begun) = try_begin(cell, asked).await? {
            return Ok(begun);
        }
    }
    Err(ReadError::Slow)
}

/// Nothing where what was there expired between the two statements.
async fn try_begin(
    cell: SlotCell<'_>,
    asked: &NamedBegin,
) -> Result<Option<NamedBegun>, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let (right, wrong) = (
        "WHERE n.state IN ('absent',",
        "WHERE n.state IN ('in_doubt', 'absent',",
    );
    let text = SeededBug::NamedDoubtBegunAgain.in_text(BEGIN, right, wrong);
    let statement = tx.prepare_cached(text).await?;
    let columns = BeginColumns::of(asked);
    if let Some(row) = tx.query_opt(&statement, &columns.values(asked)).await? {
        if row.get::<_, bool>(3) || asked.holder.may_follow() {
            attention::named::compare(&tx, asked.id).await?;
        }
        tx.commit().await?;
        return Ok(Some(NamedBegun::First(read_hold(asked.id, &row))));
    }
    let Some(view) = views::read(&tx, asked.namespace_id, asked.id).await? else {
        return Ok(None);
    };
    let open = matches!(
        view.state,
        NamedEffectState::Pending | NamedEffectState::InDoubt | NamedEffectState::Undoing
    );
    if let (true, NamedHolder::Run { run, step, .. }) = (open, &asked.holder) {
        waiters::wait(&tx, asked.id, *run, step).await?;
    }
    reuses::count(&tx, asked, &view).await?;
    tx.commit().await?;
    Ok(judge(asked, view))
}

fn judge(asked: &NamedBegin, view: NamedEffectView) -> Option<NamedBegun> {
    let other = view.action != asked.action;
    let view = Box::new(view);
    match view.state {
        NamedEffectState::Done if other => Some(NamedBegun::Other(view)),
        NamedEffectState::Done => Some(NamedBegun::Done(view)),
        NamedEffectState::Pending | NamedEffectState::Undoing => Some(NamedBegun::Held(view)),
        NamedEffectState::InDoubt => Some(NamedBegun::InDoubt(view)),
        NamedEffectState::Failed if is_own(asked, &view) => Some(NamedBegun::Over(view)),
        NamedEffectState::Failed => None,
    }
}

fn is_own(asked: &NamedBegin, view: &NamedEffectView) -> bool {
    let script = matches!(asked.holder, NamedHolder::Script { .. });
    script && view.holder_id == asked.holder.identity()
}

fn read_hold(id: NamedEffectId, row: &Row) -> NamedHold {
    let generation = row.get::<_, i32>(1).unsigned_abs();
    NamedHold {
        token: row.get(0),
        key: EffectId::named(id, generation),
        generation,
        lease_until: row.get(2),
    }
}
