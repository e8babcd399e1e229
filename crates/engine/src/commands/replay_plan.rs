//! Replays of many runs: a plan freezes which, a service previews and replays them one by one.

use std::sync::Arc;

use jiff::Timestamp;
use semel_model::replay::{Forecast, ReplayPreview};
use semel_model::run::RunState;
use semel_model::{FlowName, ReplayPlanId, RunId};
use semel_store::audit::origin::ActOrigin;
use semel_store::audit::{AuditEntry, ReasonError};
use semel_store::replay_plans::{
    self, ItemOutcome, NewPlan, PlanChange, PlanItem, RUNS_MAX, ReplayRange, TakenPlan,
};

use super::job_maker::JobMaker;
use super::replay::{ReplayError, ReplayWish};
use crate::runtime::Runtime;
use crate::unavailable::unavailable_from_store;

/// How often a run of a plan is tried that the database or a worker keeps from being replayed.
const ATTEMPTS_MAX: i32 = 5;

/// Which runs are replayed together.
#[derive(Clone, Debug)]
pub struct PlanWish {
    /// The flow.
    pub flow: FlowName,
    /// The state of the runs.
    pub state: RunState,
    /// Accepted at this time or later.
    pub since: Option<Timestamp>,
    /// Accepted before this time.
    pub until: Option<Timestamp>,
    /// Failed with this code.
    pub code: Option<String>,
    /// The most runs that are replayed in a second.
    pub per_second: i32,
    /// Why.
    pub reason: Option<String>,
}

/// Why a plan is not made or changed.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// There is no such plan.
    #[error("there is no such plan")]
    Unknown,
    /// The flow has no live release.
    #[error("the flow has no live release")]
    NoFlow,
    /// No run fits.
    #[error("no run of the flow fits: nothing was planned")]
    Empty,
    /// More runs fit than one plan may have.
    #[error("more than {RUNS_MAX} runs fit: name a shorter time with --since and --until")]
    TooMany,
    /// Runs in this state cannot be replayed.
    #[error("runs that are {0} cannot be replayed")]
    State(RunState),
    /// The plan is in no state for this.
    #[error("the plan is {0}")]
    Unfit(String),
    /// The reason cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// The database did not answer in time.
    #[error("the plan could not be stored: {0}")]
    Unavailable(String),
}

unavailable_from_store!(PlanError);

impl PlanError {
    /// The stable word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown => "plan-not-found",
            Self::NoFlow => "flow-not-found",
            Self::Empty | Self::TooMany | Self::State(_) => "plan-invalid",
            Self::Unfit(_) => "plan-unfit",
            Self::Reason(error) => error.code(),
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

impl Runtime {
    /// Freezes which runs are replayed. They are previewed from now on, and replayed once an operator
    /// applies the plan.
    pub async fn plan_replay(
        self: &Arc<Self>,
        namespace_id: i32,
        wish: &PlanWish,
        by: JobMaker<'_>,
    ) -> Result<ReplayPlanId, PlanError> {
        let JobMaker { actor, token } = by;
        if matches!(wish.state, RunState::Active | RunState::InDoubt) {
            return Err(PlanError::State(wish.state));
        }
        let id = ReplayPlanId::generate();
        let act = AuditEntry::new(namespace_id, actor, "replay.plan", &id.to_string());
        let act = match &wish.reason {
            Some(reason) => act.because(reason)?,
            None => act,
        };
        let found = self.find_flow(namespace_id, &wish.flow).await;
        let found = found.map_err(|error| PlanError::Unavailable(error.to_string()))?;
        let release = found.ok_or(PlanError::NoFlow)?.number;
        let range = ReplayRange {
            flow: wish.flow.as_str(),
            states: vec![wish.state.as_str()],
            since: wish.since,
            until: wish.until,
            code: wish.code.as_deref(),
        };
        let runs = replay_plans::list_candidates(self.cell.every(), namespace_id, &range).await?;
        if runs.is_empty() {
            return Err(PlanError::Empty);
        }
        if runs.len() as i64 > RUNS_MAX {
            return Err(PlanError::TooMany);
        }
        let plan = NewPlan {
            id,
            namespace_id,
            flow: range.flow,
            release,
            per_second: wish.per_second.clamp(1, 100),
            actor,
            token,
            reason: wish.reason.as_deref(),
        };
        replay_plans::create(self.cell.home(), &plan, &runs, &act).await?;
        self.signals.planned.notify_one();
        Ok(id)
    }

    /// Applies, pauses or stops a plan.
    pub async fn change_plan(
        self: &Arc<Self>,
        namespace_id: i32,
        plan: ReplayPlanId,
        (change, reason): (PlanChange, Option<&str>),
        by: JobMaker<'_>,
    ) -> Result<(), PlanError> {
        let JobMaker { actor, token } = by;
        let (name, to) = match change {
            PlanChange::Apply { .. } => ("replay.apply", "running"),
            PlanChange::Pause => ("replay.pause", "paused"),
            PlanChange::Stop => ("replay.stop", "stopped"),
        };
        let act = AuditEntry::new(namespace_id, actor, name, &plan.to_string());
        let act = match reason {
            Some(reason) => act.because(reason)?,
            None => act,
        };
        let home = self.cell.home();
        let asked = (change, token);
        if replay_plans::change(home, namespace_id, plan, asked, &act).await? {
            self.signals.planned.notify_one();
            return Ok(());
        }
        let view = replay_plans::find(self.cell.home(), namespace_id, plan).await?;
        let state = view.ok_or(PlanError::Unknown)?.state;
        // Asked twice, it is as it was asked for.
        let is_so = state == to || (to == "running" && state == "done");
        is_so.then_some(()).ok_or(PlanError::Unfit(state))
    }

    /// Previews or replays one run of a plan.
    pub(crate) async fn replay_item(
        self: &Arc<Self>,
        plan: &TakenPlan,
        item: &PlanItem,
    ) -> ItemOutcome {
        let wish = ReplayWish {
            release: Some(plan.release),
            ..ReplayWish::default()
        };
        let done = match (&item.digest, plan.replays) {
            (Some(digest), true) => self.replay_previewed(plan, item.run, &wish, digest).await,
            (Some(_) | None, _) => self.preview_item(plan, item.run, &wish).await,
        };
        let error = match done {
            Ok(outcome) => return outcome,
            Err(error) => error,
        };
        let passes = matches!(error, ReplayError::Busy | ReplayError::Unavailable(_));
        if passes && item.attempts < ATTEMPTS_MAX {
            return ItemOutcome::Postponed;
        }
        ItemOutcome::Refused {
            code: error.code().to_owned(),
            note: error.to_string(),
        }
    }

    async fn replay_previewed(
        self: &Arc<Self>,
        plan: &TakenPlan,
        run: RunId,
        wish: &ReplayWish,
        digest: &str,
    ) -> Result<ItemOutcome, ReplayError> {
        let reason = format!(
            "{}, {}",
            plan.id,
            plan.reason.as_deref().unwrap_or("a plan")
        );
        let reason: String = reason.chars().take(REASON_CHARS).collect();
        let asked = (digest, Some(reason.as_str()));
        // No request is answered here: the act comes from the token that asked for the plan.
        let origin = ActOrigin {
            token: plan.token,
            address: None,
        };
        let next = self.replay(plan.namespace_id, run, wish, asked, &plan.actor);
        origin.scope(next).await.map(ItemOutcome::Replayed)
    }

    async fn preview_item(
        self: &Arc<Self>,
        plan: &TakenPlan,
        run: RunId,
        wish: &ReplayWish,
    ) -> Result<ItemOutcome, ReplayError> {
        let preview = self.preview_replay(plan.namespace_id, run, wish).await?;
        if let Some(obstacle) = preview.obstacles.first() {
            return Err(ReplayError::Blocked(obstacle.clone()));
        }
        Ok(ItemOutcome::Previewed {
            summary: summary(&preview),
            digest: preview.digest,
        })
    }
}

/// The most characters of the reason that is recorded with each run.
const REASON_CHARS: usize = 1_000;

/// What a preview shows, in short: runs with the same summary are counted together.
fn summary(preview: &ReplayPreview) -> String {
    let skipped = |it: &Forecast| matches!(it, Forecast::Skipped { .. } | Forecast::Changed { .. });
    let performed = |it: &Forecast| matches!(it, Forecast::Performed { .. });
    let unknown = |it: &Forecast| matches!(it, Forecast::Unknown { .. });
    let fails = |it: &Forecast| matches!(it, Forecast::Fails { .. });
    let others = preview.steps.len()
        - [skipped, performed, unknown, fails]
            .into_iter()
            .map(|is: fn(&Forecast) -> bool| preview.count(is))
            .sum::<usize>();
    let mut parts = vec![
        format!("{} skipped", preview.count(skipped)),
        format!("{} performed", preview.count(performed)),
    ];
    for (count, word) in [
        (preview.count(unknown), "not known yet"),
        (others, "reads, waits and lists"),
        (preview.count(fails), "would fail"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    parts.extend(preview.notes.iter().cloned());
    parts.join(", ")
}
