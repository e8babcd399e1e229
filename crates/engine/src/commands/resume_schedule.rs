//! Resumes a schedule: what passed while it was paused is decided first.

use std::sync::Arc;

use semel_model::{FlowName, NamespaceName, ScheduleId, SessionId};
use semel_store::ReadError;
use semel_store::audit::AuditEntry;
use semel_store::schedules::{self, Schedule};

use super::fire_schedule::{PauseError, act};
use crate::commands::connection::Actor;
use crate::runtime::Runtime;
use crate::services::scheduler::live::Live;
use crate::services::scheduler::plan::Plan;
use crate::services::scheduler::{REST, ROOM, grounds};

/// How often resuming tries where nothing can be decided.
const RESUME_TRIES_MAX: usize = 30;

/// How far a try to resume a schedule came.
enum Resumed {
    /// It was resumed.
    Yes,
    /// It was not paused.
    Not,
    /// More had passed than one go takes, and some of it is decided.
    Partly,
    /// Nothing could be decided now.
    NotNow,
}

impl Runtime {
    /// Resumes a schedule. Instants that passed meanwhile are recorded as skipped. False where it
    /// was not paused.
    pub async fn resume_schedule(
        self: &Arc<Self>,
        by: Actor<'_>,
        namespace: &NamespaceName,
        flow: &FlowName,
        reason: Option<&str>,
    ) -> Result<bool, PauseError> {
        let id = ScheduleId::derive(namespace, flow);
        let live = Live::current(self).await?;
        live.find(id).ok_or(PauseError::Unknown)?;
        let act = act(by, "schedule.resume", flow, reason)?;
        let mut tries = 0;
        loop {
            match self.try_resume(&live, id, &act).await? {
                Resumed::Yes => break,
                Resumed::Not => return Ok(false),
                Resumed::Partly => tries = 0,
                Resumed::NotNow if tries == RESUME_TRIES_MAX => return Err(PauseError::NotNow),
                Resumed::NotNow => {
                    tries += 1;
                    tokio::time::sleep(REST).await;
                }
            }
        }
        self.signals.scheduled.notify_one();
        Ok(true)
    }

    /// Decides a paused schedule up to now and resumes it. This commits together with its audit
    /// record.
    async fn try_resume(
        self: &Arc<Self>,
        live: &Live,
        id: ScheduleId,
        act: &AuditEntry,
    ) -> Result<Resumed, ReadError> {
        let (session, lease) = (self.session().id, self.options.lease);
        let taken = schedules::take_one(self.cell.of(id), id, session, lease).await?;
        let Some(schedule) = taken else {
            return Ok(Resumed::Not);
        };
        let resumed = self.resume_taken(live, &schedule, session, act).await;
        schedules::give_back(self.cell.every(), session, &[id]).await?;
        resumed
    }

    async fn resume_taken(
        self: &Arc<Self>,
        live: &Live,
        schedule: &Schedule,
        session: SessionId,
        act: &AuditEntry,
    ) -> Result<Resumed, ReadError> {
        if schedule.paused_at.is_none() {
            return Ok(Resumed::Not);
        }
        let Some(basis) = live.basis(self, schedule).await? else {
            return Ok(Resumed::NotNow);
        };
        let plan = self.with_runs(Plan::make(&basis, ROOM)).await?;
        let (whole, now) = (plan.whole, schedule.now);
        let mut made = self.carry_out(vec![(schedule, plan)]).await?;
        let Some(decision) = made.first_mut() else {
            return Ok(Resumed::NotNow);
        };
        if whole {
            decision.stays_paused = false;
            decision.due_at = Some(now);
        }
        let (every, act) = (self.cell.every(), whole.then_some(act));
        let written = schedules::decide(every, session, &made, grounds(live), act).await?;
        Ok(match (written.is_empty(), whole) {
            (false, true) => Resumed::Yes,
            (false, false) => Resumed::Partly,
            (true, _) => Resumed::NotNow,
        })
    }
}
