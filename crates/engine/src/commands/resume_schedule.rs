//! Resumes a schedule: what passed while it was paused is decided first.

use std::sync::Arc;

use jiff::Timestamp;
use semel_model::{FlowName, NamespaceName, ScheduleId, SessionId};
use semel_store::ReadError;
use semel_store::audit::AuditEntry;
use semel_store::schedules::{self, Schedule};

use super::fire_schedule::PauseError;
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
    /// The commit that ends the pause since then was not answered.
    Unsure(Timestamp, ReadError),
}

impl Runtime {
    /// Resumes a schedule. Instants that passed meanwhile are recorded as skipped. False where it
    /// was not paused.
    ///
    /// A commit whose answer was lost is looked for: a schedule that is not paused any more was resumed by it, because it
    /// was paused when that commit began. So was one that is paused anew since, and that pause is another's to end.
    pub async fn resume_schedule(
        self: &Arc<Self>,
        by: Actor<'_>,
        namespace: &NamespaceName,
        flow: &FlowName,
        reason: Option<&str>,
    ) -> Result<bool, PauseError> {
        let (live, id, act) = self
            .prepare_schedule_act(by, "schedule.resume", namespace, flow, reason)
            .await?;
        let mut tries = 0;
        let mut unsure = None;
        loop {
            let last = tries == RESUME_TRIES_MAX;
            match self.try_resume(&live, id, &act, unsure).await {
                Ok(Resumed::Yes) => break,
                Ok(Resumed::Not) if unsure.is_some() => break,
                Ok(Resumed::Not) => return Ok(false),
                Ok(Resumed::Partly) => {
                    tries = 0;
                    continue;
                }
                Ok(Resumed::NotNow) if last => return Err(PauseError::NotNow),
                Ok(Resumed::NotNow) => {}
                Ok(Resumed::Unsure(_, error)) if last => return Err(error.into()),
                Ok(Resumed::Unsure(since, _)) => unsure = Some(since),
                Err(error) if last || unsure.is_none() => return Err(error.into()),
                Err(_) => {}
            }
            tries += 1;
            tokio::time::sleep(REST).await;
        }
        self.signals.scheduled.notify_one();
        Ok(true)
    }

    /// Decides a paused schedule up to now and resumes it. This commits together with its audit
    /// record. After an `unsure` commit that would have ended the pause since then, no other pause is ended.
    async fn try_resume(
        self: &Arc<Self>,
        live: &Live,
        id: ScheduleId,
        act: &AuditEntry,
        unsure: Option<Timestamp>,
    ) -> Result<Resumed, ReadError> {
        let (session, lease) = (self.session().id, self.options.lease);
        let taken = schedules::take_one(self.cell.of(id), id, session, lease).await?;
        let Some(schedule) = taken else {
            return Ok(Resumed::Not);
        };
        let resumed = match unsure.is_some() && schedule.paused_at != unsure {
            true => Ok(Resumed::Not),
            false => self.resume_taken(live, &schedule, session, act).await,
        };
        // The decision is committed, so a failure here is only logged: the lease ends by itself.
        if let Err(error) = schedules::give_back(self.cell.every(), session, &[id]).await {
            tracing::warn!(%error, flow = schedule.flow, "failed to give a schedule back; its lease ends by itself");
        }
        resumed
    }

    async fn resume_taken(
        self: &Arc<Self>,
        live: &Live,
        schedule: &Schedule,
        session: SessionId,
        act: &AuditEntry,
    ) -> Result<Resumed, ReadError> {
        let Some(since) = schedule.paused_at else {
            return Ok(Resumed::Not);
        };
        let Some(basis) = live.basis(self, schedule).await? else {
            return Ok(Resumed::NotNow);
        };
        let plan = self.with_runs(Plan::make(&basis, ROOM)).await?;
        let (whole, now) = (plan.whole, schedule.now);
        let mut made = self.carry_out(session, vec![(schedule, plan)]).await?;
        let Some(decision) = made.first_mut() else {
            return Ok(Resumed::NotNow);
        };
        if whole {
            decision.stays_paused = false;
            decision.due_at = Some(now);
        }
        let (every, act) = (self.cell.every(), whole.then_some(act));
        let written = match schedules::decide(every, session, &made, grounds(live), act).await {
            Ok(written) => written,
            Err(error) if whole => return Ok(Resumed::Unsure(since, error)),
            Err(error) => return Err(error),
        };
        Ok(match (written.is_empty(), whole) {
            (false, true) => Resumed::Yes,
            (false, false) => Resumed::Partly,
            (true, _) => Resumed::NotNow,
        })
    }
}
