//! The `replay_plans` and `replay_items` tables: sets of runs that are replayed together.
//!
//! ```text
//! previewing ──▶ planned ──▶ running ◀──▶ paused        item: frozen ──▶ previewed ──▶ replayed
//!      └────────────┴───────────┴────────────┴──▶ stopped               └──────┴─────▶ refused
//!                               └──▶ done
//! ```
//!
//! A server takes a plan by moving its due time ahead; if it dies, another takes the plan then. Namespaces
//! take turns (`turns.rs`), however many plans each has. What
//! it does for an item is one replay with an identity of its own, so that two servers at one item
//! make one run. The rows here only note what became of it.

use semel_model::{ReplayPlanId, RunId, TokenId};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};
use crate::column_text::ColumnText;
use crate::turns::{NamespaceTurns, turns};

mod candidates;
mod views;

pub(crate) use candidates::STATEMENTS as CANDIDATES;
pub use candidates::{ReplayRange, list_candidates};
pub(crate) use views::STATEMENTS as VIEWS;
pub use views::{
    ItemFilter, PlanItemView, PlanView, SummaryCount, find, list, list_items, list_summaries,
};

/// The most runs of one plan.
pub const RUNS_MAX: i64 = 10_000;

/// How long a server may be at a plan before another takes it, in seconds.
const HOLD_SECS: f64 = 5.0;

const CREATE: &str = "
    INSERT INTO replay_plans (id, namespace_id, flow, release, state, per_second, actor, reason, token_id,
                              due_at)
    VALUES ($1, $2, $3, $4, 'previewing', $5, $6, $7, $8, moment())";

const ADD: &str = "
    INSERT INTO replay_items (plan_id, run_id) SELECT $1, unnest($2::uuid[])";

/// Old plans go when new ones come, a few at a time.
const FORGET: &str = "
    DELETE FROM replay_plans
     WHERE id IN (SELECT id FROM replay_plans
                   WHERE namespace_id = $1 AND created_at < (SELECT moment()) - interval '90 days'
                     AND state IN ('planned', 'stopped', 'done')
                   ORDER BY created_at LIMIT 10)";

const TAKE: &str = concat!(
    turns!("replay_plans", "t.state IN ('previewing', 'running')"),
    ",
    due AS (
        SELECT d.id
          FROM turns s
         CROSS JOIN LATERAL (SELECT p.id
                               FROM replay_plans p
                              WHERE p.state IN ('previewing', 'running')
                                AND p.namespace_id = s.namespace_id
                                AND p.due_at <= (SELECT now FROM present)
                              ORDER BY p.due_at
                              LIMIT 1
                                FOR UPDATE OF p SKIP LOCKED) d
         LIMIT 1)
    UPDATE replay_plans p
       SET due_at = moment() + make_interval(secs => $3)
     WHERE p.id = (SELECT id FROM due)
 RETURNING p.id, p.namespace_id, p.release, p.state, p.per_second, p.actor, p.reason, p.token_id"
);

const LEFT: &str = "
    SELECT run_id, digest, attempts
      FROM replay_items
     WHERE plan_id = $1 AND state = $2
     ORDER BY run_id
     LIMIT $3";

const NOTE: &str = "
    UPDATE replay_items
       SET state = $4, digest = coalesce($5, digest), summary = coalesce($6, summary),
           next_run = $7, code = $8, note = $9
     WHERE plan_id = $1 AND run_id = $2 AND state = $3";

const POSTPONE: &str = "
    UPDATE replay_items SET attempts = attempts + 1 WHERE plan_id = $1 AND run_id = $2";

/// The plan is complete where no item is left; otherwise it is due again.
const RETURN: &str = "
    UPDATE replay_plans p
       SET state = CASE WHEN EXISTS (SELECT 1 FROM replay_items i
                                      WHERE i.plan_id = p.id AND i.state = $3) THEN p.state
                        WHEN p.state = 'previewing' THEN 'planned'
                        ELSE 'done' END,
           due_at = moment() + make_interval(secs => $4)
     WHERE p.id = $1 AND p.state = $2";

const CHANGE: &str = "
    UPDATE replay_plans SET state = $3, due_at = moment(), per_second = coalesce($5::int4, per_second),
                            actor = coalesce($6::text, actor),
                            token_id = CASE WHEN $6::text IS NULL THEN token_id ELSE $7::uuid END
     WHERE id = $1 AND namespace_id = $2 AND state = ANY ($4::text[])";

const END: &str = "
    UPDATE replay_plans SET state = 'stopped', stopped_because = $3
     WHERE id = $1 AND state = $2 AND token_id IS NOT DISTINCT FROM $4::uuid";

pub(crate) const STATEMENTS: &[&str] = &[
    CREATE, ADD, FORGET, TAKE, LEFT, NOTE, POSTPONE, RETURN, CHANGE, END,
];

/// A plan to make.
#[derive(Clone, Debug)]
pub struct NewPlan<'a> {
    /// The plan.
    pub id: ReplayPlanId,
    /// The namespace.
    pub namespace_id: i32,
    /// The flow.
    pub flow: &'a str,
    /// The number of the release that its runs are replayed on.
    pub release: i32,
    /// The most runs that are replayed in a second.
    pub per_second: i32,
    /// Who makes it.
    pub actor: &'a str,
    /// The token in whose name it acts.
    pub token: Option<TokenId>,
    /// Why.
    pub reason: Option<&'a str>,
}

/// Makes a plan of some runs; the act is recorded in the same commit.
pub async fn create(
    cell: HomeCell<'_>,
    plan: &NewPlan<'_>,
    runs: &[RunId],
    act: &AuditEntry,
) -> Result<(), ReadError> {
    let ids: Vec<Uuid> = runs.iter().map(|run| *run.as_uuid()).collect();
    let token = plan.token.map(|token| *token.as_uuid());
    let values: [&(dyn ToSql + Sync); 8] = [
        plan.id.as_uuid(),
        &plan.namespace_id,
        &plan.flow,
        &plan.release,
        &plan.per_second,
        &plan.actor,
        &plan.reason,
        &token,
    ];
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    tx.execute(FORGET, &[&plan.namespace_id]).await?;
    tx.execute(CREATE, &values).await?;
    tx.execute(ADD, &[plan.id.as_uuid(), &ids]).await?;
    audit::append(&tx, act).await?;
    tx.commit().await?;
    Ok(())
}

/// A plan that a server works on.
#[derive(Clone, Debug)]
pub struct TakenPlan {
    /// The plan.
    pub id: ReplayPlanId,
    /// The namespace.
    pub namespace_id: i32,
    /// The number of the release that its runs are replayed on.
    pub release: i32,
    /// Whether its runs are replayed, and not only previewed.
    pub replays: bool,
    /// The most runs that are replayed in a second.
    pub per_second: i32,
    /// Who made it, or applied it since.
    pub actor: String,
    /// Why.
    pub reason: Option<String>,
    /// The token in whose name it acts.
    pub token: Option<TokenId>,
}

impl TakenPlan {
    fn state(&self) -> &'static str {
        match self.replays {
            true => "running",
            false => "previewing",
        }
    }

    /// The state of its items that are left.
    fn left(&self) -> &'static str {
        match self.replays {
            true => "previewed",
            false => "frozen",
        }
    }
}

/// Takes a plan that is due, of the namespace whose turn it is, so that no other server works on it for a while.
pub async fn take(
    cell: HomeCell<'_>,
    turns: &mut NamespaceTurns,
) -> Result<Option<TakenPlan>, ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [&turns.last(), &Vec::<i32>::new(), &HOLD_SECS];
    let row = cell.reader().await?.query_opt(TAKE, &values).await?;
    turns.note(row.iter().map(|row| row.get(1)));
    Ok(row.map(|row: Row| TakenPlan {
        id: ReplayPlanId::from_uuid(row.get(0)),
        namespace_id: row.get(1),
        release: row.get(2),
        replays: row.get::<_, &str>(3) == "running",
        per_second: row.get(4),
        actor: row.get(5),
        reason: row.get(6),
        token: row.get::<_, Option<Uuid>>(7).map(TokenId::from_uuid),
    }))
}

/// A run of a plan that has no outcome yet.
#[derive(Clone, Debug)]
pub struct PlanItem {
    /// The run.
    pub run: RunId,
    /// The digest of its preview, once there is one.
    pub digest: Option<String>,
    /// How many attempts were cut short.
    pub attempts: i32,
}

/// Lists runs of a plan that are left, at most `limit`.
pub async fn list_left(
    cell: HomeCell<'_>,
    plan: &TakenPlan,
    limit: i64,
) -> Result<Vec<PlanItem>, ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [plan.id.as_uuid(), &plan.left(), &limit];
    let rows = cell.reader().await?.query(LEFT, &values).await?;
    let read = |row: &Row| PlanItem {
        run: RunId::from_uuid(row.get(0)),
        digest: row.get(1),
        attempts: row.get(2),
    };
    Ok(rows.iter().map(read).collect())
}

/// What became of a run of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemOutcome {
    /// It can be replayed.
    Previewed {
        /// The digest of its preview.
        digest: String,
        /// What the preview shows, in short.
        summary: String,
    },
    /// It was replayed by this run.
    Replayed(RunId),
    /// It is not replayed.
    Refused {
        /// Why, as a stable word.
        code: String,
        /// Why, in words.
        note: String,
    },
    /// The database or a worker was in the way: it is tried again.
    Postponed,
}

/// Notes what became of a run of a plan. What another server noted first stays.
pub async fn note(
    cell: HomeCell<'_>,
    plan: &TakenPlan,
    run: RunId,
    outcome: &ItemOutcome,
) -> Result<(), ReadError> {
    let client = cell.reader().await?;
    let id = plan.id.as_uuid();
    let said = |text| Some(ColumnText::words(text));
    let (state, digest, summary, next, code, words) = match outcome {
        ItemOutcome::Previewed { digest, summary } => (
            "previewed",
            Some(digest),
            said(summary.as_str()),
            None,
            None,
            None,
        ),
        ItemOutcome::Replayed(next) => ("replayed", None, None, Some(*next.as_uuid()), None, None),
        ItemOutcome::Refused { code, note } => {
            ("refused", None, None, None, Some(code), said(note.as_str()))
        }
        ItemOutcome::Postponed => {
            client.execute(POSTPONE, &[id, run.as_uuid()]).await?;
            return Ok(());
        }
    };
    let left = plan.left();
    let values: [&(dyn ToSql + Sync); 9] = [
        id,
        run.as_uuid(),
        &left,
        &state,
        &digest,
        &summary,
        &next,
        &code,
        &words,
    ];
    client.execute(NOTE, &values).await?;
    Ok(())
}

/// Returns a plan, due again after so many seconds unless nothing of it is left.
pub async fn give_back(
    cell: HomeCell<'_>,
    plan: &TakenPlan,
    after_secs: f64,
) -> Result<(), ReadError> {
    let (state, left) = (plan.state(), plan.left());
    let values: [&(dyn ToSql + Sync); 4] = [plan.id.as_uuid(), &state, &left, &after_secs];
    cell.reader().await?.execute(RETURN, &values).await?;
    Ok(())
}

/// Ends a plan of a maker in whose name nothing more is done; the act is recorded in the same commit. A plan that another
/// has applied meanwhile goes on.
pub async fn end(
    cell: HomeCell<'_>,
    plan: &TakenPlan,
    why: &str,
    act: &AuditEntry,
) -> Result<(), ReadError> {
    let (state, why) = (plan.state(), ColumnText::words(why));
    let token = plan.token.map(|token| *token.as_uuid());
    let values: [&(dyn ToSql + Sync); 4] = [plan.id.as_uuid(), &state, &why, &token];
    audit::execute(cell, END, &values, act).await?;
    Ok(())
}

/// What an operator does to a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanChange {
    /// Replays its runs, or continues to.
    Apply {
        /// The most runs that are replayed in a second, where that changes.
        per_second: Option<i32>,
    },
    /// Keeps its other runs for later.
    Pause,
    /// Ends it.
    Stop,
}

/// Carries out what an operator does to a plan by a token, with the record of it. False where the plan
/// is in no state for that.
pub async fn change(
    cell: HomeCell<'_>,
    namespace_id: i32,
    plan: ReplayPlanId,
    (change, token): (PlanChange, Option<TokenId>),
    act: &AuditEntry,
) -> Result<bool, ReadError> {
    let (to, from, per_second): (&str, &[&str], Option<i32>) = match change {
        PlanChange::Apply { per_second } => ("running", &["planned", "paused"], per_second),
        PlanChange::Pause => ("paused", &["running"], None),
        PlanChange::Stop => (
            "stopped",
            &["previewing", "planned", "running", "paused"],
            None,
        ),
    };
    // The runs are replayed in the name of the person who applies the plan.
    let actor = (to == "running").then_some(act.actor());
    let token = token.map(|token| *token.as_uuid());
    let values: [&(dyn ToSql + Sync); 7] = [
        plan.as_uuid(),
        &namespace_id,
        &to,
        &from,
        &per_second,
        &actor,
        &token,
    ];
    Ok(audit::execute(cell, CHANGE, &values, act).await? == 1)
}
