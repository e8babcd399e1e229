//! An operator's command about one run: it takes the run as any worker does, and writes the decision
//! as the run's next event.

use semel_model::Fault;
use semel_model::event::Event;
use semel_model::run::EndState;
use semel_store::audit::AuditEntry;
use semel_store::claims::NextRun;
use semel_store::journal::LeaseChange;
use serde_json::Value;

use super::{Turn, TurnError};
use crate::state::FoldError;

/// Why a command about a run is not carried out.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// A worker holds the run, or this process has no room for it.
    Busy,
    /// The run is quarantined: its journal, or the operator's event behind it, does not fit.
    Inconsistent(FoldError),
    /// The database did not answer in time.
    Unavailable(String),
}

impl Turn {
    /// Commits an operator's events together with the record of the act, and lets the run continue.
    pub(crate) async fn carry_out(
        mut self,
        events: Vec<Event>,
        act: AuditEntry,
    ) -> Result<(), CommandError> {
        let Err(stop) = self.commit_act(events, act).await else {
            self.go_on();
            return Ok(());
        };
        Err(self.give_up(stop).await)
    }

    /// Lets the run continue that a command took before others: as one of its namespace, in the place that it has. Where
    /// that namespace has all that it may, the run returns to the queue and waits there as every other.
    pub(crate) fn go_on(mut self) {
        if self.try_count_place() {
            let turns = self.runtime.work.turns.clone();
            turns.spawn(self.drive());
        } else {
            // The end of the turn returns the lease.
            self.runtime.metrics.runs_put_back.add_one();
        }
    }

    /// Ends a stopped run, because the next run of its key takes its place: both in one commit. The
    /// run that waits for its end gets that of the next one. A run whose journal has grown beyond the
    /// row `seq` since it was judged continues instead: an operator resumed it.
    pub(crate) async fn end_for(
        mut self,
        next: NextRun,
        seq: i32,
        act: Option<AuditEntry>,
    ) -> Result<(), CommandError> {
        if self.seq != seq {
            self.go_on();
            return Err(CommandError::Busy);
        }
        match self.commit_end(next, act).await {
            Ok(()) => Ok(()),
            Err(stop) => Err(self.give_up(stop).await),
        }
    }

    async fn commit_end(
        &mut self,
        next: NextRun,
        act: Option<AuditEntry>,
    ) -> Result<(), TurnError> {
        let fault = Fault::permanent("replayed", format!("{} replays it", next.run()));
        let mut end = Event::Ended {
            state: EndState::Superseded,
            result: Value::Null,
            fault: Some(fault),
        };
        self.state.caller = None;
        self.leave_gates(&mut end).await?;
        self.record(end)?;
        self.pending.follow_with(next);
        if let Some(act) = act {
            self.pending.act(act);
        }
        self.commit(LeaseChange::End).await
    }

    async fn give_up(&mut self, stop: TurnError) -> CommandError {
        match stop {
            TurnError::Fenced => CommandError::Busy,
            TurnError::PausesChanged => CommandError::Busy,
            TurnError::Unsure(reason) | TurnError::Refused(reason) => {
                CommandError::Unavailable(reason)
            }
            TurnError::Inconsistent(error) => {
                self.handle_error(TurnError::Inconsistent(error.clone()))
                    .await;
                CommandError::Inconsistent(error)
            }
        }
    }

    async fn commit_act(&mut self, events: Vec<Event>, act: AuditEntry) -> Result<(), TurnError> {
        for event in events {
            self.record(event)?;
        }
        self.pending.act(act);
        self.commit(LeaseChange::Keep).await
    }
}
