//! Who has many runs changed, and whether they still may.
//!
//! A plan or a job goes on for minutes in the name of a token or a person. Both are looked up again for
//! each page of its runs; where the right is gone, the rest is left alone, and the plan or job says why.

use semel_model::{Right, TokenId};
use semel_store::ReadError;
use semel_store::audit::AuditEntry;
use semel_store::replay_plans::{self, TakenPlan};
use semel_store::run_jobs::{self, TakenJob};
use semel_store::tokens::{self, TokenStanding};

use crate::runtime::Runtime;

/// Who ends what nobody may continue, for the record.
const SEMEL: &str = "semel";

/// Who makes a plan or a job.
#[derive(Clone, Copy, Debug)]
pub struct JobMaker<'a> {
    /// The name for the record.
    pub actor: &'a str,
    /// The token or the person; nobody where the process itself makes it.
    pub token: Option<TokenId>,
}

impl<'a> JobMaker<'a> {
    /// The process itself, under a name: nobody's rights are looked up again while the plan or the job goes on. For
    /// callers that nobody can take the right from.
    #[must_use]
    pub fn unchecked(actor: &'a str) -> Self {
        Self { actor, token: None }
    }
}

impl Runtime {
    /// Ends a plan whose maker may not replay runs any more. Says whether it did.
    pub(crate) async fn end_unauthorised_plan(&self, plan: &TakenPlan) -> Result<bool, ReadError> {
        let lost = self.lost_right(plan.token, &plan.actor, Right::Replay);
        let Some(why) = lost.await? else {
            return Ok(false);
        };
        tracing::warn!(plan.id = %plan.id, why, "stopped a replay plan");
        let id = plan.id.to_string();
        let act = AuditEntry::new(plan.namespace_id, SEMEL, "replay.stop", &id);
        replay_plans::end(self.cell.home(), plan, &why, &because(act, &why)).await?;
        Ok(true)
    }

    /// Ends a job whose maker may not operate runs any more. Says whether it did.
    pub(crate) async fn end_unauthorised_job(&self, job: &TakenJob) -> Result<bool, ReadError> {
        let lost = self.lost_right(job.token, &job.actor, Right::Operate);
        let Some(why) = lost.await? else {
            return Ok(false);
        };
        tracing::warn!(job.id = %job.id, why, "stopped a job over many runs");
        let id = job.id.to_string();
        let act = AuditEntry::new(job.namespace_id, SEMEL, "run.stop-many", &id);
        run_jobs::end(self.cell.home(), job.id, &why, &because(act, &why)).await?;
        Ok(true)
    }

    /// Why nothing more is done in somebody's name; nothing where they may go on.
    async fn lost_right(
        &self,
        token: Option<TokenId>,
        actor: &str,
        right: Right,
    ) -> Result<Option<String>, ReadError> {
        let Some(token) = token else {
            return Ok(None);
        };
        let standing = tokens::find_standing(self.cell.home(), token, right).await?;
        Ok(match standing {
            TokenStanding::Works => None,
            TokenStanding::Absent => Some(format!("{actor} does not exist any more")),
            TokenStanding::Revoked => Some(format!("{actor} was revoked")),
            TokenStanding::Expired => Some(format!("{actor} has expired")),
            TokenStanding::Lacks => Some(format!("{actor} has lost the right `{right}`")),
        })
    }
}

/// With the reason, where that can be recorded: a name may be long.
fn because(act: AuditEntry, why: &str) -> AuditEntry {
    act.clone().because(why).unwrap_or(act)
}
