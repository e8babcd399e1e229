//! Calls of resumed runs: the run that was called before is resumed too.
//!
//! A message may be carried twice. The called run that its first carrying resumed may have failed
//! again by then: it ended after the message was written, and is not resumed a second time.

use std::sync::Arc;

use semel_model::ClaimId;
use semel_model::run::RunState;
use semel_store::outbox::OutboxEvent;
use semel_store::runs::RunView;
use semel_store::{claims, runs};
use serde_json::{Value, json};

use crate::call::CallAgain;
use crate::runtime::Runtime;
use crate::services::service::PassError;

/// What became of the run that a caller called before.
pub(super) enum CalledRun {
    /// There is none: it could not start, or an operator dropped its key.
    Missing,
    /// It has not ended, or was just resumed: its end will answer the caller.
    Active,
    /// It has ended, and is not resumed.
    Ended(Value),
}

impl Runtime {
    /// Resumes the run that a resumed caller called before, where it failed and can be resumed.
    pub(super) async fn resume_called(
        self: &Arc<Self>,
        event: &OutboxEvent,
        claim: ClaimId,
        again: &CallAgain,
    ) -> Result<CalledRun, PassError> {
        let last = claims::find_last_run(self.cell.of(claim), claim).await?;
        let Some(last) = last else {
            return Ok(CalledRun::Missing);
        };
        let Some(called) = runs::find(self.cell.of(last), event.namespace_id, last).await? else {
            return Ok(CalledRun::Missing);
        };
        if !called.state.is_ended() {
            return Ok(CalledRun::Active);
        }
        let failed_before = called.ended_at.is_some_and(|at| at <= event.emitted_at);
        if called.state == RunState::Failed && failed_before {
            let caller = (event.namespace_id, event.run);
            if self.resume_for_caller(caller, &called, again).await? {
                return Ok(CalledRun::Active);
            }
        }
        Ok(CalledRun::Ended(end_of(&called)))
    }
}

/// The end of a run by its record, as the run itself tells its caller.
fn end_of(run: &RunView) -> Value {
    let read = |text: Option<&str>| -> Value {
        let value = text.and_then(|text| serde_json::from_str(text).ok());
        value.unwrap_or_default()
    };
    json!({
        "run": run.id.to_string(),
        "state": run.state,
        "result": read(run.result.as_deref()),
        "fault": read(run.fault.as_deref()),
    })
}
