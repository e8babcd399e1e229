//! What operators do to named effects, each with its record in the same commit.
//!
//! All name the token that the operator saw: a repeat, or a decision that comes after another holder
//! began, is about the same hold or about none.

use semel_model::{NamedEffectId, NamedEffectState};
use serde_json::{Value, json};
use tokio_postgres::types::{Json, ToSql};

use super::report::{NamedReport, NamedResult};
use super::upkeep::remembered;
use super::views;
use super::waiters::{self, Waking};
use crate::audit::{self, AuditEntry};
use crate::cell::{ReadError, SlotCell};

/// One that was undone without anybody knowing is gone where it *did not happen*: the next intent has
/// another key, because the destination may remember this one with what it made then.
const SETTLE: &str = "
    UPDATE named_effects n
       SET state = $4::text::named_effect_state, result = $5, external_id = $6, status = NULL, fault = $7,
           settled_at = p.now, settled_by = $8, lease_until = NULL,
           expires_at = p.now + make_interval(secs => n.keep_ms / 1e3),
           fingerprint = CASE WHEN n.undo_seq IS NULL OR $4::text <> 'failed' THEN n.fingerprint END,
           undo_seq = NULL
      FROM (SELECT moment() AS now) p
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3
       AND (n.state = 'in_doubt' OR n.lease_until <= p.now)";

const REDO: &str = concat!(
    "
    UPDATE named_effects n
       SET state = 'absent', generation = n.generation + 1, fingerprint = NULL, settled_at = NULL,
           settled_by = NULL, result = NULL, external_id = NULL, status = NULL, fault = NULL,
           note = NULL, expires_at = ",
    remembered!(),
    "
      FROM (SELECT moment() AS now) p
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3
       AND n.state = 'done' AND n.expires_at > p.now"
);

const REDONE: &str = "
    SELECT 1 FROM named_effects
     WHERE id = $1 AND namespace_id = $2 AND token = $3 AND state = 'absent'";

/// The run that holds it is quarantined: nothing it says would come.
const DOUBT_HELD: &str = "
    UPDATE named_effects n
       SET state = 'in_doubt', fault = $4
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token = $3 AND n.holder_run IS NOT NULL
       AND n.state IN ('pending', 'undoing')";

pub(crate) const STATEMENTS: &[&str] = &[SETTLE, REDO, REDONE, DOUBT_HELD];

/// The code of the fault of a name that an operator took from the run that held it.
pub const HOLDER_QUARANTINED: &str = "holder-quarantined";

/// What an operator found at the destination.
#[derive(Clone, Debug, PartialEq)]
pub enum NamedSettlement {
    /// It happened.
    Happened(NamedResult),
    /// It did not happen: it may be begun again, under the same key.
    DidNotHappen,
}

impl NamedSettlement {
    const fn state(&self) -> NamedEffectState {
        match self {
            Self::Happened(_) => NamedEffectState::Done,
            Self::DidNotHappen => NamedEffectState::Failed,
        }
    }

    fn fault(&self) -> Option<Value> {
        match self {
            Self::Happened(_) => None,
            Self::DidNotHappen => Some(json!({
                "code": "did-not-happen",
                "message": "an operator recorded that it did not happen",
            })),
        }
    }

    const fn waking(&self) -> Waking {
        match self {
            Self::Happened(_) => Waking::All,
            Self::DidNotHappen => Waking::Few,
        }
    }

    fn result(&self) -> NamedResult {
        match self {
            Self::Happened(result) => result.clone(),
            Self::DidNotHappen => NamedResult::default(),
        }
    }
}

/// Settles a doubt. A repeat by the same operator with the same words changes nothing.
pub async fn settle(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: NamedEffectId,
    token: i64,
    settlement: &NamedSettlement,
    act: &AuditEntry,
) -> Result<NamedReport, ReadError> {
    let (state, happened) = (settlement.state(), settlement.result());
    let (fault, actor) = (settlement.fault(), act.actor());
    let (state_word, result) = (state.as_str(), happened.result.as_ref().map(Json));
    let fault = fault.as_ref().map(Json);
    let external_id = happened.stored_external_id();
    let values: [&(dyn ToSql + Sync); 8] = [
        id.as_uuid(),
        &namespace_id,
        &token,
        &state_word,
        &result,
        &external_id,
        &fault,
        &actor,
    ];
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let report = if tx.execute(SETTLE, &values).await? > 0 {
        audit::append(&tx, act).await?;
        NamedReport::Recorded(waiters::of_effect(&tx, id, settlement.waking()).await?)
    } else {
        match views::read(&tx, namespace_id, id).await? {
            None => NamedReport::Unknown,
            Some(view)
                if (view.token, view.state) == (token, state)
                    && view.settled_by.as_deref() == Some(actor)
                    && happened.is_that_of(&view) =>
            {
                let waking = settlement.waking();
                NamedReport::Repeated(waiters::of_effect(&tx, id, waking).await?)
            }
            Some(view) => NamedReport::Late(Box::new(view)),
        }
    };
    tx.commit().await?;
    Ok(report)
}

/// Puts a name in doubt that a quarantined run holds. A repeat finds it so.
pub async fn doubt_held(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: NamedEffectId,
    token: i64,
    act: &AuditEntry,
) -> Result<NamedReport, ReadError> {
    let fault = json!({
        "code": HOLDER_QUARANTINED,
        "message": "an operator took the key from a quarantined run: look at the destination",
    });
    let fault = Json(&fault);
    let values: [&(dyn ToSql + Sync); 4] = [id.as_uuid(), &namespace_id, &token, &fault];
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let report = if tx.execute(DOUBT_HELD, &values).await? > 0 {
        audit::append(&tx, act).await?;
        NamedReport::Recorded(waiters::of_effect(&tx, id, Waking::All).await?)
    } else {
        match views::read(&tx, namespace_id, id).await? {
            None => NamedReport::Unknown,
            Some(view) => NamedReport::Late(Box::new(view)),
        }
    };
    tx.commit().await?;
    Ok(report)
}

/// Makes a done effect absent, so that the next begin performs it again under a new key.
pub async fn redo(
    cell: SlotCell<'_>,
    namespace_id: i32,
    id: NamedEffectId,
    token: i64,
    act: &AuditEntry,
) -> Result<NamedReport, ReadError> {
    let values: [&(dyn ToSql + Sync); 3] = [id.as_uuid(), &namespace_id, &token];
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let report = if tx.execute(REDO, &values).await? > 0 {
        audit::append(&tx, act).await?;
        NamedReport::Recorded(Vec::new())
    } else if let Some(view) = views::read(&tx, namespace_id, id).await? {
        NamedReport::Late(Box::new(view))
    } else {
        match tx.query_opt(REDONE, &values).await? {
            Some(_) => NamedReport::Repeated(Vec::new()),
            None => NamedReport::Unknown,
        }
    };
    tx.commit().await?;
    Ok(report)
}
