//! An operator's command about one run: it takes the run as any worker does, and writes the decision
//! as the run's next event.

use semel_model::event::Event;
use semel_store::audit::AuditEntry;
use semel_store::journal::LeaseChange;

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
    /// Commits an operator's event together with the record of the act, and lets the run continue.
    pub(crate) async fn carry_out(
        mut self,
        event: Event,
        act: AuditEntry,
    ) -> Result<(), CommandError> {
        let Err(stop) = self.commit_act(event, act).await else {
            let turns = self.runtime.work.turns.clone();
            turns.spawn(self.drive());
            return Ok(());
        };
        match stop {
            TurnError::Fenced => Err(CommandError::Busy),
            TurnError::Unsure(reason) | TurnError::Refused(reason) => {
                Err(CommandError::Unavailable(reason))
            }
            TurnError::Inconsistent(error) => {
                self.handle_error(TurnError::Inconsistent(error.clone()))
                    .await;
                Err(CommandError::Inconsistent(error))
            }
        }
    }

    async fn commit_act(&mut self, event: Event, act: AuditEntry) -> Result<(), TurnError> {
        self.record(event)?;
        self.pending.act(act);
        self.commit(LeaseChange::Keep).await
    }
}
